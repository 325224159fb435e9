//! Outcomes as messages of Chat Completions and items of Responses.
use std::borrow::Cow;
use std::iter;

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestMessageContentPartFile,
    ChatCompletionRequestMessageContentPartImage, ChatCompletionRequestMessageContentPartText,
    ChatCompletionRequestToolMessage, ChatCompletionRequestToolMessageContent,
    ChatCompletionRequestUserMessage, ChatCompletionRequestUserMessageContent,
    ChatCompletionRequestUserMessageContentPart, FileObject, ImageUrl,
};
use async_openai::types::responses::{
    CustomToolCallOutput, CustomToolCallOutputOutput, FunctionCallOutput,
    FunctionCallOutputItemParam, InputContent, InputFileContent, InputImageContent,
    InputTextContent, Item,
};
use toolwright_module::message::{CallKind, Document, Part, Source};
use toolwright_module::message::{file_name, parts_of};

use crate::Outcome;

/// The conversion of an outcome to `async-openai`'s types.
pub trait OutcomeExt {
    /// Returns the message that answers the call over Chat Completions.
    ///
    /// It has only text: see [`parts_message`](Self::parts_message).
    fn tool_message(&self) -> ChatCompletionRequestMessage;

    /// Returns the outcome's images and documents for Chat Completions, if there are any. It is a
    /// user message. Send it after the tool messages of all calls of the turn.
    fn parts_message(&self) -> Option<ChatCompletionRequestMessage>;

    /// Returns the item that answers the call over Responses, with its images and documents.
    fn output_item(&self) -> Item;
}

impl<Out> OutcomeExt for Outcome<Out> {
    fn tool_message(&self) -> ChatCompletionRequestMessage {
        ChatCompletionRequestMessage::Tool(ChatCompletionRequestToolMessage {
            content: ChatCompletionRequestToolMessageContent::Text(self.content.clone()),
            tool_call_id: self.id.clone(),
        })
    }

    fn parts_message(&self) -> Option<ChatCompletionRequestMessage> {
        if self.parts().is_empty() {
            return None;
        }
        let intro = ChatCompletionRequestMessageContentPartText::from(parts_of(&self.id));
        let parts = iter::once(intro.into()).chain(self.parts().iter().map(chat_part)).collect();
        let content = ChatCompletionRequestUserMessageContent::Array(parts);
        Some(ChatCompletionRequestUserMessage { content, name: None }.into())
    }

    fn output_item(&self) -> Item {
        let (call_id, content) = (self.id.clone(), self.content.clone());
        match self.kind {
            // Only modules return parts, and a module is a function.
            CallKind::Custom => Item::CustomToolCallOutput(CustomToolCallOutput {
                call_id,
                output: CustomToolCallOutputOutput::Text(content),
                id: None,
                caller: None,
            }),
            _ => Item::FunctionCallOutput(FunctionCallOutputItemParam {
                call_id: Some(call_id),
                output: match self.parts() {
                    [] => FunctionCallOutput::Text(content),
                    parts => FunctionCallOutput::Content(content_of(content, parts)),
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

fn content_of(text: String, parts: &[Part]) -> Vec<InputContent> {
    iter::once(input_text(text)).chain(parts.iter().map(input_content)).collect()
}

fn input_text(text: String) -> InputContent {
    InputContent::InputText(InputTextContent { text, prompt_cache_breakpoint: None })
}

fn input_content(part: &Part) -> InputContent {
    match part {
        part if is_at_another_provider(part) => input_text(NOT_SENT.to_owned()),
        Part::Text(text) => input_text(text.clone()),
        Part::Image(image) => InputContent::InputImage(InputImageContent {
            image_url: image.source.to_url().map(Cow::into_owned),
            file_id: file_id(&image.source),
            ..InputImageContent::default()
        }),
        Part::Document(Document { source, .. }) => match source {
            _ if source.text().is_some() => {
                input_text(source.text().unwrap_or_default().to_owned())
            }
            Source::Url(url) => InputContent::InputFile(InputFileContent {
                file_url: Some(url.clone()),
                ..InputFileContent::default()
            }),
            source => InputContent::InputFile(InputFileContent {
                file_data: source.to_url().map(Cow::into_owned),
                filename: source.media_type().map(file_name),
                file_id: file_id(source),
                ..InputFileContent::default()
            }),
        },
        _ => input_text(NOT_SENT.to_owned()),
    }
}

/// The note for a part that the API has no form for.
const NOT_SENT: &str = "[A file of the result could not be sent: the API has no form for it.]";

/// Whether the part is a file whose id means nothing to OpenAI.
fn is_at_another_provider(part: &Part) -> bool {
    matches!(part.source(), Some(Source::File { provider, .. }) if provider != "openai")
}

fn file_id(source: &Source) -> Option<String> {
    match source {
        Source::File { id, .. } => Some(id.clone()),
        _ => None,
    }
}

fn chat_part(part: &Part) -> ChatCompletionRequestUserMessageContentPart {
    let text =
        |text: &str| ChatCompletionRequestMessageContentPartText::from(text.to_owned()).into();
    match part {
        part if is_at_another_provider(part) => text(NOT_SENT),
        Part::Text(said) => text(said),
        Part::Image(image) => match image.source.to_url() {
            Some(url) => ChatCompletionRequestMessageContentPartImage {
                image_url: ImageUrl { url: url.into_owned(), detail: None },
                prompt_cache_breakpoint: None,
            }
            .into(),
            None => text(NOT_SENT),
        },
        Part::Document(Document { source, .. }) => match source {
            _ if source.text().is_some() => text(source.text().unwrap_or_default()),
            Source::Url(url) => text(&format!("[A document: {url}]")),
            source => ChatCompletionRequestUserMessageContentPart::File(
                ChatCompletionRequestMessageContentPartFile {
                    file: FileObject {
                        file_data: source.to_url().map(Cow::into_owned),
                        filename: source.media_type().map(file_name),
                        file_id: file_id(source),
                    },
                    prompt_cache_breakpoint: None,
                },
            ),
        },
        _ => text(NOT_SENT),
    }
}
