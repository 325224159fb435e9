//! What a grader says of an attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The grade of one attempt by one grader.
///
/// ```
/// use toolwright_evals::Grade;
///
/// assert!(Grade::from(2 < 3).passed());
/// assert_eq!(Grade::fail("no greeting").reason, "no greeting");
/// assert_eq!(Grade::scored(0.7, true, "nearly").score, Some(0.7));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Grade {
    /// Whether the attempt passes.
    pub verdict: Verdict,
    /// The score from 0 to 1. `None` for a grade that does not count.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: Option<f64>,
    /// Why, in words. May be empty if the attempt passes.
    pub reason: String,
}

/// Whether an attempt passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It does not.
    Fail,
    /// The grader has nothing to say about this case, for example because the case expects no calls.
    /// The grade counts nowhere.
    Skip,
    /// The grader itself failed. The attempt does not pass, because nobody knows whether it would.
    Error,
}

impl Grade {
    /// Returns the grade of an attempt that passes.
    #[must_use]
    pub fn pass() -> Self {
        Self { verdict: Verdict::Pass, score: Some(1.0), reason: String::new() }
    }

    /// Returns the grade of an attempt that does not pass.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, score: Some(0.0), reason: reason.into() }
    }

    /// Returns a grade with a score from 0 to 1. A score outside is moved to the nearer end, and one that
    /// is not a number is 0.
    pub fn scored(score: f64, passed: bool, reason: impl Into<String>) -> Self {
        let score = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
        let verdict = if passed { Verdict::Pass } else { Verdict::Fail };
        Self { verdict, score: Some(score), reason: reason.into() }
    }

    /// Returns a grade that does not count.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skip, score: None, reason: reason.into() }
    }

    /// Returns the grade of an attempt whose grader failed.
    pub(crate) fn error(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Error, score: None, reason: reason.into() }
    }

    /// Returns the grade as it is, or why it cannot be one: it comes from another program, or from a model.
    pub(crate) fn checked(self) -> Self {
        let counts = matches!(self.verdict, Verdict::Pass | Verdict::Fail);
        match self.score {
            Some(score) if !(0.0..=1.0).contains(&score) => {
                Self::error(format!("the score {score} is not between 0 and 1"))
            }
            None if counts => Self::error("the grade has no score"),
            _ => self,
        }
    }

    /// Returns whether the attempt passes.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict == Verdict::Pass
    }
}

impl From<bool> for Grade {
    fn from(passed: bool) -> Self {
        if passed { Self::pass() } else { Self::fail("") }
    }
}
