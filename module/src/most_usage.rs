//! What a request can cost at most.

use std::sync::Arc;

use toolwright_signature::{Contract, Dialect, Lowered};

use crate::message::{Message, Part, ReplyPart};
use crate::model::Request;
use crate::usage::Usage;

/// Bytes of a message that are no text: its role, the marks around it.
const MESSAGE_TOKENS: u64 = 16;

/// What an image may cost where its provider does not say: more than those that do say.
const IMAGE_TOKENS: u64 = 4096;

/// No tokenizer makes more tokens of a text than it has bytes.
pub(crate) fn most_usage(request: &Request, dialect: Dialect) -> Usage {
    let messages = request.messages.iter().map(|message| {
        let mut tokens = MESSAGE_TOKENS;
        let mut text = |text: &str| tokens += text.len() as u64;
        let mut images = 0;
        match &**message {
            Message::System { text: said } => text(said),
            Message::User { parts } => {
                for part in parts {
                    match part {
                        Part::Text(said) => text(said),
                        Part::Image(_) => images += 1,
                    }
                }
            }
            Message::Assistant { parts } => {
                for part in parts {
                    match part {
                        ReplyPart::Text(said) => text(said),
                        ReplyPart::Reasoning(reasoning) => {
                            text(&reasoning.text);
                            text(&reasoning.opaque.to_string());
                        }
                        ReplyPart::Call(call) => {
                            text(&call.name);
                            text(&call.arguments);
                            if !call.opaque.is_null() {
                                text(&call.opaque.to_string());
                            }
                        }
                    }
                }
            }
            Message::Tool(result) => {
                text(&result.name);
                text(&result.text);
                images += result.images.len() as u64;
            }
        }
        tokens + images * IMAGE_TOKENS
    });
    let messages: u64 = messages.sum();
    let tokens = |(contract, lowered): (&Arc<Contract>, &Lowered)| {
        let bytes =
            contract.name().len() + contract.description().len() + lowered.schema.get().len();
        MESSAGE_TOKENS + bytes as u64
    };
    let contracts: u64 = match request.lower(dialect) {
        Ok(lowered) => {
            let tools = request.tools.iter().zip(lowered.tools);
            tools.chain(request.output.iter().zip(lowered.output)).map(tokens).sum()
        }
        // What cannot be lowered is not sent: its provider says so.
        Err(_) => {
            let tools = request.tools.iter();
            tools.filter_map(|tool| Some((tool, tool.lower(dialect).ok()?))).map(tokens).sum()
        }
    };
    let input = messages.saturating_add(contracts);
    Usage::new(input, request.max_output_tokens)
}
