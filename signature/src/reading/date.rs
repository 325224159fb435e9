//! Formats of texts that are checked: those that leave no doubt.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A `format` that a text has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Uuid,
    Ipv4,
    Ipv6,
}

impl Format {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "date-time" => Self::DateTime,
            "date" => Self::Date,
            "uuid" => Self::Uuid,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            _ => return None,
        })
    }

    /// What a text of this format is, for people and models.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::DateTime => "a date-time with zone like 2026-11-21T20:00:00Z",
            Self::Date => "a date like 2026-11-21",
            Self::Uuid => "a UUID",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
        }
    }

    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Uuid => is_uuid(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
        }
    }

    /// The text in its usual form, if what it says is beyond doubt.
    pub(super) fn normal(self, text: &str) -> Option<Cow<'_, str>> {
        let text = text.trim();
        match self {
            Self::DateTime => date_time(text),
            _ => self.fits(text).then_some(Cow::Borrowed(text)),
        }
    }
}

fn number(text: &str, digits: usize, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let numeric = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| numeric && range.contains(n))
}

/// `2026-11-21`, a day that exists.
fn is_date(text: &str) -> bool {
    let Some((year, month, day)) = text
        .split_once('-')
        .and_then(|(year, rest)| Some((year, rest.split_once('-')?)))
        .map(|(year, (month, day))| (year, month, day))
    else {
        return false;
    };
    let (Some(year), Some(month)) = (number(year, 4, 0..=9999), number(month, 2, 1..=12)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    number(day, 2, 1..=days).is_some()
}

/// RFC 3339 as everyone writes it.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else {
        return false;
    };
    let zone = rest.find(['Z', '+', '-']).and_then(|at| rest.split_at_checked(at));
    zone.is_some_and(|(time, zone)| is_date(date) && is_time(time) && is_zone(zone))
}

/// RFC 3339: a date, a time, a zone. In lower case, with a space, without seconds and
/// without the colon in the zone it means the same, and is given back as everyone reads
/// it. A leap second is refused: hardly a type holds it, and another second would be
/// another time.
fn date_time(text: &str) -> Option<Cow<'_, str>> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut marks = rest.chars();
    marks.next().filter(|c| matches!(c, 'T' | 't' | ' '))?;
    let rest = marks.as_str();
    let (time, zone) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at_checked(at)?,
        None => return None,
    };
    let seconds = if time.len() == 5 { ":00" } else { "" };
    let (sign, offset) = zone.split_at_checked(1)?;
    let (hours, minutes) = match offset.split_at_checked(2) {
        Some((hours, minutes)) => (hours, minutes.strip_prefix(':').unwrap_or(minutes)),
        None => (offset, ""),
    };
    let colon = if offset.is_empty() { "" } else { ":" };
    let zone = format!("{}{hours}{colon}{minutes}", sign.to_ascii_uppercase());
    if !is_date(date) || !is_time(&format!("{time}{seconds}")) || !is_zone(&zone) {
        return None;
    }
    let normal = format!("{date}T{time}{seconds}{zone}");
    Some(if normal == text { Cow::Borrowed(text) } else { Cow::Owned(normal) })
}

/// `20:00:00` or `20:00:00.123`, as fine as nanoseconds.
fn is_time(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut next =
        |greatest| parts.next().is_some_and(|part| number(part, 2, 0..=greatest).is_some());
    let fine = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    next(23) && next(59) && next(59) && parts.next().is_none() && fine
}

/// `Z` or `+01:00`.
fn is_zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    if !text.starts_with(['+', '-']) {
        return false;
    }
    let offset = text.get(1..).and_then(|offset| offset.split_once(':'));
    offset.is_some_and(|(hours, minutes)| {
        number(hours, 2, 0..=23).is_some() && number(minutes, 2, 0..=59).is_some()
    })
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, '-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn a_date_time_says_which_instant() {
        let normal = |text| Format::DateTime.normal(text).map(|text| text.into_owned());
        for text in ["2026-11-21T20:00:00Z", "2024-02-29T23:59:59.123456789+14:00"] {
            assert!(Format::DateTime.fits(text), "{text}");
        }
        for text in ["2026-11-21t20:00:00z", "2026-11-21 20:00Z", " 2026-11-21T20:00:00Z\n"] {
            assert!(!Format::DateTime.fits(text), "{text}");
            assert_eq!(normal(text).as_deref(), Some("2026-11-21T20:00:00Z"), "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "2026-11-21",
            "2026-11-21T20:00:00",
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-12-31T23:59:60Z",
            "2026-11-21T20:00:00Zz",
            "2026-11-21T20:00:00+25:00",
            "2026-11-21T20:00:00.Z",
            "20261121T200000Z",
            "2026-13-01T00:00:00Z",
            "ä026-11-21T20:00:00Z",
            "11/21/2026",
            "2026-11-21T20:00:00[Europe/Paris]",
            "2026-11-21T20:00:00Z[UTC]",
        ] {
            assert_eq!(normal(text), None, "{text}");
        }
    }
}
