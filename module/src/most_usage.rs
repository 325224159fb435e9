//! The largest number of tokens that a request can use.

use std::sync::Arc;

use toolwright_signature::{Contract, Dialect, Lowered};

use crate::message::{Message, Part, ReplyPart};
use crate::model::Request;
use crate::usage::Usage;

/// Tokens of a message beside its text: the role and the delimiters.
const MESSAGE_TOKENS: u64 = 16;

/// Tokens of an image whose provider documents no count: more than any documented one.
const IMAGE_TOKENS: u64 = 4096;

/// Counts each byte as a token, because no tokenizer makes more tokens of a text than it has bytes.
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
        // A tool that cannot be lowered is not sent; the provider reports the error.
        Err(_) => {
            let tools = request.tools.iter();
            tools.filter_map(|tool| Some((tool, tool.lower(dialect).ok()?))).map(tokens).sum()
        }
    };
    let input = messages.saturating_add(contracts);
    Usage::new(input, request.max_output_tokens)
}
