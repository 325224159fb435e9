use serde::Serialize;
use serde_json::{Map, Value, json};

/// One piece of a UI message stream, as `uiMessageChunkSchema` of the package `ai` has it.
///
/// `ResetStep` and `ToolApprovalResponse` exist since version 7. Version 6 ends a stream that has them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Chunk {
    Start {
        message_id: String,
    },
    StartStep,
    FinishStep,
    ResetStep,
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    ToolInputStart {
        tool_call_id: String,
        tool_name: String,
        dynamic: bool,
    },
    ToolInputDelta {
        tool_call_id: String,
        input_text_delta: String,
    },
    ToolInputAvailable {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        dynamic: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    ToolInputError {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        dynamic: bool,
        error_text: String,
    },
    ToolApprovalRequest {
        approval_id: String,
        tool_call_id: String,
        #[serde(skip_serializing_if = "Value::is_null")]
        approval_descriptor: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Nobody is asked. Version 6 does not know it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_automatic: bool,
    },
    ToolApprovalResponse {
        approval_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolOutputAvailable {
        tool_call_id: String,
        output: String,
        provider_metadata: Value,
    },
    ToolOutputError {
        tool_call_id: String,
        error_text: String,
        provider_metadata: Value,
    },
    ToolOutputDenied {
        tool_call_id: String,
    },
    MessageMetadata {
        message_metadata: Value,
    },
    Finish {
        finish_reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_metadata: Option<Value>,
    },
    Abort {
        reason: String,
    },
    Error {
        error_text: String,
    },
    #[serde(untagged)]
    Data {
        #[serde(rename = "type")]
        name: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        data: Value,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        transient: bool,
    },
}

impl Chunk {
    /// Returns the text of the server-sent event.
    pub(crate) fn to_text(&self) -> String {
        // Its keys are texts, and none of its values can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns a part that is not in the message, but only given to the page.
    pub(crate) fn transient(name: &'static str, data: Value) -> Self {
        Self::Data { name, id: None, data: readable(data), transient: true }
    }

    /// Returns a part that replaces the earlier one with its name and id.
    pub(crate) fn data(name: &'static str, id: impl Into<String>, data: Value) -> Self {
        Self::Data { name, id: Some(id.into()), data: readable(data), transient: false }
    }
}

/// Returns a value that the client reads: the client ends a stream that has a `__proto__`, or a
/// `constructor` with a `prototype`. Such a value becomes its JSON, as a text.
pub(crate) fn readable(value: Value) -> Value {
    match is_readable(&value) {
        true => value,
        false => Value::String(value.to_string()),
    }
}

fn is_readable(value: &Value) -> bool {
    let is_prototype = |map: &Map<String, Value>| {
        let constructor = map.get("constructor").and_then(Value::as_object);
        map.contains_key("__proto__") || constructor.is_some_and(|it| it.contains_key("prototype"))
    };
    match value {
        Value::Object(map) => !is_prototype(map) && map.values().all(is_readable),
        Value::Array(values) => values.iter().all(is_readable),
        _ => true,
    }
}

/// Returns the arguments of a call: a value, or the text if it is not JSON.
pub(crate) fn input(arguments: &str) -> Value {
    match arguments.trim() {
        "" => json!({}),
        text => readable(serde_json::from_str(text).unwrap_or_else(|_| json!(arguments))),
    }
}
