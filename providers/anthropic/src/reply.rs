//! Whole replies, and what they share with streamed ones: usage and the reason to stop.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};
use toolwright_module::message::mark_incomplete;
use toolwright_module::message::{Opaque, ReplyPart};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Contract, Reply, Request};
use toolwright_provider::lenient::{Count, Text, if_object, is_set};
use toolwright_provider::{
    ProviderError, TokenCounts, check_has_call, complete_reply, ending, takes_fields,
};

use crate::block::{Block, content};
use crate::{PROVIDER, Result};

/// A whole reply, or the beginning of a streamed one.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message {
    model: Text,
    #[serde(deserialize_with = "content")]
    content: Option<Vec<Block>>,
    stop_reason: Text,
    stop_details: Value,
    stop_sequence: Value,
    container: Value,
    #[serde(deserialize_with = "if_object")]
    usage: Option<Tokens>,
    error: Value,
}

/// The counts of tokens. In a stream each is a running total, so that the last one holds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tokens {
    #[serde(flatten)]
    named: TokenCounts,
    /// The rounds of a reply, some of which only count here: those of a second model, and of a
    /// compaction.
    iterations: Value,
}

/// The counts of tokens so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// As the API has them: those that were read lack those of the cache.
    named: TokenCounts,
    iterations: Value,
}

impl Counts {
    /// Replaces the counts by later ones; see [`TokenCounts::update`].
    pub(crate) fn update(&mut self, later: Tokens) {
        self.named.update(later.named);
        if later.iterations.is_array() {
            self.iterations = later.iterations;
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let number = |count: Option<Count>| count.and_then(|count| count.0).unwrap_or_default();
        let all_read = |counts: &TokenCounts| {
            let counts = [counts.read, counts.cached, counts.cache_written];
            counts.into_iter().fold(0, |sum: u64, count| sum.saturating_add(number(count)))
        };
        let (mut read, mut written) = (0_u64, 0_u64);
        for round in self.iterations.as_array().into_iter().flatten() {
            let round = TokenCounts::deserialize(round).unwrap_or_default();
            read = read.saturating_add(all_read(&round));
            written = written.saturating_add(number(round.written));
        }
        let read = read.max(all_read(&self.named));
        let known = self.named.read.map(|count| Count(count.0.map(|_| read)));
        let mut usage = TokenCounts { read: known, ..self.named }.usage();
        // The counts of the rounds hold even where the sum is missing.
        usage.input_tokens = usage.input_tokens.max(read);
        usage.output_tokens = usage.output_tokens.max(written);
        usage
    }
}

/// Why and how a reply ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    reason: Option<String>,
    details: Value,
    /// The stop sequence that ended the reply.
    sequence: Value,
    container: Value,
}

/// The end of a reply, in an event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct End {
    pub(crate) stop_reason: Text,
    pub(crate) stop_details: Value,
    pub(crate) stop_sequence: Value,
    pub(crate) container: Value,
}

impl Ending {
    /// Replaces what is known by what is said later.
    pub(crate) fn update(&mut self, end: End) {
        let End { stop_reason: reason, stop_details, stop_sequence, container } = end;
        // A later end of a turn does not replace a reason that means an incomplete reply.
        let is_kept =
            self.reason.is_some() && (self.is_by_sequence() || !self.finish().is_complete());
        let is_end = ending::finish(&reason) == Finish::Stop;
        if !(is_kept && is_end) {
            self.reason = reason.filled().or(self.reason.take());
        }
        let fields = [
            (&mut self.details, stop_details),
            (&mut self.sequence, stop_sequence),
            (&mut self.container, container),
        ];
        for (known, later) in fields {
            if is_set(&later) {
                *known = later;
            }
        }
    }

    pub(crate) fn finish(&self) -> Finish {
        let reason = self.reason.as_deref().unwrap_or("no stop_reason");
        // A gateway may say `tool_use` beside the refusal.
        if self.details["type"].as_str().is_some_and(|kind| ending::is_same(kind, "refusal")) {
            return Finish::Refused;
        }
        // After a compaction the model goes on, as after a pause.
        match ["pause_turn", "compaction"].iter().any(|known| ending::is_same(reason, known)) {
            true => Finish::Paused,
            false => ending::finish(reason),
        }
    }

    /// Whether a stop sequence ended the reply. It ends an answer as its caller asked, but it may also
    /// end a call anywhere in its input.
    fn is_by_sequence(&self) -> bool {
        let is_word = |reason: &String| ending::is_same(reason, "stop_sequence");
        self.reason.as_ref().is_some_and(is_word) || is_set(&self.sequence)
    }

    /// Returns the API's words for a refusal: its reason, category and explanation.
    fn refusal(&self) -> String {
        let details = ["category", "explanation"].map(|name| self.details[name].as_str());
        let words: Vec<&str> =
            ["refusal"].into_iter().chain(details.into_iter().flatten()).collect();
        words.join(": ")
    }

    /// Returns the part with what is neither content nor usage, if there is any.
    fn into_part(self) -> Option<ReplyPart> {
        let mut fields = Map::new();
        for (name, value) in [(DETAILS, self.details), (CONTAINER, self.container)] {
            if is_set(&value) {
                fields.insert(name.to_owned(), value);
            }
        }
        let is_there = !fields.is_empty();
        is_there.then(|| ReplyPart::Other(Opaque::new(PROVIDER, Value::Object(fields))))
    }
}

/// The fields of the part that [`Ending::into_part`] makes. It has no `type`, so it is not a block.
const DETAILS: &str = "stop_details";
pub(crate) const CONTAINER: &str = "container";

/// Returns why a model refused: an object with `category`, such as `cyber`, and `explanation`.
///
/// `None` if the reply is not a refusal, or the API does not say why.
///
/// ```
/// use serde_json::json;
/// use toolwright_anthropic::stop_details;
/// use toolwright_module::Reply;
/// use toolwright_module::message::{Opaque, ReplyPart};
///
/// let details = json!({"stop_details": {"type": "refusal", "category": "bio"}});
/// let reply = Reply::new([ReplyPart::Other(Opaque::new("anthropic", details))]);
/// assert_eq!(stop_details(&reply).unwrap()["category"], "bio");
/// assert_eq!(stop_details(&Reply::text("Yes.")), None);
/// ```
#[must_use]
pub fn stop_details(reply: &Reply) -> Option<&Value> {
    reply.parts.iter().rev().find_map(|part| match part {
        ReplyPart::Other(other) => other.of(PROVIDER)?.get(DETAILS),
        _ => None,
    })
}

/// The parts of a reply that was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    pub(crate) model: Text,
    pub(crate) blocks: Vec<Block>,
    pub(crate) tokens: Counts,
    pub(crate) ending: Ending,
}

impl Received {
    /// Reads a whole reply or the beginning of a streamed one.
    pub(crate) fn of(message: Message) -> Result<Self> {
        let mut tokens = Counts::default();
        tokens.update(message.usage.unwrap_or_default());
        if is_set(&message.error) {
            return Err(ProviderError::reported(&message.error, tokens.usage()));
        }
        let Some(blocks) = message.content else {
            let source = serde_json::Error::custom("expected a message with `content`");
            return Err(ProviderError::Decoding { source, raw: String::new() });
        };
        let mut received = Self { model: message.model, blocks, tokens, ..Self::default() };
        received.blocks.iter_mut().for_each(Block::end);
        received.ending.update(End {
            stop_reason: message.stop_reason,
            stop_details: message.stop_details,
            stop_sequence: message.stop_sequence,
            container: message.container,
        });
        Ok(received)
    }

    /// Returns the parts so far as JSON, for an error.
    pub(crate) fn so_far(&self) -> String {
        let parts = self.clone().into_parts();
        match parts.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&parts).unwrap_or_default(),
        }
    }

    fn into_parts(self) -> Vec<ReplyPart> {
        let mut parts: Vec<ReplyPart> = Vec::new();
        for mut block in self.blocks {
            let is_text =
                |part: &ReplyPart| matches!(part, ReplyPart::Text(text) if !text.trim().is_empty());
            if parts.iter().any(is_text) {
                block.follow();
            }
            parts.extend(block.into_parts());
        }
        parts
    }

    /// Adds a block.
    pub(crate) fn push(&mut self, block: Block) {
        let place = self.blocks.len();
        self.blocks.push(block);
        self.settle(place);
    }

    /// Makes text of a mark of thoughts in a block after the first text. Only that one may begin with
    /// thoughts. Call it before a piece is added.
    pub(crate) fn settle(&mut self, place: usize) {
        let is_later = self.blocks.iter().take(place).any(Block::says);
        if let Some(block) = self.blocks.get_mut(place).filter(|_| is_later) {
            block.follow();
        }
    }

    /// Converts to a reply. `turn` is the number of messages before it, and `tools` are those of the
    /// request.
    pub(crate) fn into_reply(mut self, turn: usize, tools: &[Arc<Contract>]) -> Result<Reply> {
        let (finish, usage) = (self.ending.finish(), self.tokens.usage());
        if self.blocks.iter().any(Block::has_unknown_text) {
            let (fault, raw) = ("a block of an unknown type has a text", self.so_far());
            return Err(ProviderError::Unclear { fault, raw, usage });
        }
        let model = std::mem::take(&mut self.model);
        let end = std::mem::take(&mut self.ending);
        let mut parts = self.into_parts();
        for part in &mut parts {
            if let ReplyPart::Call(call) = part {
                let is_bare = call.arguments.trim().is_empty();
                call.incomplete |= is_bare && takes_fields(tools, &call.name);
            }
        }
        if finish == Finish::Stop && end.reason.as_deref().is_some_and(ending::is_for_calls) {
            check_has_call(&parts, usage)?;
        }
        let mut reply = complete_reply(parts, turn, finish, usage)?;
        if end.is_by_sequence() {
            mark_incomplete(&mut reply.parts);
        }
        reply.reason = (reply.finish == Finish::Refused).then(|| end.refusal());
        reply.parts.extend(end.into_part());
        reply.model = model.filled();
        Ok(reply)
    }
}

impl Message {
    /// Converts a whole reply.
    pub(crate) fn into_reply(self, request: &Request) -> Result<Reply> {
        Received::of(self)?.into_reply(request.messages.len(), &request.tools)
    }
}
