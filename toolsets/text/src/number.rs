//! [`number`], by which lines are sorted.

/// Returns the number at the start of a line, after white space; 0 if there is no number.
pub(crate) fn number(line: &str) -> f64 {
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
