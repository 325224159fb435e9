//! A reply under construction: its parts, from the pieces of either API.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::ToolCall;
use toolwright_module::message::{CallKind, Reasoning, ReplyPart};
use toolwright_module::model::{Delta, Finish, Usage};

use crate::error::{OpenAiError, Result};
use crate::streaming::Deltas;

/// The parts of a reply, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    parts: Vec<ReplyPart>,
}

impl Assembly {
    pub(crate) fn text(&mut self, piece: String, deltas: &mut Deltas) {
        deltas.push(|| Delta::Text(piece.clone()));
        match self.parts.last_mut() {
            Some(ReplyPart::Text(text)) => text.push_str(&piece),
            _ => self.parts.push(ReplyPart::Text(piece)),
        }
    }

    pub(crate) fn reasoning(&mut self, provider: &str, piece: String, deltas: &mut Deltas) {
        deltas.push(|| Delta::Reasoning(piece.clone()));
        match self.parts.last_mut() {
            Some(ReplyPart::Reasoning(reasoning)) => reasoning.text.push_str(&piece),
            _ => {
                let reasoning = Reasoning::new(provider, piece, Value::Null);
                self.parts.push(ReplyPart::Reasoning(reasoning));
            }
        }
    }

    /// Begins a call, and returns its index in the reply.
    pub(crate) fn begin_call(&mut self) -> usize {
        self.parts.push(ReplyPart::Call(ToolCall::new("", "", "")));
        self.parts.len() - 1
    }

    /// Marks a call as one of a custom tool, whose input is not JSON.
    pub(crate) fn mark_custom(&mut self, index: usize) {
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

    /// Adds a piece of a call.
    ///
    /// The first id and name are kept, because some servers repeat them. Arguments that begin
    /// with an empty object are replaced, because some servers send it before the arguments.
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
        deltas.push(|| Delta::Call {
            index,
            name: call.name.clone(),
            arguments: arguments.clone(),
        });
        let begins = is_empty_object(&call.arguments) && !arguments.trim().is_empty();
        if call.arguments.is_empty() || begins && call.kind == CallKind::Function {
            call.arguments = arguments;
        } else {
            call.arguments.push_str(&arguments);
        }
    }

    /// Sets a call's arguments to the whole text that a server sends after the pieces.
    pub(crate) fn settle(&mut self, index: usize, arguments: String, deltas: &mut Deltas) {
        let Some(ReplyPart::Call(call)) = self.parts.get_mut(index) else {
            return;
        };
        let holds_more = call.kind == CallKind::Function && !call.arguments.trim().is_empty();
        if arguments.is_empty() || holds_more && is_empty_object(&arguments) {
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

    /// Returns the parts so far as JSON, for an error.
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

/// Adds the ids and arguments that servers leave out of calls.
///
/// If two calls share an id, the second gets a new one. `turn` is the number of messages
/// before the reply; it makes new ids unique in a conversation. Missing arguments become an
/// empty object, unless the reply was cut off. A missing name is an error.
pub(crate) fn filled_in(
    mut parts: Vec<ReplyPart>,
    turn: usize,
    finish: &Finish,
    usage: Usage,
) -> Result<Vec<ReplyPart>> {
    let is_nameless =
        |part: &ReplyPart| matches!(part, ReplyPart::Call(call) if call.name.trim().is_empty());
    if parts.iter().any(is_nameless) {
        let raw = serde_json::to_string(&parts).unwrap_or_default();
        return Err(OpenAiError::Unclear { fault: "a call has no name", raw, usage });
    }
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
    Ok(parts)
}

/// Returns whether the text is `{}`, which some servers send before the arguments.
pub(crate) fn is_empty_object(text: &str) -> bool {
    let inside = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

/// Returns whether two texts are equal except for white space, or are equal JSON.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    let value = |text| serde_json::from_str::<Value>(text).ok();
    a.trim() == b.trim() || value(a).is_some_and(|a| Some(a) == value(b))
}

/// Returns whether a status means that the reply is not finished and must not be used.
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

/// Returns whether the text is a complete JSON object or list.
pub(crate) fn is_complete(arguments: &str) -> bool {
    arguments.trim_start().starts_with(['{', '['])
        && arguments.trim_end().ends_with(['}', ']'])
        && is_json(arguments)
}

pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
