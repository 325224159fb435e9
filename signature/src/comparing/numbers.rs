//! Numbers: the bounds of what takes them follow from those of what comes.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Comparing;
use crate::error::Side;
use crate::lowering::shape::Schema;
use crate::reading::compile::range;
use crate::reading::number::Decimal;

/// The largest integer that every reader of JSON keeps. Generators write it, or more, where
/// nobody asked for a bound.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

struct Bound {
    at: Decimal,
    /// Whether it lies outside itself.
    open: bool,
}

impl End {
    /// The keyword of a bound that is inside, and of one that is outside.
    fn keywords(self) -> [(&'static str, bool); 2] {
        match self {
            Self::Low => [("minimum", false), ("exclusiveMinimum", true)],
            Self::High => [("maximum", false), ("exclusiveMaximum", true)],
        }
    }

    /// How much one bound lets in, compared with another.
    fn compare(self, one: &Bound, other: &Bound) -> Ordering {
        let at = match self {
            Self::Low => other.at.cmp(&one.at),
            Self::High => one.at.cmp(&other.at),
        };
        at.then(other.open.cmp(&one.open))
    }

    fn is_none(self, at: &Value) -> bool {
        let at = at.as_f64().unwrap_or_default();
        match self {
            Self::Low => at <= -SAFE,
            Self::High => at >= SAFE,
        }
    }

    fn bounds(self, map: &Schema, integer: bool) -> impl Iterator<Item = Bound> {
        self.keywords().into_iter().filter_map(move |(keyword, open)| {
            let at = map.get(keyword).filter(|at| !self.is_none(at))?;
            let bound = Bound { at: Decimal::parse(&at.to_string())?, open };
            Some(if integer { self.whole(bound) } else { bound })
        })
    }

    /// The integer next to a bound that is outside.
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

    /// The bound that the name of a type implies.
    fn of_width(self, map: &Schema) -> Option<Bound> {
        let (low, high) = range(map.get("format")?.as_str()?)?;
        let at = if self == Self::Low { low } else { high };
        let far = at.to_string().parse::<f64>().is_ok_and(|at| at.abs() >= SAFE);
        (!far).then_some(Bound { at, open: false })
    }
}

impl<'a> Comparing<'a> {
    pub(super) fn numbers(&mut self, ours: &'a Schema, theirs: &'a Schema, integer: bool) -> bool {
        let mut fits = self.steps(ours, theirs, integer);
        for end in [End::Low, End::High] {
            let comes = end.bounds(ours, integer).chain(end.of_width(ours));
            let comes = comes.min_by(|one, other| end.compare(one, other));
            // What we read is held to the width, which is a hint to others.
            let width = end.of_width(theirs).filter(|_| self.side == Side::Output);
            let takes = end.bounds(theirs, integer).chain(width);
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

    fn steps(&mut self, ours: &'a Schema, theirs: &'a Schema, integer: bool) -> bool {
        let decimal = |map: &Schema| Decimal::parse(&map.get("multipleOf")?.to_string());
        let Some(step) = decimal(theirs) else {
            return true;
        };
        let own = decimal(ours).or_else(|| Decimal::parse("1").filter(|_| integer));
        own.is_some_and(|own| own.is_multiple_of(&step))
            || self.differ(|_| {
                (format!("need not be a multiple of {step}"), format!("takes multiples of {step}"))
            })
    }
}

/// Whether a number is inside all bounds.
pub(super) fn takes(map: &Schema, number: &Number) -> bool {
    let Some(at) = Decimal::parse(&number.to_string()) else {
        return true;
    };
    let step = map.get("multipleOf").and_then(|step| Decimal::parse(&step.to_string()));
    let this = Bound { at, open: false };
    let inside = |end: End| end.bounds(map, false).all(|bound| end.compare(&this, &bound).is_le());
    inside(End::Low) && inside(End::High) && step.is_none_or(|step| this.at.is_multiple_of(&step))
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
