//! Tool calls of both APIs as `ToolCall`s.
use async_openai::types::chat::{
    ChatCompletionMessageCustomToolCall, ChatCompletionMessageToolCall,
    ChatCompletionMessageToolCalls,
};
use async_openai::types::responses::{CustomToolCall, FunctionToolCall, OutputStatus};
use serde_json::Value;
use toolwright_module::ToolCall;
use toolwright_module::runner::{ARGUMENTS, Unread, given_arguments};

/// The conversion of a call in one of `async-openai`'s types to the type that a
/// [`ToolGroup`](crate::ToolGroup) runs.
///
/// ```
/// use async_openai::types::responses::FunctionToolCall;
/// use toolwright_group::async_openai::IntoToolCall;
///
/// let call = FunctionToolCall {
///     call_id: "call_1".to_owned(),
///     name: "say_hello".to_owned(),
///     arguments: r#"{"name": "Kate"}"#.to_owned(),
///     ..FunctionToolCall::default()
/// };
/// let call = call.into_tool_call();
/// assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1", "say_hello"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a call of a function or of a custom tool",
    note = "take the calls out of the reply: `message.tool_calls` of Chat Completions, items of the kinds `FunctionCall` and `CustomToolCall` of Responses"
)]
pub trait IntoToolCall {
    /// Converts the call.
    fn into_tool_call(self) -> ToolCall;
}

impl IntoToolCall for ToolCall {
    fn into_tool_call(self) -> ToolCall {
        self
    }
}

impl IntoToolCall for FunctionToolCall {
    fn into_tool_call(self) -> ToolCall {
        // The `id` field is the item's. Answers refer to `call_id`.
        let mut call = ToolCall::new(self.call_id, self.name, self.arguments);
        call.incomplete = self.status.is_some_and(|status| status != OutputStatus::Completed);
        call
    }
}

impl IntoToolCall for CustomToolCall {
    fn into_tool_call(self) -> ToolCall {
        ToolCall::custom(self.call_id, self.name, self.input)
    }
}

impl IntoToolCall for ChatCompletionMessageToolCall {
    fn into_tool_call(self) -> ToolCall {
        ToolCall::new(self.id, self.function.name, self.function.arguments)
    }
}

impl IntoToolCall for ChatCompletionMessageCustomToolCall {
    fn into_tool_call(self) -> ToolCall {
        ToolCall::custom(self.id, self.custom_tool.name, self.custom_tool.input)
    }
}

impl IntoToolCall for ChatCompletionMessageToolCalls {
    fn into_tool_call(self) -> ToolCall {
        match self {
            Self::Function(call) => call.into_tool_call(),
            Self::Custom(call) => call.into_tool_call(),
        }
    }
}

impl<T: IntoToolCall + Clone> IntoToolCall for &T {
    fn into_tool_call(self) -> ToolCall {
        self.clone().into_tool_call()
    }
}

/// Reads a call from a reply's JSON, of either API. Returns `None` if the JSON is not a call.
///
/// Use it for replies that are deserialized into types of your own. async-openai 0.43 expects a
/// custom call of Chat Completions under `custom_tool`, but OpenAI sends `custom`; this function
/// accepts both. It also accepts variants of compatible servers: no `type`, a number as the id, an
/// object as the arguments, another name for them. A missing field is read as an empty text, so that no
/// call is lost; a call without any arguments is [incomplete](ToolCall::incomplete).
///
/// ```
/// use serde_json::json;
/// use toolwright_group::async_openai::read_call;
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
    // Chat Completions nests the name in an object. Responses has it beside the id.
    let is_function = match item.get("type").and_then(Value::as_str) {
        Some("function" | "function_call") => true,
        Some("custom" | "custom_tool_call") => false,
        Some(_) => return None,
        None => custom.is_none(),
    };
    let called = if is_function { function } else { custom }.unwrap_or(item);
    let name = called.get("name")?.as_str()?;
    let is_one = |beside: Option<&Value>| {
        let beside = [item, beside.unwrap_or(item)].map(|of| text(of, "name"));
        beside.iter().all(|other| other.is_empty() || other == name)
    };
    let id = Some(text(item, "call_id")).filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| text(item, "id"));
    if !is_function {
        let mut call = ToolCall::custom(id, name, text(called, "input"));
        let inputs = [text(called, "input"), text(item, "input")];
        let (_, is_clear) = given_arguments(inputs);
        call.incomplete = !is_clear || !is_one(function) || !is_whole(item);
        return Some(call);
    }
    let given = ARGUMENTS.iter().flat_map(|name| [called, item].map(|of| of.get(name)));
    let given = given.flatten().filter(|it| !it.is_null()).map(text_of);
    let (arguments, is_clear) = given_arguments(given);
    let is_none = arguments.is_none();
    let mut call = ToolCall::new(id, name, arguments.unwrap_or_default());
    // Responses sends `{}` for a call without arguments.
    let is_item = item.get("type").is_some_and(|kind| kind == "function_call");
    let is_lost = is_none || is_item && call.arguments.trim().is_empty();
    let unread = item.as_object().map(Unread::of).unwrap_or_default();
    let is_hidden = unread.may_be_meant(&call.arguments);
    call.incomplete = is_lost || is_hidden || !is_clear || !is_one(custom) || !is_whole(item);
    Some(call)
}

/// Returns whether the status of an item says that it is whole. Chat Completions has none.
fn is_whole(item: &Value) -> bool {
    item.get("status").is_none_or(|status| status.is_null() || status == "completed")
}

fn text(of: &Value, name: &str) -> String {
    of.get(name).map(text_of).unwrap_or_default()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
