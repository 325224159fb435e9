//! The parts of a reply that streams, and the deltas that its caller gets.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::content::Content;
use crate::ending::{is_same, is_unfinished, is_window_full};
use crate::error::{ProviderError, Result};
use crate::is_empty_object;
use crate::lenient::is_set;
use toolwright_module::Contract;
use toolwright_module::message::{CallIds, CallKind, Reasoning, ReplyPart, ToolCall};
use toolwright_module::model::{Delta, Finish, Reply, Usage};
use toolwright_module::runner::{canonical_json, given_arguments};

/// The parts of a reply, in the order in which they began.
///
/// A provider adds the pieces as they arrive. Each piece also becomes a [`Delta`] in the
/// [`Deltas`] that it is given.
#[derive(Debug, Clone, Default)]
pub struct ReplyParts {
    parts: Vec<ReplyPart>,
    content: Content,
}

impl ReplyParts {
    /// Adds a piece of content, in which a server may have left the thoughts of its model.
    ///
    /// A content that begins with `<think>`, or with another mark that models are trained to write,
    /// has reasoning up to the end mark; see [`Reasoning::provider`]. The marks may be split over
    /// the pieces. A mark later in the content is text, except for a lone `</think>`: see
    /// [`take`](Self::take). [`end_content`](Self::end_content) ends the content, and
    /// [`in_content`](super::in_content) returns what goes back.
    pub fn content(
        &mut self,
        provider: &str,
        piece: impl AsRef<str> + Into<String>,
        deltas: &mut Deltas,
    ) {
        match self.content.add(provider, piece.as_ref(), &mut self.parts, deltas) {
            Cow::Owned(text) if text.is_empty() => {}
            Cow::Owned(text) => self.text(text, deltas),
            // All of it is text.
            Cow::Borrowed(_) => self.text(piece, deltas),
        }
    }

    /// Makes text of what is still undecided, such as `<thi`. Call it at the end of the reply.
    pub fn end_content(&mut self, deltas: &mut Deltas) {
        if let Some(text) = self.content.end(&mut self.parts) {
            self.text(text, deltas);
        }
    }

    /// Makes all further content text, for a part of a reply after the first text.
    pub fn skip_thoughts(&mut self) {
        self.content.skip();
    }

    /// Returns whether the reply has text that is not only white space.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.parts.iter().any(|part| match part {
            ReplyPart::Text(text) => !text.trim().is_empty(),
            _ => false,
        })
    }

    /// Returns whether the reply has content, even if it is only reasoning so far.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.content.has_begun()
    }

    /// Adds a piece of text.
    pub fn text(&mut self, piece: impl AsRef<str> + Into<String>, deltas: &mut Deltas) {
        match self.parts.last_mut() {
            Some(ReplyPart::Text(text)) if text.opaque.is_none() => {
                text.text.push_str(piece.as_ref());
            }
            _ => self.parts.push(ReplyPart::text(piece.as_ref())),
        }
        deltas.push(|| Delta::Text(piece.into()));
    }

    /// Adds more of the answer, even if the content so far has only thoughts.
    pub fn extend_text(&mut self, piece: &str, deltas: &mut Deltas) {
        match self.has_text() {
            _ if piece.is_empty() => {}
            true => {
                self.end_content(deltas);
                self.text(piece, deltas);
            }
            false => {
                self.push(ReplyPart::text(piece), deltas);
            }
        }
    }

    /// Returns the texts so far, without the thoughts in the content.
    #[must_use]
    pub fn answer(&self) -> String {
        let mut parts = self.clone();
        parts.end_content(&mut Deltas::discarded());
        text_of(&parts.take())
    }

    /// Adds a piece of reasoning; see [`Reasoning::provider`].
    pub fn reasoning(
        &mut self,
        provider: &str,
        piece: impl AsRef<str> + Into<String>,
        deltas: &mut Deltas,
    ) {
        match self.parts.last_mut() {
            Some(ReplyPart::Reasoning(reasoning)) if reasoning.opaque.is_null() => {
                reasoning.text.push_str(piece.as_ref());
            }
            _ => {
                let reasoning = Reasoning::new(provider, piece.as_ref(), Value::Null);
                self.parts.push(ReplyPart::Reasoning(reasoning));
            }
        }
        deltas.push(|| Delta::Reasoning(piece.into()));
    }

    /// Adds a whole part, such as a text with a signature, and returns its index in the reply. After a
    /// text, all further content is text.
    pub fn push(&mut self, part: ReplyPart, deltas: &mut Deltas) -> usize {
        self.end_content(deltas);
        if matches!(&part, ReplyPart::Text(text) if !text.is_empty()) {
            self.content.end_thoughts(&mut self.parts);
            self.content.skip();
        }
        let index = self.parts.len();
        if !deltas.is_off
            && let Some(delta) = delta_of(index, &part)
        {
            deltas.push(|| delta);
        }
        self.parts.push(part);
        index
    }

    /// Begins a call, and returns its index in the reply.
    #[must_use]
    pub fn begin_call(&mut self) -> usize {
        self.parts.push(ReplyPart::Call(ToolCall::new("", "", "")));
        self.parts.len() - 1
    }

    /// Returns the call at an index from [`begin_call`](Self::begin_call).
    #[must_use]
    pub fn call(&self, index: usize) -> Option<&ToolCall> {
        match self.parts.get(index) {
            Some(ReplyPart::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Adds a piece of a call.
    ///
    /// The first id and name are kept, because some servers repeat them. Arguments that begin
    /// with an empty object are replaced, because some servers send it before the arguments.
    pub fn extend_call(
        &mut self,
        index: usize,
        id: String,
        name: String,
        arguments: String,
        deltas: &mut Deltas,
    ) {
        let Some(ReplyPart::Call(call)) = self.parts.get_mut(index) else { return };
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

    /// Adds the name and the whole arguments that a server sends after the pieces. They may be empty;
    /// see [`settle`].
    pub fn settle_call(&mut self, index: usize, name: &str, whole: String, deltas: &mut Deltas) {
        let Some(call) = self.call_mut(index) else { return };
        match whole.strip_prefix(&*call.arguments) {
            Some(rest) if !rest.is_empty() => {
                let rest = rest.to_owned();
                settle(call, name, "");
                self.extend_call(index, String::new(), String::new(), rest, deltas);
            }
            _ => settle(call, name, &whole),
        }
    }

    /// Returns the call at an index, to change it.
    pub fn call_mut(&mut self, index: usize) -> Option<&mut ToolCall> {
        match self.parts.get_mut(index) {
            Some(ReplyPart::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Returns the parts so far.
    #[must_use]
    pub fn parts(&self) -> &[ReplyPart] {
        &self.parts
    }

    /// Returns the parts so far as JSON, for an error.
    #[must_use]
    pub fn to_json(&self) -> String {
        json_of(&self.parts)
    }

    /// Takes the parts out.
    ///
    /// If the server's prompt began the model's thoughts, the content has only their end:
    /// `Maybe 4?\n</think>\n\n5`. Such a text becomes two parts, and the indexes of later parts grow
    /// by one. A stream has shown the thoughts as text, because it did not know of their end.
    #[must_use]
    pub fn take(&mut self) -> Vec<ReplyPart> {
        self.content.end_thoughts(&mut self.parts);
        if let Some((at, thoughts, rest)) = self.content.unopened(&self.parts) {
            // Marks may be around the answer.
            let (mut answer, deltas) = (Self::default(), &mut Deltas::discarded());
            answer.content(&thoughts.provider, rest, deltas);
            answer.end_content(deltas);
            answer.content.end_thoughts(&mut answer.parts);
            let parts = [ReplyPart::Reasoning(thoughts)].into_iter().chain(answer.parts);
            self.parts.splice(at..=at, parts);
        }
        std::mem::take(&mut self.parts)
    }
}

/// Returns the texts of a reply.
#[must_use]
pub fn text_of(parts: &[ReplyPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(&*text.text),
        _ => None,
    });
    texts.collect()
}

/// Returns what a whole text has after the pieces of it that came before. White space does not count,
/// because some servers trim the whole text.
///
/// # Errors
///
/// [`ProviderError::Unclear`] if the pieces are not its beginning, because it is not known which of the
/// two the model meant. The usage in it is unknown.
///
/// ```
/// use toolwright_provider::rest_of;
///
/// assert_eq!(rest_of("It ", "It rains.").unwrap(), "rains.");
/// assert!(rest_of("It rains.", "It snows.").is_err());
/// ```
pub fn rest_of<'w>(pieces: &str, whole: &'w str) -> Result<&'w str> {
    let is_said = |c: &char| !c.is_whitespace();
    let (mut known, mut end) = (pieces.chars().filter(is_said), 0);
    for (at, c) in whole.char_indices().filter(|(_, c)| is_said(c)) {
        match known.next() {
            Some(same) if same == c => end = at + c.len_utf8(),
            Some(_) => return Err(other_text()),
            None => {
                let (rest, known) = (&whole[end..], &pieces[pieces.trim_end().len()..]);
                return Ok(rest.strip_prefix(known).unwrap_or(rest.trim_start()));
            }
        }
    }
    if known.next().is_some() { Err(other_text()) } else { Ok("") }
}

fn other_text() -> ProviderError {
    let fault = "its whole text is another text than its pieces";
    ProviderError::Unclear { fault, raw: String::new(), usage: Usage::unknown() }
}

fn json_of(parts: &[ReplyPart]) -> String {
    match parts {
        [] => String::new(),
        parts => serde_json::to_string(parts).unwrap_or_default(),
    }
}

/// Queue of the deltas that the caller has not taken yet.
#[derive(Debug, Default)]
pub struct Deltas {
    queue: VecDeque<Delta>,
    is_off: bool,
}

impl Deltas {
    /// Returns a queue that discards its deltas, for a reply that is not streamed.
    #[must_use]
    pub fn discarded() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// Adds a delta. It is not made if the queue discards it.
    pub fn push(&mut self, delta: impl FnOnce() -> Delta) {
        if !self.is_off {
            self.queue.push_back(delta());
        }
    }

    /// Takes the oldest delta out.
    pub fn pop(&mut self) -> Option<Delta> {
        self.queue.pop_front()
    }
}

/// Returns the deltas of a whole reply, for a server that does not stream. The last one is
/// [`Delta::Done`].
#[must_use]
pub fn deltas_of(reply: Reply) -> Vec<Delta> {
    let parts = reply.parts.iter().enumerate();
    let mut deltas: Vec<_> = parts.filter_map(|(index, part)| delta_of(index, part)).collect();
    deltas.push(Delta::Done(Box::new(reply)));
    deltas
}

/// Returns the delta of a whole part, or `None` if there is nothing to show.
fn delta_of(index: usize, part: &ReplyPart) -> Option<Delta> {
    match part {
        ReplyPart::Text(text) if !text.is_empty() => Some(Delta::Text(text.text.clone())),
        ReplyPart::Reasoning(reasoning) if !reasoning.text.is_empty() => {
            Some(Delta::Reasoning(reasoning.text.clone()))
        }
        ReplyPart::Call(call) => {
            Some(Delta::Call { index, name: call.name.clone(), arguments: call.arguments.clone() })
        }
        _ => None,
    }
}

/// Returns whether a tool of a request takes arguments. An API that sends `{}` for a call without any
/// has cut off a call whose arguments are missing; but other servers leave them out for a tool without
/// fields.
#[must_use]
pub fn takes_fields(tools: &[Arc<Contract>], tool: &str) -> bool {
    let tool = tools.iter().find(|contract| contract.name() == tool);
    tool.is_some_and(|contract| {
        let input = contract.input();
        let is_free = |name: &str| input.get(name).is_some_and(is_set);
        let is_kind = |kind: &str| input.get("type").is_some_and(|known| known == kind);
        match is_kind("object") {
            true => {
                ["properties", "patternProperties", "additionalProperties"].into_iter().any(is_free)
            }
            false => !is_kind("null"),
        }
    })
}

/// Adds what a server says later of a call that it has sent already. What it leaves out stays as it was.
///
/// A call that contradicts itself is [incomplete](ToolCall::incomplete), because it is not known which
/// of its names or arguments the model meant.
///
/// ```
/// use toolwright_module::ToolCall;
/// use toolwright_provider::settle;
///
/// let mut call = ToolCall::new("c1", "look", r#"{"at": "#);
/// settle(&mut call, "look", r#"{"at": 1}"#);
/// assert_eq!((&*call.arguments, call.incomplete), (r#"{"at": 1}"#, false));
/// settle(&mut call, "look", r#"{"at": 2}"#);
/// assert!(call.incomplete);
/// ```
pub fn settle(call: &mut ToolCall, name: &str, arguments: &str) {
    if call.name.is_empty() {
        name.clone_into(&mut call.name);
    }
    let is_one = name.is_empty() || call.name == name;
    let given = [call.arguments.as_str(), arguments];
    let (found, is_clear) = match call.kind {
        _ if arguments.starts_with(&*call.arguments) => (Some(arguments), true),
        CallKind::Custom if arguments.is_empty() => (None, true),
        CallKind::Custom => (Some(arguments), false),
        _ => given_arguments(given),
    };
    let found = found.map(str::to_owned);
    call.arguments = found.unwrap_or_else(|| std::mem::take(&mut call.arguments));
    call.incomplete |= !(is_one && is_clear);
}

/// Returns a reply with the ids and arguments that servers leave out of calls.
///
/// `turn` is the number of messages before the reply; see [`CallIds::complete`]. Missing arguments
/// become an empty object, unless the reply or the call is incomplete. A call that stands twice, with
/// its id, name and arguments, is one call. A usage of zero tokens for a
/// reply with content is [incomplete](Usage::incomplete): the server does not count.
///
/// # Errors
///
/// [`ProviderError::Unclear`] if a call has no name, so that nobody can answer it, or its
/// [result](is_result) is in the reply, and
/// [`ProviderError::Unfinished`] if the word of `finish` means that the server did not finish.
/// [`ProviderError::Reported`] if the model's context was full before it wrote a text or a call; with
/// one, the finish is [`Finish::Length`].
pub fn complete_reply(
    mut parts: Vec<ReplyPart>,
    turn: usize,
    mut finish: Finish,
    mut usage: Usage,
) -> Result<Reply> {
    let is_nameless =
        |part: &ReplyPart| matches!(part, ReplyPart::Call(call) if call.name.trim().is_empty());
    if parts.iter().any(is_nameless) {
        let (fault, raw) = ("a call has no name", serde_json::to_string(&parts));
        return Err(ProviderError::Unclear { fault, raw: raw.unwrap_or_default(), usage });
    }
    let others = parts.iter().filter_map(|part| match part {
        ReplyPart::Other(other) => Some(&other.value),
        _ => None,
    });
    let others: Vec<&Value> = others.collect();
    let is_made = |call: &ToolCall| others.iter().any(|other| is_result(other, call));
    if parts.iter().filter_map(call_of).any(is_made) {
        return Err(ProviderError::made_by_server(json_of(&parts), usage));
    }
    if let Finish::Other(word) = &finish
        && is_unfinished(word)
        && (is_same(word, "error") || !parts.is_empty())
    {
        return Err(ProviderError::Unfinished {
            status: word.clone(),
            raw: json_of(&parts),
            usage: Box::new(usage),
            retry_after: None,
        });
    }
    if let Finish::Other(word) = &finish
        && is_window_full(word)
    {
        let is_answer = |part: &ReplyPart| match part {
            ReplyPart::Text(text) => !text.is_empty(),
            part => matches!(part, ReplyPart::Call(_)),
        };
        if !parts.iter().any(is_answer) {
            let error = json!({"code": word, "message": "the reply has no content"});
            return Err(ProviderError::reported(&error, usage));
        }
        finish = Finish::Length;
    }
    let has_content = parts.iter().any(|part| match part {
        ReplyPart::Text(text) => !text.is_empty(),
        ReplyPart::Reasoning(reasoning) => !reasoning.text.is_empty(),
        ReplyPart::Call(_) => true,
        _ => false,
    });
    usage.incomplete |= has_content && (usage.input_tokens == 0 || usage.output_tokens == 0);
    remove_repeated(&mut parts);
    CallIds::default().complete(&mut parts, turn as u64);
    for part in &mut parts {
        let ReplyPart::Call(call) = part else { continue };
        let is_empty = call.kind == CallKind::Function && call.arguments.trim().is_empty();
        if is_empty && !call.incomplete && matches!(finish, Finish::Stop | Finish::Refused) {
            "{}".clone_into(&mut call.arguments);
        }
    }
    Ok(Reply::new(parts).with_finish(finish).with_usage(usage))
}

/// Checks that a reply that ended for a call has one.
///
/// # Errors
///
/// [`ProviderError::Unclear`], because a call in a form that was not read would be lost.
pub fn check_has_call(parts: &[ReplyPart], usage: Usage) -> Result<()> {
    if parts.iter().any(|part| matches!(part, ReplyPart::Call(_))) {
        return Ok(());
    }
    let fault = "its finish reason is a tool call, but there is no call";
    Err(ProviderError::Unclear { fault, raw: json_of(parts), usage })
}

/// Returns whether an item of a reply is the result of a call, in the form of any API. A server that
/// sends one has made the call itself.
///
/// ```
/// use serde_json::json;
/// use toolwright_module::ToolCall;
/// use toolwright_provider::is_result;
///
/// let call = ToolCall::new("c1", "look", "{}");
/// assert!(is_result(&json!({"type": "tool_result", "tool_use_id": "c1"}), &call));
/// assert!(!is_result(&json!({"type": "tool_result", "tool_use_id": "c2"}), &call));
/// ```
#[must_use]
pub fn is_result(item: &Value, call: &ToolCall) -> bool {
    let is_its_id = |id: &Value| id.as_str().is_some_and(|id| !id.is_empty() && id == call.id);
    let of_gemini = &item["functionResponse"];
    ["tool_use_id", "call_id", "tool_call_id"].iter().any(|name| is_its_id(&item[name]))
        || is_its_id(&of_gemini["id"])
        // Without ids, Gemini pairs them by name.
        || of_gemini["id"].is_null() && of_gemini["name"] == *call.name
}

/// Removes calls that repeat an earlier one. Some servers send a call again at the end of a stream.
fn remove_repeated(parts: &mut Vec<ReplyPart>) {
    let ids = || parts.iter().filter_map(call_of).filter(|call| !call.id.is_empty());
    let mut known = HashSet::new();
    if ids().all(|call| known.insert(&*call.id)) {
        return;
    }
    let mut known = HashSet::new();
    parts.retain(|part| {
        let Some(call) = call_of(part).filter(|call| !call.id.is_empty()) else { return true };
        let ToolCall { id, name, kind, incomplete, .. } = call;
        let arguments = canonical_json(&call.arguments);
        known.insert((id.clone(), name.clone(), *kind, *incomplete, arguments))
    });
}

fn call_of(part: &ReplyPart) -> Option<&ToolCall> {
    match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    }
}
