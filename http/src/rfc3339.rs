//! The moment of a timestamp in RFC 3339, such as `2026-01-31T12:00:00.5+01:00`.
//!
//! Anthropic's headers have this form. A calendar crate would be this crate's largest
//! dependency, and one header needs it.

use std::time::{Duration, SystemTime};

/// Parses a timestamp of RFC 3339 (section 5.6). Returns `None` for other text and for years
/// before 1970.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let (whole, rest) = text.split_at_checked(19)?;
    let [date, time] = [whole.get(..10)?, whole.get(11..)?];
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    // The standard allows a space and small letters, and a leap second.
    let is_valid = whole[10..].starts_with(['T', 't', ' '])
        && (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let (fraction, offset) = fraction(rest)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = u64::try_from(seconds - offset_seconds(offset)?).ok()?;
    let since = Duration::from_secs(seconds).checked_add(fraction)?;
    SystemTime::UNIX_EPOCH.checked_add(since).filter(|_| is_valid)
}

/// Three numbers of digits only: the first of two or four, the others of two.
fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator).map(number);
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn number(digits: &str) -> Option<i64> {
    let is_number = matches!(digits.len(), 2 | 4) && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Splits the text after the seconds into a fraction and the offset.
fn fraction(rest: &str) -> Option<(Duration, &str)> {
    let Some(digits) = rest.strip_prefix('.') else { return Some((Duration::ZERO, rest)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let fraction = Duration::try_from_secs_f64(rest[..=end].parse().ok()?).ok()?;
    Some((fraction, &digits[end..]))
}

/// The seconds by which local time is ahead of UTC: `Z`, `+01:00` or `-01:00`.
fn offset_seconds(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    days(year + month / 12, month % 12 + 1, 1) - days(year, month, 1)
}

/// The days from 1970-01-01 to a date of the Gregorian calendar.
///
/// The year begins in March, so that the leap day is its last: "days_from_civil" in Howard
/// Hinnant's "chrono-Compatible Low-Level Date Algorithms".
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_parsed_with_fraction_and_offset() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2001-09-09T01:46:40Z", 1_000_000_000.0),
            ("2024-02-29T23:59:60z", 1_709_251_200.0),
            ("2026-01-01 00:00:00.25+00:00", 1_767_225_600.25),
            ("2026-01-01t01:30:00+01:30", 1_767_225_600.0),
            ("2025-12-31T23:00:00-01:00", 1_767_225_600.0),
            ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ] {
            let moment = parse(text).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(moment.as_secs_f64(), seconds, "{text}");
        }
    }

    #[test]
    fn every_day_agrees_with_httpdate() {
        for day in (0..400 * 366).step_by(3) {
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400);
            let header = httpdate::fmt_http_date(moment);
            let (day, rest) = header[5..].split_once(' ').unwrap();
            let (month, year) = rest.split_at(3);
            let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
            let month = months.find(month).unwrap() / 3 + 1;
            let text = format!("{}-{month:02}-{day}T00:00:00Z", year[1..5].trim());
            assert_eq!(parse(&text), Some(moment), "{header}");
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00 Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00ä01:00",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01X00:00:00Z",
            "+026-01-01T00:00:00Z",
            "20-2026-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "äääääääääääääääääääääääää",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
