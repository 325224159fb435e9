//! The scale of the bars of a page.

use std::time::Duration;

use toolwright_module::budget::Spent;

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

    pub(super) fn cost_text(&self, spent: Spent) -> String {
        match (self.has_money, spent.usage.incomplete) {
            (true, _) => words::aligned_money(spent.money.micros, self.decimals),
            (false, true) if tokens(spent) == 0 => "?".to_owned(),
            (false, _) => words::short(tokens(spent)),
        }
    }

    pub(super) fn cost_name(&self) -> &'static str {
        if self.has_money { "cost" } else { "tokens" }
    }
}

pub(super) fn tokens(spent: Spent) -> u64 {
    spent.usage.input_tokens.saturating_add(spent.usage.output_tokens)
}

/// Returns a share in percent.
pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}%", (part / whole * 100.0).min(100.0)) } else { "0%".to_owned() }
}
