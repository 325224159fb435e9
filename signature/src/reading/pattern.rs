//! Patterns of texts, as regular expressions.
//!
//! In: the `pattern` of a schema. Out: a [`Pattern`] to match texts and keys. A pattern that the
//! engine does not support matches everything, unless the caller decides otherwise
//! ([`Pattern::unknown_takes`]).

use regex_lite::Regex;

/// A pattern that must match some part of a text or a key.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// The pattern as the schema has it.
    pub(crate) text: String,
    /// `None` for a pattern that the engine does not support.
    regex: Option<Regex>,
    /// Whether an unsupported pattern matches.
    unknown_takes: bool,
}

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), regex: Regex::new(text).ok(), unknown_takes: true }
    }

    /// Sets the result of an unsupported pattern.
    pub(crate) fn unknown_takes(self, unknown_takes: bool) -> Self {
        Self { unknown_takes, ..self }
    }

    /// Whether the engine supports the pattern.
    pub(crate) fn is_known(&self) -> bool {
        self.regex.is_some()
    }

    /// Whether some part of a text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.as_ref().map_or(self.unknown_takes, |regex| regex.is_match(text))
    }
}
