//! The largest number of tokens that a request can use.

use std::sync::Arc;

use serde_json::Value;
use toolwright_signature::{Contract, Dialect, Lowered};

use crate::message::{Audio, Document, Message, Opaque, Part, ReplyPart, Source};
use crate::model::Request;
use crate::usage::Usage;

/// Tokens of a message beside its text: the role and the delimiters.
const MESSAGE_TOKENS: u64 = 16;

/// Tokens of an image whose provider documents no count: more than any documented one.
const IMAGE_TOKENS: u64 = 4096;

/// Tokens of a document or audio whose content is not in the request.
const UNKNOWN_TOKENS: u64 = 65_536;

impl Request {
    /// Returns the largest number of tokens that the request can use, which a ledger reserves.
    ///
    /// Input tokens are the bytes of all texts and schemas, plus a constant for each message and
    /// image. No tokenizer makes more tokens of a text than it has bytes. Documents and audio count
    /// as their bytes and 65,536 tokens. Output tokens are
    /// [`max_output_tokens`](Self::max_output_tokens).
    ///
    /// ```
    /// use toolwright_module::{Dialect, Message, Request};
    ///
    /// let most = Request::new([Message::user("Hi!")]).most_usage(Dialect::JsonSchema2020);
    /// assert_eq!((most.input_tokens, most.output_tokens), (3 + 16, 4096));
    /// ```
    #[must_use]
    pub fn most_usage(&self, dialect: Dialect) -> Usage {
        let messages = self.messages.iter().map(|message| {
            let tokens: u64 = match &**message {
                Message::System { text } => text.len() as u64,
                Message::User { parts } => parts.iter().map(of_part).sum(),
                Message::Assistant { parts } => parts.iter().map(of_reply_part).sum(),
                Message::Tool(result) => {
                    let text = result.name.len() + result.text.len();
                    text as u64 + result.parts.iter().map(of_part).sum::<u64>()
                }
            };
            tokens + MESSAGE_TOKENS
        });
        let messages: u64 = messages.sum();
        let tokens = |(contract, lowered): (&Arc<Contract>, &Lowered)| {
            let bytes =
                contract.name().len() + contract.description().len() + lowered.schema.get().len();
            MESSAGE_TOKENS + bytes as u64
        };
        let contracts: u64 = match self.lower(dialect) {
            Ok(lowered) => {
                let tools = self.tools.iter().zip(lowered.tools);
                tools.chain(self.output.iter().zip(lowered.output)).map(tokens).sum()
            }
            // A tool that cannot be lowered is not sent; the provider reports the error.
            Err(_) => {
                let tools = self.tools.iter();
                tools.filter_map(|tool| Some((tool, tool.lower(dialect).ok()?))).map(tokens).sum()
            }
        };
        let input = messages.saturating_add(contracts);
        let audio = self.messages.iter().map(|message| match &**message {
            Message::User { parts } => parts.iter().map(of_audio).sum(),
            Message::Tool(result) => result.parts.iter().map(of_audio).sum::<u64>(),
            _ => 0,
        });
        let audio_input_tokens = audio.sum();
        Usage { audio_input_tokens, ..Usage::new(input, self.max_output_tokens()) }
    }
}

/// Returns the tokens of audio, whose price may be another one.
fn of_audio(part: &Part) -> u64 {
    if matches!(part, Part::Audio(_)) { of_part(part) } else { 0 }
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => text.len() as u64,
        Part::Image(_) => IMAGE_TOKENS,
        Part::Document(Document { source }) | Part::Audio(Audio { source }) => match source {
            // A compressed page has fewer bytes than tokens.
            Source::Bytes { data, .. } => (data.len() as u64).saturating_add(UNKNOWN_TOKENS),
            _ => UNKNOWN_TOKENS,
        },
    }
}

fn of_reply_part(part: &ReplyPart) -> u64 {
    let opaque =
        |opaque: &Option<Box<Opaque>>| opaque.as_ref().map_or(0, |one| of_value(&one.value));
    match part {
        ReplyPart::Text(text) => text.len() as u64 + opaque(&text.opaque),
        ReplyPart::Reasoning(reasoning) => {
            reasoning.text.len() as u64 + of_value(&reasoning.opaque)
        }
        ReplyPart::Call(call) => {
            (call.name.len() + call.arguments.len()) as u64 + opaque(&call.opaque)
        }
        ReplyPart::Other(other) => of_value(&other.value),
    }
}

fn of_value(value: &Value) -> u64 {
    if value.is_null() { 0 } else { value.to_string().len() as u64 }
}
