//! The body of a request of Responses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;
use toolwright_module::message::{Document, Image, Part, ReplyPart, Source, ToolResult};
use toolwright_module::provider::file_name;
use toolwright_module::{Message, Request};

use super::PROVIDER;
use crate::error::Result;
use crate::request::{
    Choice, Function, Options, Schema, Schemas, arguments, effort, file_id, schemas, settings,
    unknown,
};

/// The body of a request.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    input: Input<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<Named<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    max_output_tokens: u64,
    #[serde(flatten)]
    settings: SentSettings,
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

/// The settings, by the names of this API.
#[derive(Serialize)]
struct SentSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Named<'a> {
    name: &'a str,
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
        let settings = settings(request, options)?.into_owned();
        let encrypted = options.encrypted_reasoning;
        Ok(Self {
            model: options.model,
            input: Input(&request.messages),
            tools: functions.into_iter().map(|function| Tool { function }).collect(),
            tool_choice: Choice::of(request, |name| Named { name }),
            text: format.map(|schema| Text { format: Format { schema } }),
            max_output_tokens: settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS),
            settings: SentSettings {
                temperature: settings.temperature,
                top_p: settings.top_p,
                reasoning: settings.effort.map(|level| Reasoning { effort: effort(level) }),
                parallel_tool_calls: settings.parallel_calls.filter(|_| !request.tools.is_empty()),
                safety_identifier: settings.user,
                metadata: settings.metadata,
            },
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
    /// An item of this API, unchanged.
    Opaque(&'a Value),
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

    /// Returns the item of a part of a model's message. There is no item for the reasoning and the
    /// opaque parts of another provider.
    fn of(part: &'a ReplyPart) -> Option<Self> {
        match part {
            ReplyPart::Text(text) => Some(Self::message("assistant", Content::Text(text))),
            ReplyPart::Reasoning(reasoning) => (reasoning.provider == PROVIDER
                && reasoning.opaque.is_object())
            .then_some(Self::Opaque(&reasoning.opaque)),
            ReplyPart::Other(other) => other.of(PROVIDER).map(Self::Opaque),
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
            output: if result.parts.is_empty() {
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
#[serde(tag = "type")]
enum Piece<'a> {
    #[serde(rename = "input_text")]
    Text { text: &'a str },
    #[serde(rename = "input_image")]
    Image {
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
        detail: &'static str,
    },
    #[serde(rename = "input_file")]
    File(File<'a>),
}

#[derive(Serialize, Default)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
}

impl<'a> Piece<'a> {
    fn of<E: serde::ser::Error>(part: &'a Part) -> Result<Self, E> {
        match part {
            Part::Text(text) => Ok(Self::Text { text }),
            Part::Image(Image { source, .. }) => Ok(Self::Image {
                image_url: source.to_url(),
                file_id: file_id(source)?,
                detail: "auto",
            }),
            Part::Document(Document { source, .. }) => match source {
                _ if source.text().is_some() => {
                    Ok(Self::Text { text: source.text().unwrap_or_default() })
                }
                Source::Url(url) if !url.starts_with("data:") => {
                    Ok(Self::File(File { file_url: Some(url), ..File::default() }))
                }
                source => Ok(Self::File(File {
                    file_data: source.to_url(),
                    filename: source.media_type().map(file_name),
                    file_id: file_id(source)?,
                    file_url: None,
                })),
            },
            Part::Audio(_) => Err(E::custom("Responses takes no audio; use `Api::Chat`")),
            _ => Err(unknown()),
        }
    }
}

/// The content of a user's message that is not one text.
struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0 {
            content.serialize_element(&Piece::of(part)?)?;
        }
        content.end()
    }
}

/// A tool's result with images or files.
struct Illustrated<'a>(&'a ToolResult);

impl Serialize for Illustrated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(None)?;
        if !self.0.text.is_empty() {
            content.serialize_element(&Piece::Text { text: &self.0.text })?;
        }
        for part in &self.0.parts {
            content.serialize_element(&Piece::of(part)?)?;
        }
        content.end()
    }
}
