//! Lists: place by place, and then the rest.

use serde_json::Value;

use super::{ANY, Comparing};
use crate::lowering::shape::Schema;
use crate::schema::types::Types;

/// What may stand in a list.
struct Items<'a> {
    first: &'a [Value],
    /// What follows; `false` if nothing may.
    rest: &'a Value,
}

impl<'a> Items<'a> {
    fn of(map: &'a Schema) -> Self {
        let first = map.get("prefixItems").and_then(Value::as_array);
        Self { first: first.map_or(&[], Vec::as_slice), rest: map.get("items").unwrap_or(&ANY) }
    }

    fn at(&self, place: usize) -> &'a Value {
        self.first.get(place).unwrap_or(self.rest)
    }

    /// How many there may be at most.
    fn most(&self, map: &Schema) -> Option<u64> {
        let told = map.get("maxItems").and_then(Value::as_u64);
        let closed = (*self.rest == Value::Bool(false)).then_some(self.first.len() as u64);
        [told, closed].into_iter().flatten().min()
    }
}

impl<'a> Comparing<'a> {
    pub(super) fn lists(&mut self, ours: &'a Schema, theirs: &'a Schema) -> bool {
        let (comes, takes) = (Items::of(ours), Items::of(theirs));
        let most = comes.most(ours);
        let mut fits = self.counts(ours, theirs, ("minItems", "maxItems", "items"), (0, most));
        let unique = |map: &Schema| map.get("uniqueItems") == Some(&Value::Bool(true));
        if unique(theirs) && !unique(ours) && most.is_none_or(|most| most > 1) {
            fits &= self.differ(|_| {
                ("may have an item twice".to_owned(), "takes each item once".to_owned())
            });
        }
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let places = comes.first.len().max(takes.first.len());
        for place in 0..places.min(most) {
            if !fits && self.trying {
                return false;
            }
            fits &=
                self.below(&format!("[{place}]"), |all| all.item(comes.at(place), takes.at(place)));
        }
        if most > places {
            fits &= self.below("[]", |all| all.item(comes.rest, takes.rest));
        }
        fits
    }

    fn item(&mut self, comes: &'a Value, takes: &'a Value) -> bool {
        if *takes == Value::Bool(false) && *comes != Value::Bool(false) {
            return self
                .differ(|_| ("may have such an item".to_owned(), "takes no item here".to_owned()));
        }
        self.fit(comes, Types::ALL, takes)
    }
}
