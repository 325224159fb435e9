use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwright_module::{Finish, Reasoning, Reply, ReplyPart, Request, ToolCall, Usage};

use super::PROVIDER;
use crate::assembly::{Assembly, mended};
use crate::error::{Error, Result};
use crate::lenient::{Count, Text, or_default};
use crate::streaming::{Decoder, Deltas};

/// A whole reply.
#[derive(Default, Deserialize)]
pub(crate) struct Response {
    #[serde(default)]
    model: Text,
    #[serde(default)]
    status: Text,
    // Raw, because a reasoning item has to go back as it came.
    #[serde(default, deserialize_with = "or_default")]
    output: Vec<Box<RawValue>>,
    #[serde(default, deserialize_with = "or_default")]
    incomplete_details: Details,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    reason: Text,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default, deserialize_with = "or_default")]
    input_tokens_details: InputDetails,
    #[serde(default, deserialize_with = "or_default")]
    output_tokens_details: OutputDetails,
}

#[derive(Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
}

#[derive(Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self::new(tokens.input_tokens.0, tokens.output_tokens.0)
            .with_cached(tokens.input_tokens_details.cached_tokens.0)
            .with_reasoning(tokens.output_tokens_details.reasoning_tokens.0)
    }
}

/// One entry of the output, of whatever kind.
#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type", default)]
    kind: Text,
    #[serde(default)]
    id: Text,
    #[serde(default, deserialize_with = "or_default")]
    content: Vec<Piece>,
    #[serde(default, deserialize_with = "or_default")]
    summary: Vec<Piece>,
    #[serde(default)]
    call_id: Text,
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Text,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    text: Text,
    #[serde(default)]
    refusal: Text,
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T> {
    serde_json::from_str(raw.get())
        .map_err(|source| Error::Decoding { source, raw: raw.get().to_owned() })
}

impl Response {
    /// The reply, if this is a whole one.
    pub(crate) fn into_reply(self, request: &Request) -> Result<Reply> {
        self.or_assembled(&Asked::by(request), Vec::new())
    }

    /// The reply; of what was assembled, where a server ends its stream without it.
    fn or_assembled(self, asked: &Asked, assembled: Vec<ReplyPart>) -> Result<Reply> {
        let usage = self.usage.map(Usage::from).unwrap_or_default();
        if let Some(error) = &self.error {
            return Err(Error::reported(error, usage));
        }
        let mut finish = match &*self.status {
            "failed" => return Err(Error::reported(&Value::Null, usage)),
            "incomplete" => incomplete(self.incomplete_details.reason.0),
            "cancelled" | "in_progress" | "queued" => Finish::Other(self.status.0),
            // llama.cpp calls a reply complete that it cut off.
            _ if usage.output_tokens >= asked.most => Finish::Length,
            _ => Finish::Stop,
        };
        if self.output.is_empty() && assembled.is_empty() && finish == Finish::Stop {
            return Err(Error::Empty { usage });
        }
        let mut parts = Vec::with_capacity(self.output.len());
        for item in &self.output {
            if add(item, &mut parts)? {
                finish = Finish::Refused;
            }
        }
        if self.output.is_empty() {
            parts = assembled;
        }
        let mut reply =
            Reply::new(mended(parts, asked.turn, &finish)).with_finish(finish).with_usage(usage);
        reply.model = self.model.filled();
        Ok(reply)
    }
}

fn incomplete(reason: String) -> Finish {
    match reason.as_str() {
        "max_output_tokens" => Finish::Length,
        "content_filter" => Finish::Refused,
        _ => Finish::Other(reason),
    }
}

/// Adds what an item says to the parts; whether it refuses.
fn add(raw: &RawValue, parts: &mut Vec<ReplyPart>) -> Result<bool> {
    let item: Item = read(raw)?;
    let mut refused = false;
    match &*item.kind {
        "message" => {
            for piece in item.content {
                refused |= !piece.refusal.is_empty();
                let texts = [piece.text, piece.refusal].into_iter();
                parts.extend(texts.filter_map(Text::filled).map(ReplyPart::Text));
            }
        }
        "reasoning" => {
            let pieces = if item.summary.is_empty() { item.content } else { item.summary };
            let texts: Vec<_> = pieces.into_iter().map(|piece| piece.text.0).collect();
            let reasoning = Reasoning::new(PROVIDER, texts.join("\n\n"), read(raw)?);
            parts.push(ReplyPart::Reasoning(reasoning));
        }
        "function_call" => {
            let id = item.call_id.filled().unwrap_or(item.id.0);
            let call = ToolCall::new(id, item.name.0, item.arguments.0);
            parts.push(ReplyPart::Call(call));
        }
        // What OpenAI's own tools leave behind; none of them is asked for.
        _ => {}
    }
    Ok(refused)
}

/// What a reply has to be measured against.
struct Asked {
    /// How many messages there were before it.
    turn: usize,
    /// How many tokens it may have.
    most: u64,
}

impl Asked {
    fn by(request: &Request) -> Self {
        Self { turn: request.messages.len(), most: request.max_output_tokens }
    }
}

/// One event of a stream, of whatever kind.
#[derive(Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "type", default)]
    kind: Text,
    #[serde(default)]
    delta: Text,
    #[serde(default)]
    item: Option<Box<RawValue>>,
    #[serde(default)]
    item_id: Text,
    #[serde(default)]
    output_index: Option<Count>,
    #[serde(default)]
    response: Option<Response>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    code: Text,
    #[serde(default)]
    message: Text,
}

/// A reply in the making.
pub(crate) struct Pieces {
    asked: Asked,
    assembly: Assembly,
    calls: Vec<Slot>,
    /// Items that are whole, in their order.
    items: Vec<Box<RawValue>>,
    refused: bool,
    last: Option<Response>,
}

/// Where the pieces of one call go.
struct Slot {
    item_id: String,
    output_index: Option<u64>,
    part: usize,
}

impl Pieces {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            asked: Asked::by(request),
            assembly: Assembly::default(),
            calls: Vec::new(),
            items: Vec::new(),
            refused: false,
            last: None,
        }
    }

    fn begin(&mut self, raw: &RawValue, index: Option<Count>, deltas: &mut Deltas) -> Result<()> {
        let item: Item = read(raw)?;
        if &*item.kind != "function_call" {
            return Ok(());
        }
        let part = self.assembly.begin_call();
        let id = item.call_id.filled().unwrap_or_else(|| item.id.0.clone());
        self.assembly.more_of_call(part, id, item.name.0, String::new(), deltas);
        self.calls.push(Slot {
            item_id: item.id.0,
            output_index: index.map(|index| index.0),
            part,
        });
        Ok(())
    }

    /// The call that an event is about. Not every server says it in both ways.
    fn part_of(&self, event: &Event) -> Option<usize> {
        let mut calls = self.calls.iter().rev();
        let slot = match (&*event.item_id, event.output_index) {
            ("", None) => calls.next(),
            ("", Some(index)) => calls.find(|slot| slot.output_index == Some(index.0)),
            (id, _) => calls.find(|slot| slot.item_id == id),
        };
        slot.map(|slot| slot.part)
    }
}

impl Decoder for Pieces {
    type Event = Event;

    fn take(&mut self, event: Event, deltas: &mut Deltas) -> Result<()> {
        if event.error.is_some() || &*event.kind == "error" {
            let flat = || json!({"code": &*event.code, "message": &*event.message});
            let error = event.error.clone().unwrap_or_else(flat);
            return Err(Error::reported(&error, Usage::default()));
        }
        match &*event.kind {
            "response.output_text.delta" => self.assembly.text(event.delta.0, deltas),
            "response.refusal.delta" => {
                self.refused = true;
                self.assembly.text(event.delta.0, deltas);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.assembly.reasoning(PROVIDER, event.delta.0, deltas);
            }
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.begin(item, event.output_index, deltas)?;
                }
            }
            "response.function_call_arguments.delta" => {
                if let Some(part) = self.part_of(&event) {
                    let (id, name) = (String::new(), String::new());
                    self.assembly.more_of_call(part, id, name, event.delta.0, deltas);
                }
            }
            "response.output_item.done" => self.items.extend(event.item),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let mut response = event.response.unwrap_or_default();
                if response.status.is_empty() {
                    response.status.0 = event.kind.trim_start_matches("response.").to_owned();
                }
                self.last = Some(response);
            }
            // Beginnings, ends and kinds that add nothing to the above.
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.last.is_some()
    }

    fn is_complete(&self) -> bool {
        self.last.is_some()
    }

    fn finish(mut self) -> Result<Reply> {
        let Some(mut response) = self.last.take() else {
            let (raw, source) = (self.so_far(), None);
            return Err(Error::Truncated { raw, source });
        };
        if response.output.is_empty() {
            response.output = self.items;
        }
        let mut reply = response.or_assembled(&self.asked, self.assembly.take())?;
        if self.refused {
            reply.finish = Finish::Refused;
        }
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.assembly.so_far()
    }
}
