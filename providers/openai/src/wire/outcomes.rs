use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestToolMessageContent,
};
use async_openai::types::responses::{
    CustomToolCallOutput, CustomToolCallOutputOutput, FunctionCallOutput,
    FunctionCallOutputItemParam, Item,
};
use toolwright_module::{CallKind, Outcome};

/// An outcome in `async-openai`'s types: what goes back to the model.
pub trait OutcomeExt {
    /// The message that answers the call over Chat Completions.
    fn tool_message(&self) -> ChatCompletionRequestMessage;

    /// The item that answers the call over Responses.
    fn output_item(&self) -> Item;
}

impl<Out> OutcomeExt for Outcome<Out> {
    fn tool_message(&self) -> ChatCompletionRequestMessage {
        ChatCompletionRequestMessage::Tool(ChatCompletionRequestToolMessage {
            content: ChatCompletionRequestToolMessageContent::Text(self.content.clone()),
            tool_call_id: self.id.clone(),
        })
    }

    fn output_item(&self) -> Item {
        let (call_id, content) = (self.id.clone(), self.content.clone());
        match self.kind {
            CallKind::Custom => Item::CustomToolCallOutput(CustomToolCallOutput {
                call_id,
                output: CustomToolCallOutputOutput::Text(content),
                id: None,
                caller: None,
            }),
            _ => Item::FunctionCallOutput(FunctionCallOutputItemParam {
                call_id: Some(call_id),
                output: FunctionCallOutput::Text(content),
                id: None,
                status: None,
                name: None,
                namespace: None,
                caller: None,
            }),
        }
    }
}
