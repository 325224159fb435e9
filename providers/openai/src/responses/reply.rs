//! Replies and streams of Responses.
//!
//! [`Response`] is a whole reply, [`Event`] one event of a stream. A stream ends with a whole
//! reply; [`Pieces`] adds the content that it lacks.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use toolwright_module::message::{CallKind, Opaque, Reasoning, ReplyPart};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Contract, Reply, Request, ToolCall};
use toolwright_provider::ending::{self, is_same, is_unfinished, is_whole};
use toolwright_provider::lenient::{
    Arguments, Count, Piece, Str, Text, Unread, Words, call_fields, if_object, is_set, object,
    or_default, thoughts,
};
use toolwright_provider::{
    Deltas, ReplyParts, TokenCounts, complete_reply, is_empty_object, rest_of, settle,
    takes_fields, text_of,
};

use super::request::{ITEM_ID, items_of};
use super::state::History;
use crate::Result;
use crate::arguments::is_complete;
use crate::chat::{Function, filtered};
use crate::rules::{Quirk, Rules};
use toolwright_provider::Decoder;
use toolwright_provider::ProviderError;

/// A whole reply.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Response {
    id: Text,
    model: Text,
    status: Text,
    // Raw, because later requests contain the reasoning items unchanged.
    #[serde(deserialize_with = "output")]
    output: Vec<Box<RawValue>>,
    /// `None` if the server does not have the field, so that it cannot report a reply that it cut
    /// off. A reply that is complete has `null`.
    #[serde(deserialize_with = "details")]
    incomplete_details: Option<Details>,
    #[serde(deserialize_with = "if_object")]
    usage: Option<TokenCounts>,
    error: Value,
    /// The marks of Azure's filters.
    content_filters: Value,
    /// Whether the server keeps the reply.
    store: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    reason: Text,
}

/// Deserializes the details of an incomplete reply. `null` means that there are none.
fn details<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Details>, D::Error> {
    let details = match Value::deserialize(deserializer)? {
        Value::Object(details) => Details::deserialize(details).unwrap_or_default(),
        // Some servers send a text such as `none` where an object belongs.
        Value::String(reason) => {
            let nothing = ["", "none", "null", "n/a", "false"];
            match nothing.iter().any(|word| reason.trim().eq_ignore_ascii_case(word)) {
                true => Details::default(),
                false => Details { reason: Text(reason) },
            }
        }
        details if is_set(&details) => Details { reason: Text(details.to_string()) },
        _ => Details::default(),
    };
    Ok(Some(details))
}

/// Deserializes the items of an output: a list, a nested list, one item, or a string.
fn output<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    let mut items = Vec::new();
    add_items(<&RawValue>::deserialize(deserializer)?, &mut items).map_err(D::Error::custom)?;
    Ok(items)
}

/// Adds the items of a value to a list.
fn add_items(value: &RawValue, items: &mut Vec<Box<RawValue>>) -> serde_json::Result<()> {
    match value.get().as_bytes() {
        [b'{', ..] => items.push(value.to_owned()),
        [b'[', ..] => {
            for item in serde_json::from_str::<Vec<&RawValue>>(value.get())? {
                add_items(item, items)?;
            }
        }
        [b'"', ..] => {
            let content: String = serde_json::from_str(value.get())?;
            if !content.is_empty() {
                items.push(to_raw_value(&json!({"type": "message", "content": content}))?);
            }
        }
        b"null" => {}
        _ => return Err(serde_json::Error::custom("expected items")),
    }
    Ok(())
}

/// One item of the output, of any kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Item<'e> {
    #[serde(borrow, rename = "type")]
    kind: Str<'e>,
    id: Str<'e>,
    // Raw, because an item of an unknown type may have anything there.
    content: Option<&'e RawValue>,
    summary: Option<&'e RawValue>,
    call_id: Text,
    name: Text,
    arguments: Arguments,
    args: Arguments,
    parameters: Arguments,
    /// The input of a custom tool.
    input: Arguments,
    /// Name and arguments as in Chat Completions.
    #[serde(deserialize_with = "object")]
    function: Function,
    /// Where a call's tool is from, if the model searched for it.
    namespace: Value,
    /// Whether a message is the answer or a comment before calls.
    phase: Value,
    status: Str<'e>,
    encrypted_content: Value,
    /// The results of a call that the server has made, under any of their names.
    output: Value,
    result: Value,
    /// The MCP server that the model's server called.
    server_label: Value,
    /// Whether a call has two names or two sets of arguments, or may have them under an unknown name.
    #[serde(skip)]
    is_unclear: bool,
}

impl<'e> Item<'e> {
    fn of(raw: &'e RawValue) -> Result<Self> {
        // For serde, a list is also a struct: its items are the fields, in their order.
        if !raw.get().starts_with('{') {
            let source = serde_json::Error::custom("expected an item, which is an object");
            return Err(broken(raw, source));
        }
        let mut item: Self = read(raw)?;
        let (name, arguments, is_clear) = std::mem::take(&mut item.function).name_and_arguments();
        let (name, is_one) = Text::one_of([std::mem::take(&mut item.name), name]);
        let Self { arguments: own, args, parameters, input, .. } = &mut item;
        let given = [own, args, parameters].map(std::mem::take);
        let given = given.into_iter().chain([arguments, input.clone()]);
        let (arguments, is_same) = Arguments::one_of(given);
        (item.name, item.arguments) = (name, arguments);
        let fields = || call_fields(raw.get()).map_err(|source| broken(raw, source));
        // An item begins without arguments, which come later.
        let is_hidden = !item.name.is_empty()
            && Unread::Content.may_be_meant(&item.arguments.0)
            && Unread::of(&fields()?) == Unread::Content;
        item.is_unclear = !(is_clear && is_one && is_same) || is_hidden;
        let is_named = !item.name.is_empty() && !item.call_id.is_empty();
        item.kind = Str(Cow::Borrowed(match &*item.kind {
            "tool_call" | "tool_use" | "function" => "function_call",
            "" if !item.name.is_empty() => "function_call",
            "" if item.content.is_some_and(|content| content.get() != "[]") => "message",
            "message" | "reasoning" | "function_call" | "custom_tool_call" => return Ok(item),
            // An item of unknown type with a name and a call id is a call.
            kind if is_named && !item.is_of_the_server(kind) => "function_call",
            _ => return Ok(item),
        }));
        Ok(item)
    }

    /// Returns whether an item of this type is a result, or a call that the server makes itself.
    fn is_of_the_server(&self, kind: &str) -> bool {
        const ENDS: [&str; 4] = ["_output", "_result", "_request", "_response"];
        const CALLS: [&str; 9] = [
            "web_search_call",
            "file_search_call",
            "code_interpreter_call",
            "computer_call",
            "image_generation_call",
            "local_shell_call",
            "shell_call",
            "apply_patch_call",
            "tool_search_call",
        ];
        kind.starts_with("mcp_")
            || ENDS.iter().any(|end| kind.ends_with(end))
            || CALLS.contains(&kind)
            || [&self.output, &self.result, &self.server_label].into_iter().any(is_set)
    }

    /// Returns the text of reasoning: the summaries, or the reasoning itself.
    fn reasoning(&self) -> Result<String> {
        let mut pieces = pieces(self.summary)?;
        if pieces.is_empty() {
            pieces = self::pieces(self.content)?;
        }
        let texts = pieces.into_iter().map(|piece| piece.thoughts + &piece.text);
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }
}

/// Returns the pieces of a message or of reasoning: a list, or one piece.
fn pieces(raw: Option<&RawValue>) -> Result<Vec<Piece>> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let pieces = match raw.get().starts_with('[') {
        true => read(raw)?,
        false => vec![raw],
    };
    let pieces = pieces.into_iter().filter(|piece| piece.get() != "null");
    pieces.map(|piece| Piece::read(piece.get()).map_err(|source| broken(piece, source))).collect()
}

fn broken(raw: &RawValue, source: serde_json::Error) -> ProviderError {
    ProviderError::Decoding { source, raw: raw.get().to_owned() }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T> {
    serde_json::from_str(raw.get()).map_err(|source| broken(raw, source))
}

impl Response {
    /// Converts a whole reply.
    pub(crate) fn into_reply(self, request: &RequestInfo) -> Result<Reply> {
        let words = [&self.id, &self.model, &self.status];
        let is_named = words.iter().any(|word| !word.is_empty());
        if self.output.is_empty() && !is_named && self.usage.is_none() && !is_set(&self.error) {
            let source = serde_json::Error::custom("expected a reply with `output`");
            return Err(ProviderError::Decoding { source, raw: String::new() });
        }
        self.or_assembled(request, Streamed::default())
    }

    /// Converts the reply at the end of a stream, with the streamed content that it lacks.
    fn or_assembled(self, request: &RequestInfo, mut streamed: Streamed) -> Result<Reply> {
        let usage = self.usage.map_or_else(Usage::unknown, TokenCounts::usage);
        if is_set(&self.error) {
            return Err(ProviderError::reported(&self.error, usage));
        }
        let can_report_a_cut = self.incomplete_details.is_some();
        let why = self.incomplete_details.unwrap_or_default().reason.0;
        let mut finish = match &*self.status {
            status if is_same(status, "failed") => {
                let (status, raw) = (self.status.0, String::new());
                let retry_after = None;
                let usage = Box::new(usage);
                return Err(ProviderError::Unfinished { status, raw, usage, retry_after });
            }
            status if is_same(status, "incomplete") => ending::incomplete(&why),
            status if is_unfinished(status) || !is_whole(status) => {
                Finish::Other(status.to_owned())
            }
            // Some servers say only there that the reply was cut off.
            _ if !why.is_empty() => ending::incomplete(&why),
            // llama.cpp reports `completed` for a reply that it cut off, and ends it exactly at the
            // maximum. A server that counts beyond the maximum counts other tokens, too.
            _ if !can_report_a_cut
                && usage.output_tokens == request.max_output_tokens
                && !self.output.iter().any(|item| is_one_value(item)) =>
            {
                Finish::Length
            }
            _ => Finish::Stop,
        };
        let filter = filtered(&self.content_filters);
        if filter.is_some() {
            finish = Finish::Refused;
        }
        let reason = filter.or(Some(why)).filter(|_| finish == Finish::Refused);
        if self.output.is_empty() && streamed.parts.is_empty() && finish == Finish::Stop {
            return Err(ProviderError::Empty { usage, retry_after: None });
        }
        let mut parts = Vec::with_capacity(self.output.len());
        let mut items = Items {
            origin: &request.origin,
            is_stored: self.store != Value::Bool(false),
            keeps_ids: false,
            has_ids: request.has_item_ids,
        };
        for (place, item) in self.output.iter().enumerate() {
            if items.add(item, place, &mut parts, &mut streamed)? {
                finish = Finish::Refused;
            }
        }
        let (known, whole) = (text_of(&streamed.parts), text_of(&parts));
        if !whole.is_empty() {
            rest_of(&known, &whole)?;
        }
        streamed.append(&mut parts, request);
        if finish == Finish::Stop && self.output.iter().any(|item| is_cut_off(item)) {
            finish = Finish::Length;
        }
        for part in &mut parts {
            if let ReplyPart::Call(call) = part {
                call.incomplete |= call.kind == CallKind::Function
                    && call.arguments.trim().is_empty()
                    && takes_fields(&request.tools, &call.name);
            }
        }
        let is_message =
            |item: &RawValue| Item::of(item).is_ok_and(|item| &*item.kind == "message");
        let is_empty = parts.is_empty() && finish == Finish::Stop;
        if is_empty && !self.output.iter().any(|item| is_message(item)) {
            return Err(ProviderError::Empty { usage, retry_after: None });
        }
        let mut reply = complete_reply(parts, request.turn, finish, usage)?;
        if let Some(history) = request.history.clone().filter(|_| items.is_stored)
            && let Some(id) = self.id.filled()
        {
            let items = items_of(&reply.parts, &request.origin).map_err(ProviderError::unsent)?;
            reply.parts.push(history.mark(&id, &items, &request.origin));
        }
        (reply.model, reply.reason) = (self.model.filled(), reason);
        Ok(reply)
    }
}

/// Returns whether the server did not finish an item: a message, reasoning or a call. Only a call needs
/// a status that is known.
fn is_cut_off(item: &RawValue) -> bool {
    Item::of(item).is_ok_and(|item| match &*item.kind {
        "message" => is_same(&item.status, "incomplete") || is_unfinished(&item.status),
        "reasoning" => is_same(&item.status, "incomplete"),
        "function_call" | "custom_tool_call" => !is_whole(&item.status),
        _ => false,
    })
}

/// Returns whether an item is a message with one JSON object or list. It has its end, so the
/// maximum of tokens did not cut it off.
fn is_one_value(item: &RawValue) -> bool {
    Item::of(item).is_ok_and(|item| {
        let texts = |pieces: Vec<Piece>| pieces.into_iter().map(|piece| piece.text).collect();
        let texts: String = pieces(item.content).map(texts).unwrap_or_default();
        &*item.kind == "message" && is_complete(&texts)
    })
}

/// The streamed content, for a stream whose last event lacks some of it.
#[derive(Default)]
struct Streamed {
    parts: Vec<ReplyPart>,
    calls: Vec<Slot>,
}

impl Streamed {
    /// Removes and returns the streamed form of a call in the output.
    fn call(&mut self, item: &Item, place: usize) -> Option<ToolCall> {
        let is_it = |slot: &Slot| {
            let call = self.parts.get(slot.part);
            let Some(ReplyPart::Call(call)) = call else { return false };
            let same = |a: &str, b: &str| !a.is_empty() && a == b;
            same(&call.id, &item.call_id) || same(&slot.item_id, &item.id)
        };
        let is_there = |slot: &Slot| {
            let Some(ReplyPart::Call(call)) = self.parts.get(slot.part) else { return false };
            let is_named = call.name.is_empty() || call.name == *item.name;
            slot.output_index == Some(place as u64) && is_named
        };
        let found = self.calls.iter().position(is_it);
        let found = found.or_else(|| self.calls.iter().position(is_there))?;
        let slot = self.calls.remove(found);
        match self.parts.get(slot.part) {
            Some(ReplyPart::Call(call)) => Some(call.clone()),
            _ => None,
        }
    }

    /// Adds the streamed content that the output lacks: text or reasoning if the output has no
    /// such part, and the calls that are left.
    fn append(mut self, parts: &mut Vec<ReplyPart>, request: &RequestInfo) {
        let has = |wanted: fn(&ReplyPart) -> bool| parts.iter().any(wanted);
        let texts = has(|part| matches!(part, ReplyPart::Text(_)));
        let reasoning = has(|part| matches!(part, ReplyPart::Reasoning(_)));
        let left: HashSet<usize> = self.calls.iter().map(|slot| slot.part).collect();
        // A server begins a call with nothing or `{}`, and only its end shows that this is all. Any
        // beginning of the input of a custom tool may be all of it.
        for slot in self.calls.iter().filter(|slot| !slot.has_ended) {
            if let Some(ReplyPart::Call(call)) = self.parts.get_mut(slot.part) {
                call.incomplete |= call.kind == CallKind::Custom
                    || is_empty_object(&call.arguments) && takes_fields(&request.tools, &call.name);
            }
        }
        let streamed = self.parts.into_iter().enumerate().filter(|(at, part)| match part {
            ReplyPart::Text(_) => !texts,
            ReplyPart::Reasoning(_) => !reasoning,
            ReplyPart::Call(_) => left.contains(at),
            _ => true,
        });
        parts.extend(streamed.map(|(_, part)| part));
    }
}

/// The conversion of items to parts.
struct Items<'a> {
    /// The provider of reasoning and opaque parts.
    origin: &'a str,
    is_stored: bool,
    /// Whether the server takes the ids of items back.
    has_ids: bool,
    /// Whether an item of reasoning came before. The server then looks for the items that it
    /// led to, which it knows by their ids.
    keeps_ids: bool,
}

impl Items<'_> {
    /// Adds the content of an item to the parts, and returns whether it is a refusal.
    fn add(
        &mut self,
        raw: &RawValue,
        place: usize,
        parts: &mut Vec<ReplyPart>,
        streamed: &mut Streamed,
    ) -> Result<bool> {
        let item = Item::of(raw)?;
        let mut refused = false;
        match &*item.kind {
            "message" => {
                let fields = self.opaque(&item.id, "phase", item.phase);
                for piece in pieces(item.content)? {
                    if piece.has_call {
                        let source = serde_json::Error::custom("a message has a call in it");
                        return Err(broken(raw, source));
                    }
                    if !piece.thoughts.is_empty() {
                        let thoughts = Reasoning::new(self.origin, piece.thoughts, Value::Null);
                        parts.push(ReplyPart::Reasoning(thoughts));
                    }
                    refused |= !piece.refusal.is_empty();
                    let is_first = !parts.iter().any(|part| matches!(part, ReplyPart::Text(_)));
                    let mut said = ReplyParts::default();
                    let deltas = &mut Deltas::discarded();
                    match is_first {
                        true => said.content(self.origin, piece.text, deltas),
                        false => said.text(piece.text, deltas),
                    }
                    said.end_content(deltas);
                    let texts = said.take().into_iter().chain([ReplyPart::text(piece.refusal)]);
                    for mut part in texts {
                        if let ReplyPart::Text(text) = &mut part {
                            if text.is_empty() {
                                continue;
                            }
                            text.opaque.clone_from(&fields);
                        }
                        parts.push(part);
                    }
                }
            }
            "reasoning" => {
                // Without its content, the server finds an item only if it keeps the reply.
                let has_content =
                    is_set(&item.encrypted_content) || !pieces(item.content)?.is_empty();
                let is_kept = self.is_stored || has_content;
                self.keeps_ids |= is_kept && self.has_ids;
                let opaque = if is_kept { read(raw)? } else { Value::Null };
                let reasoning = Reasoning::new(self.origin, item.reasoning()?, opaque);
                parts.push(ReplyPart::Reasoning(reasoning));
            }
            "function_call" | "custom_tool_call" => {
                if [&item.output, &item.result].into_iter().any(is_set) {
                    let (raw, usage) = (raw.get().to_owned(), Usage::unknown());
                    return Err(ProviderError::made_by_server(raw, usage));
                }
                let known = streamed.call(&item, place);
                let mut call = self.call(item);
                if let Some(mut known) = known {
                    known.kind = call.kind;
                    settle(&mut known, &call.name, &call.arguments);
                    (call.name, call.arguments) = (known.name, known.arguments);
                    call.incomplete |= known.incomplete;
                }
                parts.push(ReplyPart::Call(call));
            }
            // An item of a hosted tool, a compaction, or of a kind that came later.
            _ => parts.push(ReplyPart::Other(Opaque::new(self.origin, read(raw)?))),
        }
        Ok(refused)
    }

    fn call(&self, mut item: Item<'_>) -> ToolCall {
        let namespace = std::mem::take(&mut item.namespace);
        let opaque = self.opaque(&item.id, "namespace", namespace);
        let mut call = called(item);
        call.opaque = opaque;
        call
    }

    /// Returns the fields that go back with an item: one of its own, and its id.
    fn opaque(&self, id: &str, field: &str, value: Value) -> Option<Box<Opaque>> {
        let mut fields = Map::new();
        if is_set(&value) {
            fields.insert(field.to_owned(), value);
        }
        if self.keeps_ids && !id.is_empty() {
            fields.insert(ITEM_ID.to_owned(), id.into());
        }
        (!fields.is_empty()).then(|| Box::new(Opaque::new(self.origin, fields.into())))
    }
}

/// Returns a text without the thoughts at its beginning.
fn answer_of(text: &str) -> String {
    let mut parts = ReplyParts::default();
    parts.content("", text, &mut Deltas::discarded());
    parts.answer()
}

fn called(item: Item<'_>) -> ToolCall {
    let Item { kind, id, call_id, name, arguments, input, is_unclear, .. } = item;
    let id = call_id.filled().unwrap_or_else(|| id.0.into_owned());
    let mut call = match &*kind {
        "custom_tool_call" => ToolCall::custom(id, name.0, input.0),
        _ => ToolCall::new(id, name.0, arguments.0),
    };
    call.incomplete = is_unclear;
    call
}

/// Returns the id of a reply that is not finished.
pub(crate) fn unfinished(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        id: Text,
        #[serde(default)]
        status: Text,
    }
    let Status { id, status } = serde_json::from_slice(body).ok()?;
    id.filled().filter(|_| ["queued", "in_progress"].iter().any(|known| is_same(&status, known)))
}

/// The facts of a request that the reading of its reply needs.
#[derive(Clone, Default)]
pub(crate) struct RequestInfo {
    /// The number of messages in the request.
    turn: usize,
    /// The maximum number of tokens in the reply.
    max_output_tokens: u64,
    tools: Arc<[Arc<Contract>]>,
    /// The provider of reasoning and opaque parts.
    origin: Arc<str>,
    /// Whether the server takes the ids of items back.
    has_item_ids: bool,
    /// The hash of the conversation, if the server keeps it.
    history: Option<History>,
}

impl RequestInfo {
    pub(crate) fn of(request: &Request, rules: &Rules) -> Self {
        Self {
            turn: request.messages.len(),
            max_output_tokens: request.max_output_tokens(),
            tools: Arc::clone(&request.tools),
            origin: Arc::clone(&rules.origins[1]),
            has_item_ids: !rules.has(Quirk::NoItemIds),
            history: None,
        }
    }

    pub(crate) fn with_history(self, history: Option<History>) -> Self {
        Self { history, ..self }
    }
}

/// One event of a stream, of any kind.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event<'e> {
    #[serde(borrow, rename = "type")]
    kind: Str<'e>,
    delta: Option<&'e RawValue>,
    item: Option<&'e RawValue>,
    item_id: Str<'e>,
    output_index: Count,
    content_index: Count,
    // The whole content, in the `done` event after the deltas.
    arguments: Arguments,
    parameters: Arguments,
    input: Arguments,
    text: Option<&'e RawValue>,
    refusal: Option<&'e RawValue>,
    name: Str<'e>,
    #[serde(deserialize_with = "or_default")]
    response: Option<Response>,
    error: Value,
    code: Str<'e>,
    message: Str<'e>,
}

/// A reply under construction.
#[derive(Default)]
pub(crate) struct Pieces {
    request: RequestInfo,
    parts: ReplyParts,
    calls: Vec<Slot>,
    /// The complete items, in their order.
    items: Vec<Box<RawValue>>,
    /// The index in `items` of each id.
    kept: HashMap<String, usize>,
    /// The texts so far by their place: whether it is a refusal, output index, item id, content index.
    texts: HashMap<(bool, Option<u64>, String, Option<u64>), String>,
    refused: bool,
    /// Whether the current item of reasoning had deltas.
    in_reasoning: bool,
    last: Option<Response>,
    done: bool,
}

/// A call under construction.
struct Slot {
    item_id: String,
    output_index: Option<u64>,
    /// The index of the call in the reply.
    part: usize,
    /// Whether an event had the whole call or its whole arguments.
    has_ended: bool,
}

impl Pieces {
    pub(crate) fn new(request: RequestInfo) -> Self {
        Self { request, ..Self::default() }
    }

    /// Adds the item of a call, at the call's beginning or end.
    fn call(
        &mut self,
        raw: &RawValue,
        index: Count,
        is_end: bool,
        deltas: &mut Deltas,
    ) -> Result<()> {
        let item = Item::of(raw)?;
        if !matches!(&*item.kind, "function_call" | "custom_tool_call") {
            return Ok(());
        }
        let (item_id, call_id) = (item.id.to_string(), item.call_id.0.clone());
        // A later event may say that it is whole, but then it is not clear.
        let is_cut = is_end && is_same(&item.status, "incomplete");
        let mut call = called(item);
        call.incomplete |= is_cut;
        let known = self.part_of(&item_id, &call_id, index.0, &call.name);
        let is_known = known.is_some();
        let part = known.unwrap_or_else(|| self.begin(item_id, index.0));
        if is_end {
            self.end(part);
        }
        if let Some(known) = self.parts.call_mut(part) {
            known.incomplete |= call.incomplete;
            if call.kind == CallKind::Custom {
                known.kind = CallKind::Custom;
            }
        }
        // The name of a known call was in an earlier delta.
        let discarded = &mut Deltas::discarded();
        let for_name = if is_known { discarded } else { &mut *deltas };
        self.parts.extend_call(part, call.id, call.name.clone(), String::new(), for_name);
        self.parts.settle_call(part, &call.name, call.arguments, deltas);
        Ok(())
    }

    /// Marks the end of a call.
    fn end(&mut self, part: usize) {
        for slot in self.calls.iter_mut().filter(|slot| slot.part == part) {
            slot.has_ended = true;
        }
    }

    fn begin(&mut self, item_id: String, output_index: Option<u64>) -> usize {
        let part = self.parts.begin_call();
        self.calls.push(Slot { item_id, output_index, part, has_ended: false });
        part
    }

    /// Returns the index of the call that an item or an event belongs to: by its id, else by its
    /// output index. Some servers send only one of them, and some a new id with each event.
    fn part_of(
        &self,
        item_id: &str,
        call_id: &str,
        index: Option<u64>,
        name: &str,
    ) -> Option<usize> {
        let same = |a: &str, b: &str| !a.is_empty() && a == b;
        let known = |slot: &&Slot| self.parts.call(slot.part);
        let is_it = |slot: &&Slot| {
            let id = known(slot).map_or("", |call| call.id.as_str());
            same(&slot.item_id, item_id) || same(id, call_id) || same(id, item_id)
        };
        let is_there = |slot: &&Slot| {
            let Some(call) = known(slot) else { return false };
            // Some servers repeat an output index. Then another id or name is another call.
            let other = !call_id.is_empty() && !call.id.is_empty() && call.id != call_id;
            let other = other || !name.is_empty() && !call.name.is_empty() && call.name != name;
            index.is_some() && slot.output_index == index && !other
        };
        let mut calls = self.calls.iter().rev();
        let found = calls.clone().find(is_it).or_else(|| calls.clone().find(is_there));
        // Without any id, index or name it is the last call.
        let is_identified = !item_id.is_empty() || !call_id.is_empty() || index.is_some();
        found
            .or_else(|| calls.next().filter(|_| !is_identified && name.is_empty()))
            .map(|slot| slot.part)
    }

    /// Returns the index of the call for a piece of arguments. If the server did not announce the
    /// call, a new one begins.
    fn piece_of(&mut self, event: &Event<'_>) -> usize {
        let index = event.output_index.0;
        match self.part_of(&event.item_id, "", index, "") {
            Some(part) => part,
            None if index.is_none()
                && let Some(part) = self.only_open() =>
            {
                part
            }
            None => self.begin(event.item_id.to_string(), index),
        }
    }

    /// Returns the index of the only call whose arguments are not complete.
    fn only_open(&self) -> Option<usize> {
        let is_open = |slot: &&Slot| {
            let call = self.parts.call(slot.part);
            call.is_some_and(|call| {
                is_empty_object(&call.arguments) || !is_complete(&call.arguments)
            })
        };
        let mut open = self.calls.iter().filter(is_open);
        let only = open.next()?;
        open.next().is_none().then_some(only.part)
    }

    /// Adds a piece of text, or what a whole text has beyond its pieces.
    fn text(&mut self, event: &Event<'_>, is_whole: bool, deltas: &mut Deltas) -> Result<()> {
        let is_refusal = event.kind.starts_with("response.refusal");
        let index = event.output_index.0;
        let id = if index.is_none() { event.item_id.to_string() } else { String::new() };
        let piece = match (is_whole, is_refusal) {
            (false, _) => event.delta,
            (true, true) => event.refusal,
            (true, false) => event.text,
        };
        let piece: Cow<'_, str> = piece.map(read::<Words<'_>>).transpose()?.unwrap_or_default().0;
        if !piece.is_empty() {
            self.refused |= is_refusal;
            let so_far =
                self.texts.entry((is_refusal, index, id, event.content_index.0)).or_default();
            if is_whole && !so_far.is_empty() {
                let (known, whole) = (answer_of(so_far), answer_of(&piece));
                self.parts.extend_text(rest_of(&known, &whole)?, deltas);
                return Ok(());
            }
            so_far.push_str(&piece);
            match is_refusal {
                true => self.parts.text(piece, deltas),
                false => self.parts.content(&self.request.origin, piece, deltas),
            }
        }
        Ok(())
    }

    /// Adds a whole item of reasoning that had no deltas.
    fn reasoning(&mut self, raw: &RawValue, deltas: &mut Deltas) -> Result<()> {
        let item = Item::of(raw)?;
        if &*item.kind == "reasoning" && !std::mem::take(&mut self.in_reasoning) {
            let text = item.reasoning()?;
            // Some servers repeat events.
            let is_known = self.kept.contains_key(&*item.id);
            if !text.is_empty() && !is_known {
                self.parts.reasoning(&self.request.origin, text, deltas);
            }
        }
        Ok(())
    }

    /// Keeps a complete item. It replaces an item with the same id.
    fn keep(&mut self, raw: &RawValue) -> Result<()> {
        let place = self.items.len();
        let known = match Item::of(raw)?.id.filled() {
            Some(id) => *self.kept.entry(id).or_insert(place),
            None => place,
        };
        match self.items.get_mut(known) {
            Some(known) => *known = raw.to_owned(),
            None => self.items.push(raw.to_owned()),
        }
        Ok(())
    }
}

impl Decoder for Pieces {
    type Event<'e> = Event<'e>;

    fn may_be_error(event: &Event<'_>) -> bool {
        event.kind.is_empty()
    }

    fn take(&mut self, event: Event<'_>, deltas: &mut Deltas) -> Result<()> {
        if is_set(&event.error) || matches!(&*event.kind, "error" | "response.error") {
            let flat = || json!({"code": &*event.code, "message": &*event.message});
            let error = if is_set(&event.error) { event.error.clone() } else { flat() };
            return Err(ProviderError::reported(&error, Usage::unknown()));
        }
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text(&event, false, deltas)?;
            }
            "response.output_text.done" | "response.refusal.done" => {
                self.text(&event, true, deltas)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let piece = event
                    .delta
                    .map(thoughts)
                    .transpose()
                    .map_err(|source| ProviderError::Decoding { source, raw: String::new() });
                let piece = piece?.unwrap_or_default().0;
                self.in_reasoning |= !piece.is_empty();
                self.parts.reasoning(&self.request.origin, piece, deltas);
            }
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    self.call(item, event.output_index, false, deltas)?;
                }
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let part = self.piece_of(&event);
                let (id, name) = (String::new(), String::new());
                let piece: Arguments = event.delta.map(read).transpose()?.unwrap_or_default();
                self.parts.extend_call(part, id, name, piece.0, deltas);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                let part = self.piece_of(&event);
                self.end(part);
                let given = [event.arguments, event.parameters, event.input];
                let (whole, is_clear) = Arguments::one_of(given);
                self.parts.settle_call(part, &event.name, whole.0, deltas);
                if let Some(call) = self.parts.call_mut(part) {
                    call.incomplete |= !is_clear;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.call(item, event.output_index, true, deltas)?;
                    self.reasoning(item, deltas)?;
                    self.keep(item)?;
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let mut response = event.response.unwrap_or_default();
                if is_whole(&response.status) {
                    response.status.0 = event.kind.trim_start_matches("response.").to_owned();
                }
                // A later end does not replace one that means an incomplete reply.
                if let Some(earlier) = self.last.take()
                    && !is_whole(&earlier.status)
                    && is_whole(&response.status)
                {
                    response.status = earlier.status;
                    response.incomplete_details = earlier.incomplete_details;
                }
                self.parts.end_content(deltas);
                self.last = Some(response);
            }
            // The other events have no content that the events above lack.
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self, _: &mut Deltas) {
        self.done = true;
    }

    fn has_ended(&self) -> bool {
        self.last.is_some()
    }

    fn is_complete(&self) -> bool {
        // Some servers end a stream without the output and send it later.
        self.done || self.last.as_ref().is_some_and(|response| !response.output.is_empty())
    }

    fn finish(mut self) -> Result<Reply> {
        self.parts.end_content(&mut Deltas::discarded());
        let Some(mut response) = self.last.take() else {
            return Err(ProviderError::truncated(self.so_far()));
        };
        if response.output.is_empty() {
            response.output = self.items;
        }
        let parts = self.parts.take();
        // Thoughts that were taken out of the text are a part before it.
        let is_call = |(_, part): &(usize, &ReplyPart)| matches!(part, ReplyPart::Call(_));
        let places = parts.iter().enumerate().filter(is_call).map(|(at, _)| at);
        self.calls.iter_mut().zip(places).for_each(|(slot, place)| slot.part = place);
        let streamed = Streamed { parts, calls: self.calls };
        let mut reply = response.or_assembled(&self.request, streamed)?;
        if self.refused {
            reply = reply.with_finish(Finish::Refused);
        }
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.parts.to_json()
    }
}
