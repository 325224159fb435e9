use async_openai::types::chat::{
    ChatCompletionMessageCustomToolCall, ChatCompletionMessageToolCall,
    ChatCompletionMessageToolCalls,
};
use async_openai::types::responses::{CustomToolCall, FunctionToolCall};
use toolwright_module::ToolCall;

/// A call in any of `async-openai`'s types as the one that a
/// [`ToolGroup`](toolwright_module::ToolGroup) runs.
///
/// ```
/// use async_openai::types::responses::FunctionToolCall;
/// use toolwright_openai::IntoToolCall;
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
    /// The same call.
    fn into_tool_call(self) -> ToolCall;
}

impl IntoToolCall for ToolCall {
    fn into_tool_call(self) -> ToolCall {
        self
    }
}

impl IntoToolCall for FunctionToolCall {
    fn into_tool_call(self) -> ToolCall {
        // Its `id` is the item's, and nobody is answered by it.
        ToolCall::new(self.call_id, self.name, self.arguments)
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
