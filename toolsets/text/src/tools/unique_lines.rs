//! The tool `text_unique_lines`.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::{LimitedCall, without_line_end};
use crate::limits::TextLimits;
use crate::text::Text;

/// Remove repeated lines from a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextUniqueLines {
    /// Text to remove repeated lines from.
    pub text: String,
    /// Keep lines in the order of their first appearance. If false, sort them.
    #[serde(default = "yes")]
    pub preserve_order: bool,
}

fn yes() -> bool {
    true
}

impl Signature for TextUniqueLines {
    type Output = String;
}

/// The module of [`TextUniqueLines`]. Keeps each line once.
///
/// Lines are equal if their bytes are equal without the line end. `\r\n` becomes `\n`, and a
/// newline is added to a last line without one. Sorting is by bytes, which is the order of code
/// points.
#[derive(Debug, Clone)]
pub struct TextUniqueLinesModule {
    limits: TextLimits,
}

impl TextUniqueLinesModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextUniqueLinesModule {
    type Signature = TextUniqueLines;

    async fn call(&self, input: TextUniqueLines, cx: &Context) -> Result<String> {
        let TextUniqueLines { text, preserve_order } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let (mut seen, mut unique) = (HashSet::new(), Vec::new());
        call.lines(&text, |line| {
            let line = without_line_end(line);
            if seen.insert(line) {
                unique.push(line);
            }
            Ok(())
        })?;
        if !preserve_order {
            unique.sort_unstable();
        }
        call.joined(unique)
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
