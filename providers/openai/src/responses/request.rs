//! The body of a request of Responses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use toolwright_http::RequestBody;
use toolwright_module::message::file_name;
use toolwright_module::message::{CallKind, Document, Image, Part, ReplyPart, Source, ToolResult};
use toolwright_module::{Message, Request};
use toolwright_provider::{JsonBody, ProviderError, found_tools, in_content, portable_id};

use super::state;
use crate::Result;
use crate::request::{
    Choice, Function, Options, Schema, WrittenTools, arguments, effort, extra, file_id, name,
    settings, some, tools, unknown,
};

/// The name of the field with an item's id.
pub(super) const ITEM_ID: &str = "id";

/// Maximum length of a call's id.
const MOST_ID: usize = 64;

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    #[serde(flatten)]
    function: &'a Function<'a>,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
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
    schema: &'a Schema<'a>,
}

/// Returns the body of a request. With `previous`, it has only the messages after the reply of that
/// id.
pub(crate) fn body(
    request: &Request,
    options: &Options,
    input: &[Arc<[u8]>],
    previous: Option<&str>,
    stream: bool,
) -> Result<RequestBody> {
    let tools = options.written.tools(request, options, |schemas| {
        let own: Vec<_> = schemas.functions.iter().map(|function| Tool { function }).collect();
        let tools = tools(&own, &options.server_tools)?;
        let text = schemas.format.as_ref().map(|schema| Text { format: Format { schema } });
        Ok(WrittenTools { tools: tools.into(), format: some(text)?, found: BTreeSet::new() })
    })?;
    let settings = settings(request, options)?;
    let mut body = JsonBody::new(extra(&settings));
    body.reserve(input.iter().map(|items| items.len() + 1).sum());
    let mut write = || {
        body.field("model", &options.model)?;
        body.optional("previous_response_id", &previous)?;
        body.list("input", input);
        if !tools.tools.is_empty() {
            body.shared("tools", [tools.tools.clone()]);
        }
        body.optional("tool_choice", &Choice::of(request, |name| Named { name }))?;
        if !tools.format.is_empty() {
            body.raw("text", &tools.format);
        }
        let most = settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
        body.field("max_output_tokens", &most)?;
        body.optional("temperature", &settings.temperature)?;
        body.optional("top_p", &settings.top_p)?;
        let summary = options.reasoning_summaries.then_some("auto");
        let reasoning = Reasoning { effort: settings.effort.map(effort), summary };
        let has_reasoning = reasoning.effort.is_some() || summary.is_some();
        body.optional("reasoning", &has_reasoning.then_some(reasoning))?;
        let parallel = settings.parallel_calls.filter(|_| !request.tools.is_empty());
        body.optional("parallel_tool_calls", &parallel)?;
        body.optional("safety_identifier", &settings.user)?;
        body.optional("metadata", &settings.metadata)?;
        body.optional("prompt_cache_key", &options.cache_key)?;
        if options.background {
            body.field("background", &true)?;
        }
        if options.encrypted_reasoning {
            body.field("store", &false)?;
            body.field("include", &["reasoning.encrypted_content"])?;
        }
        if stream {
            body.field("stream", &true)?;
        }
        Ok(())
    };
    write().and_then(|()| body.into_request()).map_err(ProviderError::unsent)
}

/// Returns the items of each message of a request.
pub(crate) fn input(request: &Request, options: &Options) -> Result<Vec<Arc<[u8]>>> {
    let origin = &*options.rules.origins[1];
    let write = |message: &Message, before: &[Arc<Message>]| items(message, before, origin);
    let mut input = options.written.messages(request, write)?;
    if options.additional_tools {
        add_found(&mut input, request, options)?;
    }
    Ok(input)
}

/// Adds the tools that were found behind the last result of a round. What is before them stays as it
/// was, so a server's cache of it stays valid.
fn add_found(input: &mut [Arc<[u8]>], request: &Request, options: &Options) -> Result<()> {
    let (mut open, mut found) = (found_tools(request), Vec::new());
    for (at, message) in request.messages.iter().enumerate() {
        let Message::Tool(result) = &**message else { continue };
        found.extend(result.found.iter().filter(|name| open.remove(*name)));
        let next = request.messages.get(at + 1).map(Arc::as_ref);
        if found.is_empty() || matches!(next, Some(Message::Tool(_))) {
            continue;
        }
        let write = |function: &Function<'_>| serde_json::to_vec(&Tool { function });
        let definitions = options.written.definitions(request, options, write)?;
        let tools = found.drain(..).filter_map(|name| definitions.get(name));
        let tools: Vec<&[u8]> = tools.map(Vec::as_slice).collect();
        if let Some(items) = input.get_mut(at) {
            let begin: &[u8] = br#",{"type":"additional_tools","role":"developer","tools":["#;
            *items = [items, begin, &tools.join(&b','), b"]}"].concat().into();
        }
    }
    Ok(())
}

/// Returns the items of a message, with commas between them. The conversation is a flat list, in
/// which each part of a model's message is an item.
fn items(message: &Message, before: &[Arc<Message>], origin: &str) -> serde_json::Result<Vec<u8>> {
    match message {
        Message::System { text } => message_of("system", text),
        Message::User { parts } => match &parts[..] {
            [Part::Text(text)] => message_of("user", text),
            parts => message_of("user", &Pieces { text: "", parts }),
        },
        Message::Assistant { parts } => items_of(parts, origin),
        Message::Tool(result) => result_of(result, kind_of(&result.id, before)),
        _ => Err(unknown()),
    }
}

/// Returns the items of a model's message.
///
/// An item that follows one of reasoning has the id that it came with. Without the reasoning, the
/// server would miss that, so the ids are left out.
pub(super) fn items_of(parts: &[ReplyPart], origin: &str) -> serde_json::Result<Vec<u8>> {
    let mut items = Vec::new();
    let (mut at, mut has_ids) = (0, false);
    while let Some(part) = parts.get(at) {
        // The pieces of one message, which the server knows by one id.
        let id = id_of(part, origin).filter(|_| has_ids);
        let is_piece = |other: &ReplyPart| {
            matches!((part, other), (ReplyPart::Text(_), ReplyPart::Text(_)))
                && id.is_some()
                && id_of(other, origin) == id
        };
        let pieces = 1 + parts[at + 1..].iter().take_while(|other| is_piece(other)).count();
        if let Some(item) = item_of(&parts[at..at + pieces], origin, id)? {
            has_ids |= matches!(part, ReplyPart::Reasoning(_));
            if !items.is_empty() {
                items.push(b',');
            }
            items.extend(item);
        }
        at += pieces;
    }
    Ok(items)
}

/// Returns the fields of a text or a call that the server sent with it.
fn fields_of<'a>(part: &'a ReplyPart, origin: &str) -> Option<&'a Map<String, Value>> {
    let opaque = match part {
        ReplyPart::Text(text) => &text.opaque,
        ReplyPart::Call(call) => &call.opaque,
        _ => return None,
    };
    opaque.as_deref()?.of(origin)?.as_object()
}

fn id_of<'a>(part: &'a ReplyPart, origin: &str) -> Option<&'a str> {
    fields_of(part, origin)?.get(ITEM_ID)?.as_str()
}

/// Returns the kind of the call with an id. A result has another form for each kind.
fn kind_of(id: &str, before: &[Arc<Message>]) -> CallKind {
    let calls = before.iter().rev().filter_map(|message| match &**message {
        Message::Assistant { parts } => Some(parts),
        _ => None,
    });
    let kind = |part: &ReplyPart| match part {
        ReplyPart::Call(call) if call.id == id => Some(call.kind),
        _ => None,
    };
    calls.flatten().find_map(kind).unwrap_or_default()
}

fn message_of(role: &str, content: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut item = JsonBody::new(None);
    item.field("type", "message")?;
    item.field("role", role)?;
    item.field("content", content)?;
    item.end()
}

/// Returns the item of a part of a model's message, or of several texts with one id. There is no item
/// for the reasoning and the opaque parts of another provider.
fn item_of(
    parts: &[ReplyPart],
    origin: &str,
    id: Option<&str>,
) -> serde_json::Result<Option<Vec<u8>>> {
    let Some(part) = parts.first() else { return Ok(None) };
    // The provider's data, such as the `phase` of a message, with its id only where that goes back.
    let fields = fields_of(part, origin);
    let without_id = fields.filter(|_| id.is_none()).map(|fields| {
        let others = fields.iter().filter(|(name, _)| *name != ITEM_ID);
        others.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>()
    });
    let mut item = JsonBody::new(without_id.as_ref().or(fields));
    match part {
        ReplyPart::Reasoning(reasoning) => {
            if let Some(texts) = in_content(reasoning, origin) {
                return message_of("assistant", &texts.concat()).map(Some);
            }
            let is_own = reasoning.provider == origin && reasoning.opaque.is_object();
            return is_own.then(|| serde_json::to_vec(&reasoning.opaque)).transpose();
        }
        ReplyPart::Other(other) => {
            let value = other.of(origin).filter(|item| !state::is_mark(item));
            return value.map(serde_json::to_vec).transpose();
        }
        ReplyPart::Text(text) => {
            item.field("type", "message")?;
            item.field("role", "assistant")?;
            match id {
                // A message with an id has the whole form of the API.
                Some(_) => {
                    item.field("status", "completed")?;
                    item.field("content", &said(parts))?;
                }
                None => item.field("content", &text.text)?,
            }
        }
        ReplyPart::Call(call) => {
            let is_custom = call.kind == CallKind::Custom;
            item.field("type", if is_custom { "custom_tool_call" } else { "function_call" })?;
            item.field("call_id", &portable_id(&call.id, MOST_ID))?;
            item.field("name", &name(call))?;
            match is_custom {
                true => item.field("input", &call.arguments)?,
                false => item.field("arguments", &arguments(call))?,
            }
        }
        _ => return Ok(None),
    }
    item.end().map(Some)
}

fn result_of(result: &ToolResult, kind: CallKind) -> serde_json::Result<Vec<u8>> {
    let mut item = JsonBody::new(None);
    item.field(
        "type",
        match kind {
            CallKind::Custom => "custom_tool_call_output",
            _ => "function_call_output",
        },
    )?;
    item.field("call_id", &portable_id(&result.id, MOST_ID))?;
    match &result.parts[..] {
        [] => item.field("output", &result.text)?,
        parts => item.field("output", &Pieces { text: &result.text, parts })?,
    }
    item.end()
}

/// The text of a model's message, in the list that the API has for it.
#[derive(Serialize)]
#[serde(tag = "type", rename = "output_text")]
struct Said<'a> {
    text: &'a str,
    annotations: [(); 0],
}

fn said(parts: &[ReplyPart]) -> Vec<Said<'_>> {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(Said { text, annotations: [] }),
        _ => None,
    });
    texts.collect()
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

/// The content of a user's message that is not one text, or of a tool's result with images or files.
struct Pieces<'a> {
    /// The text before the parts, if there is one.
    text: &'a str,
    parts: &'a [Part],
}

impl Serialize for Pieces<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut content = serializer.serialize_seq(None)?;
        if !self.text.is_empty() {
            content.serialize_element(&Piece::Text { text: self.text })?;
        }
        for part in self.parts {
            content.serialize_element(&Piece::of(part)?)?;
        }
        content.end()
    }
}
