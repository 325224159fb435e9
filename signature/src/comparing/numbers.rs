//! Comparing numbers: the accepted bounds must follow from the sent ones.

use std::cmp::Ordering;

use super::Comparing;
use crate::reading::number::Decimal;
use crate::schema::graph::NumberRule;

/// The largest integer that every JSON parser represents exactly. Generators write it, or more,
/// for numbers without a bound.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

struct Bound {
    at: Decimal,
    /// Whether the bound is exclusive.
    open: bool,
}

impl End {
    /// Returns the inclusive bound and the exclusive one.
    fn of(self, rule: &NumberRule) -> [(&Option<Decimal>, bool); 2] {
        match self {
            Self::Low => [(&rule.least, false), (&rule.above, true)],
            Self::High => [(&rule.greatest, false), (&rule.below, true)],
        }
    }

    /// Compares the number of values that two bounds allow.
    fn compare(self, one: &Bound, other: &Bound) -> Ordering {
        let at = match self {
            Self::Low => other.at.cmp(&one.at),
            Self::High => one.at.cmp(&other.at),
        };
        at.then(other.open.cmp(&one.open))
    }

    fn is_none(self, at: &Decimal) -> bool {
        match self {
            Self::Low => far(at) <= -SAFE,
            Self::High => far(at) >= SAFE,
        }
    }

    fn bounds(self, rule: &NumberRule, integer: bool) -> impl Iterator<Item = Bound> {
        self.of(rule).into_iter().filter_map(move |(at, open)| {
            let at = at.clone().filter(|at| !self.is_none(at))?;
            let bound = Bound { at, open };
            Some(if integer { self.whole(bound) } else { bound })
        })
    }

    /// Returns the integer next to an exclusive bound.
    fn whole(self, bound: Bound) -> Bound {
        let at = bound.at.integer().filter(|_| bound.open).and_then(|at| at.parse::<i64>().ok());
        let next = match self {
            Self::Low => at.and_then(|at| at.checked_add(1)),
            Self::High => at.and_then(|at| at.checked_sub(1)),
        };
        match next.and_then(|next| Decimal::parse(&next.to_string())) {
            Some(at) => Bound { at, open: false },
            None => bound,
        }
    }

    /// Returns the bound that the name of a type implies.
    fn of_width(self, rule: &NumberRule) -> Option<Bound> {
        let (low, high) = rule.range.clone()?;
        let at = if self == Self::Low { low } else { high };
        (far(&at).abs() < SAFE).then_some(Bound { at, open: false })
    }
}

impl<'a> Comparing<'a> {
    pub(super) fn numbers(
        &mut self,
        ours: &NumberRule,
        theirs: &NumberRule,
        integer: bool,
    ) -> bool {
        let mut fits = self.steps(ours, theirs, integer);
        for end in [End::Low, End::High] {
            let comes = end.bounds(ours, integer).chain(end.of_width(ours));
            let comes = comes.min_by(|one, other| end.compare(one, other));
            let takes = end.bounds(theirs, integer).chain(end.of_width(theirs));
            let Some(takes) = takes.min_by(|one, other| end.compare(one, other)) else {
                continue;
            };
            let inside = comes.as_ref().is_some_and(|own| end.compare(own, &takes).is_le());
            if !inside {
                fits &= self.differ(|_| (reach(end, comes.as_ref()), limit(end, &takes)));
            }
        }
        fits
    }

    fn steps(&mut self, ours: &NumberRule, theirs: &NumberRule, integer: bool) -> bool {
        let Some(step) = &theirs.step else {
            return true;
        };
        let own = ours.step.clone().or_else(|| Decimal::parse("1").filter(|_| integer));
        own.is_some_and(|own| own.is_multiple_of(step))
            || self.differ(|_| {
                (format!("need not be a multiple of {step}"), format!("takes multiples of {step}"))
            })
    }
}

/// Returns the approximate size of a bound.
fn far(at: &Decimal) -> f64 {
    at.to_string().parse().unwrap_or_default()
}

fn reach(end: End, bound: Option<&Bound>) -> String {
    match (end, bound) {
        (End::Low, Some(bound)) => format!("may be as low as {}", bound.at),
        (End::High, Some(bound)) => format!("may be as high as {}", bound.at),
        (End::Low, None) => "has no lower bound".to_owned(),
        (End::High, None) => "has no upper bound".to_owned(),
    }
}

fn limit(end: End, bound: &Bound) -> String {
    let words = match (end, bound.open) {
        (End::Low, false) => "at least",
        (End::Low, true) => "more than",
        (End::High, false) => "at most",
        (End::High, true) => "less than",
    };
    format!("takes {words} {}", bound.at)
}
