//! The tool `text_filter_lines`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::LimitedCall;
use crate::limits::TextLimits;
use crate::pattern::Pattern;
use crate::text::Text;

/// Keep or drop the lines of a text that match a regular expression. The search ignores case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextFilterLines {
    /// Text to filter.
    pub text: String,
    /// Regular expression or plain words. An empty pattern matches every line.
    pub pattern: String,
    /// Drop the matching lines and keep the others.
    #[serde(default)]
    pub invert: bool,
}

impl Signature for TextFilterLines {
    type Output = String;
}

/// The module of [`TextFilterLines`]. Keeps or drops lines.
///
/// Lines keep their line ends. If no line is kept, the result is empty.
#[derive(Debug, Clone)]
pub struct TextFilterLinesModule {
    limits: TextLimits,
}

impl TextFilterLinesModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextFilterLinesModule {
    type Signature = TextFilterLines;

    async fn call(&self, input: TextFilterLines, cx: &Context) -> Result<String> {
        let TextFilterLines { text, pattern, invert } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let pattern = Pattern::new(&pattern, true)?;
        let mut kept = call.output("use a `pattern` that keeps fewer lines");
        // The end of the last matching line.
        let mut done = 0;
        pattern.search(&text, &call, |line| {
            let between = done..line.start;
            done = line.end;
            kept.push(&text[if invert { between } else { line }])
        })?;
        if invert {
            kept.push(&text[done..])?;
        }
        Ok(kept.finish())
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
