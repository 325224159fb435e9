//! The body of a request of Chat Completions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use toolwright_http::RequestBody;
use toolwright_module::message::{
    Audio, CallKind, Document, Image, Opaque, Part, ReplyPart, Source,
};
use toolwright_module::message::{file_name, parts_of};
use toolwright_module::{Message, Request, ToolCall};
use toolwright_provider::order::{Content, Role, Turn, turns};
use toolwright_provider::{JsonBody, ProviderError, in_content};

use super::reasoning::{Field, details_of};
use crate::Result;
use crate::request::{
    Choice, Function, Options, Schema, WrittenTools, arguments, effort, extra, file_id, name,
    settings, some, text_of, tools, unknown,
};
use crate::rules::{Quirk, Rules};

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    function: &'a Function<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct Format<'a> {
    json_schema: &'a Schema<'a>,
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

/// Returns the body of a request.
pub(crate) fn body(request: &Request, options: &Options, stream: bool) -> Result<RequestBody> {
    let tools = options.written.tools(request, options, |schemas| {
        let own: Vec<_> = schemas.functions.iter().map(|function| Tool { function }).collect();
        let tools = tools(&own, &options.server_tools)?;
        let format = schemas.format.as_ref().map(|json_schema| Format { json_schema });
        Ok(WrittenTools { tools: tools.into(), format: some(format)?, found: BTreeSet::new() })
    })?;
    let messages = messages(request, options)?;
    let settings = settings(request, options)?;
    let mut body = JsonBody::new(extra(&settings));
    body.reserve(messages.iter().map(|message| message.len() + 1).sum());
    let mut write = || {
        body.field("model", &options.model)?;
        body.list("messages", &messages);
        if !tools.tools.is_empty() {
            body.shared("tools", [tools.tools.clone()]);
        }
        let choice = Choice::of(request, |name| Named { function: Name { name } });
        body.optional("tool_choice", &choice)?;
        if !tools.format.is_empty() {
            body.raw("response_format", &tools.format);
        }
        let most = settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
        body.field(options.rules.max_tokens(), &most)?;
        body.optional("temperature", &settings.temperature)?;
        body.optional("top_p", &settings.top_p)?;
        body.optional("seed", &settings.seed)?;
        body.optional("stop", &settings.stop)?;
        body.optional("reasoning_effort", &settings.effort.map(effort))?;
        // The API refuses it in a request without tools.
        let parallel = settings.parallel_calls.filter(|_| !request.tools.is_empty());
        body.optional("parallel_tool_calls", &parallel)?;
        body.optional("user", &settings.user)?;
        body.optional("metadata", &settings.metadata)?;
        body.optional("prompt_cache_key", &options.cache_key)?;
        if stream {
            body.field("stream", &true)?;
            if !options.rules.has(Quirk::NoStreamOptions) {
                body.field("stream_options", &StreamOptions { include_usage: true })?;
            }
        }
        Ok(())
    };
    write().and_then(|()| body.into_request()).map_err(ProviderError::unsent)
}

/// Returns the messages as JSON, in an order that the server accepts.
fn messages(request: &Request, options: &Options) -> Result<Vec<Arc<[u8]>>> {
    let rules = &options.rules;
    let written = options.written.messages(request, |message, _| match message {
        // Nothing is left of it for this server.
        Message::Assistant { parts }
            if (rules.has_strict_order() || !parts.is_empty())
                && Said::of(parts, rules).is_empty() =>
        {
            Ok(Vec::new())
        }
        message => serde_json::to_vec(&Entry { message, rules }),
    })?;
    let is_sent = |at: usize| written.get(at).is_some_and(|json| !json.is_empty());
    let turns = turns(&request.messages, is_sent, rules.has_strict_order()).into_iter();
    let json = turns.map(|turn| match turn.of[..] {
        [Content::Message(at)] => Ok(Arc::clone(&written[at])),
        _ => Ok(serde_json::to_vec(&Several { turn: &turn, request, rules })
            .map_err(ProviderError::unsent)?
            .into()),
    });
    json.collect()
}

/// Several messages as one, or content that is not a message of the request.
struct Several<'a> {
    turn: &'a Turn,
    request: &'a Request,
    rules: &'a Rules,
}

impl<'a> Several<'a> {
    fn messages(&self) -> impl Iterator<Item = &'a Message> {
        let messages = &self.request.messages;
        self.turn.of.iter().filter_map(|content| match content {
            Content::Message(at) => messages.get(*at).map(Arc::as_ref),
            _ => None,
        })
    }

    /// Returns the content of a system or user message.
    fn content<E: serde::ser::Error>(&self) -> Result<Vec<Piece<'a>>, E> {
        let messages = &self.request.messages;
        let mut pieces = Vec::new();
        for content in &self.turn.of {
            match content {
                Content::Added(text) => pieces.push(Piece::text(*text)),
                Content::Message(at) => match messages.get(*at).map(Arc::as_ref) {
                    Some(Message::System { text }) => pieces.push(Piece::text(&**text)),
                    Some(Message::User { parts }) => {
                        for part in parts {
                            pieces.push(Piece::of(part)?);
                        }
                    }
                    _ => {}
                },
                Content::Shown(results) => {
                    for message in messages.get(results.clone()).unwrap_or_default() {
                        let Message::Tool(result) = &**message else { continue };
                        for (at, part) in result.parts.iter().enumerate() {
                            let title = (at == 0).then(|| Piece::text(parts_of(&result.id)));
                            pieces.extend(title);
                            pieces.push(Piece::of(part)?);
                        }
                    }
                }
            }
        }
        Ok(pieces)
    }

    /// Returns the parts of the model's messages, with an empty line between their texts.
    fn said(&self) -> Vec<ReplyPart> {
        let mut said: Vec<ReplyPart> = Vec::new();
        for message in self.messages() {
            let Message::Assistant { parts } = message else { continue };
            if said.iter().any(|part| matches!(part, ReplyPart::Text(_))) {
                said.push(ReplyPart::text(BETWEEN));
            }
            said.extend(parts.iter().cloned());
        }
        said
    }
}

/// An empty line between two messages that are sent as one.
const BETWEEN: &str = "\n\n";

/// The text of a message of the model that only thought. A server with a strict order refuses an empty
/// one, and without the message the thoughts would be lost.
const SILENT: &str = "I have not answered yet.";

impl Serialize for Several<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_map(None)?;
        match (self.turn.role, &self.turn.of[..]) {
            (Role::Assistant, [Content::Added(text)]) => {
                entry.serialize_entry("role", "assistant")?;
                entry.serialize_entry("content", text)?;
            }
            (Role::Assistant, _) => Said::of(&self.said(), self.rules).serialize(&mut entry)?,
            (role, _) => {
                entry.serialize_entry(
                    "role",
                    if role == Role::System { "system" } else { "user" },
                )?;
                let content = self.content()?;
                let text = |piece: &'_ Piece<'_>| match piece {
                    Piece::Text { text } => Some(text.to_string()),
                    _ => None,
                };
                let texts: Option<Vec<String>> = content.iter().map(text).collect();
                match texts {
                    // Not every server takes a list.
                    Some(texts) => entry.serialize_entry("content", &texts.join(BETWEEN))?,
                    None => entry.serialize_entry("content", &content)?,
                }
            }
        }
        entry.end()
    }
}

struct Entry<'a> {
    message: &'a Message,
    rules: &'a Rules,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_map(None)?;
        match self.message {
            Message::System { text } => {
                entry.serialize_entry("role", "system")?;
                entry.serialize_entry("content", text)?;
            }
            Message::User { parts } => {
                entry.serialize_entry("role", "user")?;
                entry.serialize_entry("content", &Parts(parts))?;
            }
            Message::Assistant { parts } => Said::of(parts, self.rules).serialize(&mut entry)?,
            Message::Tool(result) => {
                entry.serialize_entry("role", "tool")?;
                entry.serialize_entry("tool_call_id", &self.rules.id(&result.id))?;
                entry.serialize_entry("content", &result.text)?;
            }
            _ => return Err(unknown()),
        }
        entry.end()
    }
}

/// The parts of a model's message that its server gets back.
struct Said<'a> {
    text: Option<Cow<'a, str>>,
    calls: Vec<Value>,
    reasoning: Option<(&'static str, String)>,
    thinking: String,
    details: Vec<&'a Value>,
    /// Google's data of the message.
    extra_content: Option<&'a Value>,
    /// Whether the server refuses a message without text and calls.
    must_speak: bool,
}

impl<'a> Said<'a> {
    fn of(parts: &'a [ReplyPart], rules: &'a Rules) -> Self {
        let origin = &*rules.origins[0];
        let needs_reasoning = rules.has(Quirk::NeedsReasoning);
        let text = text_of(parts, origin);
        let calls = parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call_of(call, rules)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let has_calls = !calls.is_empty();
        let (mut content, mut plain) = (String::new(), String::new());
        let (mut thinking, mut details, mut extra_content) = (String::new(), Vec::new(), None);
        for part in parts {
            match part {
                ReplyPart::Reasoning(_) if rules.has(Quirk::NoReasoning) => {}
                ReplyPart::Reasoning(thoughts) if in_content(thoughts, origin).is_some() => {}
                ReplyPart::Reasoning(reasoning) => {
                    let text = &*reasoning.text;
                    let field = Field::of(reasoning).filter(|_| reasoning.provider == origin);
                    details.extend(field.map(|_| details_of(reasoning)).unwrap_or_default());
                    match field {
                        // The same model may have written it on another server.
                        _ if needs_reasoning && is_of_this_api(&reasoning.provider) => {
                            content.push_str(text);
                        }
                        Some(Field::ReasoningContent) => content.push_str(text),
                        // Not all models of Groq accept the field, but those with calls do.
                        Some(Field::Reasoning) if has_calls => plain.push_str(text),
                        Some(Field::Thinking) => thinking.push_str(text),
                        _ => {}
                    }
                }
                ReplyPart::Other(opaque) => {
                    extra_content = extra_content_of(opaque, origin).or(extra_content);
                }
                _ => {}
            }
        }
        let is_silent = !has_calls && text.is_none();
        let must_speak = rules.has_strict_order();
        let reasoning = if !content.is_empty() || needs_reasoning && !is_silent {
            Some(("reasoning_content", content))
        } else {
            (!plain.is_empty()).then_some(("reasoning", plain))
        };
        Self { text, calls, reasoning, thinking, details, extra_content, must_speak }
    }

    /// Returns whether the message has neither text nor calls. A strict server does not take blank text
    /// either.
    fn is_silent(&self) -> bool {
        let text = self.text.as_ref();
        let speaks = text.is_some_and(|text| !self.must_speak || !text.trim().is_empty());
        !speaks && self.calls.is_empty()
    }

    fn is_empty(&self) -> bool {
        let is_silent = self.is_silent();
        let has_reasoning = self.reasoning.is_some() || !self.thinking.is_empty();
        is_silent && !has_reasoning && self.details.is_empty() && self.extra_content.is_none()
    }

    fn serialize<M: SerializeMap>(&self, entry: &mut M) -> Result<(), M::Error> {
        entry.serialize_entry("role", "assistant")?;
        let text = match self.text.as_deref() {
            _ if self.must_speak && self.is_silent() => Some(SILENT),
            // Servers reject a message without text and calls, but accept an empty text.
            None if self.calls.is_empty() && self.thinking.is_empty() => Some(""),
            text => text,
        };
        if self.thinking.is_empty() {
            entry.serialize_entry("content", &text)?;
        } else {
            let thinking = vec![Piece::text(&self.thinking)];
            let mut content = vec![Piece::Thinking { thinking }];
            content.extend(text.map(Piece::text));
            entry.serialize_entry("content", &content)?;
        }
        if let Some((field, text)) = &self.reasoning {
            entry.serialize_entry(field, text)?;
        }
        if !self.details.is_empty() {
            entry.serialize_entry("reasoning_details", &self.details)?;
        }
        if let Some(extra_content) = self.extra_content {
            entry.serialize_entry("extra_content", extra_content)?;
        }
        if !self.calls.is_empty() {
            entry.serialize_entry("tool_calls", &self.calls)?;
        }
        Ok(())
    }
}

/// The content of a user's message: a string if it is one text, and otherwise a list.
struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
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
    Text { text: Cow<'a, str> },
    Thinking { thinking: Vec<Piece<'a>> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
    InputAudio { input_audio: InputAudio<'a> },
}

impl<'a> Piece<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    fn of<E: serde::ser::Error>(part: &'a Part) -> Result<Self, E> {
        match part {
            Part::Text(text) => Ok(Self::text(text)),
            Part::Image(Image { source, .. }) => match source.to_url() {
                Some(url) => Ok(Self::ImageUrl { image_url: ImageUrl { url } }),
                None => Err(E::custom(
                    "Chat Completions takes no image by file id; send its bytes or its address, or use `Api::Responses`",
                )),
            },
            Part::Document(Document { source, .. }) => match source {
                _ if source.text().is_some() => Ok(Self::text(source.text().unwrap_or_default())),
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

/// Returns the API's word for a type of audio, such as `mp3` for `audio/mpeg`: the ending of a file.
fn format_of(media_type: &str) -> String {
    file_name(media_type).split_off("file.".len())
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
    format: String,
}

/// Returns a call in the API's form.
fn call_of(call: &ToolCall, rules: &Rules) -> Value {
    let (kind, field, text) = match call.kind {
        CallKind::Custom => ("custom", "input", Cow::Borrowed(&*call.arguments)),
        _ => ("function", "arguments", arguments(call)),
    };
    let called = json!({"name": name(call), field: text});
    let mut json = json!({"id": rules.id(&call.id), "type": kind, kind: called});
    let opaque = call.opaque.as_deref();
    if let Some(extra) = opaque.and_then(|opaque| extra_content_of(opaque, &rules.origins[0])) {
        json["extra_content"] = extra.clone();
    }
    json
}

/// Returns Google's data in an opaque value.
fn extra_content_of<'a>(opaque: &'a Opaque, origin: &str) -> Option<&'a Value> {
    opaque.of(origin)?.get("extra_content")
}

/// Returns whether a part comes from a server with this API.
fn is_of_this_api(provider: &str) -> bool {
    provider.starts_with("openai-chat")
}
