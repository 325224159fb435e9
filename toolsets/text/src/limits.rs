//! [`TextLimits`], the maximum sizes and the time of a call.

use std::time::Duration;

/// The limits of one call of a tool.
///
/// A call above a limit fails with a text that says what the model should request instead. The
/// result is not cut off, because a part of it would look like the complete result.
///
/// ```
/// use std::time::Duration;
/// use toolwright_text::TextLimits;
///
/// let limits = TextLimits { max_input: 100 << 20, max_time: Duration::from_secs(60), ..TextLimits::default() };
/// assert_eq!(limits.max_output, TextLimits::default().max_output);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Maximum size of `text`, in bytes. Default: 4 MiB. The time of every tool grows with it, and
    /// so does the memory of the tools that sort or count words.
    pub max_input: usize,
    /// Maximum size of the lines or words in a result, in bytes. Default: 256 KiB, which is about
    /// the size that fits into the context of a model.
    pub max_output: usize,
    /// Maximum time of a call. Default: 5 seconds. The context's deadline applies too.
    ///
    /// The clock is checked every 32 KiB, between lines and inside a line that is searched. Sorting
    /// and splitting into words check it before and after. A limit too large for
    /// [`Instant`](std::time::Instant) means no limit.
    pub max_time: Duration,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self { max_input: 4 << 20, max_output: 256 << 10, max_time: Duration::from_secs(5) }
    }
}
