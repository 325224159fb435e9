use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::{Finish, Reply, Request, ToolCall, Usage};

use super::PROVIDER;
use crate::assembly::{Assembly, mended};
use crate::error::{Error, Result};
use crate::lenient::{Count, Text, or_default};
use crate::streaming::{Decoder, Deltas};

/// A whole reply, or one piece of a streamed one: they differ in one field.
#[derive(Deserialize)]
pub(crate) struct Completion {
    #[serde(default)]
    model: Text,
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<Count>,
    /// In a whole reply.
    #[serde(default, deserialize_with = "or_default")]
    message: Said,
    /// In a stream.
    #[serde(default, deserialize_with = "or_default")]
    delta: Said,
    #[serde(default)]
    finish_reason: Text,
}

#[derive(Default, Deserialize)]
struct Said {
    #[serde(default)]
    content: Text,
    #[serde(default)]
    refusal: Text,
    #[serde(default)]
    reasoning_content: Text,
    /// Another word for the same; some servers say both.
    #[serde(default)]
    reasoning: Text,
    #[serde(default, deserialize_with = "or_default")]
    tool_calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    index: Option<Count>,
    #[serde(default)]
    id: Text,
    #[serde(default, deserialize_with = "or_default")]
    function: Function,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Text,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default, deserialize_with = "or_default")]
    prompt_tokens_details: PromptDetails,
    #[serde(default, deserialize_with = "or_default")]
    completion_tokens_details: CompletionDetails,
}

#[derive(Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

#[derive(Default, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self::new(tokens.prompt_tokens.0, tokens.completion_tokens.0)
            .with_cached(tokens.prompt_tokens_details.cached_tokens.0)
            .with_reasoning(tokens.completion_tokens_details.reasoning_tokens.0)
    }
}

impl Completion {
    /// The reply, if this is a whole one.
    pub(crate) fn into_reply(self, request: &Request) -> Result<Reply> {
        let mut pieces = Pieces::new(request);
        pieces.is_whole = true;
        pieces.add(self, &mut Deltas::deaf())?;
        // Whoever sent the whole has ended, whether it says why or not.
        pieces.finish.get_or_insert_default();
        pieces.finish()
    }
}

/// A reply in the making.
pub(crate) struct Pieces {
    /// How many messages there were before.
    turn: usize,
    assembly: Assembly,
    calls: Vec<Slot>,
    model: Option<String>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    refused: bool,
    heard: bool,
    chosen: bool,
    /// The choice that is read, where choices are counted.
    choice: Option<u64>,
    /// Whether all comes at once.
    is_whole: bool,
}

/// Where the pieces of one call go.
struct Slot {
    index: Option<u64>,
    part: usize,
}

impl Pieces {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            turn: request.messages.len(),
            assembly: Assembly::default(),
            calls: Vec::new(),
            model: None,
            usage: None,
            finish: None,
            refused: false,
            heard: false,
            chosen: false,
            choice: None,
            is_whole: false,
        }
    }

    fn add(&mut self, completion: Completion, deltas: &mut Deltas) -> Result<()> {
        self.heard = true;
        if let Some(usage) = completion.usage {
            self.usage = Some(usage.into());
        }
        if let Some(error) = completion.error {
            return Err(Error::reported(&error, self.usage.unwrap_or_default()));
        }
        if self.model.is_none() {
            self.model = completion.model.filled();
        }
        // One answer is asked for; who sends more is read for the first.
        let index = |choice: &Choice| choice.index.map(|index| index.0);
        let is_read = |choice: &Choice| match (self.choice, index(choice)) {
            (Some(read), Some(index)) => read == index,
            _ => true,
        };
        let Some(choice) = completion.choices.into_iter().find(is_read) else {
            return Ok(());
        };
        self.choice = self.choice.or(index(&choice));
        self.chosen = true;
        let said = if self.is_whole { choice.message } else { choice.delta };
        if let Some(word) = choice.finish_reason.filled() {
            self.finish = Some(finish(word));
        }
        self.hear(said, deltas);
        Ok(())
    }

    fn hear(&mut self, said: Said, deltas: &mut Deltas) {
        let reasoning = said.reasoning_content.filled();
        if let Some(piece) = reasoning.or_else(|| said.reasoning.filled()) {
            self.assembly.reasoning(PROVIDER, piece, deltas);
        }
        if let Some(piece) = said.content.filled() {
            self.assembly.text(piece, deltas);
        }
        if let Some(piece) = said.refusal.filled() {
            self.refused = true;
            self.assembly.text(piece, deltas);
        }
        for call in said.tool_calls {
            // In a whole reply every entry is a call, whatever it is counted as.
            let part = if self.is_whole { self.assembly.begin_call() } else { self.slot(&call) };
            let Function { name, arguments } = call.function;
            self.assembly.more_of_call(part, call.id.0, name.0, arguments.0, deltas);
        }
    }

    /// The call that a piece belongs to, by its index where it has one.
    ///
    /// Some servers count every call as the first, and some give every call the same
    /// id.
    fn slot(&mut self, piece: &Call) -> usize {
        let index = piece.index.map(|index| index.0);
        let known = match index {
            Some(_) => self.calls.iter().rev().find(|slot| slot.index == index),
            None => self.calls.last(),
        };
        if let Some(slot) = known
            && let Some(call) = self.assembly.call(slot.part)
            && !begins(piece, call)
        {
            return slot.part;
        }
        let part = self.assembly.begin_call();
        self.calls.push(Slot { index, part });
        part
    }
}

/// Whether a piece that could be more of a call begins another one.
///
/// Only what brings a name can, and it does with another id, with nothing to count it
/// by, or after the known call's end. Name and id alone may just be said once more.
fn begins(piece: &Call, known: &ToolCall) -> bool {
    let name = &*piece.function.name;
    let other_id = !piece.id.is_empty() && !known.id.is_empty() && *piece.id != *known.id;
    let uncounted = piece.index.is_none() && piece.id.is_empty();
    let says_more = !piece.function.arguments.is_empty() || name != known.name;
    !name.is_empty() && (other_id || uncounted || says_more && is_complete(&known.arguments))
}

fn is_complete(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

impl Decoder for Pieces {
    type Event = Completion;

    fn take(&mut self, event: Completion, deltas: &mut Deltas) -> Result<()> {
        self.add(event, deltas)
    }

    fn has_ended(&self) -> bool {
        self.finish.is_some()
    }

    fn is_complete(&self) -> bool {
        // The usage comes last.
        self.finish.is_some() && self.usage.is_some()
    }

    fn finish(mut self) -> Result<Reply> {
        let usage = self.usage.unwrap_or_default();
        if self.heard && !self.chosen {
            return Err(Error::Empty { usage });
        }
        let Some(finish) = self.finish else {
            let (raw, source) = (self.so_far(), None);
            return Err(Error::Truncated { raw, source });
        };
        let finish = if self.refused { Finish::Refused } else { finish };
        let reply = Reply::new(mended(self.assembly.take(), self.turn, &finish));
        let mut reply = reply.with_finish(finish).with_usage(usage);
        reply.model = self.model;
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.assembly.so_far()
    }
}

fn finish(word: String) -> Finish {
    match word.as_str() {
        "stop" | "tool_calls" | "function_call" => Finish::Stop,
        // Other servers' words for the model's own end.
        "eos" | "eos_token" | "end_turn" | "stop_sequence" => Finish::Stop,
        "length" | "max_tokens" => Finish::Length,
        "content_filter" | "refusal" => Finish::Refused,
        _ => Finish::Other(word),
    }
}
