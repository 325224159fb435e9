//! Calls in the JSON of both APIs.
#![cfg_attr(
    not(any(feature = "client", feature = "wire")),
    allow(dead_code, reason = "only `read_call` is left")
)]

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolwright_module::ToolCall;

/// A call as it stands in a reply's JSON, of either API; `None` if it is something else.
///
/// For replies that are read into types of one's own. async-openai 0.43 looks for a custom
/// call of Chat Completions under `custom_tool`, where OpenAI writes `custom`; here both
/// are read. So is what compatible servers write of a call: no `type`, a number as its id,
/// arguments as an object. What a call leaves out is an empty text, so that none is lost.
///
/// ```
/// use serde_json::json;
/// use toolwright_openai::read_call;
///
/// let item = json!({"type": "function_call", "call_id": "1", "name": "add", "arguments": "{}"});
/// assert_eq!(read_call(&item).unwrap().name, "add");
/// let item = json!({"id": 1, "function": {"name": "add", "arguments": {"a": 2}}});
/// assert_eq!(read_call(&item).unwrap().arguments, r#"{"a":2}"#);
/// assert_eq!(read_call(&json!({"type": "message"})), None);
/// ```
#[must_use]
pub fn read_call(item: &Value) -> Option<ToolCall> {
    let given = |name: &str| item.get(name).filter(|value| value.is_object());
    let function = given("function");
    let custom = given("custom").or_else(|| given("custom_tool"));
    // In Chat Completions the name stands further in, and in Responses beside the id.
    let is_function = match item.get("type").and_then(Value::as_str) {
        Some("function" | "function_call") => true,
        Some("custom" | "custom_tool_call") => false,
        Some(_) => return None,
        None => custom.is_none(),
    };
    let called = if is_function { function } else { custom }.unwrap_or(item);
    let name = called.get("name")?.as_str()?;
    let id = Some(text(item, "call_id")).filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| text(item, "id"));
    Some(match is_function {
        true => ToolCall::new(id, name, text(called, "arguments")),
        false => ToolCall::custom(id, name, text(called, "input")),
    })
}

/// A JSON object to send back in place of arguments that are not one; `None` if they are.
///
/// Some servers fail on anything else. What the model really wrote stays readable for it.
pub(crate) fn object_of(arguments: &str) -> Option<Cow<'static, str>> {
    let text = arguments.trim();
    if text.is_empty() {
        Some(Cow::Borrowed("{}"))
    } else if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        None
    } else {
        Some(Cow::Owned(json!({"invalid_arguments": arguments}).to_string()))
    }
}

fn text(of: &Value, name: &str) -> String {
    match of.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The line before the images of a call's result.
pub(crate) fn images_of(call: &str) -> String {
    format!("Images of the result of call {call}:")
}
