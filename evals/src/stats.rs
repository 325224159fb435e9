//! Means with their uncertainty, and the chances of several attempts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A mean of values from 0 to 1, with its 95 % confidence interval.
///
/// The interval says how much of the mean is chance: how far the mean of other cases of the same kind may
/// be from it. Repeats of a case count as one value, their mean, because they are not independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of cases.
    pub cases: usize,
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, low, high, .. } = self;
        write!(f, "{:.1} % (95 %: {:.1} to {:.1})", mean * 100.0, low * 100.0, high * 100.0)
    }
}

/// Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The 95 % quantile of the normal distribution.
const Z: f64 = 1.959_964;

/// Returns Student's t for this number of values.
fn t(values: usize) -> f64 {
    T.get(values.saturating_sub(2)).copied().unwrap_or(Z)
}

impl Mean {
    /// Returns the mean of one value for each case. `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let cases = values.len();
        let n = cases as f64;
        let mean = values.iter().sum::<f64>() / n;
        let is_share = values.iter().all(|value| *value == 0.0 || *value == 1.0);
        let (low, high) = if is_share {
            wilson(mean, n)
        } else if let Some((least, share)) = of_equal(values) {
            (least, least + share)
        } else {
            let margin = t(cases) * deviation(values, mean) / n.sqrt();
            (mean - margin, mean + margin)
        };
        Some(Self { mean, low: low.clamp(0.0, 1.0), high: high.clamp(0.0, 1.0), cases })
    }
}

/// Returns Wilson's interval of a share, which also holds for few cases and for shares near 0 and 1.
fn wilson(share: f64, n: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let middle = share + z2 / (2.0 * n);
    let margin = Z * ((share * (1.0 - share) + z2 / (4.0 * n)) / n).sqrt();
    let scale = 1.0 + z2 / n;
    ((middle - margin) / scale, (middle + margin) / scale)
}

/// Returns the interval of equal values, as its lower end and its width. Their deviation is 0, which does
/// not mean that all others are the same: up to this share of them may be anything from 0 to 1.
fn of_equal(values: &[f64]) -> Option<(f64, f64)> {
    let first = values.first().filter(|first| values.iter().all(|value| value == *first))?;
    let (_, share) = wilson(0.0, values.len() as f64);
    Some((first * (1.0 - share), share))
}

/// Returns the standard deviation of a sample.
fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Returns the mean of differences with its interval, which is wide for few cases. `None` without values.
pub(crate) fn difference(values: &[f64]) -> Option<(f64, f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if let Some((least, share)) = of_equal(values) {
        return Some((mean, least - share, least + share));
    }
    let margin = t(values.len()) * deviation(values, mean) / n.sqrt();
    Some((mean, (mean - margin).max(-1.0), (mean + margin).min(1.0)))
}

/// Returns the chance that `k` attempts of `n`, of which `passed` passed, all pass: pass^k.
///
/// `None` if there are fewer than `k` attempts.
pub(crate) fn all_of(k: u32, passed: u32, n: u32) -> Option<f64> {
    (k <= n).then(|| ratio(passed, n, k))
}

/// Returns the chance that at least one of `k` attempts passes: pass@k.
///
/// `None` if there are fewer than `k` attempts.
pub(crate) fn any_of(k: u32, passed: u32, n: u32) -> Option<f64> {
    (k <= n).then(|| 1.0 - ratio(n - passed, n, k))
}

/// Returns the number of ways to choose `k` of `some`, divided by that of `all`.
fn ratio(some: u32, all: u32, k: u32) -> f64 {
    (0..k).map(|at| f64::from(some.saturating_sub(at)) / f64::from(all - at)).product()
}

/// Returns the chance of flips at least as uneven as these, if both versions were equally good: the exact
/// sign test of McNemar.
pub(crate) fn sign_test(one: usize, other: usize) -> f64 {
    let n = one + other;
    // The sum of binomials, in logarithms, because the terms of many cases are small.
    let log_factorial = |n: usize| (1..=n).map(|k| (k as f64).ln()).sum::<f64>();
    let term = |k: usize| {
        let log = log_factorial(n) - log_factorial(k) - log_factorial(n - k);
        (log - n as f64 * std::f64::consts::LN_2).exp()
    };
    let tail: f64 = (0..=one.min(other)).map(term).sum();
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 5e-4, "{one} {other}");
    }

    /// The figures are those of `statsmodels.stats.proportion.proportion_confint(8, 10, method="wilson")`
    /// and of `scipy.stats`.
    #[test]
    fn intervals_are_those_of_other_libraries() {
        let values = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0];
        let mean = Mean::of(&values).unwrap();
        near(mean.mean, 0.8);
        near(mean.low, 0.4902);
        near(mean.high, 0.9433);
        let mean = Mean::of(&[0.5, 0.7, 0.9]).unwrap();
        near(mean.low, 0.2032);
        near(mean.high, 1.0);
        assert_eq!(Mean::of(&[]), None);
        // Ten equal scores do not say that all others are the same, but that few differ: up to as many as
        // in an interval of 0 of 10.
        let mean = Mean::of(&[0.8; 10]).unwrap();
        let (_, share) = wilson(0.0, 10.0);
        near(share, 0.2775);
        near(mean.low, 0.8 * (1.0 - share));
        near(mean.high, 0.8 * (1.0 - share) + share);
        let (gain, low, high) = difference(&[0.0; 10]).unwrap();
        assert_eq!(gain, 0.0);
        near(low, -share);
        near(high, share);
        let (_, low, high) = difference(&[1.0]).unwrap();
        assert!(low < 0.0 && high == 1.0, "{low} {high}");
        near(sign_test(1, 9), 0.0215);
        near(sign_test(0, 0), 1.0);
    }

    #[test]
    fn chances_of_several_attempts_are_those_of_all_choices() {
        // Two of four passed. Of the six pairs one passes twice, and one never.
        near(all_of(2, 2, 4).unwrap(), 1.0 / 6.0);
        near(any_of(2, 2, 4).unwrap(), 5.0 / 6.0);
        near(all_of(1, 2, 4).unwrap(), 0.5);
        near(any_of(4, 1, 4).unwrap(), 1.0);
        assert_eq!(all_of(5, 4, 4), None);
    }
}
