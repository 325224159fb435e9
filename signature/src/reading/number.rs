//! Numbers in their decimal notation, compared without rounding.
//!
//! In: the text of a JSON number. Out: a [`Decimal`], equal for equal numbers:
//!
//! ```text
//! 1.50, 15e-1   →   digits "15", point 1     (0.15 · 10¹)
//! 1000, 1e3     →   digits "1",  point 4     integer: "1000"
//! ```
//!
//! Reading, bounds in schemas and comparing use it where a float would lose digits. Begin with
//! [`Decimal::parse`].

use std::cmp::Ordering;
use std::fmt;

/// A decimal number: its digits, and the number of digits before the point.
///
/// JSON allows numbers that no Rust type can represent; a `u128` and a bound of `0.1` are
/// compared exactly here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Without zeros at both ends; empty for zero.
    digits: String,
    /// The exponent: the number is `0.digits` times ten to this power.
    point: i64,
}

impl Decimal {
    /// Parses a JSON number; `None` if the text is not a number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('-').unwrap_or(text);
        let negative = rest.len() < text.len();
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, power(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let numeric = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || leading_zero || !numeric(whole) || !numeric(fraction) {
            return None;
        }
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let zeros = (all.len() - significant.len()) as i64;
        let digits = significant.trim_end_matches('0').to_owned();
        let point = if digits.is_empty() {
            0
        } else {
            (whole.len() as i64).checked_sub(zeros)?.checked_add(exponent)?
        };
        Some(Self { negative: negative && !digits.is_empty(), digits, point })
    }

    /// Returns the digits of an integer of a common size.
    ///
    /// ```text
    /// 5.0 → 5      1e3 → 1000      5.5, 1e999 → none
    /// ```
    pub(crate) fn integer(&self) -> Option<String> {
        /// More digits than the largest integer of 128 bits has.
        const LONGEST: i64 = 40;
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        let length = self.digits.len() as i64;
        if self.point < length || self.point > LONGEST {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        let zeros = "0".repeat((self.point - length) as usize);
        Some(format!("{sign}{}{zeros}", self.digits))
    }

    /// Whether it has no fraction.
    pub(crate) fn is_integral(&self) -> bool {
        self.digits.is_empty() || self.point >= self.digits.len() as i64
    }

    /// Returns the nearest float.
    pub(crate) fn approximate(&self) -> f64 {
        self.to_string().parse().unwrap_or_default()
    }

    /// Whether division by `step` has no remainder.
    ///
    /// ```text
    /// 0.3 of 0.1 → true      (as floats, 0.3 / 0.1 is 2.9999999999999996)
    /// ```
    pub(crate) fn is_multiple_of(&self, step: &Self) -> bool {
        let parts = |number: &Self| {
            let digits = if number.digits.is_empty() { "0" } else { &number.digits };
            Some((digits.parse::<u128>().ok()?, number.point - number.digits.len() as i64))
        };
        let (Some((number, power)), Some((step, step_power))) = (parts(self), parts(step)) else {
            return true;
        };
        if number == 0 || step == 0 {
            return true;
        }
        // As integers of the smaller of the two powers of ten.
        let least = power.min(step_power);
        let scale = |digits: u128, power: i64| {
            let factor = 10_u128.checked_pow(u32::try_from(power - least).ok()?)?;
            digits.checked_mul(factor)
        };
        match (scale(number, power), scale(step, step_power)) {
            (Some(number), Some(step)) => number % step == 0,
            // A power of ten beyond all integers is a multiple of any short step.
            _ => power > step_power,
        }
    }

    /// Compares two numbers without their signs.
    fn magnitude(&self, other: &Self) -> Ordering {
        // Without zeros in front, the longer number is the larger one.
        let size = |number: &Self| (!number.digits.is_empty(), number.point);
        size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(integer) = self.integer() {
            return f.write_str(&integer);
        }
        let sign = if self.negative { "-" } else { "" };
        let length = self.digits.len() as i64;
        match self.point {
            // Bounds outside this range are rare.
            -20..=0 => write!(f, "{sign}0.{}{}", "0".repeat(-self.point as usize), self.digits),
            point if (1..length).contains(&point) => {
                let (whole, fraction) = self.digits.split_at(point as usize);
                write!(f, "{sign}{whole}.{fraction}")
            }
            point => write!(f, "{sign}0.{}e{point}", self.digits),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
        }
    }
}

/// Parses an exponent; an unreasonable one counts as a very large one.
fn power(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse().unwrap_or(i64::from(u32::MAX)).min(i64::from(u32::MAX)))
}
