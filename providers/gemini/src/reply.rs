//! A reply: the API's `GenerateContentResponse`, whole or as the events of a stream.

use std::fmt;
use std::mem::replace;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolwright_module::message::{Opaque, Reasoning, ReplyPart, Text, ToolCall, mark_incomplete};
use toolwright_module::model::{Delta, Finish, Usage};
use toolwright_module::{Reply, Request};
use toolwright_provider::lenient::{
    self, Arguments, Count, PieceKind, Str, TEXTS, Unread, call_fields, is_set,
};
use toolwright_provider::{
    Decoder, Deltas, ProviderError, ReplyParts, TokenCounts, check_has_call, complete_reply,
    ending, is_empty_object,
};

use crate::arguments::{PartialArguments, Piece};
use crate::{PROVIDER, Result};

/// The field of the part with what stands beside the content. No part of the API has it.
pub(crate) const DETAILS: &str = "details";

/// Returns what Gemini says of a reply beside its content, by the API's names: why it did not end as
/// usual (`finishReason`, `finishMessage`, `safetyRatings`, `promptFeedback`), and where its content
/// comes from (`groundingMetadata`, `citationMetadata`, `urlContextMetadata`).
///
/// `None` if there is nothing of that kind. It is a part of the reply, which is not sent back.
///
/// ```
/// use serde_json::json;
/// use toolwright_gemini::reply_details;
/// use toolwright_module::Reply;
/// use toolwright_module::message::{Opaque, ReplyPart};
///
/// let details = json!({"details": {"finishReason": "SAFETY"}});
/// let reply = Reply::new([ReplyPart::Other(Opaque::new("gemini", details))]);
/// assert_eq!(reply_details(&reply).unwrap()["finishReason"], "SAFETY");
/// assert_eq!(reply_details(&Reply::text("Yes.")), None);
/// ```
#[must_use]
pub fn reply_details(reply: &Reply) -> Option<&Value> {
    reply.parts.iter().rev().find_map(|part| match part {
        ReplyPart::Other(other) => other.of(PROVIDER)?.get(DETAILS),
        _ => None,
    })
}

/// A whole reply, or one event of a stream.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Chunk<'e> {
    #[serde(deserialize_with = "lenient::or_default")]
    candidates: Vec<Candidate>,
    prompt_feedback: Value,
    #[serde(deserialize_with = "lenient::object")]
    usage_metadata: Tokens,
    #[serde(borrow)]
    model_version: Str<'e>,
    error: Value,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Candidate {
    index: Count,
    #[serde(deserialize_with = "lenient::fields")]
    content: Content,
    finish_reason: lenient::Text,
    finish_message: Value,
    safety_ratings: Value,
    citation_metadata: Value,
    grounding_metadata: Value,
    url_context_metadata: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "lenient::or_default")]
    parts: Vec<Part>,
    // Where another API has its text.
    text: Value,
    content: Value,
}

/// The counts of tokens. Each event of a stream has those so far.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    prompt_token_count: Option<Count>,
    tool_use_prompt_token_count: Option<Count>,
    candidates_token_count: Option<Count>,
    thoughts_token_count: Option<Count>,
    cached_content_token_count: Option<Count>,
    total_token_count: Option<Count>,
    #[serde(deserialize_with = "audio")]
    prompt_tokens_details: Option<Count>,
    #[serde(deserialize_with = "audio")]
    candidates_tokens_details: Option<Count>,
}

/// The count of one modality.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OfModality {
    modality: lenient::Text,
    token_count: Option<Count>,
}

/// Reads the tokens of audio in a list of counts. All other modalities have the price of text.
fn audio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Count>, D::Error> {
    let json = <&RawValue>::deserialize(deserializer)?.get();
    // Nearly every event has a list, and nearly none has audio.
    if !json.contains("AUDIO") {
        return Ok(None);
    }
    let counts: Vec<OfModality> = serde_json::from_str(json).unwrap_or_default();
    let audio = counts.into_iter().filter(|count| count.modality.0 == "AUDIO");
    Ok(audio.map(|count| count.token_count).fold(None, TokenCounts::sum))
}

/// The counts of tokens so far.
#[derive(Default)]
struct Counts {
    /// As the API has them: the prompt without what tools of the server read, and the answer without
    /// thoughts.
    named: TokenCounts,
    tools: TokenCounts,
}

impl Counts {
    fn update(&mut self, later: Tokens) {
        self.named.update(TokenCounts {
            read: later.prompt_token_count,
            written: later.candidates_token_count,
            cached: later.cached_content_token_count,
            reasoning: later.thoughts_token_count,
            total: later.total_token_count,
            audio_read: later.prompt_tokens_details,
            audio_written: later.candidates_tokens_details,
            ..TokenCounts::default()
        });
        let read = later.tool_use_prompt_token_count;
        self.tools.update(TokenCounts { read, ..TokenCounts::default() });
    }

    /// Returns the usage. The count of the prompt has the cached tokens in it. A count of zero is left
    /// out.
    fn usage(&self) -> Usage {
        let sum = TokenCounts::sum;
        let TokenCounts { read, written, reasoning, total, .. } = self.named;
        let read = read.and(sum(read, self.tools.read));
        // A gateway may count the thoughts in the answer. Then the total has them once.
        let of = |count: Option<Count>| count.and_then(|count| count.0);
        let is_within = of(sum(read, written)).is_some_and(|whole| Some(whole) == of(total))
            && of(reasoning) <= of(written);
        let written = if is_within { written } else { sum(written, reasoning) };
        let written = written.or(Some(Count(Some(0))));
        TokenCounts { read, written, ..self.named }.usage()
    }
}

/// One part of the content.
#[derive(Default)]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    call: Option<Call>,
    /// All other fields. They go back as they are.
    rest: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Call {
    id: lenient::Text,
    name: lenient::Text,
    args: Arguments,
    // The same under the names of other APIs.
    arguments: Arguments,
    parameters: Arguments,
    input: Arguments,
    // A piece whose fields are spelled so, too, has no path and is an error.
    #[serde(alias = "partial_args", deserialize_with = "lenient::or_default")]
    partial_args: Vec<Piece>,
    #[serde(alias = "will_continue", deserialize_with = "lenient::or_default")]
    will_continue: bool,
    status: lenient::Text,
    /// Whether it must not be made: it is inside a thought, or it has no clear arguments.
    #[serde(skip)]
    is_doubtful: bool,
}

impl Call {
    fn of(json: &str) -> serde_json::Result<Self> {
        let mut call: Self = serde_json::from_str(json)?;
        let Self { args, arguments, parameters, input, .. } = &mut call;
        let given = [args, arguments, parameters, input].map(std::mem::take);
        let is_clear;
        (call.args, is_clear) = Arguments::one_of(given);
        let is_bare = call.partial_args.is_empty() && Unread::Content.may_be_meant(&call.args.0);
        let is_hidden = is_bare && Unread::of(&call_fields(json)?).may_be_meant(&call.args.0);
        call.is_doubtful = !is_clear || is_hidden || !ending::is_whole(&call.status);
        Ok(call)
    }
}

impl Part {
    fn kind(&self) -> PieceKind {
        let kind = self.rest.get("type").and_then(Value::as_str);
        PieceKind::of(kind.unwrap_or_default())
    }

    fn is_thought(&self) -> bool {
        self.thought.unwrap_or_default() || self.kind() == PieceKind::Thoughts
    }

    /// Returns whether a text may be part of the answer, under a name or with a type that the API does
    /// not have. Its other kinds of parts are objects.
    fn has_unknown_text(&self) -> bool {
        const BESIDE: [&str; 6] =
            ["thoughtSignature", "thought_signature", "mediaResolution", "type", "role", "id"];
        let is_text = |(name, value): (&String, &Value)| match value {
            Value::String(text) => !text.is_empty() && !BESIDE.contains(&&**name),
            value => is_set(value) && TEXTS.iter().any(|text| ending::is_same(text, name)),
        };
        let is_typed =
            self.text.is_none() || matches!(self.kind(), PieceKind::Text | PieceKind::Thoughts);
        !is_typed || self.call.is_none() && self.rest.iter().any(is_text)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;

        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let mut part = Part::default();
                // Names that are known are not allocated.
                while let Some(name) = map.next_key::<Str<'de>>()? {
                    let is_twice = match &*name {
                        "text" => replace(&mut part.text, map.next_value()?).is_some(),
                        "thought" => replace(&mut part.thought, map.next_value()?).is_some(),
                        "functionCall" | "function_call" => {
                            let call: Option<Box<RawValue>> = map.next_value()?;
                            let call = call.map(|call| Call::of(call.get())).transpose();
                            replace(&mut part.call, call.map_err(A::Error::custom)?).is_some()
                        }
                        _ => {
                            let value = map.next_value::<&RawValue>()?.get();
                            match lenient::once(value).map_err(A::Error::custom)? {
                                Value::Null => false,
                                value => part.rest.insert(name.to_string(), value).is_some(),
                            }
                        }
                    };
                    if is_twice {
                        let fault = format_args!("a part has the field `{}` twice", &*name);
                        return Err(A::Error::custom(fault));
                    }
                }
                Ok(part)
            }
        }

        deserializer.deserialize_map(PartVisitor)
    }
}

/// The chunks of a reply so far.
#[derive(Default)]
pub(crate) struct Chunks {
    parts: ReplyParts,
    /// A call whose arguments are streamed.
    open: Option<OpenCall>,
    finish: Option<String>,
    /// Whether more of the reply followed its reason to finish.
    goes_on: bool,
    /// Whether the prompt was blocked.
    is_blocked: bool,
    /// The categories for which the reply was blocked.
    filters: Vec<String>,
    counts: Counts,
    model: Option<String>,
    /// What the API says beside the content.
    details: Map<String, Value>,
    /// The number of messages before the reply.
    turn: usize,
    has_begun: bool,
    /// The index of the candidate that is read.
    chosen: Option<u64>,
}

struct OpenCall {
    index: usize,
    arguments: PartialArguments,
}

impl Chunks {
    pub(crate) fn new(request: &Request) -> Self {
        Self { turn: request.messages.len(), ..Self::default() }
    }

    /// Returns the reply of a body that is not a stream.
    pub(crate) fn whole<'c>(
        request: &Request,
        chunks: impl IntoIterator<Item = Chunk<'c>>,
    ) -> Result<Reply> {
        let (mut all, mut deltas) = (Self::new(request), Deltas::discarded());
        for chunk in chunks {
            all.take(chunk, &mut deltas)?;
        }
        all.parts.end_content(&mut deltas);
        if all.finish.is_none() && !all.is_blocked && !all.parts.parts().is_empty() {
            // The API leaves out a value that is zero, and this is the name of zero.
            all.finish = Some("FINISH_REASON_UNSPECIFIED".to_owned());
        }
        if !all.has_begun {
            let source = serde_json::Error::custom("expected a reply with `candidates`");
            return Err(ProviderError::Decoding { source, raw: String::new() });
        }
        all.finish()
    }

    /// Keeps a value that stands beside the content.
    fn keep(&mut self, name: &str, value: Value) {
        if is_set(&value) {
            self.details.insert(name.to_owned(), value);
        }
    }

    /// Returns the part for what stood beside the content. Why a reply ended is kept only if it
    /// ended in an unusual way.
    fn details(&mut self, reason: Option<String>, finish: &Finish) -> Option<ReplyPart> {
        let mut details = std::mem::take(&mut self.details);
        if matches!(finish, Finish::Stop | Finish::Length) {
            for usual in ["finishMessage", "safetyRatings", "promptFeedback"] {
                details.shift_remove(usual);
            }
        } else if let Some(reason) = reason {
            details.shift_insert(0, "finishReason".to_owned(), reason.into());
        }
        let value = (!details.is_empty()).then(|| json!({DETAILS: details}))?;
        Some(ReplyPart::Other(Opaque::new(PROVIDER, value)))
    }

    /// Returns the API's words for a refusal: the reasons and the messages.
    fn refusal(&self, reason: Option<&str>) -> String {
        let of = |name: &str| self.details.get(name);
        let block = of("promptFeedback");
        let block = |name: &str| block.and_then(|block| block[name].as_str());
        let words = [
            reason,
            of("finishMessage").and_then(Value::as_str),
            block("blockReason"),
            block("blockReasonMessage"),
        ];
        let filters = self.filters.iter().map(String::as_str);
        words.into_iter().flatten().chain(filters).collect::<Vec<_>>().join(": ")
    }

    fn unclear(&self, fault: &'static str) -> ProviderError {
        ProviderError::Unclear { fault, raw: self.so_far(), usage: self.counts.usage() }
    }

    fn add(&mut self, part: Part, deltas: &mut Deltas) -> Result<()> {
        if part.has_unknown_text() {
            return Err(self.unclear("a part has a text under an unknown name or type"));
        }
        let thought = part.is_thought();
        let Part { text, call, mut rest, .. } = part;
        match (text, call) {
            (Some(text), None) if thought => self.add_thought(text, rest, deltas),
            (Some(text), None) => self.add_text(text, rest, deltas),
            (None, Some(mut call)) => {
                if thought {
                    call.is_doubtful = true;
                    rest.insert("thought".to_owned(), true.into());
                }
                self.add_call(call, rest, deltas)?;
            }
            (text, call) => {
                // A part of a kind that this crate does not know, or of two kinds.
                if text.is_some() && call.is_some() {
                    return Err(self.unclear("a part is both a text and a call"));
                }
                if thought {
                    rest.insert("thought".to_owned(), true.into());
                }
                let opaque = Opaque::new(PROVIDER, Value::Object(rest));
                self.parts.push(ReplyPart::Other(opaque), deltas);
            }
        }
        Ok(())
    }

    /// Adds a piece of text. A piece with a signature stays a part of its own, because it goes back
    /// as it came.
    ///
    /// The API separates the thoughts of Gemini models. Other models, and gateways with this API, leave
    /// them at the beginning of the text; no recorded text of a Gemini model begins so.
    fn add_text(&mut self, piece: String, rest: Map<String, Value>, deltas: &mut Deltas) {
        if !rest.is_empty() {
            let opaque = Opaque::new(PROVIDER, Value::Object(rest));
            let text = Text::from(piece).with_opaque(opaque);
            self.parts.push(ReplyPart::Text(text), deltas);
        } else if !piece.is_empty() {
            self.parts.content(PROVIDER, piece, deltas);
        }
    }

    fn add_thought(&mut self, piece: String, rest: Map<String, Value>, deltas: &mut Deltas) {
        if !rest.is_empty() {
            let thought = Reasoning::new(PROVIDER, piece, Value::Object(rest));
            self.parts.push(ReplyPart::Reasoning(thought), deltas);
        } else if !piece.is_empty() {
            // A text before it that has not shown whether it is a mark is text.
            self.parts.end_content(deltas);
            self.parts.reasoning(PROVIDER, piece, deltas);
        }
    }

    fn add_call(
        &mut self,
        call: Call,
        rest: Map<String, Value>,
        deltas: &mut Deltas,
    ) -> Result<()> {
        let Call { id, name, args: Arguments(args), partial_args, will_continue, .. } = call;
        if name.is_empty() {
            let is_bare = args.is_empty() || is_empty_object(&args);
            match self.open {
                Some(OpenCall { index, .. }) if is_bare => {
                    if let Some(open) = self.parts.call_mut(index) {
                        open.incomplete |= call.is_doubtful;
                    }
                    return self.go_on(partial_args, rest, will_continue, deltas);
                }
                Some(_) => return Err(self.unclear("a streamed call has whole arguments, too")),
                // The end of a call that has ended.
                None if is_bare && partial_args.is_empty() && rest.is_empty() => return Ok(()),
                None => {}
            }
        }
        // The call before has no end, so more of its arguments may be missing.
        self.close(true, deltas);
        let is_doubtful = call.is_doubtful;
        let mut call = ToolCall::new(id.0, name.0, "");
        call.incomplete = is_doubtful;
        if !rest.is_empty() {
            call.opaque = Some(Box::new(Opaque::new(PROVIDER, Value::Object(rest))));
        }
        if !will_continue && partial_args.is_empty() {
            call.arguments = args;
            self.parts.push(ReplyPart::Call(call), deltas);
            return Ok(());
        }
        let index = self.parts.push(ReplyPart::Call(call), deltas);
        let arguments = PartialArguments::beginning_with(&args);
        let arguments = arguments.map_err(|fault| self.unclear(fault))?;
        self.open = Some(OpenCall { index, arguments });
        self.go_on(partial_args, Map::new(), will_continue, deltas)
    }

    /// Adds pieces to the arguments of the open call.
    fn go_on(
        &mut self,
        pieces: Vec<Piece>,
        rest: Map<String, Value>,
        will_continue: bool,
        deltas: &mut Deltas,
    ) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let index = open.index;
        let Some(call) = self.parts.call_mut(index) else { return Ok(()) };
        if !rest.is_empty() {
            let mut opaque = call.opaque.take().map(|opaque| opaque.value);
            if let Some(Value::Object(fields)) = &mut opaque {
                fields.extend(rest);
            } else {
                opaque = Some(Value::Object(rest));
            }
            call.opaque = opaque.map(|value| Box::new(Opaque::new(PROVIDER, value)));
        }
        let mut added = String::new();
        let put = pieces.into_iter().try_for_each(|piece| {
            added += &open.arguments.put(piece)?;
            Ok(())
        });
        if !added.is_empty() {
            deltas.push(|| Delta::Call { index, name: call.name.clone(), arguments: added });
        }
        put.map_err(|fault| self.unclear(fault))?;
        if !will_continue {
            self.close(false, deltas);
        }
        Ok(())
    }

    /// Ends the open call. It is cut off if the API announced more of it.
    fn close(&mut self, is_cut_off: bool, deltas: &mut Deltas) {
        let Some(OpenCall { index, arguments }) = self.open.take() else { return };
        let is_cut_off = is_cut_off || arguments.is_open();
        let (whole, rest) = arguments.end(is_cut_off);
        if let Some(call) = self.parts.call_mut(index) {
            call.arguments = whole;
            call.incomplete |= is_cut_off;
            if !rest.is_empty() {
                deltas.push(|| Delta::Call { index, name: call.name.clone(), arguments: rest });
            }
        }
    }
}

impl Decoder for Chunks {
    type Event<'e> = Chunk<'e>;

    fn may_be_error(chunk: &Chunk<'_>) -> bool {
        chunk.candidates.is_empty() && !is_set(&chunk.prompt_feedback)
    }

    fn take(&mut self, chunk: Chunk<'_>, deltas: &mut Deltas) -> Result<()> {
        let Chunk { candidates, prompt_feedback, usage_metadata, model_version, error } = chunk;
        self.counts.update(usage_metadata);
        if is_set(&error) {
            return Err(ProviderError::reported(&error, self.counts.usage()));
        }
        // A request asks for one candidate. Its index is 0, which the API may leave out, and gateways
        // may count from 1.
        let index = |candidate: &Candidate| candidate.index.0.unwrap_or_default();
        let mut indexes = candidates.iter().map(index);
        let has_first = indexes.clone().any(|index| index == 0);
        let found = if has_first { Some(0) } else { indexes.next() };
        self.chosen = self.chosen.or(found);
        if has_first && self.chosen != Some(0) {
            return Err(self.unclear("its first candidate comes after another one"));
        }
        let candidate =
            candidates.into_iter().find(|candidate| self.chosen == Some(index(candidate)));
        if self.model.is_none() {
            self.model = model_version.filled();
        }
        // An object without all of these is not of the API.
        self.has_begun |= candidate.is_some()
            || self.model.is_some()
            || self.counts.named.read.is_some()
            || is_set(&prompt_feedback);
        if is_set(&prompt_feedback["blockReason"]) {
            self.is_blocked = true;
            // Nothing may follow.
            self.parts.end_content(deltas);
        }
        self.keep("promptFeedback", prompt_feedback);
        let Some(candidate) = candidate else { return Ok(()) };
        self.filters.extend(blocked(&candidate.safety_ratings).map(str::to_owned));
        self.keep("finishMessage", candidate.finish_message);
        self.keep("safetyRatings", candidate.safety_ratings);
        self.keep("citationMetadata", candidate.citation_metadata);
        self.keep("groundingMetadata", candidate.grounding_metadata);
        self.keep("urlContextMetadata", candidate.url_context_metadata);
        let is_end = !candidate.finish_reason.is_empty();
        let is_more = self.finish.is_some() && !candidate.content.parts.is_empty();
        self.goes_on = !is_end && (self.goes_on || is_more);
        if [&candidate.content.text, &candidate.content.content].into_iter().any(is_set) {
            return Err(self.unclear("the content has a text that is not in a part"));
        }
        for part in candidate.content.parts {
            self.add(part, deltas)?;
        }
        // More may follow the first reason: a tool of the server, and then the answer.
        if let Some(reason) = candidate.finish_reason.filled() {
            self.parts.end_content(deltas);
            // A later `STOP` does not replace a reason that means an incomplete reply.
            if self.finish.is_none() || ending::finish(&reason) != Finish::Stop {
                self.finish = Some(reason);
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        // After the call of a tool of the server, the reason may be followed by its result and the
        // answer, which take any time.
        let is_server_tool = |part: &ReplyPart| matches!(part, ReplyPart::Other(_));
        let has_reason = self.finish.is_some() && !self.goes_on;
        (has_reason || self.is_blocked) && !self.parts.parts().iter().any(is_server_tool)
    }

    fn finish(mut self) -> Result<Reply> {
        if self.finish.is_none() && !self.is_blocked {
            if self.has_begun && self.parts.parts().is_empty() {
                return Err(ProviderError::Empty { usage: self.counts.usage(), retry_after: None });
            }
            return Err(ProviderError::truncated(self.so_far()));
        }
        let reason = self.finish.take();
        let is_blocked = self.is_blocked || !self.filters.is_empty();
        let mut finish = finish_of(reason.as_deref(), is_blocked);
        // A call that could not be read may be told only there.
        let message = self.details.get("finishMessage").and_then(Value::as_str);
        let told = Finish::Other(message.unwrap_or_default().to_owned());
        if finish == Finish::Stop && told.is_malformed_call() {
            finish = told;
        }
        let refusal = (finish == Finish::Refused).then(|| self.refusal(reason.as_deref()));
        // A gateway may say more than the API's `STOP`.
        let is_for_calls =
            finish == Finish::Stop && reason.as_deref().is_some_and(ending::is_for_calls);
        let may_cut_calls = ending::may_cut_calls(reason.as_deref().unwrap_or_default(), "", []);
        let details = self.details(reason, &finish);
        self.close(true, &mut Deltas::discarded());
        let usage = self.counts.usage();
        self.parts.end_content(&mut Deltas::discarded());
        let parts = self.parts.take();
        if is_for_calls {
            check_has_call(&parts, usage)?;
        }
        let mut reply = complete_reply(parts, self.turn, finish, usage)?;
        if may_cut_calls {
            mark_incomplete(&mut reply.parts);
        }
        reply.parts.extend(details);
        reply.model = self.model;
        reply.reason = refusal.filter(|words| !words.is_empty());
        Ok(reply)
    }

    fn so_far(&self) -> String {
        self.parts.to_json()
    }

    fn usage(&self) -> Usage {
        self.counts.usage()
    }
}

/// Returns the categories of the ratings that blocked a reply.
fn blocked(ratings: &Value) -> impl Iterator<Item = &str> {
    let ratings = ratings.as_array().into_iter().flatten();
    let blocked = ratings.filter(|rating| rating["blocked"] == true);
    blocked.map(|rating| rating["category"].as_str().unwrap_or("safetyRatings"))
}

/// Converts the reason to finish, and whether the prompt or the reply was blocked. A gateway may say
/// `STOP` beside the block.
fn finish_of(reason: Option<&str>, is_blocked: bool) -> Finish {
    match is_blocked {
        true => Finish::Refused,
        false => ending::finish(reason.unwrap_or("no finishReason")),
    }
}
