//! The wire form of one message, which depends on the message alone.
//!
//! Neighbours of one role become one message of the API, and the results of a turn's calls come
//! first in it. So a message is kept as its blocks, with commas between them and without brackets.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::{Value, json};
use toolwright_module::message::{
    CallKind, Document, Image, Part, Reasoning, ReplyPart, Source, Text, ToolResult,
};
use toolwright_module::message::{object_of, parts_of};
use toolwright_module::{Message, ToolCall};
use toolwright_provider::unread::{IMAGES, is_of, type_in};
use toolwright_provider::{JsonBody, in_content, portable_id, portable_name};

use crate::PROVIDER;
use crate::reply::CONTAINER;

/// Maximum length of an id, in bytes.
const LONGEST_ID: usize = 64;
/// Maximum length of a tool's name, in bytes.
const LONGEST_NAME: usize = 128;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message in its wire form.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) role: Role,
    /// The results of calls, which come first in a turn.
    pub(crate) results: Vec<u8>,
    /// All other blocks.
    pub(crate) blocks: Vec<u8>,
    /// The index of the part that the last of these blocks is from.
    last_part: usize,
    /// The names of the tools that are called.
    pub(crate) calls: Vec<String>,
    /// The container in which the model's code runs. A call out of that code needs it.
    pub(crate) container: Option<String>,
}

impl Written {
    /// Writes a message. With `citations`, the model cites the documents. With `must_sign`, the
    /// server is one of those that sign all thinking. With `refers`, the API loads the tools that a
    /// result refers to.
    pub(crate) fn of(
        message: &Message,
        citations: bool,
        must_sign: bool,
        refers: bool,
    ) -> serde_json::Result<Self> {
        let mut written = Self::new(Role::User);
        match message {
            Message::System { text } => {
                written.role = Role::System;
                written.text(text)?;
            }
            Message::User { parts } => {
                for part in parts {
                    written.part(part, citations)?;
                }
            }
            Message::Assistant { parts } => {
                written.role = Role::Assistant;
                // The thoughts that were in a text go back with it.
                let mut thoughts = String::new();
                for (index, part) in parts.iter().enumerate() {
                    let before = written.blocks.len();
                    match part {
                        ReplyPart::Reasoning(reasoning)
                            if let Some(texts) = in_content(reasoning, PROVIDER) =>
                        {
                            thoughts.extend(texts);
                            let next = parts.get(index + 1);
                            if !next.is_some_and(goes_on) {
                                written.text(thoughts.trim_end())?;
                                thoughts.clear();
                            }
                        }
                        ReplyPart::Text(text) if !thoughts.is_empty() => {
                            thoughts.push_str(text);
                            written.text(&thoughts)?;
                            thoughts.clear();
                        }
                        ReplyPart::Reasoning(reasoning) => {
                            if may_go_back(reasoning, &parts[index + 1..], must_sign) {
                                written.push(&reasoning.opaque)?;
                            }
                        }
                        part => written.reply_part(part)?,
                    }
                    if written.blocks.len() > before {
                        written.last_part = index;
                    }
                }
            }
            Message::Tool(result) if refers && !result.failed && !result.found.is_empty() => {
                written.references(result)?;
            }
            Message::Tool(result) => written.result(result, citations)?,
            _ => return Err(unknown("message")),
        }
        Ok(written)
    }

    fn new(role: Role) -> Self {
        let (results, blocks, calls) = Default::default();
        Self { role, results, blocks, last_part: 0, calls, container: None }
    }

    /// Whether the message has no block, so that it is not sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.results.is_empty()
    }

    /// Returns the message without the white space after its last text, or `None` if there is not
    /// any. The API refuses it at the end of a conversation, where the model continues the text.
    pub(crate) fn without_last_space(&self, message: &Message) -> Option<Message> {
        let Message::Assistant { parts } = message else { return None };
        let Some(ReplyPart::Text(text)) = parts.get(self.last_part) else { return None };
        let length = text.text.trim_end().len();
        if length == text.text.len() {
            return None;
        }
        let mut parts = parts.clone();
        if let Some(ReplyPart::Text(text)) = parts.get_mut(self.last_part) {
            text.text.truncate(length);
        }
        Some(Message::Assistant { parts })
    }

    fn push(&mut self, block: &impl Serialize) -> serde_json::Result<()> {
        push(&mut self.blocks, block)
    }

    /// Adds a block that is JSON already.
    fn add(&mut self, block: &[u8]) {
        if !self.blocks.is_empty() {
            self.blocks.push(b',');
        }
        self.blocks.extend_from_slice(block);
    }

    /// Adds a text. The API refuses blank ones.
    fn text(&mut self, text: &str) -> serde_json::Result<()> {
        match text.trim().is_empty() {
            true => Ok(()),
            false => self.push(&Block::Text { text }),
        }
    }

    fn part(&mut self, part: &Part, citations: bool) -> serde_json::Result<()> {
        match part {
            Part::Text(text) => self.text(text),
            part => self.push(&Block::of(part, citations)?),
        }
    }

    fn reply_part(&mut self, part: &ReplyPart) -> serde_json::Result<()> {
        match part {
            ReplyPart::Text(Text { text, opaque, .. }) => {
                let fields = opaque.as_ref().and_then(|opaque| opaque.of(PROVIDER)?.as_object());
                if fields.is_none() || text.trim().is_empty() {
                    return self.text(text);
                }
                let mut block = JsonBody::new(fields);
                block.field("type", "text")?;
                block.field("text", text)?;
                self.add(&block.end()?);
                Ok(())
            }
            ReplyPart::Call(call) => self.call(call),
            ReplyPart::Other(other) => {
                let Some(value) = other.of(PROVIDER) else { return Ok(()) };
                if let Some(id) = value[CONTAINER].get("id").and_then(Value::as_str) {
                    self.container = Some(id.to_owned());
                }
                // Without a type it is not a block.
                if value["type"].is_string() { self.push(value) } else { Ok(()) }
            }
            _ => Err(unknown("part of a reply")),
        }
    }

    fn call(&mut self, call: &ToolCall) -> serde_json::Result<()> {
        let input = match call.kind {
            CallKind::Function => match object_of(&call.arguments) {
                Some(object) => object,
                None => Cow::Borrowed(call.arguments.trim()),
            },
            // The input of a custom tool is text, and this API has no field for it.
            _ => Cow::Owned(json!({"input": call.arguments}).to_string()),
        };
        let name = portable_name(&call.name, LONGEST_NAME);
        let opaque = call.opaque.as_ref();
        let mut block = JsonBody::new(opaque.and_then(|opaque| opaque.of(PROVIDER)?.as_object()));
        block.field("type", "tool_use")?;
        block.field("id", &portable_id(&call.id, LONGEST_ID))?;
        block.field("name", &name)?;
        block.raw("input", input.as_bytes());
        self.add(&block.end()?);
        self.calls.push(name.into_owned());
        Ok(())
    }

    /// Writes the result of a search for tools. Beside the references, the API takes nothing else.
    fn references(&mut self, result: &ToolResult) -> serde_json::Result<()> {
        let names = result.found.iter();
        let blocks = names.map(|tool_name| Block::ToolReference { tool_name }).collect();
        let tool_use_id = portable_id(&result.id, LONGEST_ID);
        let content = Some(Content::Blocks(blocks));
        push(&mut self.results, &Block::ToolResult { tool_use_id, content, is_error: false })
    }

    fn result(&mut self, result: &ToolResult, citations: bool) -> serde_json::Result<()> {
        // The API refuses anything but text in the result of a failed call.
        let (inside, beside) = match result.failed {
            true => (&[][..], &result.parts[..]),
            false => (&result.parts[..], &[][..]),
        };
        let content = match inside {
            [] if result.text.is_empty() => None,
            [] => Some(Content::Text(&result.text)),
            parts => {
                let text = Some(&*result.text).filter(|text| !text.trim().is_empty());
                let text = text.map(|text| Ok(Block::Text { text }));
                let parts = parts.iter().filter(|part| !is_blank(part));
                let parts = parts.map(|part| Block::of(part, citations));
                let blocks = text.into_iter().chain(parts).collect::<Result<Vec<_>, _>>()?;
                Some(Content::Blocks(blocks))
            }
        };
        let id = portable_id(&result.id, LONGEST_ID);
        if !beside.is_empty() {
            self.text(&parts_of(&id))?;
            for part in beside {
                self.part(part, citations)?;
            }
        }
        let block = Block::ToolResult { tool_use_id: id, content, is_error: result.failed };
        push(&mut self.results, &block)
    }
}

fn push(blocks: &mut Vec<u8>, block: &impl Serialize) -> serde_json::Result<()> {
    match blocks.is_empty() {
        true => blocks.reserve(128),
        false => blocks.push(b','),
    }
    serde_json::to_writer(blocks, block)
}

fn is_blank(part: &Part) -> bool {
    matches!(part, Part::Text(text) if text.trim().is_empty())
}

/// Whether a part is more of the text that began with thoughts.
fn goes_on(part: &ReplyPart) -> bool {
    match part {
        ReplyPart::Text(text) => text.opaque.is_none(),
        ReplyPart::Reasoning(reasoning) => in_content(reasoning, PROVIDER).is_some(),
        _ => false,
    }
}

/// Whether reasoning is of this provider and complete. `rest` are the parts after it.
///
/// Anthropic refuses thinking without a signature. Other servers with this API, such as those of
/// DeepSeek and Kimi, do not sign, and refuse a call whose thinking is missing. There, thinking is
/// complete if something follows it; otherwise the reply was cut off in it.
fn may_go_back(reasoning: &Reasoning, rest: &[ReplyPart], must_sign: bool) -> bool {
    let signed = |value: &Value| value.as_str().is_some_and(|signature| !signature.is_empty());
    let is_followed =
        || rest.iter().any(|part| matches!(part, ReplyPart::Text(_) | ReplyPart::Call(_)));
    reasoning.provider == PROVIDER
        && reasoning.opaque.is_object()
        && (reasoning.opaque["type"] != "thinking"
            || signed(&reasoning.opaque["signature"])
            || !must_sign && is_followed())
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Place<'a>,
    },
    Document {
        source: Place<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
    ToolReference {
        tool_name: &'a str,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Citations {
    enabled: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Place<'a> {
    Base64 { media_type: &'a str, data: Cow<'a, str> },
    Text { media_type: &'static str, data: &'a str },
    Url { url: &'a str },
    File { file_id: &'a str },
}

impl<'a> Block<'a> {
    fn of(part: &'a Part, citations: bool) -> serde_json::Result<Self> {
        match part {
            Part::Text(text) => Ok(Self::Text { text }),
            Part::Image(Image { source, .. }) => Ok(Self::Image {
                source: Place::of(source, &IMAGES, |other| {
                    format!(
                        "Anthropic takes no image of the type `{other}`; convert it to PNG, JPEG, GIF or WebP"
                    )
                })?,
            }),
            Part::Document(Document { source, .. }) => Ok(Self::Document {
                source: match source.text() {
                    Some(data) => Place::Text { media_type: "text/plain", data },
                    None => Place::of(source, &DOCUMENTS, |other| {
                        format!(
                            "Anthropic takes no document of the type `{other}`; convert it to PDF or text"
                        )
                    })?,
                },
                citations: citations.then_some(Citations { enabled: true }),
            }),
            Part::Audio(_) => Err(serde_json::Error::custom(
                "Anthropic takes no audio; transcribe it, or use a model of another provider",
            )),
            _ => Err(unknown("part of a message")),
        }
    }
}

impl<'a> Place<'a> {
    /// Returns the form of a source whose bytes have one of the media types. `refused` is the error of
    /// another type.
    fn of(
        source: &'a Source,
        types: &[&'static str],
        refused: impl FnOnce(&str) -> String,
    ) -> serde_json::Result<Self> {
        if let Some((media_type, data)) = source.to_base64() {
            return match type_in(media_type, types) {
                Some(media_type) => Ok(Self::Base64 { media_type, data }),
                None => Err(serde_json::Error::custom(refused(media_type))),
            };
        }
        match source {
            Source::Url(url) if !url.starts_with("data:") => Ok(Self::Url { url }),
            Source::File { provider, id } if provider == PROVIDER => Ok(Self::File { file_id: id }),
            Source::File { provider, .. } => Err(serde_json::Error::custom(format_args!(
                "a file of `{provider}` cannot be sent to Anthropic; send its bytes or its address"
            ))),
            _ => Err(serde_json::Error::custom(
                "a `data:` URL is not valid base64; send the bytes with `Source::Bytes`",
            )),
        }
    }
}

const DOCUMENTS: [&str; 1] = ["application/pdf"];

/// Returns whether [`Block::of`] can write a part.
pub(crate) fn takes(part: &Part) -> bool {
    let (types, source) = match (part, part.source()) {
        (Part::Text(_), _) => return true,
        (Part::Image(_), Some(source)) => (&IMAGES[..], source),
        (Part::Document(_), Some(source)) if source.text().is_some() => return true,
        (Part::Document(_), Some(source)) => (&DOCUMENTS[..], source),
        _ => return false,
    };
    match source {
        Source::File { provider, .. } => provider == PROVIDER,
        source => is_of(source, types),
    }
}

/// Returns the error for a kind that a newer version of the module layer has.
fn unknown(what: &str) -> serde_json::Error {
    serde_json::Error::custom(format_args!(
        "this version of toolwright-anthropic does not support a kind of {what} in the request"
    ))
}
