//! Comparisons of the arguments of calls.

use serde::de::IgnoredAny;
use serde_json::Value;

/// Returns whether two texts are equal except for white space, or are equal JSON.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    let value = |text| serde_json::from_str::<Value>(text).ok();
    a.trim() == b.trim() || value(a).is_some_and(|a| Some(a) == value(b))
}

/// Returns whether the text is a complete JSON object or list.
pub(crate) fn is_complete(arguments: &str) -> bool {
    arguments.trim_start().starts_with(['{', '['])
        && arguments.trim_end().ends_with(['}', ']'])
        && is_json(arguments)
}

pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
