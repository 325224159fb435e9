//! The scale of the bars of a page.

use std::time::Duration;

use toolwright_module::budget::{Cost, Money, Spent};

use super::tree::Tree;
use super::words;

/// The largest step, which fills the bars.
#[derive(Default)]
pub(super) struct Scale {
    pub(super) time: Duration,
    /// Money, or tokens if no price is known.
    pub(super) cost: u64,
    has_money: bool,
    /// Number of decimals of money.
    decimals: usize,
}

impl Scale {
    pub(super) fn of(tree: &Tree) -> Self {
        let has_money = tree.spent.money.micros > 0;
        let decimals = if tree.spent.money.micros < 1_000_000 { 6 } else { 4 };
        let mut scale = Self { has_money, decimals, ..Self::default() };
        for step in &tree.root.steps {
            scale.time = scale.time.max(step.elapsed + step.calls_elapsed());
            scale.cost = scale.cost.max(scale.cost(step.total()));
        }
        scale
    }

    pub(super) fn cost(&self, spent: Spent) -> u64 {
        if self.has_money { spent.money.micros } else { tokens(spent) }
    }

    /// Returns the cost for a column. Unknown is a question mark.
    pub(super) fn cost_text(&self, spent: Spent) -> String {
        let aligned = |money: Money| words::aligned_money(money.micros, self.decimals);
        match (self.has_money, spent.cost()) {
            (true, Cost::Known(money)) => aligned(money),
            (true, Cost::AtLeast(money)) => format!("≥{}", aligned(money)),
            (true, Cost::Unknown) => "?".to_owned(),
            (false, _) if spent.usage.incomplete && tokens(spent) == 0 => "?".to_owned(),
            (false, _) => words::short(tokens(spent)),
        }
    }

    /// Returns the cost for a column, and a dash if there is none.
    pub(super) fn cost_or_dash(&self, spent: Spent) -> String {
        let is_none = match self.has_money {
            true => spent.cost() == Cost::Known(Money::default()),
            false => tokens(spent) == 0 && !spent.usage.incomplete,
        };
        if is_none { "–".to_owned() } else { self.cost_text(spent) }
    }

    pub(super) fn cost_name(&self) -> &'static str {
        if self.has_money { "cost in USD" } else { "tokens" }
    }
}

pub(super) fn tokens(spent: Spent) -> u64 {
    spent.usage.input_tokens.saturating_add(spent.usage.output_tokens)
}

/// Returns a share in percent.
pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}%", (part / whole * 100.0).min(100.0)) } else { "0%".to_owned() }
}
