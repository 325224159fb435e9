//! The formats of texts that are checked: those with an unambiguous definition.
//!
//! In: a text. Out: whether it has the format, or its canonical form if only the notation differs.
//! Nothing is converted to a time, so digits and zones stay as they are:
//!
//! ```text
//! 2026-12-01T10:00:00Z       fits
//! 2026-12-01 10:00z          means the same: 2026-12-01T10:00:00Z
//! 2026-02-30T00:00:00Z       there is no such day
//! 2026-12-31T23:59:60Z       rejected: few types can represent a leap second
//! ```
//!
//! Begin with [`Format::fits`] and [`Format::normal`]. The parsers are written by hand because
//! `fits` is on a hot path, and because a library for times would accept more than RFC 3339.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A `format` of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    DateTime,
    Date,
    Uuid,
    Ipv4,
    Ipv6,
    Ip,
    Uri,
}

impl Format {
    /// Returns the format with a name of JSON Schema; `None` for one that is not checked.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "date-time" => Self::DateTime,
            "date" => Self::Date,
            "uuid" => Self::Uuid,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "ip" => Self::Ip,
            "uri" => Self::Uri,
            _ => return None,
        })
    }

    /// Returns a description of the format, for users and models.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::DateTime => "a date-time with zone like 2026-11-21T20:00:00Z",
            Self::Date => "a date like 2026-11-21",
            Self::Uuid => "a UUID",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Ip => "an IP address",
            Self::Uri => "a URI with a scheme like https://example.com",
        }
    }

    /// Whether a text has exactly this format.
    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Uuid => is_uuid(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Ip => text.parse::<IpAddr>().is_ok(),
            Self::Uri => is_uri(text),
        }
    }

    /// Returns the fault of a text that only looks like the format.
    ///
    /// `2026-02-30` looks like a date, so "expected a date" would not help.
    pub(super) fn why_not(self, text: &str) -> Option<&'static str> {
        let day = text.trim().get(..10)?;
        let shaped = day.char_indices().all(|(at, c)| match at {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        });
        let dated = matches!(self, Self::Date | Self::DateTime);
        (dated && shaped && !is_date(day)).then_some("there is no such day")
    }

    /// Returns the text in its canonical form, if its meaning is certain.
    ///
    /// For most formats that is the text without white space around it.
    pub(super) fn normal(self, text: &str) -> Option<Cow<'_, str>> {
        let text = text.trim();
        match self {
            Self::DateTime => date_time(text).map(Cow::Owned),
            _ => self.fits(text).then_some(Cow::Borrowed(text)),
        }
    }
}

/// Parses a number of digits only.
fn number(text: &[u8]) -> Option<u32> {
    let numeric = text.iter().all(u8::is_ascii_digit);
    numeric.then(|| text.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// Whether a text is an existing day, such as `2026-11-21`.
fn is_date(text: &str) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text.as_bytes() else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) =
        (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2]))
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Divides a text into its date, the character after it, its time and its zone.
fn parts(text: &str) -> Option<(&str, char, &str, &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let mark = rest.chars().next()?;
    let rest = rest.get(mark.len_utf8()..)?;
    let zone = rest.bytes().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'))?;
    let (time, zone) = rest.split_at_checked(zone)?;
    Some((date, mark, time, zone))
}

/// Whether a text is a date with a time in the usual form of RFC 3339.
fn is_date_time(text: &str) -> bool {
    parts(text).is_some_and(|(date, mark, time, zone)| {
        mark == 'T' && is_date(date) && is_time(time) && is_zone(zone)
    })
}

/// Returns a date, a time and a zone in the canonical form of RFC 3339. Lower case, a space, no
/// seconds, or no colon in the zone do not change the meaning. A leap second is rejected: few
/// types can represent it, and another second would be another time.
fn date_time(text: &str) -> Option<String> {
    let (date, _, time, zone) =
        parts(text).filter(|(_, mark, ..)| matches!(mark, 'T' | 't' | ' '))?;
    let seconds = if time.len() == 5 { ":00" } else { "" };
    let (sign, offset) = zone.split_at_checked(1)?;
    let (hours, minutes) = match offset.split_at_checked(2) {
        Some((hours, minutes)) => (hours, minutes.strip_prefix(':').unwrap_or(minutes)),
        None => (offset, ""),
    };
    let colon = if offset.is_empty() { "" } else { ":" };
    let zone = format!("{}{hours}{colon}{minutes}", sign.to_ascii_uppercase());
    let fits = is_date(date) && is_time(&format!("{time}{seconds}")) && is_zone(&zone);
    fits.then(|| format!("{date}T{time}{seconds}{zone}"))
}

/// Whether a text is a time: `20:00:00` or `20:00:00.123`, with at most nanoseconds.
fn is_time(text: &str) -> bool {
    let Some(([h1, h2, b':', m1, m2, b':', s1, s2], fraction)) =
        text.as_bytes().split_first_chunk()
    else {
        return false;
    };
    let within = |digits: [u8; 2], most| number(&digits).is_some_and(|number| number <= most);
    let fine = match fraction {
        [] => true,
        [b'.', digits @ ..] => {
            (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    within([*h1, *h2], 23) && within([*m1, *m2], 59) && within([*s1, *s2], 59) && fine
}

/// Whether a text is a zone: `Z` or `+01:00`.
fn is_zone(text: &str) -> bool {
    match *text.as_bytes() {
        [b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            number(&[h1, h2]).is_some_and(|hours| hours <= 23)
                && number(&[m1, m2]).is_some_and(|minutes| minutes <= 59)
        }
        _ => false,
    }
}

/// Whether a text is a UUID in groups of hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, '-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether a text has the scheme of a URI, and text after it.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(known)
        && !rest.is_empty()
        && !rest.contains(char::is_whitespace)
}
