use std::time::Instant;

use toolwright_module::error::Stage;
use toolwright_module::{Context, Error, Result};

use crate::limits::Limits;

/// Bytes between two looks at the clock.
pub(crate) const STRIDE: usize = 32 << 10;

/// One call under its limits.
pub(crate) struct Work<'a> {
    limits: Limits,
    cx: &'a Context,
    until: Option<Instant>,
}

impl<'a> Work<'a> {
    /// Starts the clock, and refuses a text that is too long.
    pub(crate) fn on(text: &str, limits: Limits, cx: &'a Context) -> Result<Self> {
        let (given, most) = (text.len(), limits.max_input);
        if given > most {
            return Err(limit(format!(
                "`text` has {given} bytes and {most} are taken at most; send a part of it"
            )));
        }
        // A time that no clock reaches is none.
        let own = Instant::now().checked_add(limits.max_time);
        let until = [own, cx.deadline()].into_iter().flatten().min();
        let work = Self { limits, cx, until };
        work.check()?;
        Ok(work)
    }

    /// Whether it may go on.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cx.is_cancelled() {
            return Err(Error::stop("the call was cancelled").at(Stage::Cancelled));
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(limit(
                "the work took too long and was ended; send a part of `text`, or a simpler `pattern` if there is one",
            ));
        }
        Ok(())
    }

    /// Hands on each line with its end.
    pub(crate) fn lines<'t>(
        &self,
        text: &'t str,
        mut each: impl FnMut(&'t str) -> Result<()>,
    ) -> Result<()> {
        let mut left = STRIDE;
        for line in text.split_inclusive('\n') {
            each(line)?;
            left = left.saturating_sub(line.len());
            if left == 0 {
                self.check()?;
                left = STRIDE;
            }
        }
        self.check()
    }

    /// A result of these lines, each with a newline.
    pub(crate) fn joined<'t>(&self, lines: impl IntoIterator<Item = &'t str>) -> Result<String> {
        self.check()?;
        let mut result = self.result("send a part of `text`");
        for line in lines {
            result.push(line)?;
            result.push("\n")?;
        }
        self.check()?;
        Ok(result.finish())
    }

    /// Refuses a result of this many bytes if it is too long.
    pub(crate) fn fits(&self, bytes: usize, less: &'static str) -> Result<()> {
        fits(bytes, self.limits.max_output, less)
    }

    /// An empty result; `less` tells the model how to get a shorter one.
    pub(crate) fn result(&self, less: &'static str) -> Lines {
        Lines { text: String::new(), most: self.limits.max_output, less }
    }
}

/// A result that is written line by line.
pub(crate) struct Lines {
    text: String,
    most: usize,
    less: &'static str,
}

impl Lines {
    /// Adds a piece as it is.
    pub(crate) fn push(&mut self, piece: &str) -> Result<()> {
        let needed = self.text.len().saturating_add(piece.len());
        fits(needed, self.most, self.less)?;
        if needed > self.text.capacity() {
            // By a sixteenth and not twice: a result of many megabytes should cost no
            // second one.
            let more = (self.text.len() / 16).max(piece.len()).max(64);
            self.text.reserve_exact(more);
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// Adds a line, which ends in a newline whether or not it did.
    pub(crate) fn push_line(&mut self, line: &str) -> Result<()> {
        self.push(line)?;
        if line.ends_with('\n') { Ok(()) } else { self.push("\n") }
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.shrink_to_fit();
        self.text
    }
}

/// A line without its end, `\n` or `\r\n`.
pub(crate) fn bare(line: &str) -> &str {
    match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    }
}

fn fits(bytes: usize, most: usize, less: &str) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    Err(limit(format!("the result is longer than {most} bytes; {less}")))
}

fn limit(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::retry(text).at(Stage::Limit)
}
