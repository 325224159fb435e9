//! The arguments of a call, which servers send under several names.

use serde_json::{Map, Value};

/// The names under which servers send the arguments of a call, the APIs' own among them.
pub const ARGUMENTS: [&str; 4] = ["arguments", "args", "parameters", "input"];

/// Returns the arguments of a call among those that a server sent, and whether all say the same. Empty
/// texts and `{}` say nothing beside others. `None` if nothing was sent.
///
/// A call for which they differ is [incomplete](crate::ToolCall::incomplete), because it is not known
/// which of them the model meant.
///
/// ```
/// use toolwright_module::runner::given_arguments;
///
/// assert_eq!(given_arguments(["", r#"{"a": 1}"#, "{}"]), (Some(r#"{"a": 1}"#), true));
/// assert_eq!(given_arguments([r#"{"a": 1}"#, r#"{"a":1}"#]), (Some(r#"{"a": 1}"#), true));
/// assert_eq!(given_arguments([r#"{"a": 1}"#, r#"{"a": 2}"#]), (Some(r#"{"a": 1}"#), false));
/// ```
pub fn given_arguments<T: AsRef<str>>(given: impl IntoIterator<Item = T>) -> (Option<T>, bool) {
    let (mut found, mut is_clear): (Option<T>, bool) = (None, true);
    for other in given {
        let Some(known) = &found else {
            found = Some(other);
            continue;
        };
        match (weight(known.as_ref()), weight(other.as_ref())) {
            (known, more) if more > known => found = Some(other),
            (3, 3) => is_clear &= is_same_json(known.as_ref(), other.as_ref()),
            _ => {}
        }
    }
    (found, is_clear)
}

/// Returns how much a text of arguments says: 3 if it is more than white space or `{}`.
fn weight(text: &str) -> u8 {
    match text {
        "" => 0,
        text if text.trim().is_empty() => 1,
        text if is_empty_object(text) => 2,
        _ => 3,
    }
}

/// What a call has beside its name and its arguments, under names that nobody knows.
///
/// If its arguments say nothing, what the model meant may be there, so such a call must not be made: it
/// is [incomplete](crate::ToolCall::incomplete).
///
/// ```
/// use toolwright_module::runner::Unread;
///
/// let call = serde_json::from_str(r#"{"name": "look", "kwargs": {"place": "hall"}}"#)?;
/// assert!(Unread::of(&call).may_be_meant("{}"));
/// assert!(!Unread::of(&call).may_be_meant(r#"{"place": "hall"}"#));
/// let call = serde_json::from_str(r#"{"id": 7, "name": "look", "caller": {"type": "code"}}"#)?;
/// assert_eq!(Unread::of(&call), Unread::Nothing);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// Only what is known to be something else.
    #[default]
    Nothing,
    /// A text, a number or `true`. It may be a field of the tool, but also something that an API got
    /// later, such as the time of the call.
    Word,
    /// An object, a list, the JSON of an object, or an error of the call.
    Content,
}

impl Unread {
    /// Returns the most that a call has, in the object itself or in the one that has its name.
    #[must_use]
    pub fn of(call: &Map<String, Value>) -> Self {
        const INSIDE: [&str; 3] = ["function", "custom", "custom_tool"];
        const KNOWN: [&str; 19] = [
            "type",
            "id",
            "index",
            "name",
            "call_id",
            "status",
            "object",
            "namespace",
            "phase",
            "caller",
            "created_by",
            "cache_control",
            "extra_content",
            "provider_specific_fields",
            "thoughtSignature",
            "thought_signature",
            "signature",
            "willContinue",
            "will_continue",
        ];
        let of_field = |(name, value): (&String, &Value)| match (&**name, value) {
            (name, Value::Object(inside)) if INSIDE.contains(&name) => Self::of(inside),
            (name, _) if KNOWN.contains(&name) || ARGUMENTS.contains(&name) => Self::Nothing,
            ("error", value) if is_set(value) => Self::Content,
            (_, Value::String(text)) if text.trim_start().starts_with('{') => {
                if is_empty_object(text) { Self::Nothing } else { Self::Content }
            }
            (_, value) if !is_set(value) => Self::Nothing,
            (_, Value::Object(_) | Value::Array(_)) => Self::Content,
            _ => Self::Word,
        };
        call.iter().map(of_field).max().unwrap_or_default()
    }

    /// Returns whether it may be what the model meant, beside these arguments. `{}` says no more than no
    /// arguments, but it shows that the server has a place for them.
    #[must_use]
    pub fn may_be_meant(self, arguments: &str) -> bool {
        match weight(arguments) {
            0 | 1 => self > Self::Nothing,
            2 => self == Self::Content,
            _ => false,
        }
    }
}

/// Returns whether a value says something. Servers send `false`, `0`, `""` or `{}` for nothing.
#[must_use]
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

/// Returns whether two texts are equal except for white space around them, or are equal JSON. JSON with
/// numbers of more digits than [`Value`] keeps is not compared.
#[must_use]
pub fn is_same_json(a: &str, b: &str) -> bool {
    a.trim() == b.trim() || canonical_json(a) == canonical_json(b)
}

/// Returns the same text for all texts that are the [same JSON](is_same_json), so that many can be
/// compared at once.
#[must_use]
pub fn canonical_json(text: &str) -> String {
    let is_exact = text.split(|c: char| !c.is_ascii_digit()).all(|digits| digits.len() < 17);
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) if is_exact => {
            value.sort_all_objects();
            value.to_string()
        }
        _ => text.trim().to_owned(),
    }
}

/// Returns whether the text is `{}`, which some servers send before the arguments.
#[must_use]
pub fn is_empty_object(text: &str) -> bool {
    let inside = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::is_same_json;

    #[test]
    fn json_that_a_float_would_round_is_not_the_same() {
        assert!(is_same_json(r#"{"a":1,"b":[2.50]}"#, "{\"b\": [2.5], \"a\": 1}\n"));
        assert!(is_same_json(
            r#"{"a":12345678901234567890123}"#,
            " {\"a\":12345678901234567890123}"
        ));
        let (one, other) = (r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#);
        assert!(!is_same_json(one, other));
        assert!(!is_same_json(r#"{"a":0.12345678901234567}"#, r#"{"a":0.123456789012345671}"#));
    }
}
