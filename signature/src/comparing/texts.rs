//! Comparing texts, and the counts of characters, items and fields.
//!
//! ```text
//! sent: pattern "^[0-9]+$"     accepted: pattern "^[0-9]+$", maxLength 4
//! → may have any number of characters, takes at most 4
//! ```
//!
//! Patterns are compared as texts: whether one regular expression implies another is not computed.
//! Two equal patterns fit, and so does a pattern that continues the sent one with an optional end.

use serde_json::Value;

use super::Comparing;
use crate::error::shown;
use crate::reading::date::Format;

use crate::schema::graph::Id;
use crate::schema::keywords::{Keywords, items, text};

impl<'a> Comparing<'a> {
    /// Whether the receiver accepts all texts that are sent: their lengths, their pattern and their
    /// format.
    pub(super) fn texts(&mut self, comes: Id, takes: Id) -> bool {
        let (ours, theirs) = (self.comes.words(comes), self.takes.words(takes));
        let [own, limits] = [(self.comes, comes), (self.takes, takes)]
            .map(|(schemas, id)| &schemas.graph.node(id).text);
        let lengths = ((own.shortest, own.longest), (limits.shortest, limits.longest));
        let mut fits = self.counts(lengths.0, lengths.1, "characters");
        let pattern = text(theirs, "pattern");
        if let Some(pattern) = pattern.filter(|pattern| !follows(ours, pattern)) {
            fits &= self.differ(|_| {
                let takes = format!("takes only texts that match {}", shown(pattern));
                match text(ours, "pattern") {
                    Some(own) => (format!("matches {}", shown(own)), takes),
                    None => ("may be any string".to_owned(), takes),
                }
            });
        }
        if let Some(format) = limits.format.filter(|_| limits.format != own.format) {
            fits &= self.differ(|_| {
                let own = own.format.map_or("any string", Format::words);
                (format!("may be {own}"), format!("takes only {}", format.words()))
            });
        }
        fits
    }

    /// Compares minimum and maximum counts.
    ///
    /// `what` names the counted parts in the message: characters, items or fields.
    pub(super) fn counts(
        &mut self,
        (fewest, greatest): (usize, usize),
        (least, most): (usize, usize),
        what: &str,
    ) -> bool {
        let mut fits = true;
        if fewest < least {
            fits &= self.differ(|_| {
                (format!("may have {fewest} {what}"), format!("takes at least {least}"))
            });
        }
        if greatest > most {
            fits &= self.differ(|_| {
                let unbounded = greatest == usize::MAX;
                let own = if unbounded { "any number of".into() } else { greatest.to_string() };
                (format!("may have {own} {what}"), format!("takes at most {most}"))
            });
        }
        fits
    }
}

/// Whether all sent texts match a pattern, because the sent pattern implies it.
///
/// The sent schema may have several patterns, the others in `allOf`.
fn follows(map: &Keywords, pattern: &str) -> bool {
    let parts = items(map, "allOf").filter_map(Value::as_object);
    let mut own = parts.chain([map]).filter_map(|part| text(part, "pattern"));
    own.any(|own| own == pattern || may_go_on(own, pattern) == Some(true))
}

/// Whether the second pattern is the first with an optional end: schemars accepts decimals with an
/// exponent, and writes them without.
///
/// ```text
/// ^[0-9]+$ and ^[0-9]+(e[0-9]+)?$ → true
/// ```
fn may_go_on(pattern: &str, longer: &str) -> Option<bool> {
    let whole = pattern.strip_suffix('$')?;
    let more = longer.strip_prefix(whole)?.strip_prefix('(')?.strip_suffix(")?$")?;
    let plain = !more.starts_with('?') && !more.contains(['(', ')']);
    Some(whole.starts_with('^') && !whole.ends_with('\\') && !whole.contains('|') && plain)
}
