//! Token counts of model calls.
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Tokens that model calls used.
///
/// The default is a call that is known to have used none. A provider whose server does not report a
/// count returns [`unknown`](Self::unknown). An unknown count is not zero: a
/// [`Ledger`](crate::budget::Ledger) keeps its reservation.
///
/// ```
/// use toolwright_module::model::Usage;
///
/// let total = Usage::new(120, 30) + Usage::unknown();
/// // At least 120 tokens were read. The real number is unknown.
/// assert_eq!((total.input_tokens, total.incomplete), (120, true));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, including cached ones.
    pub input_tokens: u64,
    /// Tokens written, including reasoning.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache; part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens written to the provider's cache; part of `input_tokens`, beside `cached_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written_tokens: u64,
    /// Tokens that the provider's cache keeps for an hour; part of `cache_written_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written_1h_tokens: u64,
    /// Tokens of audio that were read; part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub audio_input_tokens: u64,
    /// Tokens of audio that were written; part of `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub audio_output_tokens: u64,
    /// Reasoning tokens; part of `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Whether some of the tokens are not known: a server did not report them, or a call was cancelled
    /// before it could. The counts do not contain them. If a
    /// budget reserved tokens for the call, they contain the reservation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub incomplete: bool,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

impl Usage {
    /// Returns the usage of `input_tokens` read and `output_tokens` written.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Returns usage that a server did not report. A sum with it is a lower bound.
    #[must_use]
    pub fn unknown() -> Self {
        Self { incomplete: true, ..Self::default() }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // Saturating, so that absurd numbers of a server do not end a run.
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_written_tokens: self
                .cache_written_tokens
                .saturating_add(other.cache_written_tokens),
            cache_written_1h_tokens: self
                .cache_written_1h_tokens
                .saturating_add(other.cache_written_1h_tokens),
            audio_input_tokens: self.audio_input_tokens.saturating_add(other.audio_input_tokens),
            audio_output_tokens: self.audio_output_tokens.saturating_add(other.audio_output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            incomplete: self.incomplete || other.incomplete,
        }
    }
}

/// The usage since an earlier reading of the same counter.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            cache_written_tokens: self
                .cache_written_tokens
                .saturating_sub(earlier.cache_written_tokens),
            cache_written_1h_tokens: self
                .cache_written_1h_tokens
                .saturating_sub(earlier.cache_written_1h_tokens),
            audio_input_tokens: self.audio_input_tokens.saturating_sub(earlier.audio_input_tokens),
            audio_output_tokens: self
                .audio_output_tokens
                .saturating_sub(earlier.audio_output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            // The flag of the later reading is kept: it does not say which part was unknown.
            incomplete: self.incomplete,
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
