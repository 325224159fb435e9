use std::time::Duration;

/// What bounds one call of a tool.
///
/// A call that meets a bound fails as a whole, with an error that tells the model what to
/// ask for instead: a part of a result would read as all of it.
///
/// ```
/// use std::time::Duration;
/// use toolwright_text::Limits;
///
/// let limits = Limits::default().with_max_input(100 << 20).with_max_time(Duration::from_secs(60));
/// assert_eq!(limits.max_output, Limits::default().max_output);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of `text`: 4 MiB unless said. The time of every tool, and the memory of those
    /// that sort or count words, grow with it.
    pub max_input: usize,
    /// Bytes of the lines or words in a result: 256 KiB unless said, which is about what a model can read at once.
    pub max_output: usize,
    /// Time of one call: 5 seconds unless said. The context's deadline holds too. The clock
    /// is looked at every 32 KiB, between lines and inside a line that is searched; sorting
    /// and cutting words looks before and after.
    pub max_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_input: 4 << 20, max_output: 256 << 10, max_time: Duration::from_secs(5) }
    }
}

impl Limits {
    /// The same with another bound on the text, in bytes.
    #[must_use]
    pub fn with_max_input(mut self, bytes: usize) -> Self {
        self.max_input = bytes;
        self
    }

    /// The same with another bound on a result, in bytes.
    #[must_use]
    pub fn with_max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// The same with another bound on the time of a call.
    #[must_use]
    pub fn with_max_time(mut self, time: Duration) -> Self {
        self.max_time = time;
        self
    }
}
