//! The tool `text_grep`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::LimitedCall;
use crate::limits::TextLimits;
use crate::pattern::Pattern;
use crate::search_output::Matches;
use crate::text::Text;

/// Find or count the lines of a text that match a regular expression. The search ignores case by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextGrep {
    /// Text to search.
    pub text: String,
    /// Regular expression or plain words. An empty pattern matches every line.
    pub pattern: String,
    /// Ignore case.
    #[serde(default = "yes")]
    pub ignore_case: bool,
    /// Return only the number of matching lines.
    #[serde(default)]
    pub count_only: bool,
}

fn yes() -> bool {
    true
}

impl Signature for TextGrep {
    type Output = Matches;

    fn render(matches: &Matches) -> Result<String, toolwright_signature::ContractError> {
        Ok(matches.render())
    }
}

/// The module of [`TextGrep`]. Finds lines.
///
/// Lines keep their line ends, and a newline is added to a last line without one. With
/// `count_only`, lines are not stored, so their size is not limited.
#[derive(Debug, Clone)]
pub struct TextGrepModule {
    limits: TextLimits,
}

impl TextGrepModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextGrepModule {
    type Signature = TextGrep;

    async fn call(&self, input: TextGrep, cx: &Context) -> Result<Matches> {
        let TextGrep { text, pattern, ignore_case, count_only } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let compiled = Pattern::new(&pattern, ignore_case)?;
        let mut lines = call.output("use `count_only`, or a `pattern` that matches fewer lines");
        let mut count = 0;
        compiled.search(&text, &call, |line| {
            count += 1;
            if count_only { Ok(()) } else { lines.push_line(&text[line]) }
        })?;
        let lines = (!count_only).then(|| lines.finish());
        Ok(Matches { pattern, count, lines })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
