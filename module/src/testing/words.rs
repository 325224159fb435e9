//! Streams of whole replies, word by word.
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};

use crate::error::Result;
use crate::message::ReplyPart;
use crate::model::{Delta, Reply};

/// Splits a reply into words, so that tests exercise the handling of pieces.
pub(super) fn words<'a>(reply: Result<Reply>) -> BoxStream<'a, Result<Delta>> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    let mut deltas = Vec::new();
    for (index, part) in reply.parts.iter().enumerate() {
        match part {
            ReplyPart::Text(text) => {
                let words = text.split_inclusive(' ');
                deltas.extend(words.map(|word| Delta::Text(word.to_owned())));
            }
            ReplyPart::Call(call) => {
                let words = call.arguments.split_inclusive(' ');
                deltas.extend(words.map(|word| Delta::Call {
                    index,
                    name: call.name.clone(),
                    arguments: word.to_owned(),
                }));
            }
            ReplyPart::Other(_) => {}
            ReplyPart::Reasoning(reasoning) if reasoning.text.is_empty() => {}
            ReplyPart::Reasoning(reasoning) => {
                deltas.push(Delta::Reasoning(reasoning.text.clone()));
            }
        }
    }
    deltas.push(Delta::Done(Box::new(reply)));
    stream::iter(deltas.into_iter().map(Ok)).boxed()
}
