//! The period of a budget: a calendar day or month, in UTC.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

const DAY: u64 = 24 * 60 * 60;

/// The period of a [`SharedBudget`](crate::budget::SharedBudget). All periods are those of the
/// calendar in UTC, so that every process and every reader of a bill means the same one.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use toolwright_module::budget::Period;
///
/// let hour = Duration::from_secs(60 * 60);
/// let day = Period::Day.around(SystemTime::UNIX_EPOCH + 30 * hour);
/// assert_eq!(day.start, SystemTime::UNIX_EPOCH + 24 * hour);
/// assert_eq!(day.end, SystemTime::UNIX_EPOCH + 48 * hour);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From the first day of a month to the first day of the next.
    Month,
}

impl Period {
    /// Returns the period that contains a time. A time before 1970 counts as the start of 1970.
    #[must_use]
    pub fn around(self, time: SystemTime) -> Range<SystemTime> {
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let today = seconds / DAY;
        let (start, end) = match self {
            Self::Day => (today, today + 1),
            Self::Month => {
                let (year, month, day) = date(today);
                let start = today - (day - 1);
                (start, start + days_of(year, month))
            }
        };
        let at = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(day * DAY);
        at(start)..at(end)
    }

    /// Returns the name, `day` or `month`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn days_of(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the year, month and day of a day since 1970.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is the last day of its year. 719,468 days are
    // between the first of March of the year 0 and 1970, and 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    (era * 400 + year, month, day)
}

/// Returns a time as in `2026-11-28 17:05 UTC`.
pub(crate) fn in_utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / DAY);
    let minutes = seconds % DAY / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_600_years_follows_the_one_before() {
        let (mut expected, mut months) = ((1970, 1, 1), 0);
        for day in 0..220_000 {
            assert_eq!(date(day), expected);
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(day * DAY + 3_723);
            let (year, month, of_month) = expected;
            assert_eq!(in_utc(time), format!("{year}-{month:02}-{of_month:02} 01:02 UTC"));
            let period = Period::Month.around(time);
            assert_eq!(in_utc(period.start), format!("{year}-{month:02}-01 00:00 UTC"));
            if of_month == days_of(year, month) {
                months += 1;
                expected = if month == 12 { (year + 1, 1, 1) } else { (year, month + 1, 1) };
                let (year, month, _) = expected;
                assert_eq!(in_utc(period.end), format!("{year}-{month:02}-01 00:00 UTC"));
            } else {
                expected.2 += 1;
            }
        }
        assert_eq!(
            in_utc(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400)),
            "2000-02-29 00:00 UTC"
        );
        assert!(months > 7_200);
    }
}
