//! The state of a conversation at the server, so that a request has only what is new.
//!
//! A reply gets a mark with its id and a hash of the conversation up to its end. A later request
//! refers to the last reply whose mark fits. If the conversation was changed, no mark fits, and the
//! request has the whole conversation.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_module::message::{Opaque, ReplyPart};
use toolwright_module::{Message, Request};

/// The name of the field with the reply's id. Items of the API have no such field.
const ID: &str = "response_id";

/// The hash of a conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(DefaultHasher);

impl History {
    pub(crate) fn of(messages: &[Arc<[u8]>]) -> Self {
        let mut history = Self::default();
        messages.iter().for_each(|message| history.add(message));
        history
    }

    fn add(&mut self, message: &[u8]) {
        self.0.write(message);
        self.0.write_u8(b'\n');
    }

    fn hash(&self) -> String {
        format!("{:016x}", self.0.finish())
    }

    /// Returns the mark of a reply. `message` has its items.
    pub(super) fn mark(mut self, id: &str, message: &[u8], origin: &str) -> ReplyPart {
        self.add(message);
        ReplyPart::Other(Opaque::new(origin, json!({ID: id, "history": self.hash()})))
    }
}

/// Returns whether an opaque part is a mark, and not an item of the API.
pub(super) fn is_mark(value: &Value) -> bool {
    value.get(ID).is_some() && value.get("type").is_none()
}

/// Returns the id of the last reply whose mark fits, and the number of messages up to its end.
/// `input` has the items of each message.
pub(crate) fn previous<'a>(
    request: &'a Request,
    input: &[Arc<[u8]>],
    origin: &str,
) -> Option<(&'a str, usize)> {
    let mut history = History::default();
    let mut found = None;
    for (at, (message, items)) in request.messages.iter().zip(input).enumerate() {
        history.add(items);
        let Message::Assistant { parts } = &**message else { continue };
        let Some(mark) = parts.iter().rev().find_map(|part| mark_of(part, origin)) else {
            continue;
        };
        if mark.get("history").and_then(Value::as_str) == Some(&history.hash()) {
            found = mark.get(ID).and_then(Value::as_str).map(|id| (id, at + 1));
        }
    }
    // A request has to have some input.
    found.filter(|(_, known)| input[*known..].iter().any(|items| !items.is_empty()))
}

fn mark_of<'a>(part: &'a ReplyPart, origin: &str) -> Option<&'a Value> {
    match part {
        ReplyPart::Other(opaque) => opaque.of(origin).filter(|value| is_mark(value)),
        _ => None,
    }
}
