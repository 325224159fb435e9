//! The body of a request of Responses.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;
use toolwright_module::message::{Image, Part, ReplyPart, ToolResult};
use toolwright_module::{Message, Request};

use super::PROVIDER;
use crate::error::Result;
use crate::request::{
    Function, Options, Schema, Schemas, arguments, schemas, tool_choice, unknown,
};

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    input: Input<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    #[serde(flatten)]
    function: Function<'a>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct Format<'a> {
    #[serde(flatten)]
    schema: Schema<'a>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(request: &'a Request, options: &Options<'a>) -> Result<Self> {
        let Schemas { functions, format } = schemas(request, options)?;
        let encrypted = options.encrypted_reasoning;
        Ok(Self {
            model: options.model,
            input: Input(&request.messages),
            tools: functions.into_iter().map(|function| Tool { function }).collect(),
            tool_choice: tool_choice(request),
            text: format.map(|schema| Text { format: Format { schema } }),
            max_output_tokens: request.max_output_tokens,
            temperature: options.temperature,
            store: encrypted.then_some(false),
            include: encrypted.then_some(["reasoning.encrypted_content"]),
            stream: options.stream,
        })
    }
}

/// The conversation as a flat list of items. Each part of a model's message is an item.
struct Input<'a>(&'a [Arc<Message>]);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut input = serializer.serialize_seq(None)?;
        for message in self.0 {
            match &**message {
                Message::System { text } => {
                    input.serialize_element(&Item::message("system", Content::Text(text)))?;
                }
                Message::User { parts } => {
                    let content = match &parts[..] {
                        [Part::Text(text)] => Content::Text(text),
                        parts => Content::Parts(Parts(parts)),
                    };
                    input.serialize_element(&Item::message("user", content))?;
                }
                Message::Assistant { parts } => {
                    for item in parts.iter().filter_map(Item::of) {
                        input.serialize_element(&item)?;
                    }
                }
                Message::Tool(result) => input.serialize_element(&Item::result(result))?,
                _ => return Err(unknown()),
            }
        }
        input.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// A reasoning item, unchanged.
    Reasoning(&'a Value),
    Own(Own<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Own<'a> {
    Message { role: &'static str, content: Content<'a> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: Cow<'a, str> },
    FunctionCallOutput { call_id: &'a str, output: Content<'a> },
}

impl<'a> Item<'a> {
    fn message(role: &'static str, content: Content<'a>) -> Self {
        Self::Own(Own::Message { role, content })
    }

    /// Returns the item of a part of a model's message. There is no item for the reasoning of
    /// another provider.
    fn of(part: &'a ReplyPart) -> Option<Self> {
        match part {
            ReplyPart::Text(text) => Some(Self::message("assistant", Content::Text(text))),
            ReplyPart::Reasoning(reasoning) => (reasoning.provider == PROVIDER
                && reasoning.opaque.is_object())
            .then_some(Self::Reasoning(&reasoning.opaque)),
            ReplyPart::Call(call) => Some(Self::Own(Own::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: arguments(call),
            })),
            _ => None,
        }
    }

    fn result(result: &'a ToolResult) -> Self {
        Self::Own(Own::FunctionCallOutput {
            call_id: &result.id,
            output: if result.images.is_empty() {
                Content::Text(&result.text)
            } else {
                Content::Result(Illustrated(result))
            },
        })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Parts<'a>),
    Result(Illustrated<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    InputText { text: &'a str },
    InputImage { image_url: &'a str, detail: &'static str },
}

impl<'a> Piece<'a> {
    fn image(image: &'a Image) -> Option<Self> {
        match image {
            Image::Url(url) => Some(Self::InputImage { image_url: url, detail: "auto" }),
            _ => None,
        }
    }
}

/// The content of a user's message that is not one text.
struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0 {
            let piece = match part {
                Part::Text(text) => Some(Piece::InputText { text }),
                Part::Image(image) => Piece::image(image),
                _ => None,
            };
            content.serialize_element(&piece.ok_or_else(unknown)?)?;
        }
        content.end()
    }
}

/// A tool's result with images.
struct Illustrated<'a>(&'a ToolResult);

impl Serialize for Illustrated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(None)?;
        if !self.0.text.is_empty() {
            content.serialize_element(&Piece::InputText { text: &self.0.text })?;
        }
        for image in &self.0.images {
            content.serialize_element(&Piece::image(image).ok_or_else(unknown)?)?;
        }
        content.end()
    }
}
