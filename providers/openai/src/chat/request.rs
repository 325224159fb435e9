//! The body of a request of Chat Completions.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use toolwright_module::message::{Image, Part, ReplyPart, ToolResult};
use toolwright_module::provider::images_of;
use toolwright_module::{Message, Request, ToolCall};

use crate::error::Result;
use crate::request::{
    Function, Options, Schema, Schemas, Texts, arguments, schemas, tool_choice, unknown,
};

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    // Reasoning models reject the older `max_tokens`.
    max_completion_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    function: Function<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct Format<'a> {
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    pub(crate) fn new(request: &'a Request, options: &Options<'a>) -> Result<Self> {
        let Schemas { functions, format } = schemas(request, options)?;
        Ok(Self {
            model: options.model,
            messages: Messages(&request.messages),
            tools: functions.into_iter().map(|function| Tool { function }).collect(),
            tool_choice: tool_choice(request),
            response_format: format.map(|json_schema| Format { json_schema }),
            max_completion_tokens: request.max_output_tokens,
            temperature: options.temperature,
            stream: options.stream,
            stream_options: options.stream.then_some(StreamOptions { include_usage: true }),
        })
    }
}

struct Messages<'a>(&'a [Arc<Message>]);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut with_images = Vec::new();
        for (at, message) in self.0.iter().enumerate() {
            messages.serialize_element(&Entry(message))?;
            match &**message {
                Message::Tool(result) if !result.images.is_empty() => with_images.push(result),
                _ => {}
            }
            // Servers reject other messages between a turn's calls and their results.
            let is_last = !matches!(self.0.get(at + 1).map(Arc::as_ref), Some(Message::Tool(_)));
            if is_last && !with_images.is_empty() {
                messages
                    .serialize_element(&Shown { role: "user", content: Images(&with_images) })?;
                with_images.clear();
            }
        }
        messages.end()
    }
}

/// The images of tool results as a message of the user. A tool's message cannot contain them.
#[derive(Serialize)]
struct Shown<'a> {
    role: &'static str,
    content: Images<'a>,
}

struct Images<'a>(&'a [&'a ToolResult]);

impl Serialize for Images<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(None)?;
        for result in self.0 {
            content.serialize_element(&Piece::Text { text: &images_of(&result.id) })?;
            for image in &result.images {
                content.serialize_element(&Piece::image(image).ok_or_else(unknown)?)?;
            }
        }
        content.end()
    }
}

struct Entry<'a>(&'a Message);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_map(None)?;
        match self.0 {
            Message::System { text } => {
                entry.serialize_entry("role", "system")?;
                entry.serialize_entry("content", text)?;
            }
            Message::User { parts } => {
                entry.serialize_entry("role", "user")?;
                entry.serialize_entry("content", &Content(parts))?;
            }
            Message::Assistant { parts } => {
                let (texts, calls) = (Texts(parts), Calls(parts));
                let has_calls = calls.iter().next().is_some();
                let has_text = texts.iter().next().is_some();
                entry.serialize_entry("role", "assistant")?;
                // Servers reject a message without text and calls, but accept an empty text.
                entry.serialize_entry("content", &(has_text || !has_calls).then_some(texts))?;
                if has_calls {
                    entry.serialize_entry("tool_calls", &calls)?;
                }
            }
            Message::Tool(result) => {
                entry.serialize_entry("role", "tool")?;
                entry.serialize_entry("tool_call_id", &result.id)?;
                entry.serialize_entry("content", &result.text)?;
            }
            _ => return Err(unknown()),
        }
        entry.end()
    }
}

/// The content of a user's message: a string if it is one text, and otherwise a list.
struct Content<'a>(&'a [Part]);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let [Part::Text(text)] = self.0 {
            return serializer.serialize_str(text);
        }
        let mut content = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0 {
            let piece = match part {
                Part::Text(text) => Some(Piece::Text { text }),
                Part::Image(image) => Piece::image(image),
                _ => None,
            };
            content.serialize_element(&piece.ok_or_else(unknown)?)?;
        }
        content.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

impl<'a> Piece<'a> {
    fn image(image: &'a Image) -> Option<Self> {
        match image {
            Image::Url(url) => Some(Self::ImageUrl { image_url: ImageUrl { url } }),
            _ => None,
        }
    }
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

struct Calls<'a>(&'a [ReplyPart]);

impl Calls<'_> {
    fn iter(&self) -> impl Iterator<Item = &ToolCall> {
        self.0.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|call| Call {
            id: &call.id,
            function: Called { name: &call.name, arguments: arguments(call) },
        }))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Call<'a> {
    id: &'a str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}
