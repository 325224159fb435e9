use serde::Deserialize;
use serde_json::Value;
use toolwright_module::{Finish, Reply, Request, Usage};

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
        pieces.add(self, |choice| choice.message, &mut Deltas::deaf())?;
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
        }
    }

    fn add(
        &mut self,
        completion: Completion,
        said: impl Fn(Choice) -> Said,
        deltas: &mut Deltas,
    ) -> Result<()> {
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
        let Some(mut choice) = completion.choices.into_iter().next() else {
            return Ok(());
        };
        self.chosen = true;
        if let Some(word) = std::mem::take(&mut choice.finish_reason).filled() {
            self.finish = Some(finish(word));
        }
        self.hear(said(choice), deltas);
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
            let part = self.slot(&call);
            let Function { name, arguments } = call.function;
            self.assembly.more_of_call(part, call.id.0, name.0, arguments.0, deltas);
        }
    }

    /// The call that a piece belongs to, by its index where it has one.
    ///
    /// A piece that brings both another id and a name begins another call, whatever
    /// its index: some servers count every call as the first.
    fn slot(&mut self, piece: &Call) -> usize {
        let index = piece.index.map(|index| index.0);
        let known = match index {
            Some(_) => self.calls.iter().rev().find(|slot| slot.index == index),
            None => self.calls.last(),
        };
        if let Some(slot) = known
            && let Some(call) = self.assembly.call(slot.part)
        {
            let other_id = !piece.id.is_empty() && !call.id.is_empty() && *piece.id != *call.id;
            let begins_unnamed = index.is_none() && piece.id.is_empty();
            let begins = !piece.function.name.is_empty() && (other_id || begins_unnamed);
            if !begins {
                return slot.part;
            }
        }
        let part = self.assembly.begin_call();
        self.calls.push(Slot { index, part });
        part
    }
}

impl Decoder for Pieces {
    type Event = Completion;

    fn take(&mut self, event: Completion, deltas: &mut Deltas) -> Result<()> {
        self.add(event, |choice| choice.delta, deltas)
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
