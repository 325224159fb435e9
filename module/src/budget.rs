//! Budgets and prices. The ledger that counts against them is [`Ledger`].

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

pub use crate::ledger::{Exhausted, Ledger, Overshoot, Reservation};
pub use crate::period::Period;
pub use crate::shared_budget::{BudgetState, Reserving, SharedBudget};
use crate::usage::Usage;

/// Limits on what calls may use. Default: no limits.
///
/// ```
/// use toolwright_module::budget::{Budget, Money};
///
/// let money = Some(Money::new(0.05));
/// let budget = Budget { model_calls: Some(20), money, ..Budget::default() };
/// assert_eq!(budget.model_calls, Some(20));
/// assert_eq!(budget.tool_calls, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Maximum number of model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Maximum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Maximum number of tokens that models may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Maximum number of tokens that models may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Maximum number of tokens that models may read and write together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum cost of models, by the prices of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Budget {
    /// Returns the limit of one kind. Money is in millionths.
    #[must_use]
    pub fn allows(&self, limit: LimitKind) -> Option<u64> {
        match limit {
            LimitKind::ModelCalls => self.model_calls,
            LimitKind::ToolCalls => self.tool_calls,
            LimitKind::InputTokens => self.input_tokens,
            LimitKind::OutputTokens => self.output_tokens,
            LimitKind::Tokens => self.tokens,
            LimitKind::Money => self.money.map(|money| money.micros),
            LimitKind::Iterations | LimitKind::Time => None,
        }
    }

    /// Returns the limit that `more` would exceed after `spent`, and its value.
    #[must_use]
    pub fn refuses(&self, spent: Spent, more: Spent) -> Option<(LimitKind, u64)> {
        let limits = [
            LimitKind::ModelCalls,
            LimitKind::ToolCalls,
            LimitKind::InputTokens,
            LimitKind::OutputTokens,
            LimitKind::Tokens,
            LimitKind::Money,
        ];
        limits.into_iter().find_map(|limit| {
            let allowed = self.allows(limit)?;
            let more = limit.of(more);
            // A zero-cost request is allowed even when the budget is spent.
            let fits = more == 0 || limit.of(spent).saturating_add(more) <= allowed;
            (!fits).then_some((limit, allowed))
        })
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        let tokens = [self.input_tokens, self.output_tokens, self.tokens];
        self.money.is_some() || tokens.iter().any(Option::is_some)
    }
}

/// The kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// Iterations of an agent's loop.
    Iterations,
    /// Model calls.
    ModelCalls,
    /// Tool calls.
    ToolCalls,
    /// Tokens that models read.
    InputTokens,
    /// Tokens that models write.
    OutputTokens,
    /// Tokens that models read and write.
    Tokens,
    /// Cost of models.
    Money,
    /// Duration of a run.
    Time,
}

impl LimitKind {
    /// Returns the spent amount of this kind. Money is in millionths.
    #[must_use]
    pub fn of(self, spent: Spent) -> u64 {
        match self {
            Self::ModelCalls => spent.model_calls,
            Self::ToolCalls => spent.tool_calls,
            Self::InputTokens => spent.usage.input_tokens,
            Self::OutputTokens => spent.usage.output_tokens,
            Self::Tokens => spent.usage.input_tokens.saturating_add(spent.usage.output_tokens),
            Self::Money => spent.money.micros,
            Self::Iterations | Self::Time => 0,
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iterations => "iterations",
            Self::ModelCalls => "model calls",
            Self::ToolCalls => "tool calls",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::Tokens => "tokens",
            Self::Money => "money",
            Self::Time => "time",
        })
    }
}

/// The amounts that calls have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spent {
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Tokens read and written.
    pub usage: Usage,
    /// Cost in money, as far as prices are known.
    #[serde(skip_serializing_if = "Money::is_zero")]
    pub money: Money,
}

impl Spent {
    /// Returns the amounts of one model call.
    #[must_use]
    pub fn model_call(usage: Usage) -> Self {
        Self { model_calls: 1, usage, ..Self::default() }
    }

    /// Returns the amounts of one tool call.
    #[must_use]
    pub fn tool_call() -> Self {
        Self { tool_calls: 1, ..Self::default() }
    }

    /// Returns the numbers of calls, without tokens and money.
    pub(crate) fn calls(self) -> Self {
        Self { usage: Usage::default(), money: Money::default(), ..self }
    }

    /// Returns the tokens and the money, without numbers of calls.
    pub(crate) fn costs(self) -> Self {
        Self { model_calls: 0, tool_calls: 0, ..self }
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            usage: self.usage + other.usage,
            money: Money { micros: self.money.micros.saturating_add(other.money.micros) },
        }
    }
}

/// The amounts since an earlier reading of the same counter.
impl Sub for Spent {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_sub(earlier.model_calls),
            tool_calls: self.tool_calls.saturating_sub(earlier.tool_calls),
            usage: self.usage - earlier.usage,
            money: Money { micros: self.money.micros.saturating_sub(earlier.money.micros) },
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in the currency of the prices, in whole millionths.
///
/// Sums are exact. The serialized form is the number of millionths.
///
/// ```
/// use toolwright_module::budget::Money;
///
/// assert_eq!(Money::new(0.25).micros, 250_000);
/// assert_eq!(Money::new(0.25).to_string(), "0.25");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money {
    /// Number of millionths.
    pub micros: u64,
}

impl Money {
    /// Returns an amount. A negative number becomes zero.
    #[must_use]
    pub fn new(amount: f64) -> Self {
        // The cast saturates and turns NaN into 0.
        Self { micros: (amount * 1e6).round() as u64 }
    }

    fn is_zero(&self) -> bool {
        self.micros == 0
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let part = format!("{part:06}");
        // At least two decimal places, as usual for money.
        let end = part.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{}", &part[..end])
    }
}

fn price(amount: f64) -> Money {
    if amount.is_nan() { Money { micros: u64::MAX } } else { Money::new(amount) }
}

/// The price of a model, per million tokens.
///
/// ```
/// use toolwright_module::budget::{Money, Price};
/// use toolwright_module::model::Usage;
///
/// let price = Price::per_million(0.25, 2.0).with_cached(0.025);
/// let usage = Usage { cached_tokens: 400_000, ..Usage::new(1_000_000, 500_000) };
/// assert_eq!(price.of(usage), Money::new(0.15 + 0.01 + 1.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Price of a million input tokens.
    pub input: Money,
    /// Price of a million output tokens.
    pub output: Money,
    /// Price of a million input tokens from the provider's cache.
    pub cached: Money,
    /// Price of a million input tokens that are written to the provider's cache. Often higher than
    /// that of other input.
    pub cache_written: Money,
}

impl Price {
    /// Returns the prices of a million input tokens and a million output tokens. Tokens that are
    /// read from the cache or written to it cost the same as other input, unless
    /// [`with_cached`](Self::with_cached) and [`with_cache_written`](Self::with_cache_written) set
    /// their prices.
    ///
    /// NaN becomes the largest amount, which exceeds any budget. A price of zero would allow
    /// unlimited spending.
    #[must_use]
    pub fn per_million(input: f64, output: f64) -> Self {
        let input = price(input);
        Self { input, output: price(output), cached: input, cache_written: input }
    }

    /// Sets the price of a million input tokens from the provider's cache.
    #[must_use]
    pub fn with_cached(mut self, cached: f64) -> Self {
        self.cached = price(cached);
        self
    }

    /// Sets the price of a million input tokens that are written to the provider's cache.
    ///
    /// ```
    /// use toolwright_module::budget::{Money, Price};
    /// use toolwright_module::model::Usage;
    ///
    /// let price = Price::per_million(3.0, 15.0).with_cache_written(3.75);
    /// let usage = Usage { cache_written_tokens: 400_000, ..Usage::new(1_000_000, 0) };
    /// assert_eq!(price.of(usage), Money::new(0.6 * 3.0 + 0.4 * 3.75));
    /// ```
    #[must_use]
    pub fn with_cache_written(mut self, cache_written: f64) -> Self {
        self.cache_written = price(cache_written);
        self
    }

    /// Returns the largest cost of a model call, whatever part of its input is cached.
    pub(crate) fn most_of(self, usage: Usage) -> Money {
        let input = self.input.max(self.cached).max(self.cache_written);
        Self { input, ..self }.of(Usage::new(usage.input_tokens, usage.output_tokens))
    }

    /// Returns the cost of a model call, rounded up to a millionth.
    #[must_use]
    pub fn of(self, usage: Usage) -> Money {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let part = |tokens: u64, price: Money| u128::from(tokens) * u128::from(price.micros);
        let written = usage.cache_written_tokens.min(usage.input_tokens - cached);
        let all = part(usage.input_tokens - cached - written, self.input)
            .saturating_add(part(cached, self.cached))
            .saturating_add(part(written, self.cache_written))
            .saturating_add(part(usage.output_tokens, self.output));
        Money { micros: u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX) }
    }
}
