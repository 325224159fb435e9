use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// What model calls cost, in tokens.
///
/// The default is a call that is known to have cost nothing. A provider whose server does
/// not report a count marks the usage with [`unknown`](Self::unknown): an unknown count is
/// not zero, and a [`Ledger`](crate::budget::Ledger) must not give back what it reserved.
///
/// ```
/// use toolwright_module::model::Usage;
///
/// let total = Usage::new(120, 30) + Usage::unknown();
/// // At least 120 tokens were read; nobody knows how many more.
/// assert_eq!((total.input_tokens, total.incomplete), (120, true));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache; part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens written while thinking; part of `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Whether a server did not report some of the tokens read or written. They are not in
    /// the counts, or, where a budget reserved tokens for the call, the reservation is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub incomplete: bool,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Usage {
    /// Tokens read and written.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Usage that a server did not report. Added to reported usage, it makes the sum a
    /// lower bound.
    #[must_use]
    pub fn unknown() -> Self {
        Self { incomplete: true, ..Self::default() }
    }

    /// The same with how many of the tokens read were cached.
    #[must_use]
    pub fn with_cached(mut self, tokens: u64) -> Self {
        self.cached_tokens = tokens;
        self
    }

    /// What was used after `earlier`, an earlier reading of the same count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            // The earlier count does not say which part of it was unknown.
            incomplete: self.incomplete,
        }
    }

    /// The same with how many of the tokens written were reasoning.
    #[must_use]
    pub fn with_reasoning(mut self, tokens: u64) -> Self {
        self.reasoning_tokens = tokens;
        self
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // Saturating: a server that reports nonsense must not end a run.
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            incomplete: self.incomplete || other.incomplete,
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}
