//! `github_get_pr`: one pull request.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Prefixes;
use crate::item::Item;
use crate::tools::get_issue::text;
use crate::tools::list_prs::state;
use crate::untrusted::{Untrusted, fenced};

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequest {
    /// Pull request number.
    pub number: u64,
    /// Title of the pull request.
    pub title: Untrusted,
    /// `open`, `closed` or `merged`.
    pub state: String,
    /// Branch with the changes.
    pub head: Untrusted,
    /// Branch that the changes are merged into.
    pub base: Untrusted,
    /// Whether the pull request can be merged without conflicts.
    pub mergeable: Mergeable,
    /// URL of the pull request's page.
    pub url: String,
    /// Text of the pull request, in Markdown.
    pub body: Option<Untrusted>,
}

/// Whether a pull request can be merged without conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mergeable {
    /// There are no conflicts.
    Yes,
    /// There are conflicts.
    No,
    /// GitHub has not checked this yet, or its response is not known to this tool.
    Unknown,
}

impl Mergeable {
    /// Converts the value of the REST API (true, false or null) or of GraphQL (a word).
    fn of(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Bool(true)) => Self::Yes,
            Some(Value::Bool(false)) => Self::No,
            Some(Value::String(word)) if word.eq_ignore_ascii_case("mergeable") => Self::Yes,
            Some(Value::String(word)) if word.eq_ignore_ascii_case("conflicting") => Self::No,
            _ => Self::Unknown,
        }
    }
}

impl PullRequest {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            number: item.number,
            title: item.title(),
            state: state(item),
            head: item.head(),
            base: item.base(),
            mergeable: Mergeable::of(item.mergeable.as_ref()),
            url: item.url(),
            body: item.body(),
        }
    }

    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        let mergeable = match self.mergeable {
            Mergeable::Yes => "Yes",
            Mergeable::No => "No",
            Mergeable::Unknown => "Unknown",
        };
        let mut shown = format!(
            "Pull Request #{}: {}\nState: {}\n",
            self.number,
            self.title.as_str(),
            self.state
        );
        let _ = write!(
            shown,
            "Branch: {} → {}\nMergeable: {mergeable}\nURL: {}\n\nBody:\n{}",
            self.head.as_str(),
            self.base.as_str(),
            self.url,
            text(self.body.as_ref())
        );
        fenced(&shown)
    }
}

pub(super) const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to get pull request",
    doing: "Error getting pull request",
    parsing: "Failed to parse pull request details",
};
