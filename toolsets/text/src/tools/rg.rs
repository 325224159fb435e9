//! The tool `text_rg`.

use memchr::{memchr, memrchr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::{LimitedCall, LimitedOutput};
use crate::limits::TextLimits;
use crate::pattern::Pattern;
use crate::search_output::Matches;
use crate::text::Text;

/// Find the lines of a text that match a regular expression, with context lines around them. The search is case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextRg {
    /// Text to search.
    pub text: String,
    /// Regular expression or plain words. An empty pattern matches every line.
    pub pattern: String,
    /// Number of context lines before and after each match. A line `--` separates groups of lines that are not adjacent.
    #[serde(default)]
    pub context: i64,
}

impl Signature for TextRg {
    type Output = Matches;

    fn render(matches: &Matches) -> Result<String, toolwright_signature::ContractError> {
        Ok(matches.render())
    }
}

/// The module of [`TextRg`]. Finds lines, with context lines.
///
/// Lines keep their line ends, and a newline is added to a last line without one. A negative
/// context means 0. [`Matches::count`] counts the matching lines, without the context lines.
#[derive(Debug, Clone)]
pub struct TextRgModule {
    limits: TextLimits,
}

impl TextRgModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextRgModule {
    type Signature = TextRg;

    async fn call(&self, input: TextRg, cx: &Context) -> Result<Matches> {
        let TextRg { text, pattern, context } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let compiled = Pattern::new(&pattern, false)?;
        let context = usize::try_from(context.max(0)).unwrap_or(usize::MAX);
        let lines = call.output("use a smaller `context`, or a `pattern` that matches fewer lines");
        let mut groups = Groups { text: &text, context, lines, done: 0 };
        let mut count = 0;
        compiled.search(&text, &call, |line| {
            count += 1;
            groups.add(line.start, line.end)
        })?;
        let lines = Some(groups.finish()?);
        Ok(Matches { pattern, count, lines })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// The matching lines with their context lines, each once.
struct Groups<'a> {
    text: &'a str,
    context: usize,
    lines: LimitedOutput,
    /// The end of the written part in the text; 0 if nothing was written.
    done: usize,
}

impl Groups<'_> {
    fn add(&mut self, start: usize, end: usize) -> Result<()> {
        if self.done > 0 {
            self.write(self.after(start))?;
        }
        let before = self.before(start);
        if self.done > 0 && before > self.done && self.context > 0 {
            self.lines.push("--\n")?;
        }
        self.done = before;
        self.write(end)
    }

    fn finish(mut self) -> Result<String> {
        if self.done > 0 {
            self.write(self.after(self.text.len()))?;
        }
        Ok(self.lines.finish())
    }

    /// Returns the end of the context lines after the last match, at most `limit`.
    fn after(&self, limit: usize) -> usize {
        let mut end = self.done;
        for _ in 0..self.context {
            if end >= limit {
                break;
            }
            let rest = &self.text.as_bytes()[end..limit];
            end = memchr(b'\n', rest).map_or(limit, |newline| end + newline + 1);
        }
        end
    }

    /// Returns the start of the context lines before a match that are not written yet.
    fn before(&self, mut start: usize) -> usize {
        for _ in 0..self.context {
            if start <= self.done {
                break;
            }
            let earlier = &self.text.as_bytes()[self.done..start - 1];
            start = memrchr(b'\n', earlier).map_or(self.done, |newline| self.done + newline + 1);
        }
        start
    }

    fn write(&mut self, end: usize) -> Result<()> {
        if end > self.done {
            self.lines.push_line(&self.text[self.done..end])?;
            self.done = end;
        }
        Ok(())
    }
}
