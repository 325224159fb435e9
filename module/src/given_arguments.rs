//! The arguments of a call, which servers send under several names.

use serde_json::Value;

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

/// Returns whether two texts are equal except for white space around them, or are equal JSON.
#[must_use]
pub fn is_same_json(a: &str, b: &str) -> bool {
    let value = |text| serde_json::from_str::<Value>(text).ok();
    a.trim() == b.trim() || value(a).is_some_and(|a| Some(a) == value(b))
}

/// Returns whether the text is `{}`, which some servers send before the arguments.
#[must_use]
pub fn is_empty_object(text: &str) -> bool {
    let inside = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}
