//! Comparisons of the arguments of calls.

use serde::de::IgnoredAny;

/// Returns whether the text is a complete JSON object or list.
pub(crate) fn is_complete(arguments: &str) -> bool {
    arguments.trim_start().starts_with(['{', '['])
        && arguments.trim_end().ends_with(['}', ']'])
        && is_json(arguments)
}

pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
