use std::collections::HashSet;

use serde_json::Value;
use toolwright_module::{CallKind, Delta, Finish, Reasoning, ReplyPart, ToolCall};

use crate::streaming::Deltas;

/// A reply put together from its pieces, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    parts: Vec<ReplyPart>,
}

impl Assembly {
    pub(crate) fn text(&mut self, piece: String, deltas: &mut Deltas) {
        deltas.tell(|| Delta::Text(piece.clone()));
        match self.parts.last_mut() {
            Some(ReplyPart::Text(text)) => text.push_str(&piece),
            _ => self.parts.push(ReplyPart::Text(piece)),
        }
    }

    pub(crate) fn reasoning(&mut self, provider: &str, piece: String, deltas: &mut Deltas) {
        deltas.tell(|| Delta::Reasoning(piece.clone()));
        match self.parts.last_mut() {
            Some(ReplyPart::Reasoning(reasoning)) => reasoning.text.push_str(&piece),
            _ => {
                let reasoning = Reasoning::new(provider, piece, Value::Null);
                self.parts.push(ReplyPart::Reasoning(reasoning));
            }
        }
    }

    /// Begins a call; the number is its place in the reply.
    pub(crate) fn begin_call(&mut self) -> usize {
        self.parts.push(ReplyPart::Call(ToolCall::new("", "", "")));
        self.parts.len() - 1
    }

    /// Marks a call as one of a custom tool, whose input is no JSON.
    pub(crate) fn is_custom(&mut self, index: usize) {
        if let Some(ReplyPart::Call(call)) = self.parts.get_mut(index) {
            call.kind = CallKind::Custom;
        }
    }

    pub(crate) fn call(&self, index: usize) -> Option<&ToolCall> {
        match self.parts.get(index) {
            Some(ReplyPart::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// More of a call. Id and name count once: some servers repeat them.
    pub(crate) fn more_of_call(
        &mut self,
        index: usize,
        id: String,
        name: String,
        arguments: String,
        deltas: &mut Deltas,
    ) {
        let Some(ReplyPart::Call(call)) = self.parts.get_mut(index) else {
            return;
        };
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        deltas.tell(|| Delta::Call {
            index,
            name: call.name.clone(),
            arguments: arguments.clone(),
        });
        if call.arguments.is_empty() {
            call.arguments = arguments;
        } else {
            call.arguments.push_str(&arguments);
        }
    }

    /// A call's arguments once more, whole. They count where they differ from the pieces.
    pub(crate) fn settle(&mut self, index: usize, arguments: String, deltas: &mut Deltas) {
        let Some(ReplyPart::Call(call)) = self.parts.get_mut(index) else {
            return;
        };
        if arguments.is_empty() {
            return;
        }
        if let Some(rest) = arguments.strip_prefix(&*call.arguments) {
            if !rest.is_empty() {
                let rest = rest.to_owned();
                self.more_of_call(index, String::new(), String::new(), rest, deltas);
            }
        } else {
            call.arguments = arguments;
        }
    }

    pub(crate) fn parts(&self) -> &[ReplyPart] {
        &self.parts
    }

    /// What there is so far, as an error keeps it.
    pub(crate) fn so_far(&self) -> String {
        if self.parts.is_empty() {
            return String::new();
        }
        serde_json::to_string(&self.parts).unwrap_or_default()
    }

    pub(crate) fn take(&mut self) -> Vec<ReplyPart> {
        std::mem::take(&mut self.parts)
    }
}

/// The parts with what servers leave out of calls.
///
/// An id that two calls share is the first one's. `turn` is the number of messages
/// before the reply: it keeps ids that were made here apart in a whole conversation.
/// Arguments that are not there are an empty object, unless they may have been cut off.
pub(crate) fn mended(mut parts: Vec<ReplyPart>, turn: usize, finish: &Finish) -> Vec<ReplyPart> {
    let several = parts.iter().filter(|part| matches!(part, ReplyPart::Call(_))).nth(1).is_some();
    let mut ids = HashSet::new();
    for (index, part) in parts.iter_mut().enumerate() {
        let ReplyPart::Call(call) = part else {
            continue;
        };
        if call.id.is_empty() || several && !ids.insert(call.id.clone()) {
            call.id = format!("call_{turn}_{index}");
        }
        let is_empty = call.kind == CallKind::Function && call.arguments.trim().is_empty();
        if is_empty && matches!(finish, Finish::Stop | Finish::Refused) {
            "{}".clone_into(&mut call.arguments);
        }
    }
    parts
}

/// The provider's words for a reply that is not finished: nothing in it counts.
pub(crate) fn is_unfinished(word: &str) -> bool {
    matches!(
        word,
        "queued"
            | "in_progress"
            | "cancelled"
            | "canceled"
            | "failed"
            | "error"
            | "abort"
            | "aborted"
    )
}
