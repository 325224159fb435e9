//! Assembly of a Chat Completions reply from the pieces of a stream.
//!
//! [`Pieces`] decides which pieces belong to one call. A whole reply is a single piece.

use std::sync::Arc;

use serde::de::Error as _;
use serde_json::{Value, json};
use toolwright_module::message::{CallKind, Opaque, ReplyPart};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Reply, Request, ToolCall};
use toolwright_provider::lenient::{Unread, Words, is_set};
use toolwright_provider::{
    Deltas, ReplyParts, TokenCounts, check_has_call, complete_reply, ending, is_empty_object,
    is_same_json, rest_of,
};

use super::reasoning::{Details, Field, text_of};
use super::reply::{Call, Choice, Completion, Content, Message};
use crate::Result;
use crate::arguments::{is_complete, is_json};
use toolwright_provider::Decoder;
use toolwright_provider::ProviderError;

impl Completion<'_> {
    /// Converts a whole reply.
    pub(crate) fn into_reply(self, request: &Request, origin: &Arc<str>) -> Result<Reply> {
        if self.choices.is_none()
            && self.model.is_empty()
            && self.usage.is_none()
            && !is_set(&self.error)
        {
            let source = serde_json::Error::custom("expected a reply with `choices`");
            return Err(ProviderError::Decoding { source, raw: String::new() });
        }
        let mut pieces = Pieces::new(request, origin);
        pieces.is_whole = true;
        pieces.add(self, &mut Deltas::discarded())?;
        pieces.finish()
    }
}

/// A reply under construction.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The number of messages in the request.
    turn: usize,
    /// The provider of reasoning and opaque parts.
    origin: Arc<str>,
    parts: ReplyParts,
    /// The field with the reasoning's text.
    reasoning: Option<Field>,
    details: Details,
    /// Google's data of the message.
    extra: Value,
    calls: Vec<Slot>,
    /// The number of messages and deltas so far.
    events: usize,
    /// The index of the call in the first form of the API.
    legacy: Option<usize>,
    model: Option<String>,
    usage: Option<TokenCounts>,
    finish: Option<Finish>,
    /// Whether more of the reply followed its finish reason.
    goes_on: bool,
    /// Whether the finish reason says that there are calls.
    is_for_calls: bool,
    /// Whether the reply may have ended inside a call, whatever `finish` says: by a stop sequence, or
    /// by the own word of the model's server.
    may_cut_calls: bool,
    /// The finish reason of a reply that was refused or filtered.
    refusal: Option<String>,
    refused: bool,
    has_events: bool,
    chosen: bool,
    /// The first choice, if its index is not 0. It is used if no choice has the index 0, because
    /// some servers give the only choice another index.
    other: Option<Box<Other>>,
    /// Whether a stream has content in `delta`.
    in_deltas: bool,
    /// Whether the reply is not streamed.
    is_whole: bool,
    /// Whether the stream had `[DONE]`.
    done: bool,
}

/// A choice with another index than 0.
struct Other {
    index: Option<u64>,
    pieces: Pieces,
    error: Option<ProviderError>,
}

/// A call under construction.
struct Slot {
    index: Option<u64>,
    /// The index of the call in the reply.
    part: usize,
    /// The number of the event in which the call began.
    event: usize,
    /// Whether the arguments so far cannot become JSON.
    is_broken: bool,
    /// What the pieces have under unknown names.
    unread: Unread,
    /// The last status. Most servers have none.
    status: String,
}

impl Slot {
    /// Keeps what a piece says beside the call itself.
    fn note(&mut self, piece: &Call) {
        self.unread = self.unread.max(piece.unread);
        if !piece.status.is_empty() {
            self.status.clone_from(&piece.status);
        }
    }
}

impl Pieces {
    pub(crate) fn new(request: &Request, origin: &Arc<str>) -> Self {
        let (turn, origin) = (request.messages.len(), Arc::clone(origin));
        Self { turn, origin, ..Self::default() }
    }

    fn add(&mut self, completion: Completion<'_>, deltas: &mut Deltas) -> Result<()> {
        self.has_events = true;
        let choices = completion.choices.unwrap_or_default();
        let of_choices = choices.iter().find_map(|choice| choice.usage);
        if let Some(tokens) = completion.usage.or(completion.x_groq.usage).or(of_choices) {
            self.usage.get_or_insert_default().update(tokens);
        }
        if is_set(&completion.error) {
            return Err(ProviderError::reported(&completion.error, self.reported_usage()));
        }
        if self.model.is_none() {
            self.model = completion.model.filled();
        }
        self.filter(&completion.prompt_filter_results);
        let why = &completion.incomplete_details;
        if ending::is_same(&completion.status, "incomplete") || is_set(why) {
            // A reason of the choice that means a whole reply does not replace it.
            let why = why.get("reason").unwrap_or(why).as_str().unwrap_or_default();
            self.finish = Some(ending::incomplete(why));
        }
        // The request asks for one choice. If there are more, the one with index 0 is used.
        for (place, choice) in choices.into_iter().enumerate() {
            if choice.index.0.unwrap_or(place as u64) == 0 {
                if !self.chosen {
                    self.chosen = true;
                    self.other = None;
                }
                self.choose(choice, deltas)?;
            } else if !self.chosen {
                self.put_aside(choice);
            }
        }
        Ok(())
    }

    /// Reads a choice that is used if there is no other.
    fn put_aside(&mut self, choice: Choice<'_>) {
        let other = self.other.get_or_insert_with(|| {
            let (turn, origin, is_whole) = (self.turn, Arc::clone(&self.origin), self.is_whole);
            let (has_events, chosen) = (true, true);
            let pieces = Self { turn, origin, is_whole, has_events, chosen, ..Self::default() };
            Box::new(Other { index: choice.index.0, pieces, error: None })
        });
        if other.index == choice.index.0 && other.error.is_none() {
            other.pieces.usage = self.usage;
            other.error = other.pieces.choose(choice, &mut Deltas::discarded()).err();
        }
    }

    fn filter(&mut self, results: &Value) {
        let why = filtered(results);
        self.refused |= why.is_some();
        self.refusal = why.or(self.refusal.take());
    }

    fn choose(&mut self, choice: Choice<'_>, deltas: &mut Deltas) -> Result<()> {
        if is_set(&choice.error) {
            return Err(ProviderError::reported(&choice.error, self.reported_usage()));
        }
        let words = [&choice.finish_reason, &choice.finish_details.kind];
        let word = words.into_iter().find(|word| !word.is_empty()).map_or("", |word| &**word);
        let is_end = !word.is_empty();
        if is_end {
            let (is_for_calls, finish) = (ending::is_for_calls(word), ending::finish(word));
            // A later `stop` does not replace a reason that means an incomplete reply.
            let is_kept = finish == Finish::Stop
                && self.finish.as_ref().is_some_and(|known| match known {
                    Finish::Other(word) => {
                        !["queued", "in_progress"].iter().any(|known| ending::is_same(word, known))
                    }
                    known => !known.is_complete(),
                });
            if !is_kept {
                if finish == Finish::Refused {
                    self.refusal.get_or_insert_with(|| word.to_owned());
                }
                let stops = [&choice.stop_reason, &choice.matched_stop];
                self.may_cut_calls |=
                    ending::may_cut_calls(word, &choice.native_finish_reason, stops);
                self.finish = Some(finish);
                self.is_for_calls = is_for_calls;
            }
        }
        self.filter(&choice.content_filter_results);
        let Choice { message, delta, text, .. } = choice;
        if [&message, &delta].into_iter().flatten().any(|message| message.has_made_call()) {
            let (raw, usage) = (self.so_far(), self.reported_usage());
            return Err(ProviderError::made_by_server(raw, usage));
        }
        let (message, other) = if self.is_whole { (message, delta) } else { (delta, message) };
        // If the usual field is empty: the other one, or that of the older API.
        let mut whole = None;
        let message = match message.filter(|message| message.has_content()) {
            Some(message) => {
                self.in_deltas |= !self.is_whole;
                // Some servers repeat the last piece in both.
                whole = other.filter(|other| {
                    is_end && !self.is_whole && other.content.text != message.content.text
                });
                message
            }
            None if self.in_deltas => {
                let mut message = other.unwrap_or_default();
                self.settle_text(&mut message, is_end, deltas)?;
                self.remove_known(&mut message);
                self.settle(&mut message, deltas);
                message
            }
            None => {
                let mut message = other.unwrap_or_default();
                if !message.has_content() {
                    message.content.text = text.0;
                }
                message
            }
        };
        self.goes_on = !is_end && (self.goes_on || self.finish.is_some() && message.has_content());
        self.add_message(*message, deltas)?;
        if let Some(mut whole) = whole {
            self.settle_text(&mut whole, is_end, deltas)?;
        }
        if is_end {
            self.parts.end_content(deltas);
        }
        Ok(())
    }

    /// Takes the text out of a whole message after the deltas, and adds what they lack of it. A message
    /// before the end of the reply may lag behind the deltas.
    fn settle_text(
        &mut self,
        message: &mut Message<'_>,
        is_end: bool,
        deltas: &mut Deltas,
    ) -> Result<()> {
        if !self.parts.has_content() && !self.parts.has_text() {
            return Ok(());
        }
        let mut content = ReplyParts::default();
        content.content("", std::mem::take(&mut message.content.text), &mut Deltas::discarded());
        let refusals = [
            std::mem::take(&mut message.content.refusal).into(),
            std::mem::take(&mut message.refusal).0,
        ];
        let refusals = refusals.concat();
        self.refused |= !refusals.is_empty();
        let whole = content.answer() + &refusals;
        let known = self.parts.answer();
        if whole.is_empty() || !is_end && rest_of(&whole, &known).is_ok() {
            return Ok(());
        }
        self.parts.extend_text(rest_of(&known, &whole)?, deltas);
        Ok(())
    }

    /// Removes the reasoning that the deltas already had from a whole message after them.
    fn remove_known(&self, message: &mut Message<'_>) {
        if self.parts.parts().iter().any(|part| matches!(part, ReplyPart::Reasoning(_))) {
            message.reasoning_content = Words::default();
            message.reasoning = Words::default();
            message.reasoning_details.clear();
            message.content.thinking.clear();
        }
    }

    /// Takes the calls that the deltas already had out of a whole message after them: those with the id
    /// of one, and else as many as the deltas had.
    fn settle(&mut self, message: &mut Message<'_>, deltas: &mut Deltas) {
        let mut known: Vec<usize> = self.calls.iter().map(|slot| slot.part).collect();
        known.extend(self.legacy);
        if known.is_empty() {
            return;
        }
        let calls = std::mem::take(&mut message.content.calls);
        let only = Call::from(std::mem::take(&mut message.function_call));
        let calls = calls.into_iter().chain(std::mem::take(&mut message.tool_calls)).chain([only]);
        let mut left = Vec::new();
        let mut others = known.clone();
        for call in calls.filter(Call::has_content) {
            let id = |part: usize| self.parts.call(part).map_or("", |call| &call.id);
            let by_id = known.iter().find(|part| !call.id.is_empty() && id(**part) == call.id);
            match by_id.copied() {
                Some(part) => {
                    others.retain(|other| *other != part);
                    self.settle_call(part, call, deltas);
                }
                None => left.push(call),
            }
        }
        let mut others = others.into_iter();
        for call in left {
            match others.next() {
                Some(part) => self.settle_call(part, call, deltas),
                None => message.tool_calls.push(call),
            }
        }
    }

    fn settle_call(&mut self, part: usize, whole: Call, deltas: &mut Deltas) {
        for slot in self.calls.iter_mut().filter(|slot| slot.part == part) {
            slot.note(&whole);
        }
        if let Some(call) = self.parts.call_mut(part) {
            call.incomplete |= whole.is_unclear;
            if whole.is_custom {
                call.kind = CallKind::Custom;
            }
            if is_set(&whole.extra) {
                call.opaque = Some(Box::new(opaque(&self.origin, whole.extra)));
            }
        }
        self.parts.settle_call(part, &whole.name, whole.arguments, deltas);
    }

    fn add_message(&mut self, message: Message<'_>, deltas: &mut Deltas) -> Result<()> {
        let Content { text, refusal, thinking, calls } = message.content;
        // Some servers send the same text in several fields.
        let reasoning = [
            (Field::ReasoningContent, message.reasoning_content.0),
            (Field::Reasoning, message.reasoning.0),
            (Field::Thinking, thinking.into()),
            (Field::Details, text_of(&message.reasoning_details).into()),
        ];
        if let Some((field, piece)) = reasoning.into_iter().find(|(_, piece)| !piece.is_empty()) {
            self.reasoning.get_or_insert(field);
            self.parts.reasoning(&self.origin, piece, deltas);
        }
        self.details.add(message.reasoning_details, self.is_whole);
        if is_set(&message.extra_content) {
            self.extra = message.extra_content;
        }
        if !text.is_empty() {
            self.parts.content(&self.origin, text, deltas);
            if self.is_whole {
                self.parts.end_content(deltas);
            }
        }
        for piece in [refusal.into(), message.refusal.0] {
            if !piece.is_empty() {
                self.refused = true;
                self.parts.text(piece, deltas);
            }
        }
        self.events += 1;
        for call in calls.into_iter().chain(message.tool_calls).filter(Call::has_content) {
            self.call(call, deltas)?;
        }
        let Call { name, arguments, unread, is_unclear, .. } = message.function_call.into();
        let is_unread = unread.may_be_meant(&arguments);
        // Some servers send an empty one in every reply.
        if !name.is_empty() || !arguments.trim().is_empty() {
            let part = match self.legacy {
                Some(part) => part,
                None => *self.legacy.insert(self.parts.begin_call()),
            };
            self.parts.extend_call(part, String::new(), name, arguments, deltas);
            if let Some(call) = self.parts.call_mut(part) {
                call.incomplete |= is_unread || is_unclear;
            }
        }
        Ok(())
    }

    /// Adds a piece of a call.
    fn call(&mut self, piece: Call, deltas: &mut Deltas) -> Result<()> {
        // Every entry of a whole reply is a call of its own.
        let known = if self.is_whole { None } else { self.known(&piece) };
        let mut place = match known {
            Some(place) => self.place_of(place, &piece)?,
            None => Place::New,
        };
        if let Place::New = place {
            let part = self.parts.begin_call();
            self.calls.push(Slot {
                index: piece.index,
                part,
                event: self.events,
                is_broken: false,
                unread: Unread::Nothing,
                status: String::new(),
            });
            place = Place::More(self.calls.len() - 1);
        }
        let (Place::More(at) | Place::Known(at)) = place else {
            return Ok(());
        };
        let part = self.calls[at].part;
        if let Some(call) = self.parts.call_mut(part) {
            call.incomplete |= piece.is_unclear;
        }
        if let Place::Known(_) = place {
            return Ok(());
        }
        self.calls[at].note(&piece);
        if let Some(call) = self.parts.call_mut(part) {
            if is_set(&piece.extra) {
                call.opaque = Some(Box::new(opaque(&self.origin, piece.extra)));
            }
            if piece.is_custom {
                call.kind = CallKind::Custom;
            }
        }
        self.parts.extend_call(part, piece.id, piece.name, piece.arguments, deltas);
        Ok(())
    }

    /// Returns the call that a piece may belong to: by its id, else by its index, else the last.
    ///
    /// Some servers give all calls the index 0, and some give all calls the same id.
    fn known(&self, piece: &Call) -> Option<usize> {
        let last = |wanted: &dyn Fn(&Slot, &str) -> bool| {
            self.calls.iter().rposition(|slot| {
                let id = self.parts.call(slot.part).map_or("", |call| call.id.as_str());
                wanted(slot, id)
            })
        };
        let same_place = |slot: &Slot| slot.index == piece.index;
        let by_id = || {
            let is_it = |_: &Slot, id: &str| *id == *piece.id;
            let both = last(&|slot, id| same_place(slot) && is_it(slot, id));
            // A name with another index begins another call.
            let counted = |slot: &Slot| slot.index.is_some() && piece.index.is_some();
            let other = |slot: &Slot| counted(slot) && !piece.name.is_empty();
            both.or_else(|| last(&|slot, id| is_it(slot, id) && !other(slot)))
        };
        let found = if piece.id.is_empty() { None } else { by_id() };
        found.or_else(|| match piece.index {
            Some(_) => last(&|slot, _| same_place(slot)),
            None => self.calls.len().checked_sub(1),
        })
    }

    /// Returns whether a piece continues the call `at`, begins another call, or repeats it.
    ///
    /// Another id begins another call, and so does another name after the call's end. Without
    /// ids and indexes, any name begins another call.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Unclear`] if one call gets two names or two sets of arguments.
    fn place_of(&mut self, at: usize, piece: &Call) -> Result<Place> {
        let Some(slot) = self.calls.get_mut(at) else { return Ok(Place::New) };
        let Some(known) = self.parts.call(slot.part) else { return Ok(Place::New) };
        let arguments = &*piece.arguments;
        let other_id = !piece.id.is_empty() && !known.id.is_empty() && *piece.id != *known.id;
        let other_name =
            !piece.name.is_empty() && !known.name.is_empty() && *piece.name != *known.name;
        let uncounted = piece.index.is_none() && piece.id.is_empty();
        // Some servers send a new id with each piece.
        if other_id {
            let ended = !arguments.trim().is_empty() && is_complete(&known.arguments);
            let more = piece.name.is_empty() && !ended;
            return Ok(if more { Place::More(at) } else { Place::New });
        }
        if known.kind == CallKind::Custom || piece.is_custom {
            return Ok(if other_name { Place::New } else { Place::More(at) });
        }
        let same_list = slot.event == self.events;
        if uncounted && !piece.name.is_empty() && (same_list || other_name) {
            return Ok(Place::New);
        }
        let is_empty = known.arguments.trim().is_empty();
        if other_name {
            return if !is_empty && is_complete(&known.arguments) {
                Ok(Place::New)
            } else {
                Err(self.unclear("one call has two names", piece))
            };
        }
        // Only complete arguments can be a repetition.
        if is_empty || slot.is_broken || !is_complete(arguments) {
            return Ok(Place::More(at));
        }
        if !known.arguments.trim_end().ends_with(['}', ']']) {
            return Ok(Place::More(at));
        }
        if !is_complete(&known.arguments) {
            slot.is_broken = true;
            return Ok(Place::More(at));
        }
        if is_same_json(&known.arguments, arguments) {
            return Ok(Place::Known(at));
        }
        match (is_empty_object(&known.arguments), is_empty_object(arguments)) {
            (true, _) if uncounted && !piece.name.is_empty() => {}
            (true, _) => return Ok(Place::More(at)),
            // Some servers end a call with an empty object.
            (false, true) if piece.name.is_empty() => return Ok(Place::Known(at)),
            _ if uncounted && !piece.name.is_empty() => return Ok(Place::New),
            _ => {}
        }
        Err(self.unclear("one call has two sets of arguments", piece))
    }

    fn unclear(&self, fault: &'static str, piece: &Call) -> ProviderError {
        let Call { id, name, arguments, .. } = piece;
        let call = ToolCall::new(id.clone(), name.clone(), arguments.clone());
        let mut parts = self.parts.parts().to_vec();
        parts.push(ReplyPart::Call(call));
        let raw = serde_json::to_string(&parts).unwrap_or_default();
        ProviderError::Unclear { fault, raw, usage: self.reported_usage() }
    }

    /// Returns whether two calls may be one: both have the same name and index but different
    /// ids, and the first has no arguments.
    fn may_be_split(&self) -> bool {
        let call = |slot: &Slot| self.parts.call(slot.part).cloned();
        self.calls.windows(2).any(|pair| {
            let [first, second] = pair else { return false };
            let is_one_place = first.index.is_some() && first.index == second.index;
            is_one_place
                && first.event != second.event
                && call(first).zip(call(second)).is_some_and(|(first, second)| {
                    let (empty, more) = (first.arguments.trim(), second.arguments.trim());
                    first.kind == CallKind::Function
                        && first.name == second.name
                        && empty.is_empty()
                        && !more.is_empty()
                })
        })
    }

    fn reported_usage(&self) -> Usage {
        self.usage.map_or_else(Usage::unknown, TokenCounts::usage)
    }

    /// Returns the parts, with a call once that the server sent in both forms of the API.
    fn parts(&mut self) -> Vec<ReplyPart> {
        let legacy = self.legacy.and_then(|part| self.parts.call(part).cloned());
        for slot in &self.calls {
            if let Some(call) = self.parts.call_mut(slot.part) {
                call.incomplete |=
                    slot.unread.may_be_meant(&call.arguments) || !ending::is_whole(&slot.status);
            }
        }
        // Thoughts that are taken out of the text are a part before it.
        let earlier = self.calls.iter().filter(|slot| Some(slot.part) < self.legacy).count();
        let mut parts = self.parts.take();
        let is_call = |(_, part): &(usize, &ReplyPart)| matches!(part, ReplyPart::Call(_));
        let place = parts.iter().enumerate().filter(is_call).nth(earlier).map(|(at, _)| at);
        if let (Some(place), Some(legacy)) = (place, legacy) {
            let is_same = |call: &ToolCall| {
                call.name == legacy.name && is_same_json(&call.arguments, &legacy.arguments)
            };
            let mut others = parts.iter().enumerate().filter(|(at, _)| *at != place);
            if others.any(|(_, part)| matches!(part, ReplyPart::Call(call) if is_same(call))) {
                parts.remove(place);
            }
        }
        if is_set(&self.extra) {
            let extra = std::mem::take(&mut self.extra);
            parts.push(ReplyPart::Other(opaque(&self.origin, extra)));
        }
        std::mem::take(&mut self.details).mark(self.reasoning, &self.origin, &mut parts);
        parts
    }
}

/// Returns for what Azure filtered a reply or a prompt. The reason to finish may be the usual one all
/// the same.
pub(crate) fn filtered(results: &Value) -> Option<String> {
    let harms = harms(results);
    (!harms.is_empty()).then(|| format!("content_filter: {}", harms.join(", ")))
}

/// Returns the harms of results by their names, or of a list of such results.
fn harms(results: &Value) -> Vec<&str> {
    match results {
        Value::Object(harms) => {
            let filtered = harms.iter().filter(|(_, result)| result["filtered"] == true);
            filtered.map(|(harm, _)| harm.as_str()).collect()
        }
        Value::Array(several) => several.iter().flat_map(harms_of_one).collect(),
        _ => Vec::new(),
    }
}

fn harms_of_one(result: &Value) -> Vec<&str> {
    match harms(&result["content_filter_results"]) {
        none if none.is_empty() && result["blocked"] == true => vec!["blocked"],
        harms => harms,
    }
}

fn opaque(origin: &str, extra: Value) -> Opaque {
    Opaque::new(origin, json!({"extra_content": extra}))
}

/// The place of a piece among the calls.
enum Place {
    /// The piece begins a call.
    New,
    /// The piece continues the call with this index.
    More(usize),
    /// The piece repeats the call with this index.
    Known(usize),
}

impl Message<'_> {
    /// Returns whether the result of a call is in it.
    fn has_made_call(&self) -> bool {
        let mut calls = self.content.calls.iter().chain(&self.tool_calls);
        calls.any(|call| call.is_made) || self.function_call.is_made()
    }

    fn has_content(&self) -> bool {
        let function = &self.function_call;
        let texts: [&str; 4] =
            [&self.refusal, &self.reasoning_content, &self.reasoning, &function.name];
        texts.iter().any(|text| !text.is_empty())
            || !self.content.is_empty()
            || !self.reasoning_details.is_empty()
            || is_set(&self.extra_content)
            || !self.tool_calls.is_empty()
            || !function.arguments.0.is_empty()
    }
}

impl Decoder for Pieces {
    type Event<'e> = Completion<'e>;

    fn may_be_error(event: &Completion<'_>) -> bool {
        event.choices.as_ref().is_none_or(Vec::is_empty)
    }

    fn take(&mut self, event: Completion<'_>, deltas: &mut Deltas) -> Result<()> {
        self.add(event, deltas)
    }

    fn done(&mut self, deltas: &mut Deltas) {
        self.parts.end_content(deltas);
        self.done = true;
    }

    fn usage(&self) -> Usage {
        self.reported_usage()
    }

    fn has_ended(&self) -> bool {
        self.finish.is_some() && !self.goes_on || self.done
    }

    fn is_complete(&self) -> bool {
        // A second call, the usage or more text may follow the finish reason.
        self.done
    }

    fn finish(mut self) -> Result<Reply> {
        let usage = self.reported_usage();
        self.parts.end_content(&mut Deltas::discarded());
        // No choice has the index 0, so the first one is used.
        if let Some(Other { mut pieces, error, .. }) = self.other.take().map(|other| *other) {
            if let Some(error) = error {
                return Err(error);
            }
            (pieces.usage, pieces.model, pieces.done) = (self.usage, self.model, self.done);
            pieces.refused |= self.refused;
            pieces.refusal = pieces.refusal.or(self.refusal);
            return pieces.finish();
        }
        if self.has_events && !self.chosen {
            return Err(ProviderError::Empty { usage, retry_after: None });
        }
        let whole = |part: &ReplyPart| match part {
            ReplyPart::Call(call) => call.arguments.trim().is_empty() || is_json(&call.arguments),
            _ => true,
        };
        let word = self.finish.take();
        // The reason says nothing of a call that began after it. `[DONE]` does.
        let is_said = word.is_some() && (!self.goes_on || self.done);
        let finish = match word {
            Some(finish) => finish,
            // A whole reply has ended, even if it has no finish reason.
            None if self.is_whole => Finish::Stop,
            // Snowflake sends `[DONE]` without a finish reason.
            None if self.done && self.has_events && self.parts.parts().iter().all(whole) => {
                Finish::Stop
            }
            None => {
                return Err(ProviderError::truncated(self.so_far()));
            }
        };
        let finish = if self.refused { Finish::Refused } else { finish };
        if self.may_be_split() {
            let (fault, raw) = ("two of its calls may be one call", self.so_far());
            return Err(ProviderError::Unclear { fault, raw, usage });
        }
        let mut parts = self.parts();
        for part in &mut parts {
            if let ReplyPart::Call(call) = part {
                // Without a finish reason, only the arguments show that the call has an end.
                let has_end = call.kind == CallKind::Function && is_complete(&call.arguments);
                call.incomplete |= self.may_cut_calls || !is_said && !has_end;
            }
        }
        if self.is_for_calls {
            check_has_call(&parts, usage)?;
        }
        let mut reply = complete_reply(parts, self.turn, finish, usage)?;
        let refusal = self.refusal.filter(|_| reply.finish == Finish::Refused);
        (reply.model, reply.reason) = (self.model, refusal);
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.parts.to_json()
    }
}
