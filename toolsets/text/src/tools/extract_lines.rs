use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limits::Limits;
use crate::text::Text;
use crate::work::Work;

/// Take a range of lines out of a text. Gives an empty text if there are no such lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextExtractLines {
    /// Text to take lines from.
    pub text: String,
    /// Number of the first line to take; the text starts with line 1.
    pub start_line: i64,
    /// Number of the last line to take; if left out, only the first is taken.
    pub end_line: Option<i64>,
}

impl Signature for TextExtractLines {
    type Output = String;
}

/// Takes lines: fulfils [`TextExtractLines`].
///
/// Lines keep their ends. A start before the first line is the first, an end after the last
/// line is the last, and a range that holds no line gives an empty text.
#[derive(Debug, Clone)]
pub struct TextExtractLinesModule {
    limits: Limits,
}

impl TextExtractLinesModule {
    /// Works under the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextExtractLinesModule {
    type Signature = TextExtractLines;

    async fn call(&self, input: TextExtractLines, cx: &Context) -> Result<String> {
        let TextExtractLines { text, start_line, end_line } = input;
        let work = Work::on(&text, self.limits, cx)?;
        let first = start_line.max(1);
        let range = first..=end_line.unwrap_or(first);
        let mut lines = work.result("take fewer lines");
        let mut number = 0;
        work.lines(&text, |line| {
            number += 1;
            if range.contains(&number) { lines.push(line) } else { Ok(()) }
        })?;
        Ok(lines.finish())
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
