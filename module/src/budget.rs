//! Budgets, prices and the ledger that counts what calls use.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

pub use crate::ledger::{Exhausted, Ledger, Overshoot, Reservation};
use crate::usage::Usage;

/// What calls may come to; what is not said is not bounded.
///
/// ```
/// use toolwright_module::budget::{Budget, Money};
///
/// let budget = Budget::default().with_model_calls(20).with_money(Money::new(0.05));
/// assert_eq!(budget.model_calls, Some(20));
/// assert_eq!(budget.tool_calls, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Budget {
    /// How often models may be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// How often tools may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// How many tokens models may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// How many tokens models may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// What models may cost, by the prices of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Budget {
    /// The same with a bound on how often models are asked.
    #[must_use]
    pub fn with_model_calls(mut self, calls: u64) -> Self {
        self.model_calls = Some(calls);
        self
    }

    /// The same with a bound on how often tools are called.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: u64) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// The same with a bound on what models read.
    #[must_use]
    pub fn with_input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = Some(tokens);
        self
    }

    /// The same with a bound on what models write.
    #[must_use]
    pub fn with_output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = Some(tokens);
        self
    }

    /// The same with a bound on what models cost.
    #[must_use]
    pub fn with_money(mut self, money: Money) -> Self {
        self.money = Some(money);
        self
    }

    /// What the budget allows of something, if it says so; of money, millionths.
    #[must_use]
    pub fn allows(&self, limit: LimitKind) -> Option<u64> {
        match limit {
            LimitKind::ModelCalls => self.model_calls,
            LimitKind::ToolCalls => self.tool_calls,
            LimitKind::InputTokens => self.input_tokens,
            LimitKind::OutputTokens => self.output_tokens,
            LimitKind::Money => self.money.map(Money::micros),
            LimitKind::Iterations | LimitKind::Time => None,
        }
    }

    /// What there is too little of for `more` after `spent`, and how much is allowed.
    #[must_use]
    pub fn refuses(&self, spent: Spent, more: Spent) -> Option<(LimitKind, u64)> {
        let limits = [
            LimitKind::ModelCalls,
            LimitKind::ToolCalls,
            LimitKind::InputTokens,
            LimitKind::OutputTokens,
            LimitKind::Money,
        ];
        limits.into_iter().find_map(|limit| {
            let allowed = self.allows(limit)?;
            let more = limit.of(more);
            // What costs nothing may be done by who has nothing left.
            let fits = more == 0 || limit.of(spent).saturating_add(more) <= allowed;
            (!fits).then_some((limit, allowed))
        })
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        self.input_tokens.is_some() || self.output_tokens.is_some() || self.money.is_some()
    }
}

/// What can run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// An agent's rounds.
    Iterations,
    /// Questions to models.
    ModelCalls,
    /// Calls of tools.
    ToolCalls,
    /// Tokens that models read.
    InputTokens,
    /// Tokens that models write.
    OutputTokens,
    /// What models cost.
    Money,
    /// The time that a run may take.
    Time,
}

impl LimitKind {
    /// How much of it was spent; of money, millionths.
    #[must_use]
    pub fn of(self, spent: Spent) -> u64 {
        match self {
            Self::ModelCalls => spent.model_calls,
            Self::ToolCalls => spent.tool_calls,
            Self::InputTokens => spent.usage.input_tokens,
            Self::OutputTokens => spent.usage.output_tokens,
            Self::Money => spent.money.micros(),
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
            Self::Money => "money",
            Self::Time => "time",
        })
    }
}

/// What calls came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spent {
    /// How often models were asked.
    pub model_calls: u64,
    /// How often tools were called.
    pub tool_calls: u64,
    /// Tokens read and written.
    pub usage: Usage,
    /// What that cost, as far as prices are known.
    #[serde(skip_serializing_if = "Money::is_zero")]
    pub money: Money,
}

impl Spent {
    /// One question to a model.
    #[must_use]
    pub fn model_call(usage: Usage) -> Self {
        Self { model_calls: 1, usage, ..Self::default() }
    }

    /// One call of a tool.
    #[must_use]
    pub fn tool_call() -> Self {
        Self { tool_calls: 1, ..Self::default() }
    }

    /// The calls alone.
    pub(crate) fn calls(self) -> Self {
        Self { usage: Usage::default(), money: Money::default(), ..self }
    }

    /// What was spent after `earlier`, an earlier reading of the same count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_sub(earlier.model_calls),
            tool_calls: self.tool_calls.saturating_sub(earlier.tool_calls),
            usage: self.usage.since(earlier.usage),
            money: Money::from_micros(self.money.micros().saturating_sub(earlier.money.micros())),
        }
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            usage: self.usage + other.usage,
            money: Money::from_micros(self.money.micros().saturating_add(other.money.micros())),
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in the currency of the prices, to the millionth.
///
/// Whole millionths add up without error. They serialise as such.
///
/// ```
/// use toolwright_module::budget::Money;
///
/// assert_eq!(Money::new(0.25).micros(), 250_000);
/// assert_eq!(Money::new(0.25).to_string(), "0.25");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// An amount; less than nothing is nothing.
    #[must_use]
    pub fn new(amount: f64) -> Self {
        Self(to_micros(amount))
    }

    /// An amount of millionths.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// How many millionths it is.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// Rounded; a cast ends at the ends of the range, and what is no number is 0.
fn to_micros(amount: f64) -> u64 {
    (amount * 1e6).round() as u64
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let part = format!("{part:06}");
        // Two places at least, as people write money.
        let end = part.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{}", &part[..end])
    }
}

fn price(amount: f64) -> Money {
    if amount.is_nan() { Money::from_micros(u64::MAX) } else { Money::new(amount) }
}

/// What a model costs.
///
/// ```
/// use toolwright_module::budget::{Money, Price};
/// use toolwright_module::model::Usage;
///
/// let price = Price::per_million(0.25, 2.0).with_cached(0.025);
/// let usage = Usage::new(1_000_000, 500_000).with_cached(400_000);
/// assert_eq!(price.of(usage), Money::new(0.15 + 0.01 + 1.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// A million tokens read.
    pub input: Money,
    /// A million tokens written.
    pub output: Money,
    /// A million tokens read from the provider's cache.
    pub cached: Money,
}

impl Price {
    /// A price for a million tokens read and for a million written; the cache saves
    /// nothing unless [`with_cached`](Self::with_cached) says so. What is no number is
    /// more than any budget: free, it would let a run spend without end.
    #[must_use]
    pub fn per_million(input: f64, output: f64) -> Self {
        let input = price(input);
        Self { input, output: price(output), cached: input }
    }

    /// The same with a price for a million tokens read from the provider's cache.
    #[must_use]
    pub fn with_cached(mut self, cached: f64) -> Self {
        self.cached = price(cached);
        self
    }

    /// What a model call costs, rounded up to a millionth.
    #[must_use]
    pub fn of(self, usage: Usage) -> Money {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let part = |tokens: u64, price: Money| u128::from(tokens) * u128::from(price.0);
        let all = part(usage.input_tokens - cached, self.input)
            .saturating_add(part(cached, self.cached))
            .saturating_add(part(usage.output_tokens, self.output));
        Money(u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}
