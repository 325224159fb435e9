use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_module::Request;
use toolwright_module::budget::Budget;
use toolwright_module::message::{Image, ToolResult};

/// What bounds a run.
///
/// ```
/// use std::time::Duration;
/// use toolwright_module::budget::Budget;
/// use toolwright_orchestrator::Limits;
///
/// let limits = Limits::default()
///     .with_max_iterations(3)
///     .with_budget(Budget::default().with_tool_calls(20))
///     .with_tool_time(Duration::from_secs(30));
/// assert_eq!(limits.max_iterations, 3);
/// assert_eq!(Limits::default().max_iterations, 10);
/// ```
///
/// The run holds its own steps to the rounds, the budget and the time, whoever drives
/// it; to money by what [`StepResult::with_spent`](crate::StepResult::with_spent) says, because it
/// knows no prices. What it does not see, models inside its tools, the driver's ledger holds to the
/// same budget. [`tool_time`](Self::tool_time) and
/// [`max_parallel`](Self::max_parallel) are the driver's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limits {
    /// How many rounds a model gets for a task: 10 unless said. A round is a reply and
    /// what its calls gave, or a reply that could not be used. After the last round the
    /// model is asked once more, without tools, and that answer counts as
    /// [`Ending::LimitReached`](crate::Ending::LimitReached): allow one round more than
    /// a task needs, at least 1.
    pub max_iterations: u32,
    /// The most a model may write in one answer, in tokens.
    pub max_output_tokens: u64,
    /// What the whole run may come to, everything below its tools included.
    pub budget: Budget,
    /// How long the steps of the run may take together; waiting for a person is free.
    pub max_time: Option<Duration>,
    /// How long one call of a tool may take.
    pub tool_time: Option<Duration>,
    /// How many calls may be under way at once: 8 unless said, at least 1.
    pub max_parallel: usize,
    /// How much of a tool's result the model is shown, in bytes: 65,536 unless said.
    /// Of a longer one the model gets the beginning and a note of what is missing.
    pub max_result_bytes: usize,
    /// Maximum size of the images of one result together, in bytes of their addresses; a
    /// `data:` address holds the whole image. Default: 5 MiB. Images beyond it are left
    /// out, and a note in the text says so.
    pub max_image_bytes: usize,
    /// Maximum number of calls in one reply. Default: 128; at least 1. Calls beyond it are
    /// not made: their result says so, and that the model may make them in its next reply.
    pub max_calls_per_reply: usize,
    /// How many rounds in a row may make one same mistake, such as the same call that
    /// fails in the same way: 3 unless said. Then the run ends as
    /// [`Ending::Stuck`](crate::Ending::Stuck).
    pub max_same_failures: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_iterations: 10,
            max_output_tokens: Request::MAX_OUTPUT_TOKENS,
            budget: Budget::default(),
            max_time: None,
            tool_time: None,
            max_parallel: 8,
            max_result_bytes: 65_536,
            max_image_bytes: 5 * 1024 * 1024,
            max_calls_per_reply: 128,
            max_same_failures: 3,
        }
    }
}

impl Limits {
    /// The same with another number of rounds.
    #[must_use]
    pub fn with_max_iterations(mut self, rounds: u32) -> Self {
        self.max_iterations = rounds;
        self
    }

    /// The same with another bound on each answer.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// The same with a budget for the whole run.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// The same with a bound on how long the steps may take together.
    #[must_use]
    pub fn with_max_time(mut self, time: Duration) -> Self {
        self.max_time = Some(time);
        self
    }

    /// The same with a bound on how long one call of a tool may take.
    #[must_use]
    pub fn with_tool_time(mut self, time: Duration) -> Self {
        self.tool_time = Some(time);
        self
    }

    /// The same with another number of calls that may be under way at once.
    #[must_use]
    pub fn with_max_parallel(mut self, calls: usize) -> Self {
        self.max_parallel = calls;
        self
    }

    /// The same with another bound on what the model is shown of a result.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Sets the maximum size of a result's images. Default: 5 MiB.
    #[must_use]
    pub fn with_max_image_bytes(mut self, bytes: usize) -> Self {
        self.max_image_bytes = bytes;
        self
    }

    /// Sets the maximum number of calls in one reply. Default: 128.
    #[must_use]
    pub fn with_max_calls_per_reply(mut self, calls: usize) -> Self {
        self.max_calls_per_reply = calls;
        self
    }

    /// The same with another number of times that one mistake may be made in a row.
    #[must_use]
    pub fn with_max_same_failures(mut self, rounds: u32) -> Self {
        self.max_same_failures = rounds;
        self
    }

    /// What the model is shown of a result: all, or its beginning and a note, within
    /// [`max_result_bytes`](Self::max_result_bytes) together.
    ///
    /// ```
    /// # use toolwright_orchestrator::Limits;
    /// let limits = Limits::default().with_max_result_bytes(80);
    /// let shown = limits.cut(&"word ".repeat(100)).into_owned();
    /// assert!(shown.starts_with("word word word "), "{shown}");
    /// assert!(shown.ends_with("\n[cut: 33 of 500 bytes are shown; ask for less]"), "{shown}");
    /// // What was cut once is not cut again.
    /// assert_eq!(limits.cut(&shown), shown);
    /// ```
    #[must_use]
    pub fn cut<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.len() <= self.max_result_bytes {
            return Cow::Borrowed(text);
        }
        let note = |shown: usize| {
            format!("\n[cut: {shown} of {} bytes are shown; ask for less]", text.len())
        };
        // A smaller number is not longer.
        let room = self.max_result_bytes.saturating_sub(note(self.max_result_bytes).len());
        let end = text.floor_char_boundary(room);
        let mut shown = format!("{}{}", &text[..end], note(end));
        // A bound that has no room for the note has room for its beginning.
        shown.truncate(shown.floor_char_boundary(self.max_result_bytes));
        Cow::Owned(shown)
    }

    /// An error for the user, held to [`max_result_bytes`](Self::max_result_bytes). A low
    /// bound is for the model, and hides no error from the user.
    pub(crate) fn cut_error(&self, error: String) -> String {
        let bound = self.max_result_bytes.max(4096);
        match self.with_max_result_bytes(bound).cut(&error) {
            Cow::Owned(cut) => cut,
            Cow::Borrowed(_) => error,
        }
    }

    /// Holds a result to [`max_result_bytes`](Self::max_result_bytes) and
    /// [`max_image_bytes`](Self::max_image_bytes).
    pub(crate) fn bound(&self, result: &mut ToolResult) {
        if !result.images.is_empty() {
            self.bound_images(result);
        }
        if let Cow::Owned(cut) = self.cut(&result.text) {
            result.text = cut;
        }
    }

    fn bound_images(&self, result: &mut ToolResult) {
        let (all, mut room, mut left_out) = (result.images.len(), self.max_image_bytes, 0);
        result.images.retain(|image| {
            let size = match image {
                Image::Url(url) => url.len(),
                _ => 0,
            };
            if size > room {
                left_out += size;
                return false;
            }
            room -= size;
            true
        });
        let missing = all - result.images.len();
        if missing == 0 {
            return;
        }
        let note = format!(
            "\n[{missing} of {all} images are left out: {left_out} bytes are too many; ask for smaller ones]"
        );
        let rest = self.with_max_result_bytes(self.max_result_bytes.saturating_sub(note.len()));
        result.text = format!("{}{note}", rest.cut(&result.text));
    }
}
