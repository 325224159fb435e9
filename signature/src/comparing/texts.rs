//! Comparing texts, and the counts of characters, items and fields.

use serde_json::Value;

use super::Comparing;
use crate::error::shown;
use crate::lowering::Schema;
use crate::reading::date::Format;
use crate::schema::graph::Id;

impl<'a> Comparing<'a> {
    pub(super) fn texts(&mut self, comes: Id, takes: Id) -> bool {
        let (ours, theirs) = (self.comes.words(comes), self.takes.words(takes));
        let [own, limits] = [(self.comes, comes), (self.takes, takes)]
            .map(|(schemas, id)| &schemas.graph.node(id).text);
        let lengths = ((own.shortest, own.longest), (limits.shortest, limits.longest));
        let mut fits = self.counts(lengths.0, lengths.1, "characters");
        let pattern = said(theirs, "pattern");
        if let Some(pattern) = pattern.filter(|pattern| !follows(ours, pattern)) {
            fits &= self.differ(|_| {
                let takes = format!("takes only what matches {}", shown(pattern));
                match said(ours, "pattern") {
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

/// Returns the text of a keyword.
fn said<'a>(map: &'a Schema, keyword: &str) -> Option<&'a str> {
    map.get(keyword).and_then(Value::as_str)
}

/// Whether all sent texts match a pattern, because the sent pattern implies it.
fn follows(map: &Schema, pattern: &str) -> bool {
    let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let parts = parts.filter_map(Value::as_object);
    let mut own = parts.chain([map]).filter_map(|part| said(part, "pattern"));
    own.any(|own| own == pattern || may_go_on(own, pattern) == Some(true))
}

/// Whether the second pattern is the first with an optional end: schemars accepts decimals with an
/// exponent, and writes them without.
fn may_go_on(pattern: &str, longer: &str) -> Option<bool> {
    let whole = pattern.strip_suffix('$')?;
    let more = longer.strip_prefix(whole)?.strip_prefix('(')?.strip_suffix(")?$")?;
    let plain = !more.starts_with('?') && !more.contains(['(', ')']);
    Some(whole.starts_with('^') && !whole.ends_with('\\') && !whole.contains('|') && plain)
}
