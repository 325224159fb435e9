//! [`LimitedCall`], which checks the limits of a call, and [`LimitedOutput`], which collects a
//! result up to its maximum size.

use std::time::Instant;

use toolwright_module::error::Stage;
use toolwright_module::{Context, Error, Result};

use crate::limits::TextLimits;

/// Number of bytes between two checks of the clock.
pub(crate) const STRIDE: usize = 32 << 10;

/// A running call with its limits.
pub(crate) struct LimitedCall<'a> {
    limits: TextLimits,
    cx: &'a Context,
    until: Option<Instant>,
}

impl<'a> LimitedCall<'a> {
    /// Starts the clock. Fails if the text is too long.
    pub(crate) fn start(text: &str, limits: TextLimits, cx: &'a Context) -> Result<Self> {
        let (bytes, max_bytes) = (text.len(), limits.max_input);
        if bytes > max_bytes {
            return Err(limit(format!(
                "`text` has {bytes} bytes and the maximum is {max_bytes}; send a part of it"
            )));
        }
        // A limit too large for `Instant` means no limit.
        let own = Instant::now().checked_add(limits.max_time);
        let until = [own, cx.deadline()].into_iter().flatten().min();
        let call = Self { limits, cx, until };
        call.check()?;
        Ok(call)
    }

    /// Fails if the call was cancelled or its time is over.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cx.is_cancelled() {
            return Err(Error::stop("the call was cancelled").at(Stage::Cancelled));
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(limit(
                "the call took too long and was stopped; send a part of `text`, or a simpler `pattern` if there is one",
            ));
        }
        Ok(())
    }

    /// Calls `each` for each line, including its line end.
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

    /// Returns the lines, each with a newline.
    pub(crate) fn joined<'t>(&self, lines: impl IntoIterator<Item = &'t str>) -> Result<String> {
        self.check()?;
        let mut result = self.output("send a part of `text`");
        for line in lines {
            result.push(line)?;
            result.push("\n")?;
        }
        self.check()?;
        Ok(result.finish())
    }

    /// Fails if a result of this size is too long. `fix` says how to get a shorter one.
    pub(crate) fn check_output(&self, bytes: usize, fix: &'static str) -> Result<()> {
        check_output(bytes, self.limits.max_output, fix)
    }

    /// Returns an empty result. `fix` is the part of the error that says how to get a shorter one.
    pub(crate) fn output(&self, fix: &'static str) -> LimitedOutput {
        LimitedOutput { text: String::new(), max_bytes: self.limits.max_output, fix }
    }
}

/// A result that is written line by line, up to its maximum size.
pub(crate) struct LimitedOutput {
    text: String,
    max_bytes: usize,
    fix: &'static str,
}

impl LimitedOutput {
    /// Appends a text.
    pub(crate) fn push(&mut self, piece: &str) -> Result<()> {
        let needed = self.text.len().saturating_add(piece.len());
        check_output(needed, self.max_bytes, self.fix)?;
        if needed > self.text.capacity() {
            // It grows by a sixteenth and not by a factor of two, so that a result of many megabytes
            // does not need twice its size.
            let more = (self.text.len() / 16).max(piece.len()).max(64);
            self.text.reserve_exact(more);
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// Appends a line, and a newline if the line has no newline.
    pub(crate) fn push_line(&mut self, line: &str) -> Result<()> {
        self.push(line)?;
        if line.ends_with('\n') { Ok(()) } else { self.push("\n") }
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.shrink_to_fit();
        self.text
    }
}

/// Returns a line without its line end, `\n` or `\r\n`.
pub(crate) fn without_line_end(line: &str) -> &str {
    match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    }
}

fn check_output(bytes: usize, max_bytes: usize, fix: &str) -> Result<()> {
    if bytes <= max_bytes {
        return Ok(());
    }
    Err(limit(format!("the result is longer than {max_bytes} bytes; {fix}")))
}

fn limit(text: impl std::fmt::Display) -> Error {
    Error::retry(text).at(Stage::Limit)
}
