use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::{Finish, Reply, ReplyPart, Request, ToolCall, Usage};

use super::PROVIDER;
use crate::assembly::{Assembly, is_unfinished, mended};
use crate::error::{Error, Result};
use crate::lenient::{
    Arguments, Count, Listed, Text, if_object, is_said, list, object, or_default,
};
use crate::streaming::{Decoder, Deltas};

/// A whole reply, or one piece of a streamed one: they differ in one field.
#[derive(Deserialize)]
pub(crate) struct Completion {
    #[serde(default)]
    model: Text,
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "if_object")]
    usage: Option<Tokens>,
    /// Where Groq's streams have the usage.
    #[serde(default, deserialize_with = "object")]
    x_groq: Groq,
    #[serde(default)]
    error: Value,
    // What stands in an error without the usual form.
    #[serde(default)]
    object: Text,
    #[serde(default)]
    detail: Value,
    #[serde(default)]
    errors: Value,
    #[serde(default)]
    message: Value,
}

#[derive(Default, Deserialize)]
struct Groq {
    #[serde(default, deserialize_with = "if_object")]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Count,
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
    #[serde(default, deserialize_with = "list")]
    tool_calls: Vec<Call>,
    /// The one call of the API's first form.
    #[serde(default, deserialize_with = "object")]
    function_call: Function,
}

#[derive(Default, Deserialize)]
struct Call {
    #[serde(default)]
    index: Count,
    #[serde(default)]
    id: Text,
    #[serde(rename = "type", default)]
    kind: Text,
    #[serde(default, deserialize_with = "or_default")]
    function: Function,
    #[serde(default, deserialize_with = "or_default")]
    custom: Custom,
    // Where some servers have them.
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Default, Deserialize)]
struct Custom {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    input: Text,
}

impl Listed for Call {
    fn of_text(text: &str) -> Vec<Self> {
        let text = text.trim_start();
        // Calls that were written as text; any other text there is no call.
        match text.as_bytes() {
            [b'[', ..] => serde_json::from_str(text).unwrap_or_default(),
            [b'{', ..] => serde_json::from_str(text).map(|call| vec![call]).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

impl Call {
    /// The name and the arguments, from where the server has them.
    fn function(self) -> (Text, Text, String, bool) {
        let Self { id, kind, function, custom, name, arguments, .. } = self;
        let first = |a: Text, b: Text| if a.is_empty() { b } else { a };
        let is_custom = &*kind == "custom" || !custom.name.is_empty();
        if is_custom {
            return (id, first(custom.name, name), custom.input.0, true);
        }
        let text = if function.arguments.0.is_empty() { arguments } else { function.arguments };
        (id, first(function.name, name), text.0, false)
    }
}

#[derive(Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default, deserialize_with = "object")]
    prompt_tokens_details: PromptDetails,
    #[serde(default, deserialize_with = "object")]
    completion_tokens_details: CompletionDetails,
    // Where other servers have the same.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    #[serde(default)]
    num_cached_tokens: Count,
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    reasoning_tokens: Count,
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
        let (read, total) = (tokens.prompt_tokens.0, tokens.total_tokens.0);
        let rest = total.zip(read).map(|(total, read)| total.saturating_sub(read));
        // Google counts thoughts in the total alone.
        let written = tokens.completion_tokens.0.max(rest);
        let read = read.or_else(|| Some(total?.saturating_sub(written?)));
        let cached = [
            tokens.prompt_tokens_details.cached_tokens,
            tokens.prompt_cache_hit_tokens,
            tokens.num_cached_tokens,
            tokens.cached_tokens,
            tokens.cache_read_input_tokens,
        ];
        let reasoning =
            [tokens.completion_tokens_details.reasoning_tokens, tokens.reasoning_tokens];
        let first = |counts: &[Count]| counts.iter().find_map(|count| count.0).unwrap_or_default();
        let mut usage = Self::new(read.unwrap_or_default(), written.unwrap_or_default())
            .with_cached(first(&cached))
            .with_reasoning(first(&reasoning));
        usage.incomplete = read.is_none() || written.is_none();
        usage
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
    /// Where the pieces of a call in the API's first form go.
    legacy: Option<usize>,
    model: Option<String>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    refused: bool,
    heard: bool,
    chosen: bool,
    /// Choices that are not the first, until the first is seen: only one is asked for, and
    /// some servers count it from elsewhere.
    others: Vec<Choice>,
    /// Whether all comes at once.
    is_whole: bool,
    /// Whether the server said that nothing follows.
    done: bool,
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
            legacy: None,
            model: None,
            usage: None,
            finish: None,
            refused: false,
            heard: false,
            chosen: false,
            others: Vec::new(),
            is_whole: false,
            done: false,
        }
    }

    fn add(&mut self, completion: Completion, deltas: &mut Deltas) -> Result<()> {
        self.heard = true;
        if let Some(usage) = completion.usage.or(completion.x_groq.usage).map(Usage::from) {
            // What was reported once stays known.
            if !usage.incomplete || self.usage.is_none_or(|usage| usage.incomplete) {
                self.usage = Some(usage);
            }
        }
        if is_said(&completion.error) {
            return Err(Error::reported(&completion.error, self.reported_usage()));
        }
        if self.model.is_none() {
            self.model = completion.model.filled();
        }
        // One answer is asked for; of more, the one counted 0 is read.
        for (place, choice) in completion.choices.into_iter().enumerate() {
            if choice.index.0.unwrap_or(place as u64) == 0 {
                if !self.chosen {
                    self.chosen = true;
                    self.others = Vec::new();
                }
                self.choose(choice, deltas);
            } else if !self.chosen {
                self.others.push(choice);
            }
        }
        Ok(())
    }

    fn choose(&mut self, choice: Choice, deltas: &mut Deltas) {
        if let Some(word) = choice.finish_reason.filled() {
            let finish = finish(word);
            // A reply that was cut off stays so, whatever else is said of its end.
            let is_kept = finish == Finish::Stop
                && matches!(self.finish, Some(Finish::Length | Finish::Refused));
            if !is_kept {
                self.finish = Some(finish);
            }
        }
        let said = if self.is_whole { choice.message } else { choice.delta };
        self.hear(said, deltas);
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
            let index = call.index.0;
            let (id, name, arguments, is_custom) = call.function();
            // In a whole reply every entry is a call, whatever it is counted as.
            let part = if self.is_whole {
                self.assembly.begin_call()
            } else {
                self.slot(index, &id, &name, &arguments)
            };
            if is_custom {
                self.assembly.is_custom(part);
            }
            self.assembly.more_of_call(part, id.0, name.0, arguments, deltas);
        }
        let Function { name, arguments } = said.function_call;
        // Some servers fill it in for every reply.
        if !name.is_empty() || !arguments.0.trim().is_empty() {
            let part = match self.legacy {
                Some(part) => part,
                None => *self.legacy.insert(self.assembly.begin_call()),
            };
            self.assembly.more_of_call(part, String::new(), name.0, arguments.0, deltas);
        }
    }

    /// The call that a piece belongs to, by its index where it has one.
    ///
    /// Some servers count every call as the first, and some give every call the same
    /// id.
    fn slot(&mut self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> usize {
        let known = match index {
            Some(_) => self.calls.iter().rev().find(|slot| slot.index == index),
            None => self.calls.last(),
        };
        if let Some(slot) = known
            && let Some(call) = self.assembly.call(slot.part)
            && !begins(index, id, name, arguments, call)
        {
            return slot.part;
        }
        let part = self.assembly.begin_call();
        self.calls.push(Slot { index, part });
        part
    }

    fn reported_usage(&self) -> Usage {
        self.usage.unwrap_or_else(Usage::unknown)
    }

    /// The parts, without a call that stands there in both of the API's forms.
    fn parts(&mut self) -> Vec<ReplyPart> {
        let legacy = self.legacy.and_then(|part| self.assembly.call(part).cloned());
        let mut parts = self.assembly.take();
        if let (Some(place), Some(legacy)) = (self.legacy, legacy) {
            let is_same = |call: &ToolCall| {
                call.name == legacy.name && call.arguments.trim() == legacy.arguments.trim()
            };
            let mut others = parts.iter().enumerate().filter(|(at, _)| *at != place);
            if others.any(|(_, part)| matches!(part, ReplyPart::Call(call) if is_same(call))) {
                parts.remove(place);
            }
        }
        parts
    }
}

/// Whether a piece that could be more of a call begins another one.
///
/// Only what brings a name can, and it does with another id, with nothing to count it
/// by, or after the known call's end. Name and id alone may just be said once more.
fn begins(index: Option<u64>, id: &str, name: &str, arguments: &str, known: &ToolCall) -> bool {
    let other_id = !id.is_empty() && !known.id.is_empty() && *id != *known.id;
    let uncounted = index.is_none() && id.is_empty();
    let says_more = !arguments.is_empty() || name != known.name;
    !name.is_empty() && (other_id || uncounted || says_more && is_complete(&known.arguments))
}

fn is_complete(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && is_json(arguments)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl Decoder for Pieces {
    type Event = Completion;

    fn is_complaint(event: &Completion) -> bool {
        event.choices.is_empty()
            && !is_said(&event.error)
            && (&*event.object == "error"
                || [&event.detail, &event.errors, &event.message].into_iter().any(is_said))
    }

    fn take(&mut self, event: Completion, deltas: &mut Deltas) -> Result<()> {
        self.add(event, deltas)
    }

    fn done(&mut self) {
        self.done = true;
    }

    fn has_ended(&self) -> bool {
        self.finish.is_some() || self.done
    }

    fn is_complete(&self) -> bool {
        // A second call, the usage and the end of a text may follow the reason to stop.
        self.done
    }

    fn finish(mut self) -> Result<Reply> {
        let usage = self.reported_usage();
        if !self.chosen {
            // The first that is listed, where none is counted 0.
            let first = self.others.first().and_then(|choice| choice.index.0);
            for choice in std::mem::take(&mut self.others) {
                if choice.index.0 == first {
                    self.chosen = true;
                    self.choose(choice, &mut Deltas::deaf());
                }
            }
        }
        if self.heard && !self.chosen {
            return Err(Error::Empty { usage });
        }
        let whole = |part: &ReplyPart| match part {
            ReplyPart::Call(call) => call.arguments.trim().is_empty() || is_json(&call.arguments),
            _ => true,
        };
        let finish = match self.finish.take() {
            Some(finish) => finish,
            // Snowflake says no more than `[DONE]`.
            None if self.done && self.heard && self.assembly.parts().iter().all(whole) => {
                Finish::Stop
            }
            None => {
                let (raw, source) = (self.so_far(), None);
                return Err(Error::Truncated { raw, source });
            }
        };
        if let Finish::Other(word) = &finish
            && is_unfinished(word)
            && !self.assembly.parts().is_empty()
        {
            let (status, raw) = (word.clone(), self.so_far());
            return Err(Error::Unfinished { status, raw, usage });
        }
        let finish = if self.refused { Finish::Refused } else { finish };
        let reply = Reply::new(mended(self.parts(), self.turn, &finish));
        let mut reply = reply.with_finish(finish).with_usage(usage);
        reply.model = self.model;
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.assembly.so_far()
    }
}

fn finish(word: String) -> Finish {
    match &*word.to_ascii_lowercase() {
        "stop" | "tool_calls" | "function_call" => Finish::Stop,
        // Other servers' words for the model's own end.
        "eos" | "eos_token" | "end_turn" | "stop_sequence" | "tool_call" | "tool_use"
        | "complete" | "completed" => Finish::Stop,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "refusal" => Finish::Refused,
        _ => Finish::Other(word),
    }
}
