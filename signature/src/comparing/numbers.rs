//! Comparing numbers: the accepted bounds must follow from the sent ones.
//!
//! ```text
//! sent: exclusiveMinimum 0 (integer)    accepted: minimum 1    → fits: the next integer is 1
//! sent: minimum 0                       accepted: minimum 1    → may be as low as 0
//! ```
//!
//! Each end of the range is compared by itself ([`End`]), with the strictest of its bounds:
//! inclusive, exclusive, or implied by the width of a Rust type. Bounds are exact decimals, because
//! `f64` does not distinguish large integers.

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
    /// The minimum.
    Low,
    /// The maximum.
    High,
}

/// A bound at one end of a range.
struct Bound {
    /// The number itself.
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

    /// Whether a bound is so far away that it has no effect.
    fn is_none(self, at: &Decimal) -> bool {
        match self {
            Self::Low => at.approximate() <= -SAFE,
            Self::High => at.approximate() >= SAFE,
        }
    }

    /// Returns the strictest bound of this end that has an effect. That of integers is inclusive.
    fn strictest(self, rule: &NumberRule, integer: bool) -> Option<Bound> {
        let bounds = self.of(rule).into_iter().filter_map(|(at, open)| {
            let bound = Bound { at: at.clone().filter(|at| !self.is_none(at))?, open };
            Some(if integer { self.whole(bound) } else { bound })
        });
        bounds.chain(self.of_width(rule)).min_by(|one, other| self.compare(one, other))
    }

    /// Returns the integer next to an exclusive bound.
    ///
    /// ```text
    /// integers above 0 → integers from 1        integers below 10 → integers up to 9
    /// ```
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
    ///
    /// ```text
    /// u8 → 0 and 255        u64 → 0, and no upper bound: it is beyond 2⁵³
    /// ```
    fn of_width(self, rule: &NumberRule) -> Option<Bound> {
        let (low, high) = rule.range.clone()?;
        let at = if self == Self::Low { low } else { high };
        (at.approximate().abs() < SAFE).then_some(Bound { at, open: false })
    }
}

impl<'a> Comparing<'a> {
    /// Whether the receiver accepts all numbers that are sent. `integer` means that only integers
    /// are sent.
    pub(super) fn numbers(
        &mut self,
        ours: &NumberRule,
        theirs: &NumberRule,
        integer: bool,
    ) -> bool {
        let mut fits = self.steps(ours, theirs, integer);
        for end in [End::Low, End::High] {
            let [comes, takes] = [ours, theirs].map(|rule| end.strictest(rule, integer));
            let Some(takes) = takes else {
                continue;
            };
            if comes.as_ref().is_none_or(|own| end.compare(own, &takes).is_gt()) {
                fits &= self.differ(|_| (reach(end, comes.as_ref()), limit(end, &takes)));
            }
        }
        fits
    }

    /// Compares `multipleOf`. Integers are multiples of 1, also without that keyword.
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

/// Describes the sent numbers at one end.
fn reach(end: End, bound: Option<&Bound>) -> String {
    match (end, bound) {
        (End::Low, Some(bound)) => format!("may be as low as {}", bound.at),
        (End::High, Some(bound)) => format!("may be as high as {}", bound.at),
        (End::Low, None) => "has no lower bound".to_owned(),
        (End::High, None) => "has no upper bound".to_owned(),
    }
}

/// Describes the accepted numbers at one end.
fn limit(end: End, bound: &Bound) -> String {
    let words = match (end, bound.open) {
        (End::Low, false) => "at least",
        (End::Low, true) => "more than",
        (End::High, false) => "at most",
        (End::High, true) => "less than",
    };
    format!("takes {words} {}", bound.at)
}
