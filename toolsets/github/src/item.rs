//! The JSON of issues, pull requests and users in GitHub's replies.
//!
//! Only the fields that the tools use are read. Every field but the number may be missing or
//! null.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::untrusted::{Untrusted, line};

/// An issue or a pull request, from a list, a search or a single reply.
#[derive(Deserialize)]
pub(crate) struct Item {
    pub(crate) number: u64,
    title: Option<String>,
    // Not an enum, because GitHub may add a state.
    state: Option<String>,
    labels: Option<Vec<Value>>,
    assignees: Option<Vec<Value>>,
    html_url: Option<String>,
    body: Option<String>,
    pull_request: Option<Value>,
    merged_at: Option<Value>,
    merged: Option<Value>,
    pub(crate) mergeable: Option<Value>,
    head: Option<Branch>,
    base: Option<Branch>,
}

#[derive(Deserialize)]
struct Branch {
    #[serde(rename = "ref")]
    name: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct User {
    pub(crate) login: String,
}

impl Item {
    pub(crate) fn is_pull_request(&self) -> bool {
        self.pull_request.is_some()
    }

    pub(crate) fn is_merged(&self) -> bool {
        self.merged_at.is_some() || self.merged == Some(Value::Bool(true))
    }

    pub(crate) fn title(&self) -> Untrusted {
        self.title.as_deref().map(line).unwrap_or_default().into()
    }

    /// Returns GitHub's state. For a merged pull request it is `closed`.
    ///
    /// The result has no marks for untrusted data, so it is one short word or `unknown`.
    pub(crate) fn state(&self) -> String {
        let word = |state: &&str| {
            (1..=20).contains(&state.len())
                && state.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        };
        self.state.as_deref().filter(word).unwrap_or("unknown").to_owned()
    }

    /// Returns the URL of the page, or an empty text if it is not a URL.
    ///
    /// The result has no marks for untrusted data, so it has only characters of URLs.
    pub(crate) fn url(&self) -> String {
        let is_one = |url: &&str| {
            let odd = |byte: u8| !byte.is_ascii_graphic() || b"<>\"\\^`{|}".contains(&byte);
            (url.starts_with("https://") || url.starts_with("http://")) && !url.bytes().any(odd)
        };
        self.html_url.as_deref().filter(is_one).unwrap_or_default().to_owned()
    }

    pub(crate) fn labels(&self) -> Vec<Untrusted> {
        names(self.labels.as_deref(), "name")
    }

    pub(crate) fn assignees(&self) -> Vec<Untrusted> {
        names(self.assignees.as_deref(), "login")
    }

    pub(crate) fn head(&self) -> Untrusted {
        name(self.head.as_ref())
    }

    pub(crate) fn base(&self) -> Untrusted {
        name(self.base.as_ref())
    }

    pub(crate) fn body(&self) -> Option<Untrusted> {
        self.body.as_deref().map(Untrusted::from)
    }
}

/// Returns the names of labels or users. A label may be an object or a name.
fn names(values: Option<&[Value]>, key: &str) -> Vec<Untrusted> {
    let names = values.unwrap_or_default().iter();
    let names = names.filter_map(|value| value.as_str().or(value[key].as_str()));
    names.map(|name| line(name).into()).collect()
}

/// Returns the name of a branch. It is missing if the fork was deleted.
fn name(branch: Option<&Branch>) -> Untrusted {
    let name = branch.and_then(|branch| branch.name.as_deref());
    name.map(line).unwrap_or_else(|| "unknown".to_owned()).into()
}

/// A page of a list or of a search.
pub(crate) struct ItemPage {
    pub(crate) items: Vec<Item>,
    /// Whether the search ran out of time.
    pub(crate) incomplete: bool,
}

impl<'de> Deserialize<'de> for ItemPage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Search {
            items: Vec<Item>,
            incomplete_results: Option<bool>,
        }

        let value = Value::deserialize(deserializer)?;
        let found = if value.is_object() {
            Search::deserialize(value).map(|search| Self {
                items: search.items,
                incomplete: search.incomplete_results == Some(true),
            })
        } else {
            Vec::deserialize(value).map(|items| Self { items, incomplete: false })
        };
        found.map_err(serde::de::Error::custom)
    }
}
