//! Functions that provider crates share, so that all of them send the same.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::json;

/// Returns the JSON object to send in place of arguments that are not an object. Returns `None` if
/// they are one.
///
/// Some servers fail on any other arguments. The model can still read what it wrote.
///
/// ```
/// use toolwright_module::provider::object_of;
///
/// assert_eq!(object_of(r#"{"a": 1}"#), None);
/// assert_eq!(object_of("").as_deref(), Some("{}"));
/// assert_eq!(object_of("[1").as_deref(), Some(r#"{"invalid_arguments":"[1"}"#));
/// ```
#[must_use]
pub fn object_of(arguments: &str) -> Option<Cow<'static, str>> {
    let text = arguments.trim();
    if text.is_empty() {
        Some(Cow::Borrowed("{}"))
    } else if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        None
    } else {
        Some(Cow::Owned(json!({"invalid_arguments": arguments}).to_string()))
    }
}

/// Returns the text before the images of a call's result, for APIs that accept images only in a
/// user message.
///
/// ```
/// use toolwright_module::provider::images_of;
///
/// assert_eq!(images_of("call_1"), "Images of the result of call call_1:");
/// ```
#[must_use]
pub fn images_of(call: &str) -> String {
    format!("Images of the result of call {call}:")
}
