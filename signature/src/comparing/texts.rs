//! Texts, and how long or how many anything may be.

use serde_json::Value;

use super::Comparing;
use crate::error::{Side, shown};
use crate::lowering::shape::Schema;
use crate::reading::date::Format;

/// The keywords of a least and a most, and what they count.
pub(super) type Counted = (&'static str, &'static str, &'static str);

impl<'a> Comparing<'a> {
    pub(super) fn texts(&mut self, ours: &'a Schema, theirs: &'a Schema) -> bool {
        let counted = ("minLength", "maxLength", "characters");
        let mut fits = self.counts(ours, theirs, counted, (0, None));
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
        let format = self.format(theirs).filter(|format| self.format(ours) != Some(*format));
        if let Some(format) = format {
            fits &= self.differ(|all| {
                let own = all.format(ours).map_or("any string", Format::words);
                (format!("may be {own}"), format!("takes only {}", format.words()))
            });
        }
        fits
    }

    /// The format that a text has to have. To those who take an input it may be a hint; what
    /// we read is held to it.
    pub(super) fn format(&self, map: &Schema) -> Option<Format> {
        said(map, "format").filter(|_| self.side == Side::Output).and_then(Format::named)
    }

    /// Where nothing is written, what comes has at least and at most as much as is `known`
    /// of it.
    pub(super) fn counts(
        &mut self,
        ours: &'a Schema,
        theirs: &'a Schema,
        (least, most, what): Counted,
        known: (u64, Option<u64>),
    ) -> bool {
        let count = |map: &Schema, keyword: &str| map.get(keyword).and_then(Value::as_u64);
        let fewest = count(ours, least).unwrap_or(0).max(known.0);
        let greatest = [count(ours, most), known.1].into_iter().flatten().min();
        let mut fits = true;
        if let Some(least) = count(theirs, least).filter(|least| fewest < *least) {
            fits &= self.differ(|_| {
                (format!("may have {fewest} {what}"), format!("takes at least {least}"))
            });
        }
        let beyond = |most: &u64| greatest.is_none_or(|greatest| greatest > *most);
        if let Some(most) = count(theirs, most).filter(beyond) {
            fits &= self.differ(|_| {
                let own = greatest.map_or_else(|| "any number of".to_owned(), |n| n.to_string());
                (format!("may have {own} {what}"), format!("takes at most {most}"))
            });
        }
        fits
    }
}

/// The text under a keyword.
fn said<'a>(map: &'a Schema, keyword: &str) -> Option<&'a str> {
    map.get(keyword).and_then(Value::as_str)
}

/// Whether all that comes matches a pattern, because a pattern of its own says so.
fn follows(map: &Schema, pattern: &str) -> bool {
    let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let parts = parts.filter_map(Value::as_object);
    let mut own = parts.chain([map]).filter_map(|part| said(part, "pattern"));
    own.any(|own| own == pattern || may_go_on(own, pattern) == Some(true))
}

/// Whether the second pattern is the first with something at its end that may be left out:
/// schemars reads decimals with an exponent, and writes them without.
fn may_go_on(pattern: &str, longer: &str) -> Option<bool> {
    let whole = pattern.strip_suffix('$')?;
    let more = longer.strip_prefix(whole)?.strip_prefix('(')?.strip_suffix(")?$")?;
    let plain = !more.starts_with('?') && !more.contains(['(', ')']);
    Some(whole.starts_with('^') && !whole.ends_with('\\') && !whole.contains('|') && plain)
}
