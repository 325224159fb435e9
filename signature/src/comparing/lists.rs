//! Comparing lists: each position, and then all further items.
//!
//! ```text
//! sent:     [integer, string, …]     accepted: [number], at most 1 item
//! → $[0] fits; $: may have any number of items, takes at most 1
//! ```
//!
//! A position without a schema of its own has that of the further items ([`ListRule::item`]).

use super::Comparing;
use crate::schema::graph::{ANY_ID, Id, ListRule};
use crate::schema::types::Types;

/// Returns the maximum number of items.
fn most(rule: &ListRule) -> usize {
    if rule.closed { rule.longest.min(rule.prefix.len()) } else { rule.longest }
}

impl<'a> Comparing<'a> {
    /// Whether the receiver accepts all lists that are sent: their lengths, whether items may
    /// repeat, and the items.
    pub(super) fn lists(&mut self, comes: &'a ListRule, takes: &'a ListRule) -> bool {
        let most = most(comes);
        let (own, limits) = ((comes.shortest, most), (takes.shortest, takes.longest));
        let mut fits = self.counts(own, limits, "items");
        if takes.unique && !comes.unique && most > 1 {
            fits &= self.differ(|_| ("may have an item twice", "takes each item once"));
        }
        let places = comes.prefix.len().max(takes.prefix.len());
        for place in 0..places.min(most) {
            if !fits && self.trying {
                return false;
            }
            fits &= self.below(&format!("[{place}]"), |all| all.item(place, comes, takes));
        }
        if most > places {
            fits &= self.below("[]", |all| all.item(places, comes, takes));
        }
        fits
    }

    /// Compares the items at one position. If the sender has none there, everything fits.
    fn item(&mut self, place: usize, comes: &'a ListRule, takes: &'a ListRule) -> bool {
        let at = |rule: &ListRule| -> Option<Id> { Some(rule.item(place)?.unwrap_or(ANY_ID)) };
        match (at(comes), at(takes)) {
            (None, _) => true,
            (Some(comes), Some(takes)) => self.fit(comes, Types::ALL, takes),
            (Some(_), None) => self.differ(|_| ("may have such an item", "takes no item here")),
        }
    }
}
