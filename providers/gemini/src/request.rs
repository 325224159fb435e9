//! The body of a request.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolwright_http::RequestBody;
use toolwright_module::message::{CallIds, Opaque, Part, ReplyPart, Source, ToolResult};
use toolwright_module::message::{object_of, parts_of};
use toolwright_module::model::{Setting, SettingSet, Settings, ToolChoice};
use toolwright_module::{Message, Request, ToolCall};
use toolwright_provider::order::OPENING;
use toolwright_provider::unread::type_in;
use toolwright_provider::{JsonBody, Kept, KeptTools, ProviderError, in_content, portable_id};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::reply::DETAILS;
use crate::thinking::Family;
use crate::{PROVIDER, Result};

/// A signature for a call that has none, because another model made it. Gemini 3 refuses the
/// conversation without one. It is the API's own word for that, `skip_thought_signature_validator`,
/// in base64.
const UNSIGNED: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// The address of a file that was uploaded to the Gemini API begins with it.
const FILES: &str = "https://generativelanguage.googleapis.com/v1beta/";

/// Maximum length of an id and of a name of a call, in bytes.
const MOST_ID: usize = 64;
const MOST_NAME: usize = 128;

/// The settings of a model.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) family: Family,
    pub(crate) is_vertex: bool,
    pub(crate) structured_output: bool,
    pub(crate) thoughts: Option<bool>,
    pub(crate) streamed_arguments: bool,
    pub(crate) cached_content: Option<String>,
    pub(crate) server_tools: Vec<Value>,
    pub(crate) safety: Vec<(String, String)>,
    pub(crate) settings: Option<Settings>,
    pub(crate) written: Written,
}

impl Options {
    /// Returns the settings that the API and the model have.
    pub(crate) fn supported(&self) -> SettingSet {
        let mut supported = SettingSet::ALL
            .without(Setting::Cache)
            .without(Setting::User)
            .without(Setting::ParallelCalls);
        if !self.is_vertex {
            supported = supported.without(Setting::Metadata);
        }
        if !self.family.thinks() {
            supported = supported.without(Setting::Effort);
        }
        supported
    }
}

/// What was written for earlier requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    messages: Kept<Message, WrittenMessage>,
    tools: KeptTools<WrittenTools>,
}

/// The parts of a message as JSON, with commas between them.
#[derive(Debug, Default)]
struct WrittenMessage {
    parts: Vec<u8>,
    /// The images, documents and audio of a result that follow in a content of the user.
    beside: Vec<u8>,
}

impl WrittenMessage {
    fn size(&self) -> usize {
        // With the role and the brackets.
        self.parts.len() + self.beside.len() + 32
    }
}

/// The tools and the output of a request.
#[derive(Debug)]
struct WrittenTools {
    /// The list of tools, with its brackets. Empty if there are none.
    tools: Bytes,
    has_functions: bool,
    /// The schema of the answer. Empty if there is none.
    format: Vec<u8>,
}

/// Returns the body of a request.
pub(crate) fn body(request: &Request, options: &Options, stream: bool) -> Result<RequestBody> {
    let settings = request.settings_over(options.settings.as_ref()).unwrap_or_default();
    settings.check(options.supported())?;
    let tools = options.written.tools.get_or_make(request, |request| tools(request, options))?;
    let extra = Extra::of(&settings);
    let write = || {
        let messages = messages(request, options)?;
        let system = system(request, &messages);
        let mut body = JsonBody::new(extra.fields.as_deref());
        body.reserve(messages.iter().map(|message| message.size()).sum());
        match &options.cached_content {
            // The cached content has the instructions and the tools; the API refuses them beside.
            Some(name) => body.field("cachedContent", name)?,
            None => {
                if !system.is_empty() {
                    body.raw("systemInstruction", &of_parts(&[], &system));
                }
                write_tools(&mut body, request, &tools, options, stream, extra.tools)?;
            }
        }
        body.raw_with("contents", |json| write_contents(json, request, &messages));
        body.raw("generationConfig", &generation(&settings, &tools, options, extra.generation)?);
        if !options.safety.is_empty() {
            let safety = options.safety.iter();
            let safety = safety
                .map(|(category, level)| json!({"category": category, "threshold": level}))
                .collect::<Vec<_>>();
            body.field("safetySettings", &safety)?;
        }
        body.optional("labels", &settings.metadata)?;
        body.into_request()
    };
    write().map_err(|error: serde_json::Error| ProviderError::unsent(error))
}

/// The extra fields of the settings for this provider.
struct Extra<'a> {
    fields: Option<Cow<'a, Map<String, Value>>>,
    /// Those of `generationConfig`, which has most of the settings.
    generation: Option<&'a Map<String, Value>>,
    /// Those of `toolConfig`.
    tools: Option<&'a Map<String, Value>>,
}

impl<'a> Extra<'a> {
    fn of(settings: &'a Settings) -> Self {
        const MERGED: [&str; 2] = ["generationConfig", "toolConfig"];
        let all = settings.extra.get(PROVIDER);
        let [generation, tools] = MERGED.map(|name| all?.get(name)?.as_object());
        let fields = all.map(|all| match generation.or(tools) {
            None => Cow::Borrowed(all),
            Some(_) => {
                let is_merged =
                    |name: &str, value: &Value| MERGED.contains(&name) && value.is_object();
                let others = all.iter().filter(|(name, value)| !is_merged(name, value));
                Cow::Owned(others.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
        });
        Self { fields, generation, tools }
    }
}

/// Lowers the contracts of a request and writes them.
fn tools(request: &Request, options: &Options) -> Result<Arc<WrittenTools>> {
    let output = request.output.as_deref().filter(|_| options.structured_output);
    let lowered = LoweredRequest::new(Dialect::Gemini, &*request.tools, output)?;
    let write = || {
        let mut functions = Vec::new();
        for (contract, lowered) in request.tools.iter().zip(&lowered.tools) {
            let mut function = JsonBody::new(None);
            function.field("name", contract.name())?;
            function.field("description", contract.description())?;
            let schema: &RawValue = &lowered.schema;
            function.raw("parametersJsonSchema", schema.get().as_bytes());
            add(&mut functions, &function.end()?);
        }
        let has_functions = !functions.is_empty();
        let mut tools = Vec::new();
        if has_functions {
            let mut tool = JsonBody::new(None);
            tool.list("functionDeclarations", [functions]);
            tools = tool.end()?;
        }
        for tool in &options.server_tools {
            add(&mut tools, &serde_json::to_vec(tool)?);
        }
        if !tools.is_empty() {
            tools.insert(0, b'[');
            tools.push(b']');
        }
        let schema = lowered.output.map(|output| output.schema.get().as_bytes().to_vec());
        Ok(WrittenTools { tools: tools.into(), has_functions, format: schema.unwrap_or_default() })
    };
    let written = write().map_err(|error: serde_json::Error| ProviderError::unsent(error))?;
    Ok(Arc::new(written))
}

/// Writes the tools, and whether the model may or must call them.
fn write_tools(
    body: &mut JsonBody<'_>,
    request: &Request,
    tools: &WrittenTools,
    options: &Options,
    stream: bool,
    extra: Option<&Map<String, Value>>,
) -> serde_json::Result<()> {
    if !tools.tools.is_empty() {
        body.shared("tools", [tools.tools.clone()]);
    }
    let mut calling = Map::new();
    if tools.has_functions {
        let (mode, name) = match &request.tool_choice {
            ToolChoice::None => (Some("NONE"), None),
            ToolChoice::Required => (Some("ANY"), None),
            ToolChoice::Tool(name) => (Some("ANY"), Some(name)),
            _ => (None, None),
        };
        calling.extend(mode.map(|mode| ("mode".to_owned(), mode.into())));
        calling.extend(name.map(|name| ("allowedFunctionNames".to_owned(), json!([name]))));
        if options.streamed_arguments && stream {
            calling.insert("streamFunctionCallArguments".to_owned(), true.into());
        }
    }
    // Their calls and results come back as parts, which the next request needs.
    let shows_calls =
        !options.server_tools.is_empty() && options.family.is_new() && !options.is_vertex;
    if calling.is_empty() && !shows_calls && extra.is_none() {
        return Ok(());
    }
    let mut config = JsonBody::new(extra);
    if !calling.is_empty() {
        config.field("functionCallingConfig", &calling)?;
    }
    if shows_calls {
        config.field("includeServerSideToolInvocations", &true)?;
    }
    body.raw("toolConfig", &config.end()?);
    Ok(())
}

/// Returns the API's `GenerationConfig`.
fn generation(
    settings: &Settings,
    tools: &WrittenTools,
    options: &Options,
    extra: Option<&Map<String, Value>>,
) -> serde_json::Result<Vec<u8>> {
    let mut config = JsonBody::new(extra);
    let most = settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
    config.field("maxOutputTokens", &most)?;
    config.optional("temperature", &settings.temperature)?;
    config.optional("topP", &settings.top_p)?;
    config.optional("seed", &settings.seed)?;
    config.optional("stopSequences", &settings.stop)?;
    if !tools.format.is_empty() {
        config.field("responseMimeType", "application/json")?;
        config.raw("responseJsonSchema", &tools.format);
    }
    let thinking = settings.effort.map(|effort| options.family.thinking(effort));
    if thinking.is_some() || options.thoughts.is_some() {
        let mut thinking = thinking.unwrap_or_default();
        thinking.include_thoughts = options.thoughts;
        config.field("thinkingConfig", &thinking)?;
    }
    config.end()
}

/// What a content holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    User,
    Model,
    Results,
}

impl Turn {
    /// Returns `None` for what is no content.
    fn of(message: &Message) -> Option<Self> {
        match message {
            Message::User { .. } => Some(Self::User),
            Message::Assistant { .. } => Some(Self::Model),
            Message::Tool(_) => Some(Self::Results),
            _ => None,
        }
    }
}

/// Returns the messages of a request, each written once.
fn messages(request: &Request, options: &Options) -> serde_json::Result<Vec<Arc<WrittenMessage>>> {
    let write = |message: &Message| written(message, options).map(Arc::new);
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        messages.push(options.written.messages.get_or_make(message, write)?);
    }
    Ok(messages)
}

/// Returns the parts of the instructions.
fn system(request: &Request, messages: &[Arc<WrittenMessage>]) -> Vec<u8> {
    let mut system = Vec::new();
    for (message, written) in request.messages.iter().zip(messages) {
        if matches!(**message, Message::System { .. }) {
            add(&mut system, &written.parts);
        }
    }
    system
}

/// Writes the list of contents.
fn write_contents(json: &mut Vec<u8>, request: &Request, messages: &[Arc<WrittenMessage>]) {
    json.push(b'[');
    let (mut open, mut at) = (None, 0);
    while let Some((message, written)) = request.messages.get(at).zip(messages.get(at)) {
        match Turn::of(message) {
            None => {}
            Some(Turn::Results) => {
                let results = run_of_results(request, at);
                at = results.end - 1;
                begin(json, &mut open, Turn::Results);
                for at in in_order_of_calls(request, results.clone()) {
                    add(json, &messages[at].parts);
                }
                // The API counts the parts of this content, so others follow in the next.
                if messages[results.clone()].iter().any(|written| !written.beside.is_empty()) {
                    begin(json, &mut open, Turn::User);
                    messages[results].iter().for_each(|written| add(json, &written.beside));
                }
            }
            // An empty message is left out: all its parts are for another provider.
            Some(_) if written.parts.is_empty() => {}
            Some(turn) => {
                begin(json, &mut open, turn);
                add(json, &written.parts);
            }
        }
        at += 1;
    }
    if open.is_some() {
        json.extend_from_slice(b"]}");
    }
    json.push(b']');
}

/// Begins a content, or goes on with one of the same kind. Results have a content of their own.
fn begin(contents: &mut Vec<u8>, open: &mut Option<Turn>, turn: Turn) {
    if *open == Some(turn) {
        return;
    }
    match open.replace(turn) {
        Some(_) => contents.extend_from_slice(b"]},"),
        // The API refuses a conversation that the model begins.
        None if turn == Turn::Model => {
            let opening = json!({"role": "user", "parts": [{"text": OPENING}]});
            contents.extend_from_slice(format!("{opening},").as_bytes());
        }
        None => {}
    }
    contents.extend_from_slice(match turn {
        Turn::Model => br#"{"role":"model","parts":["#,
        Turn::User | Turn::Results => br#"{"role":"user","parts":["#,
    });
}

/// Adds JSON to a list, after a comma if it has items.
fn add(list: &mut Vec<u8>, json: &[u8]) {
    if json.is_empty() {
        return;
    }
    if list.last().is_some_and(|last| *last != b'[') {
        list.push(b',');
    }
    list.extend_from_slice(json);
}

fn run_of_results(request: &Request, at: usize) -> Range<usize> {
    let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
    at..at + request.messages[at..].iter().take_while(is_result).count()
}

/// Returns the places of results in the order of their calls. A result without an id is paired with
/// its call by that order.
fn in_order_of_calls(request: &Request, results: Range<usize>) -> Vec<usize> {
    let mut order: Vec<_> = results.clone().collect();
    let before = results.start.checked_sub(1).and_then(|at| request.messages.get(at));
    if let (Some(Message::Assistant { parts }), 2..) = (before.map(Arc::as_ref), order.len()) {
        let place = |at: &usize| match request.messages.get(*at).map(Arc::as_ref) {
            Some(Message::Tool(result)) => parts
                .iter()
                .position(|part| matches!(part, ReplyPart::Call(call) if call.id == result.id)),
            _ => None,
        };
        // One that has no call stays behind the others.
        order.sort_by_key(|at| place(at).unwrap_or(usize::MAX));
    }
    order
}

fn of_parts(head: &[u8], parts: &[u8]) -> Vec<u8> {
    [head, br#"{"parts":["#, parts, b"]}"].concat()
}

/// Writes a message. The result depends on it and on the model alone.
fn written(message: &Message, options: &Options) -> serde_json::Result<WrittenMessage> {
    let mut written = WrittenMessage::default();
    match message {
        Message::System { text } if text.is_empty() => {}
        Message::System { text } => written.parts = text_part(text, None)?,
        Message::User { parts } => {
            for part in parts {
                add(&mut written.parts, &media(part)?);
            }
        }
        Message::Assistant { parts } => written.parts = reply(parts, options)?,
        Message::Tool(result) => write_result(result, options, &mut written)?,
        _ => return Err(unknown()),
    }
    Ok(written)
}

fn text_part(text: &str, fields: Option<&Map<String, Value>>) -> serde_json::Result<Vec<u8>> {
    let mut part = JsonBody::new(fields);
    part.field("text", text)?;
    part.end()
}

/// Returns a part of a user's message.
fn media(part: &Part) -> serde_json::Result<Vec<u8>> {
    let source = match part {
        Part::Text(text) => return text_part(text, None),
        part => part.source().ok_or_else(unknown)?,
    };
    let mut media = JsonBody::new(None);
    if let Some((media_type, data)) = source.to_base64() {
        media.field("inlineData", &json!({"mimeType": media_type, "data": data}))?;
        return media.end();
    }
    let mut file = JsonBody::new(None);
    let uri = match source {
        Source::Url(url) if url.starts_with("data:") => {
            return Err(serde_json::Error::custom(
                "Gemini takes a `data:` URL only in base64; send the bytes",
            ));
        }
        Source::Url(url) => Cow::Borrowed(url.as_str()),
        Source::File { provider, id } if provider == PROVIDER => match id.starts_with("files/") {
            true => Cow::Owned(format!("{FILES}{id}")),
            false => Cow::Borrowed(id.as_str()),
        },
        Source::File { provider, .. } => {
            return Err(serde_json::Error::custom(format_args!(
                "a file of `{provider}` cannot be sent to Gemini; send its bytes or its address"
            )));
        }
        _ => return Err(unknown()),
    };
    file.optional("mimeType", &media_type_of(&uri))?;
    file.field("fileUri", &*uri)?;
    media.raw("fileData", &file.end()?);
    media.end()
}

/// Returns whether [`media`] can write a part, and the API reads it.
pub(crate) fn takes(part: &Part) -> bool {
    match part.source() {
        Some(Source::File { provider, .. }) => provider == PROVIDER,
        // It reads more types of images than the others, but no drawings.
        Some(source) => {
            source.media_type().is_none_or(|of| type_in(of, &["image/svg+xml"]).is_none())
        }
        None => true,
    }
}

/// Returns the media type that the ending of an address stands for. Vertex requires it.
fn media_type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        _ => return None,
    })
}

/// Returns the fields that belong to a part beside its content, such as its signature.
fn fields(opaque: Option<&Opaque>) -> Option<&Map<String, Value>> {
    opaque?.of(PROVIDER)?.as_object()
}

/// Returns the parts of a reply.
fn reply(parts: &[ReplyPart], options: &Options) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    let needs_signature = options.family.is_new() && !parts.iter().any(is_signed);
    let first_call = parts.iter().position(|part| matches!(part, ReplyPart::Call(_)));
    for (at, part) in parts.iter().enumerate() {
        let json = match part {
            ReplyPart::Text(text) => match fields(text.opaque.as_deref()) {
                None if text.is_empty() => continue,
                fields => text_part(text, fields)?,
            },
            // The thoughts that were in the text go back there, before the text.
            ReplyPart::Reasoning(thought) if let Some(texts) = in_content(thought, PROVIDER) => {
                text_part(&texts.concat(), None)?
            }
            ReplyPart::Reasoning(thought) if thought.provider == PROVIDER => {
                let mut part = JsonBody::new(thought.opaque.as_object());
                part.field("text", &thought.text)?;
                part.field("thought", &true)?;
                part.end()?
            }
            ReplyPart::Call(call) => {
                let is_unsigned = needs_signature && Some(at) == first_call;
                called(call, is_unsigned)?
            }
            ReplyPart::Other(opaque) => match opaque.of(PROVIDER) {
                Some(value) if value.get(DETAILS).is_some() => continue,
                Some(value) => serde_json::to_vec(value)?,
                None => continue,
            },
            ReplyPart::Reasoning(_) => continue,
            _ => return Err(unknown()),
        };
        match out.is_empty() {
            true => out = json,
            false => add(&mut out, &json),
        }
    }
    Ok(out)
}

/// Returns whether a part of Gemini has a signature.
fn is_signed(part: &ReplyPart) -> bool {
    let fields = match part {
        ReplyPart::Text(text) => fields(text.opaque.as_deref()),
        ReplyPart::Call(call) => fields(call.opaque.as_deref()),
        ReplyPart::Reasoning(thought) if thought.provider == PROVIDER => thought.opaque.as_object(),
        ReplyPart::Other(opaque) => fields(Some(opaque)),
        _ => None,
    };
    fields.is_some_and(|fields| fields.contains_key("thoughtSignature"))
}

fn called(call: &ToolCall, is_unsigned: bool) -> serde_json::Result<Vec<u8>> {
    let mut function = JsonBody::new(None);
    function.optional("id", &sent_id(&call.id))?;
    function.field("name", &sent_name(&call.name))?;
    let arguments = object_of(&call.arguments).unwrap_or(Cow::Borrowed(&call.arguments));
    function.raw("args", arguments.as_bytes());
    let mut part = JsonBody::new(fields(call.opaque.as_deref()));
    part.raw("functionCall", &function.end()?);
    if is_unsigned {
        part.field("thoughtSignature", UNSIGNED)?;
    }
    part.end()
}

/// Returns the id of a call, unless it has the form that `complete_reply` gives to a call without
/// an id. The API pairs such a call with its result by name and order.
fn sent_id(id: &str) -> Option<Cow<'_, str>> {
    (!id.is_empty() && CallIds::made_for(id).is_none()).then(|| portable_id(id, MOST_ID))
}

/// Returns the name of a called tool in the form that the API accepts. A model may call a tool that
/// does not exist, by any name.
fn sent_name(name: &str) -> Cow<'_, str> {
    let fits = |at: usize, letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '_' => true,
        '0'..='9' | '.' | ':' | '-' => at > 0,
        _ => false,
    };
    if (1..=MOST_NAME).contains(&name.len())
        && name.char_indices().all(|(at, letter)| fits(at, letter))
    {
        return Cow::Borrowed(name);
    }
    let letters = name.chars().take(MOST_NAME - 1);
    let letters = letters.map(|letter| if fits(1, letter) { letter } else { '_' });
    Cow::Owned(std::iter::once('_').chain(letters).collect())
}

/// Writes the result of a call. New models take images and documents in it; for the others they
/// follow in a content of the user.
fn write_result(
    result: &ToolResult,
    options: &Options,
    written: &mut WrittenMessage,
) -> serde_json::Result<()> {
    let mut response = JsonBody::new(None);
    response.optional("id", &sent_id(&result.id))?;
    response.field("name", &sent_name(&result.name))?;
    let key = if result.failed { "error" } else { "output" };
    let mut output = JsonBody::new(None);
    output.field(key, &result.text)?;
    response.raw("response", &output.end()?);
    let mut inside = Vec::new();
    // All or none, so that they keep their order.
    let are_inside = options.family.is_new() && result.parts.iter().all(goes_inside);
    for part in &result.parts {
        let list = match are_inside {
            true => &mut inside,
            false => {
                if written.beside.is_empty() {
                    written.beside = text_part(&parts_of(&result.id), None)?;
                }
                &mut written.beside
            }
        };
        add(list, &media(part)?);
    }
    if !inside.is_empty() {
        response.list("parts", [inside]);
    }
    let mut part = JsonBody::new(None);
    part.raw("functionResponse", &response.end()?);
    written.parts = part.end()?;
    Ok(())
}

/// Returns whether a result may contain the part: the bytes of an image, a PDF or a text. The API's
/// description has no address there.
fn goes_inside(part: &Part) -> bool {
    let is_content = match part.source() {
        Some(Source::Bytes { .. }) => true,
        Some(Source::Url(url)) => url.starts_with("data:"),
        _ => false,
    };
    let media_type = part.source().and_then(Source::media_type);
    is_content
        && match part {
            Part::Image(_) => true,
            Part::Document(_) => {
                media_type.is_none_or(|of| matches!(of, "application/pdf" | "text/plain"))
            }
            _ => false,
        }
}

/// Returns the error for a kind of message that a newer version of the module layer has.
fn unknown() -> serde_json::Error {
    serde_json::Error::custom(
        "this version of toolwright-gemini does not support a kind of message in the request",
    )
}
