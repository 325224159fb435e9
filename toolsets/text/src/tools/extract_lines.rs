//! The tool `text_extract_lines`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::LimitedCall;
use crate::limits::TextLimits;
use crate::text::Text;

/// Extract a range of lines from a text. Returns an empty text if there are no such lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextExtractLines {
    /// Text to extract lines from.
    pub text: String,
    /// Number of the first line to extract. The text starts with line 1.
    pub start_line: i64,
    /// Number of the last line to extract. Default: `start_line`.
    pub end_line: Option<i64>,
}

impl Signature for TextExtractLines {
    type Output = String;
}

/// The module of [`TextExtractLines`]. Extracts lines.
///
/// Lines keep their line ends. A range that starts before the first line or ends after the last
/// one is cut to the text. If the range has no lines, the result is empty.
#[derive(Debug, Clone)]
pub struct TextExtractLinesModule {
    limits: TextLimits,
}

impl TextExtractLinesModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextExtractLinesModule {
    type Signature = TextExtractLines;

    async fn call(&self, input: TextExtractLines, cx: &Context) -> Result<String> {
        let TextExtractLines { text, start_line, end_line } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let first = start_line.max(1);
        let range = first..=end_line.unwrap_or(first);
        let mut lines = call.output("extract fewer lines");
        let mut number = 0;
        call.lines(&text, |line| {
            number += 1;
            if range.contains(&number) { lines.push(line) } else { Ok(()) }
        })?;
        Ok(lines.finish())
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
