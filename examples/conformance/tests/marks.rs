//! Marks: short texts that are found again in any form of a body.
//!
//! A mark is `q`, a letter for its kind, five digits and `q`. It has only letters and digits, so
//! that it is the same in a text, an id, an address and a signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The kind of content that has a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The system message.
    System = b's' as isize,
    /// Text of the user.
    User = b'u' as isize,
    /// Text of the model.
    Text = b't' as isize,
    /// The arguments of a call.
    Call = b'c' as isize,
    /// The text of a result.
    Result = b'r' as isize,
    /// An image or a document.
    Part = b'p' as isize,
    /// A value of a provider that another one must not get.
    Own = b'o' as isize,
}

const KINDS: [Kind; 7] =
    [Kind::System, Kind::User, Kind::Text, Kind::Call, Kind::Result, Kind::Part, Kind::Own];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mark {
    pub(crate) kind: Kind,
    pub(crate) number: usize,
}

const LENGTH: usize = 8;

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "q{}{:05}q", char::from(self.kind as u8), self.number)
    }
}

impl Mark {
    fn read(text: &[u8]) -> Option<Self> {
        let [b'q', kind, number @ .., b'q'] = text else { return None };
        let kind = KINDS.into_iter().find(|known| *known as u8 == *kind)?;
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Self { kind, number })
    }
}

/// Returns the marks of a value in the order of its text. Also reads base64.
pub(crate) fn marks(value: &Value) -> Vec<Mark> {
    let mut found = Vec::new();
    strings(value, &mut |text| found.extend(in_text(text)));
    found
}

/// Returns the marks in a string.
pub(crate) fn in_text(text: &str) -> Vec<Mark> {
    let in_bytes =
        |bytes: &[u8]| -> Vec<Mark> { bytes.windows(LENGTH).filter_map(Mark::read).collect() };
    let found = in_bytes(text.as_bytes());
    if !found.is_empty() {
        return found;
    }
    let data = text.split_once(";base64,").map_or(text, |(_, data)| data);
    STANDARD.decode(data).map(|data| in_bytes(&data)).unwrap_or_default()
}

/// Calls a function with each string of a value, in order.
pub(crate) fn strings<'a>(value: &'a Value, each: &mut impl FnMut(&'a str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, each)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, each)),
        _ => {}
    }
}
