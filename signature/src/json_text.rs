//! JSON text of other programs that `serde_json` does not read, made readable.

use std::borrow::Cow;

use serde_json::Value;

/// Returns JSON text that `serde_json` can read, with the same values where they are characters.
///
/// Programs in languages with UTF-16 strings cut texts inside a character, and then write half of
/// it as an escape, such as `\ud83d`. Such a half, and bytes that are not UTF-8, become U+FFFD. A
/// control character inside a string becomes its escape. All other text is unchanged, so a text
/// that is not JSON for another reason stays so. [`has_lost_half`] finds the escapes that stand for
/// halves, and [`lost_half`] the value that has one.
///
/// ```
/// use toolwright_signature::readable_json;
///
/// assert_eq!(readable_json(br#"["cut \ud83d"]"#), r#"["cut \uFffd"]"#);
/// assert_eq!(readable_json(br#"["\ud83d\ude00"]"#), r#"["\ud83d\ude00"]"#);
/// assert_eq!(readable_json(b"[\"\xff\0\"]"), "[\"\u{fffd}\\u0000\"]");
/// ```
#[must_use]
pub fn readable_json(json: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(json);
    let bytes = text.as_bytes();
    let mut readable = String::new();
    // The text up to `copied` is in `readable`.
    let (mut copied, mut at, mut in_string) = (0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        let (length, half) = step(bytes, at);
        in_string ^= byte == b'"';
        let replacement = match byte {
            _ if half.is_some() => Some(LOST_HALF.to_owned()),
            // The character itself is not taken for a half.
            b'\\' if length == LOST_HALF.len() => Some(LOST_HALF.to_ascii_lowercase()),
            0..0x20 if in_string => Some(format!("\\u{byte:04x}")),
            _ => None,
        };
        if let Some(replacement) = replacement {
            readable.push_str(text.get(copied..at).unwrap_or_default());
            readable.push_str(&replacement);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return text;
    }
    readable.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(readable)
}

/// U+FFFD in a spelling that [`readable_json`] leaves only where it replaced a half.
const LOST_HALF: &str = "\\uFffd";

/// Returns whether JSON of [`readable_json`] has U+FFFD for half of a character. A value with it is
/// not the one that was meant.
///
/// ```
/// use toolwright_signature::{has_lost_half, readable_json};
///
/// assert!(has_lost_half(&readable_json(br#"["cut \ud83d"]"#)));
/// assert!(!has_lost_half(&readable_json(br#"["sent \ufffd \ud83d\ude00"]"#)));
/// ```
#[must_use]
pub fn has_lost_half(json: &str) -> bool {
    lost_halves(json).next().is_some()
}

/// Returns the places of U+FFFD for half of a character.
fn lost_halves(json: &str) -> impl Iterator<Item = usize> {
    // After another backslash it is text and not an escape.
    let is_escape = |at: &usize| {
        let before = json.as_bytes().get(..*at).unwrap_or_default();
        before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    };
    json.match_indices(LOST_HALF).map(|(at, _)| at).filter(is_escape)
}

/// Returns the path of the first string in JSON of [`readable_json`] that has half of a character, or
/// of the object with such a name. `None` without one, and for a text that is not JSON.
///
/// ```
/// use toolwright_signature::{lost_half, readable_json};
///
/// let path = |json: &str| lost_half(&readable_json(json.as_bytes()));
/// assert_eq!(path(r#"{"names": ["\ufffd", "\ud83d"]}"#).as_deref(), Some("$.names[1]"));
/// assert_eq!(path(r#"{"names": ["\ufffd", "\ud83d\ude00"]}"#), None);
/// ```
#[must_use]
pub fn lost_half(json: &str) -> Option<String> {
    // The value differs only where a half is replaced.
    let read = |half: &str| {
        let (mut text, mut copied) = (String::new(), 0);
        for at in lost_halves(json) {
            text += json.get(copied..at)?;
            text += half;
            copied = at + LOST_HALF.len();
        }
        text += json.get(copied..)?;
        serde_json::from_str::<Value>(&text).ok()
    };
    let mut path = "$".to_owned();
    differs(&read("a")?, &read("b")?, &mut path).then_some(path)
}

/// Returns whether two values differ, and adds the way to the first difference to the path.
pub(crate) fn differs(one: &Value, other: &Value, path: &mut String) -> bool {
    let length = path.len();
    let mut is_below = |step: String, one: &Value, other: &Value| {
        path.push_str(&step);
        let is_below = differs(one, other, path);
        if !is_below {
            path.truncate(length);
        }
        is_below
    };
    match (one, other) {
        (Value::Array(ones), Value::Array(others)) => {
            let mut pairs = ones.iter().zip(others).enumerate();
            pairs.any(|(at, (one, other))| is_below(format!("[{at}]"), one, other))
        }
        (Value::Object(ones), Value::Object(others)) => {
            let has_same_names = ones.keys().eq(others.keys());
            let mut pairs = ones.iter().zip(others.values());
            !has_same_names
                || pairs.any(|((name, one), other)| is_below(format!(".{name}"), one, other))
        }
        _ => one != other,
    }
}

/// Returns two texts of JSON that follow each other, with a character in one of them that was cut
/// between them. Returns `None` if none was cut.
///
/// The pieces of a streamed text are strings in events of their own. If a program cuts the text
/// between two halves of a character, the last string of the first event ends with `\ud83d`, and the
/// first string with another half begins with `\ude00`.
///
/// ```
/// use toolwright_signature::joined_halves;
///
/// let joined = joined_halves(r#"{"text":"a\ud83d"}"#, r#"{"text":"\ude00b"}"#);
/// let whole = (r#"{"text":"a"}"#.to_owned(), r#"{"text":"\ud83d\ude00b"}"#.to_owned());
/// assert_eq!(joined, Some(whole));
/// assert_eq!(joined_halves(r#"["a"]"#, r#"["\ude00"]"#), None);
/// ```
#[must_use]
pub fn joined_halves(first: &str, second: &str) -> Option<(String, String)> {
    let high = cut_at(first, Half::High)?;
    let low = cut_at(second, Half::Low)?;
    let (before, half) = first.split_at_checked(high)?;
    let (half, after) = half.split_at_checked(6)?;
    let (start, rest) = second.split_at_checked(low)?;
    Some((format!("{before}{after}"), format!("{start}{half}{rest}")))
}

/// Returns whether a string of the JSON ends with the first half of a character.
#[must_use]
pub fn ends_in_half(json: &str) -> bool {
    (json.contains("\\ud") || json.contains("\\uD")) && cut_at(json, Half::High).is_some()
}

/// The halves of a character in UTF-16.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    High,
    Low,
}

/// Returns the half whose escape is at this place.
fn surrogate(bytes: &[u8], at: usize) -> Option<Half> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    match digits {
        _ if !is_hex => None,
        [b'd' | b'D', b'8' | b'9' | b'a' | b'A' | b'b' | b'B', ..] => Some(Half::High),
        [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => Some(Half::Low),
        _ => None,
    }
}

/// Returns the length of the character or escape at this place, and the half that it is without its
/// other half.
fn step(bytes: &[u8], at: usize) -> (usize, Option<Half>) {
    match surrogate(bytes, at) {
        Some(Half::High) if surrogate(bytes, at + 6) == Some(Half::Low) => (12, None),
        Some(half) => (6, Some(half)),
        None if bytes.get(at..at + 6) == Some(LOST_HALF.as_bytes()) => (6, None),
        None if bytes.get(at) == Some(&b'\\') => (2, None),
        None => (1, None),
    }
}

/// Returns the place of the first lone half that is at the end of a string for a high one, and at
/// the beginning for a low one.
fn cut_at(json: &str, half: Half) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (length, found) = step(bytes, at);
        let beside = match half {
            Half::High => bytes.get(at + 6),
            Half::Low => at.checked_sub(1).and_then(|before| bytes.get(before)),
        };
        if found == Some(half) && beside == Some(&b'"') {
            return Some(at);
        }
        at += length;
    }
    None
}
