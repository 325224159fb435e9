//! Calls of the tool `purge` with something beside their name and their arguments. Every provider reads
//! them in its own form of a call.

use serde_json::{Map, Value, json};

/// Returns the arguments, the fields beside them, and whether the call may be made.
pub(crate) fn calls() -> Vec<(Value, Map<String, Value>, bool)> {
    let (a, nothing) = (json!({"prefix": "a"}), json!({}));
    let calls = [
        (&nothing, json!({"kwargs": a}), false),
        (&Value::Null, json!({"kwargs": a}), false),
        (&nothing, json!({"raw_arguments": r#"{"prefix":"tm"#}), false),
        (&nothing, json!({"error": "could not parse the arguments"}), false),
        (&Value::Null, json!({"prefix": "a"}), false),
        (&nothing, json!({"status": "incomplete"}), false),
        (&a, json!({"status": "incomplete"}), false),
        (&nothing, json!({"trace": "t-1"}), true),
        (&nothing, json!({"status": "completed", "caller": {"type": "direct"}}), true),
        (&a, json!({"kwargs": a}), true),
    ];
    let fields = |value: Value| value.as_object().unwrap().clone();
    calls.into_iter().map(|(given, beside, made)| (given.clone(), fields(beside), made)).collect()
}
