//! [`has_rounded_integers`], the rule for numbers that a `Value` would change.

/// Returns whether JSON has integers that become other numbers as 64-bit floats, outside of strings.
pub(crate) fn has_rounded_integers(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'"', rest) {
        let (before, string) = rest.split_at(at);
        if has_rounded(before) {
            return true;
        }
        let mut end = 1;
        while let Some(byte) = string.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        rest = string.get(end + 1..).unwrap_or_default();
    }
    has_rounded(rest)
}

fn has_rounded(json: &[u8]) -> bool {
    let is_end = |byte: &u8| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    json.split(is_end).filter(|number| number.len() >= 19).any(|number| {
        let Ok(number) = str::from_utf8(number) else { return false };
        if number.contains(['.', 'e', 'E'])
            || number.parse::<i64>().is_ok()
            || number.parse::<u64>().is_ok()
        {
            return false;
        }
        // Programs whose numbers are all floats write the shortest digits that give the same float.
        let float = number.parse::<f64>();
        !float.is_ok_and(|float| format!("{float:.0}") == number || format!("{float}") == number)
    })
}
