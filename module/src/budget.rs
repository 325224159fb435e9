//! Budgets, money and prices. The ledger that counts against them is [`Ledger`].

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

pub use crate::ledger::{Exhausted, Ledger, Overshoot, Reservation};
pub use crate::period::Period;
pub use crate::price::Price;
pub use crate::prices::{Prices, PricesError};
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
#[serde(from = "StoredSpent", into = "StoredSpent")]
#[non_exhaustive]
pub struct Spent {
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Tokens read and written.
    pub usage: Usage,
    /// Cost of the model calls whose price is known. [`cost`](Self::cost) also says whether that is
    /// all of it.
    pub money: Money,
    /// Number of model calls whose price is unknown. [`money`](Self::money) does not contain them.
    pub unpriced_calls: u64,
}

/// The stored form of [`Spent`].
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredSpent {
    model_calls: u64,
    tool_calls: u64,
    usage: Usage,
    #[serde(skip_serializing_if = "Money::is_zero")]
    money: Money,
    /// `None` means the number that [`Self::usual`] returns. Older records have no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpriced_calls: Option<u64>,
}

impl StoredSpent {
    /// Returns the number of calls without a price if nothing else is stored. Without money that is
    /// all of them, because a cost that nobody recorded is unknown and not zero.
    fn usual(model_calls: u64, money: Money) -> u64 {
        if money.is_zero() { model_calls } else { 0 }
    }
}

impl From<StoredSpent> for Spent {
    fn from(stored: StoredSpent) -> Self {
        let StoredSpent { model_calls, tool_calls, usage, money, unpriced_calls } = stored;
        let usual = StoredSpent::usual(model_calls, money);
        let unpriced_calls = unpriced_calls.unwrap_or(usual);
        Self { model_calls, tool_calls, usage, money, unpriced_calls }
    }
}

impl From<Spent> for StoredSpent {
    fn from(spent: Spent) -> Self {
        let Spent { model_calls, tool_calls, usage, money, unpriced_calls } = spent;
        let usual = Self::usual(model_calls, money);
        let unpriced_calls = Some(unpriced_calls).filter(|calls| *calls != usual);
        Self { model_calls, tool_calls, usage, money, unpriced_calls }
    }
}

/// The cost of calls in money, as far as it is known.
///
/// ```
/// use toolwright_module::budget::{Cost, Money};
///
/// assert_eq!(Cost::Known(Money::new(0.25)).to_string(), "0.25 USD");
/// assert_eq!(Cost::AtLeast(Money::new(0.25)).to_string(), "at least 0.25 USD");
/// assert_eq!(Cost::Unknown.to_string(), "unknown");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// The whole cost.
    Known(Money),
    /// The known part of the cost. The price of another call, or some of its tokens, is unknown.
    AtLeast(Money),
    /// Nothing is known. It is not zero.
    Unknown,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(money) => money.fmt(f),
            Self::AtLeast(money) => write!(f, "at least {money}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl Spent {
    /// Returns the cost in money, and whether that is all of it.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match self.unpriced_calls == 0 && !self.usage.incomplete {
            true => Cost::Known(self.money),
            false if self.money.is_zero() => Cost::Unknown,
            false => Cost::AtLeast(self.money),
        }
    }

    /// Returns the amounts of one model call whose price is unknown.
    #[must_use]
    pub fn model_call(usage: Usage) -> Self {
        Self { model_calls: 1, unpriced_calls: 1, usage, ..Self::default() }
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
        Self { model_calls: 0, tool_calls: 0, unpriced_calls: 0, ..self }
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
            unpriced_calls: self.unpriced_calls.saturating_add(other.unpriced_calls),
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
            unpriced_calls: self.unpriced_calls.saturating_sub(earlier.unpriced_calls),
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in US dollars, in whole millionths of a dollar.
///
/// Sums are exact. The serialized form is the number of millionths.
///
/// ```
/// use toolwright_module::budget::Money;
///
/// assert_eq!(Money::new(0.25).micros, 250_000);
/// assert_eq!(Money::new(0.25).to_string(), "0.25 USD");
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
    /// Returns an amount of dollars. A negative number becomes zero.
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
        write!(f, "{whole}.{} USD", &part[..end])
    }
}
