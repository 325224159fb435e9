//! The body of a request of Chat Completions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use toolwright_module::message::{Audio, Document, Image, Part, ReplyPart, Source, ToolResult};
use toolwright_module::provider::{file_name, parts_of};
use toolwright_module::{Message, Request, ToolCall};

use crate::error::Result;
use crate::request::{
    Choice, Function, Options, Schema, Schemas, Texts, arguments, effort, file_id, schemas,
    settings, unknown,
};

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<Named<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    // Reasoning models reject the older `max_tokens`.
    max_completion_tokens: u64,
    #[serde(flatten)]
    settings: SentSettings,
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

/// The settings, by the names of this API.
#[derive(Serialize)]
struct SentSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Named<'a> {
    function: Name<'a>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    pub(crate) fn new(request: &'a Request, options: &Options<'a>) -> Result<Self> {
        let Schemas { functions, format } = schemas(request, options)?;
        let settings = settings(request, options)?.into_owned();
        Ok(Self {
            model: options.model,
            messages: Messages(&request.messages),
            tools: functions.into_iter().map(|function| Tool { function }).collect(),
            tool_choice: Choice::of(request, |name| Named { function: Name { name } }),
            response_format: format.map(|json_schema| Format { json_schema }),
            max_completion_tokens: settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS),
            settings: SentSettings {
                temperature: settings.temperature,
                top_p: settings.top_p,
                seed: settings.seed,
                stop: settings.stop,
                reasoning_effort: settings.effort.map(effort),
                // The API refuses it in a request without tools.
                parallel_tool_calls: settings.parallel_calls.filter(|_| !request.tools.is_empty()),
                user: settings.user,
                metadata: settings.metadata,
            },
            stream: options.stream,
            stream_options: options.stream.then_some(StreamOptions { include_usage: true }),
        })
    }
}

struct Messages<'a>(&'a [Arc<Message>]);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut with_parts = Vec::new();
        for (at, message) in self.0.iter().enumerate() {
            messages.serialize_element(&Entry(message))?;
            match &**message {
                Message::Tool(result) if !result.parts.is_empty() => with_parts.push(result),
                _ => {}
            }
            // Servers reject other messages between a turn's calls and their results.
            let is_last = !matches!(self.0.get(at + 1).map(Arc::as_ref), Some(Message::Tool(_)));
            if is_last && !with_parts.is_empty() {
                messages.serialize_element(&Shown { role: "user", content: Shows(&with_parts) })?;
                with_parts.clear();
            }
        }
        messages.end()
    }
}

/// The images and files of tool results as a message of the user. A tool's message cannot contain
/// them.
#[derive(Serialize)]
struct Shown<'a> {
    role: &'static str,
    content: Shows<'a>,
}

struct Shows<'a>(&'a [&'a ToolResult]);

impl Serialize for Shows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(None)?;
        for result in self.0 {
            content.serialize_element(&Piece::Text { text: &parts_of(&result.id) })?;
            for part in &result.parts {
                content.serialize_element(&Piece::of(part)?)?;
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
            content.serialize_element(&Piece::of(part)?)?;
        }
        content.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
    InputAudio { input_audio: InputAudio<'a> },
}

impl<'a> Piece<'a> {
    fn of<E: serde::ser::Error>(part: &'a Part) -> Result<Self, E> {
        match part {
            Part::Text(text) => Ok(Self::Text { text }),
            Part::Image(Image { source, .. }) => match source.to_url() {
                Some(url) => Ok(Self::ImageUrl { image_url: ImageUrl { url } }),
                None => Err(E::custom(
                    "Chat Completions takes no image by file id; send its bytes or its address, or use `Api::Responses`",
                )),
            },
            Part::Document(Document { source, .. }) => match source {
                _ if source.text().is_some() => {
                    Ok(Self::Text { text: source.text().unwrap_or_default() })
                }
                Source::Url(url) if !url.starts_with("data:") => Err(E::custom(
                    "Chat Completions takes no document by address; send its bytes, or use `Api::Responses`",
                )),
                source => Ok(Self::File {
                    file: File {
                        file_data: source.to_url(),
                        filename: source.media_type().map(file_name),
                        file_id: file_id(source)?,
                    },
                }),
            },
            Part::Audio(Audio { source, .. }) => match source.to_base64() {
                Some((media_type, data)) => Ok(Self::InputAudio {
                    input_audio: InputAudio { data, format: format_of(media_type) },
                }),
                None => Err(E::custom("Chat Completions takes audio only as bytes")),
            },
            _ => Err(unknown()),
        }
    }
}

/// Returns the API's word for a type of audio: `mp3` for `audio/mpeg`, and otherwise the part after
/// the slash.
fn format_of(media_type: &str) -> &str {
    match media_type.rsplit('/').next().unwrap_or_default() {
        "mpeg" | "mp3" => "mp3",
        "wav" | "x-wav" | "wave" => "wav",
        other => other,
    }
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: Cow<'a, str>,
    format: &'a str,
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
