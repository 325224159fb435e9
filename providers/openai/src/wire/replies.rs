use async_openai::types::chat::{
    ChatChoice, ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionResponseMessage, CreateChatCompletionResponse,
};
use async_openai::types::responses::{
    InputItem, OutputItem, OutputMessageContent, Response, WebSearchToolCallAction,
};
use toolwright_module::ToolCall;

use crate::wire::IntoToolCall;

/// A reply in `async-openai`'s types: what it says, what it calls, and itself as a part of
/// the next request.
///
/// Of a reply of Chat Completions with several choices this is the first.
///
/// ```
/// use async_openai::types::responses::{InputItem, Response};
/// use toolwright_openai::ReplyExt;
///
/// fn after(reply: &Response, input: &mut Vec<InputItem>) {
///     for call in reply.calls() {
///         println!("{} {}", call.name, call.arguments);
///     }
///     input.extend(reply.to_input());
/// }
/// ```
pub trait ReplyExt {
    /// A part of a conversation, as the API takes it.
    type Input;

    /// The calls of functions and of custom tools, in their order. async-openai 0.43 reads no
    /// custom call of Chat Completions: see [`read_call`](crate::read_call).
    fn calls(&self) -> Vec<ToolCall>;

    /// What it says to the user, if it does.
    fn text(&self) -> Option<String>;

    /// The whole reply as the next request has to repeat it.
    fn to_input(&self) -> Vec<Self::Input>;
}

impl ReplyExt for CreateChatCompletionResponse {
    type Input = ChatCompletionRequestMessage;

    fn calls(&self) -> Vec<ToolCall> {
        let calls = message(self).and_then(|message| message.tool_calls.as_ref());
        calls.into_iter().flatten().map(IntoToolCall::into_tool_call).collect()
    }

    fn text(&self) -> Option<String> {
        message(self)?.content.clone()
    }

    fn to_input(&self) -> Vec<Self::Input> {
        let said = message(self).map(|message| ChatCompletionRequestAssistantMessage {
            content: message.content.clone().map(Into::into),
            refusal: message.refusal.clone(),
            tool_calls: message.tool_calls.clone(),
            ..ChatCompletionRequestAssistantMessage::default()
        });
        said.into_iter().map(Into::into).collect()
    }
}

fn message(reply: &CreateChatCompletionResponse) -> Option<&ChatCompletionResponseMessage> {
    reply.choices.first().map(|ChatChoice { message, .. }| message)
}

impl ReplyExt for Response {
    type Input = InputItem;

    fn calls(&self) -> Vec<ToolCall> {
        let calls = self.output.iter().filter_map(|item| match item {
            OutputItem::FunctionCall(call) => Some(call.into_tool_call()),
            OutputItem::CustomToolCall(call) => Some(call.into_tool_call()),
            _ => None,
        });
        calls.collect()
    }

    fn text(&self) -> Option<String> {
        self.output_text()
    }

    fn to_input(&self) -> Vec<Self::Input> {
        self.output.iter().cloned().map(|item| sendable(item).into()).collect()
    }
}

/// Fills in the lists that `async-openai` 0.43 writes as `null`, which OpenAI's own
/// description does not allow.
fn sendable(mut item: OutputItem) -> OutputItem {
    match &mut item {
        OutputItem::Message(message) => {
            for content in &mut message.content {
                if let OutputMessageContent::OutputText(text) = content {
                    text.logprobs.get_or_insert_default();
                }
            }
        }
        OutputItem::WebSearchCall(call) => {
            if let Some(WebSearchToolCallAction::Search(search)) = &mut call.action {
                search.queries.get_or_insert_default();
                search.sources.get_or_insert_default();
            }
        }
        _ => {}
    }
    item
}
