//! [`Groups`], matching lines with the lines around them.

use memchr::{memchr, memrchr};
use toolwright_module::Result;

use crate::limited_call::LimitedOutput;

/// The matching lines with their context lines, each once.
pub(crate) struct Groups<'a> {
    text: &'a str,
    context: usize,
    lines: LimitedOutput,
    /// The end of the written part in the text; 0 if nothing was written.
    done: usize,
}

impl<'a> Groups<'a> {
    /// Returns an empty result for the lines of `text`.
    pub(crate) fn new(text: &'a str, context: i64, lines: LimitedOutput) -> Self {
        let context = usize::try_from(context.max(0)).unwrap_or(usize::MAX);
        Self { text, context, lines, done: 0 }
    }

    /// Adds a matching line, from its start to its end in the text.
    pub(crate) fn add(&mut self, start: usize, end: usize) -> Result<()> {
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

    /// Returns the lines.
    pub(crate) fn finish(mut self) -> Result<String> {
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
