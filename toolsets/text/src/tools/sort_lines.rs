//! The tool `text_sort_lines`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::{LimitedCall, without_line_end};
use crate::limits::TextLimits;
use crate::text::Text;

/// Sort the lines of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextSortLines {
    /// Text whose lines to sort.
    pub text: String,
    /// Sort in descending order.
    #[serde(default)]
    pub reverse: bool,
    /// Sort by the number at the start of each line. A line without a number counts as 0.
    #[serde(default)]
    pub numeric: bool,
}

impl Signature for TextSortLines {
    type Output = String;
}

/// The module of [`TextSortLines`]. Sorts lines.
///
/// Lines are sorted by bytes, which is the order of code points, or by the number at their start,
/// such as `-1.5e3` after white space. Lines with equal numbers keep their order, also in reverse.
/// `\r\n` becomes `\n`, and a newline is added to a last line without one.
#[derive(Debug, Clone)]
pub struct TextSortLinesModule {
    limits: TextLimits,
}

impl TextSortLinesModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextSortLinesModule {
    type Signature = TextSortLines;

    async fn call(&self, input: TextSortLines, cx: &Context) -> Result<String> {
        let TextSortLines { text, reverse, numeric } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let mut lines = Vec::new();
        call.lines(&text, |line| {
            let line = without_line_end(line);
            lines.push((if numeric { number(line) } else { 0.0 }, line));
            Ok(())
        })?;
        // The sort is stable, also in reverse.
        lines.sort_by(|(a, one), (b, other)| {
            let order = if numeric { a.total_cmp(b) } else { one.cmp(other) };
            if reverse { order.reverse() } else { order }
        });
        call.joined(lines.into_iter().map(|(_, line)| line))
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// Returns the number at the start of a line, after white space; 0 if there is no number.
fn number(line: &str) -> f64 {
    let text = line.trim_start();
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let signed = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let start = signed(0);
    let whole = digits(start);
    let mut end = whole;
    if bytes.get(whole) == Some(&b'.') && digits(whole + 1) > whole + 1 {
        end = digits(whole + 1);
    }
    if end == start {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = signed(end + 1);
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    // A number that is too large becomes infinite; -0 becomes 0.
    text[..end].parse().unwrap_or(0.0) + 0.0
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_line_starts_with_a_number_or_counts_as_zero() {
        for (line, expected) in [
            ("3 apples", 3.0),
            ("  \t-2.5e1x", -25.0),
            ("+.5", 0.5),
            ("7.", 7.0),
            ("1e", 1.0),
            ("1e+", 1.0),
            ("0x10", 0.0),
            ("1_000", 1.0),
            ("1e999", f64::INFINITY),
            ("-0", 0.0),
        ] {
            assert_eq!(number(line), expected, "{line}");
        }
        for line in ["", "-", "+-1", ".", ".e5", "e5", "NaN", "inf", "infinity", "apples 3", "٣"] {
            assert_eq!(number(line).to_bits(), 0.0_f64.to_bits(), "{line}");
        }
        assert_eq!(number("-0").to_bits(), 0.0_f64.to_bits());
    }
}
