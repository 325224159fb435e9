//! [`Matches`], the output of `text_grep` and `text_rg`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The lines that a pattern matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matches {
    /// The pattern as it was given.
    pub pattern: String,
    /// How many lines matched; a line counts once.
    pub count: usize,
    /// The lines, each with its end; null if they were only counted.
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
