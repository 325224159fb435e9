use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limits::Limits;
use crate::matches::Matches;
use crate::pattern::Pattern;
use crate::text::Text;
use crate::work::Work;

/// Find the lines of a text that match a regular expression, in any case unless told otherwise, or count them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextGrep {
    /// Text to search.
    pub text: String,
    /// Regular expression or plain words; empty matches every line.
    pub pattern: String,
    /// Take upper and lower case as the same.
    #[serde(default = "yes")]
    pub ignore_case: bool,
    /// Only say how many lines match.
    #[serde(default)]
    pub count_only: bool,
}

fn yes() -> bool {
    true
}

impl Signature for TextGrep {
    type Output = Matches;

    fn render(matches: &Matches) -> toolwright_signature::Result<String> {
        Ok(matches.render())
    }
}

/// Finds lines: fulfils [`TextGrep`].
///
/// Lines keep their ends, and the last one gets one if it has none. Of lines that are only
/// counted nothing is kept, so any number fits.
#[derive(Debug, Clone)]
pub struct TextGrepModule {
    limits: Limits,
}

impl TextGrepModule {
    /// Works under the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextGrepModule {
    type Signature = TextGrep;

    async fn call(&self, input: TextGrep, cx: &Context) -> Result<Matches> {
        let TextGrep { text, pattern, ignore_case, count_only } = input;
        let work = Work::on(&text, self.limits, cx)?;
        let compiled = Pattern::new(&pattern, ignore_case)?;
        let mut lines = work.result("use `count_only`, or a `pattern` that matches fewer lines");
        let mut count = 0;
        compiled.search(&text, &work, |line| {
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
