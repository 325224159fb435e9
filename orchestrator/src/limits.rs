use serde::{Deserialize, Serialize};
use toolwright_module::Request;

/// What bounds a run.
///
/// ```
/// use toolwright_orchestrator::Limits;
///
/// assert_eq!(Limits::default().max_iterations, 10);
/// let limits = Limits::default().with_max_iterations(3);
/// assert_eq!(limits.max_iterations, 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// How many rounds a model gets: 10 unless said. A round is a reply and what its
    /// calls gave, or a reply that could not be used. After the last round the model is
    /// asked once more, without tools, and that answer counts as
    /// [`Ending::LimitReached`](crate::Ending::LimitReached): allow one round more than
    /// a task needs, at least 1.
    pub max_iterations: u32,
    /// The most a model may write in one answer, in tokens.
    pub max_output_tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_iterations: 10, max_output_tokens: Request::MAX_OUTPUT_TOKENS }
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
}
