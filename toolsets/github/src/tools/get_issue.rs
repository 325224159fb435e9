//! `github_get_issue`: one issue.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Prefixes};
use crate::item::Item;
use crate::tools::list_issues::listed;
use crate::untrusted::{Untrusted, fenced};

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Issue {
    /// Issue number.
    pub number: u64,
    /// Title of the issue.
    pub title: Untrusted,
    /// `open` or `closed`.
    pub state: String,
    /// Names of the labels.
    pub labels: Vec<Untrusted>,
    /// Logins of the assignees.
    pub assignees: Vec<Untrusted>,
    /// URL of the issue's page.
    pub url: String,
    /// Text of the issue, in Markdown.
    pub body: Option<Untrusted>,
}

impl Issue {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            number: item.number,
            title: item.title(),
            state: item.state(),
            labels: item.labels(),
            assignees: item.assignees(),
            url: item.url(),
            body: item.body(),
        }
    }

    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        let mut shown =
            format!("Issue #{}: {}\nState: {}\n", self.number, self.title.as_str(), self.state);
        listed(&mut shown, "Labels", &self.labels);
        listed(&mut shown, "Assignees", &self.assignees);
        let _ = write!(shown, "URL: {}\n\nBody:\n{}", self.url, text(self.body.as_ref()));
        fenced(&shown)
    }
}

/// Returns a body for the model, or a note if it is empty.
pub(crate) fn text(body: Option<&Untrusted>) -> &str {
    body.map(Untrusted::as_str)
        .filter(|body| !body.trim().is_empty())
        .unwrap_or("No description provided")
}

pub(super) const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to get issue",
    doing: "Error getting issue",
    parsing: "Failed to parse issue details",
};

/// Checks the number of an issue or a pull request.
pub(crate) fn number(what: &str, number: u64) -> Result<String, Failure> {
    match number {
        0 => Err(Failure::Argument(format!("`{what}` must be 1 or more"))),
        _ => Ok(number.to_string()),
    }
}
