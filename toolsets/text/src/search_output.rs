//! [`Matches`], the output of `text_grep` and `text_rg`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Matching lines of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matches {
    /// The pattern of the call.
    pub pattern: String,
    /// Number of matching lines. A line with several matches counts once.
    pub count: usize,
    /// The matching lines and any context lines, with their line ends. Null if only the number was requested.
    pub lines: Option<String>,
}

impl Matches {
    pub(crate) fn render(&self) -> String {
        let Self { pattern, count, lines } = self;
        match lines {
            None => format!("Found {count} matches for pattern '{pattern}'"),
            Some(_) if *count == 0 => format!("No matches found for pattern '{pattern}'"),
            Some(lines) => lines.clone(),
        }
    }
}
