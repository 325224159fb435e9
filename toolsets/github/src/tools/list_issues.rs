//! `github_list_issues`: the issues of a repository.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Prefixes};
use crate::item::Item;
use crate::untrusted::{Untrusted, fenced};

/// State of the issues to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IssueState {
    /// Open issues.
    #[default]
    Open,
    /// Closed issues.
    Closed,
    /// Open and closed issues.
    All,
}

impl IssueState {
    /// Returns the word of the API.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::All => "all",
        }
    }
}

pub(super) fn check_limit(limit: u32, most: u32, when: &str) -> Result<(), Failure> {
    if (1..=most).contains(&limit) {
        return Ok(());
    }
    Err(Failure::Argument(format!("`limit` must be 1 to {most}{when}, not {limit}")))
}

/// The issues that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Issues {
    /// The issues.
    pub issues: Vec<IssueEntry>,
    /// Whether all matching issues up to the limit are included. If false, some may be missing, because only a part of a very long list was read.
    pub complete: bool,
}

/// An issue in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssueEntry {
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
}

impl IssueEntry {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            number: item.number,
            title: item.title(),
            state: item.state(),
            labels: item.labels(),
            assignees: item.assignees(),
            url: item.url(),
        }
    }
}

/// Note after a list of which only a part was read.
pub(crate) const INCOMPLETE: &str =
    "\n(The list was too long to read to its end. Narrow the request to see the rest.)";

impl Issues {
    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        let incomplete = if self.complete { "" } else { INCOMPLETE };
        if self.issues.is_empty() {
            return format!("No issues found{incomplete}");
        }
        let mut text = format!("Found {} issue(s):\n", self.issues.len());
        for issue in &self.issues {
            let _ = writeln!(text, "#{}: {} ({})", issue.number, issue.title.as_str(), issue.state);
            listed(&mut text, "  Labels", &issue.labels);
            listed(&mut text, "  Assignees", &issue.assignees);
            let _ = writeln!(text, "  URL: {}\n", issue.url);
        }
        fenced(&text) + incomplete
    }
}

/// Adds a line of names, if there are any.
pub(crate) fn listed(text: &mut String, label: &str, names: &[Untrusted]) {
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(Untrusted::as_str).collect();
        let _ = writeln!(text, "{label}: {}", names.join(", "));
    }
}

pub(super) const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to list issues",
    doing: "Error listing issues",
    parsing: "Failed to parse issues",
};

/// Returns the labels in the form of the API: one text with commas.
pub(super) fn joined(labels: &[String]) -> Result<Option<String>, Failure> {
    let fault = |text: &str| Err(Failure::Argument(format!("`labels` {text}")));
    for label in labels {
        if label.trim().is_empty() || label.chars().count() > 100 {
            return fault("must be names of 1 to 100 characters");
        }
        if label.contains(',') || label.chars().any(char::is_control) {
            return fault(
                "must not contain commas or control characters; give each label as its own text",
            );
        }
    }
    if labels.len() > 50 {
        return fault("must not have more than 50 entries");
    }
    Ok((!labels.is_empty()).then(|| labels.join(",")))
}
