//! Outcomes as messages of Chat Completions and items of Responses.
use std::iter;

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestMessageContentPartImage,
    ChatCompletionRequestMessageContentPartText, ChatCompletionRequestToolMessage,
    ChatCompletionRequestToolMessageContent, ChatCompletionRequestUserMessage,
    ChatCompletionRequestUserMessageContent, ImageUrl,
};
use async_openai::types::responses::{
    CustomToolCallOutput, CustomToolCallOutputOutput, FunctionCallOutput,
    FunctionCallOutputItemParam, InputContent, InputImageContent, InputTextContent, Item,
};
use toolwright_module::message::{CallKind, Image};
use toolwright_module::provider::images_of;

use crate::Outcome;

/// The conversion of an outcome to `async-openai`'s types.
pub trait OutcomeExt {
    /// Returns the message that answers the call over Chat Completions.
    ///
    /// It has no images: see [`image_message`](Self::image_message).
    fn tool_message(&self) -> ChatCompletionRequestMessage;

    /// Returns the outcome's images for Chat Completions, if there are any. It is a user message.
    /// Send it after the tool messages of all calls of the turn.
    fn image_message(&self) -> Option<ChatCompletionRequestMessage>;

    /// Returns the item that answers the call over Responses, with its images.
    fn output_item(&self) -> Item;
}

impl<Out> OutcomeExt for Outcome<Out> {
    fn tool_message(&self) -> ChatCompletionRequestMessage {
        ChatCompletionRequestMessage::Tool(ChatCompletionRequestToolMessage {
            content: ChatCompletionRequestToolMessageContent::Text(self.content.clone()),
            tool_call_id: self.id.clone(),
        })
    }

    fn image_message(&self) -> Option<ChatCompletionRequestMessage> {
        if self.images().is_empty() {
            return None;
        }
        let intro = ChatCompletionRequestMessageContentPartText::from(images_of(&self.id));
        let images = self.images().iter().filter_map(address).map(|url| {
            ChatCompletionRequestMessageContentPartImage {
                image_url: ImageUrl { url, detail: None },
                prompt_cache_breakpoint: None,
            }
        });
        let parts = iter::once(intro.into()).chain(images.map(Into::into)).collect();
        let content = ChatCompletionRequestUserMessageContent::Array(parts);
        Some(ChatCompletionRequestUserMessage { content, name: None }.into())
    }

    fn output_item(&self) -> Item {
        let (call_id, content) = (self.id.clone(), self.content.clone());
        match self.kind {
            // Only modules return images, and a module is a function.
            CallKind::Custom => Item::CustomToolCallOutput(CustomToolCallOutput {
                call_id,
                output: CustomToolCallOutputOutput::Text(content),
                id: None,
                caller: None,
            }),
            _ => Item::FunctionCallOutput(FunctionCallOutputItemParam {
                call_id: Some(call_id),
                output: match self.images() {
                    [] => FunctionCallOutput::Text(content),
                    images => FunctionCallOutput::Content(illustrated(content, images)),
                },
                id: None,
                status: None,
                name: None,
                namespace: None,
                caller: None,
            }),
        }
    }
}

fn illustrated(text: String, images: &[Image]) -> Vec<InputContent> {
    let text = InputContent::InputText(InputTextContent { text, prompt_cache_breakpoint: None });
    let images = images.iter().filter_map(address).map(|url| {
        InputContent::InputImage(InputImageContent {
            image_url: Some(url),
            ..InputImageContent::default()
        })
    });
    iter::once(text).chain(images).collect()
}

fn address(image: &Image) -> Option<String> {
    match image {
        Image::Url(url) => Some(url.clone()),
        _ => None,
    }
}
