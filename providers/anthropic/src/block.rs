//! [`Block`]: one content block of a reply, whole or in pieces.

use std::borrow::Cow;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::ToolCall;
use toolwright_module::message::object_of;
use toolwright_module::message::{Opaque, Reasoning, ReplyPart, Text};
use toolwright_module::model::{Delta, Usage};
use toolwright_module::runner::ARGUMENTS;
use toolwright_provider::ending::is_whole;
use toolwright_provider::lenient::{
    Arguments, Piece as Content, PieceKind, Str, TEXTS, Unread, Words, call_fields, is_set, once,
    thoughts,
};
use toolwright_provider::{Deltas, ProviderError, ReplyParts, is_empty_object};

use crate::{PROVIDER, Result};

/// A content block of a reply, to which the pieces of a stream are added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// The server's index, which the pieces name.
    pub(crate) index: u64,
    kind: Kind,
    /// The text at the start of a text block, or the thinking of a thinking block.
    text: String,
    /// The text of a text block. Servers that do not separate the thoughts of their model leave them at
    /// its beginning; no recorded reply of Anthropic's own models has a text that begins so.
    said: ReplyParts,
    /// The id and the name of a call.
    id: String,
    name: String,
    /// The input of a call at the block's start. Its digits stay as the model wrote them.
    input: String,
    /// Whether that input was there twice, with different values.
    is_unclear: bool,
    /// The pieces of the input, which take the place of the one at the start.
    pieces: String,
    /// Whether the server ended the block.
    has_ended: bool,
    /// All fields but those above and the type of texts and calls.
    fields: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Redacted,
    Call,
    /// A tool that the server runs, its result, or a kind that this version does not know.
    #[default]
    Other,
}

impl Kind {
    fn of(word: &str) -> Self {
        match (word, PieceKind::of(word)) {
            ("thinking", _) => Self::Thinking,
            ("redacted_thinking", _) => Self::Redacted,
            (_, PieceKind::Text) => Self::Text,
            (_, PieceKind::Call) => Self::Call,
            (_, PieceKind::Thoughts | PieceKind::Other) => Self::Other,
        }
    }
}

/// Reads a block, which may be whole or the start of one.
impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(<&RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

/// Reads the content of a message: blocks, or a text or a block instead of the list.
pub(crate) fn content<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Block>>, D::Error> {
    let Some(json) = Option::<&RawValue>::deserialize(deserializer)? else { return Ok(None) };
    let blocks = match json.get() {
        "\"\"" => Ok(Vec::new()),
        list if list.starts_with('[') => serde_json::from_str(list),
        block => Block::of(block).map(|block| vec![block]),
    };
    let mut blocks: Vec<Block> = blocks.map_err(D::Error::custom)?;
    blocks.iter_mut().zip(0..).for_each(|(block, index)| block.index = index);
    Ok(Some(blocks))
}

/// One piece of a block. All known fields, because only one of them has content.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Piece<'e> {
    #[serde(rename = "type", borrow)]
    kind: Str<'e>,
    text: Option<&'e RawValue>,
    thinking: Option<&'e RawValue>,
    partial_json: Option<&'e RawValue>,
}

impl Piece<'_> {
    /// Returns which of the fields have content: the text, the thinking and the input.
    fn filled(&self) -> [bool; 3] {
        let is_filled = |value: Option<&RawValue>| value.is_some_and(|value| value.get() != "\"\"");
        [self.text, self.thinking, self.partial_json].map(is_filled)
    }

    /// Returns the kind of the piece. Some servers leave its type out or have another word for it, so
    /// the only field with content decides.
    fn kind(&self) -> &str {
        match self.filled() {
            [true, false, false] => "text_delta",
            [false, true, false] => "thinking_delta",
            [false, false, true] => "input_json_delta",
            _ => &self.kind,
        }
    }

    /// Returns whether there is content, and the kind says where.
    fn is_read(&self) -> bool {
        let [text, thinking, input] = self.filled();
        match self.kind() {
            "text_delta" => text,
            "thinking_delta" => thinking,
            "input_json_delta" => input,
            _ => false,
        }
    }
}

/// Returns whether a piece has anything but what may stand beside its content.
fn has_more(piece: &RawValue) -> bool {
    const BESIDE: [&str; 7] = ["type", "id", "name", "index", "signature", "citation", "citations"];
    match serde_json::from_str(piece.get()) {
        Ok(Value::Object(fields)) => {
            fields.iter().any(|(name, value)| !BESIDE.contains(&&**name) && is_set(value))
        }
        Ok(value) => is_set(&value),
        Err(_) => true,
    }
}

impl Block {
    /// Reads a block. It keeps all fields that it does not know, in their order.
    fn of(json: &str) -> serde_json::Result<Self> {
        /// The input of a call, whose digits stay. Some servers have it under another name.
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Input {
            input: Arguments,
            arguments: Arguments,
            args: Arguments,
            parameters: Arguments,
        }

        if json.starts_with('"') {
            let text = serde_json::from_str(json)?;
            return Ok(Self { kind: Kind::Text, text, ..Self::default() });
        }
        let fields = call_fields(json)?;
        let kind = match fields.get("type").and_then(Value::as_str) {
            Some(kind) => Kind::of(kind),
            None if fields.contains_key("name") && fields.contains_key("input") => Kind::Call,
            // Some servers leave the type of a text out.
            None => Kind::Text,
        };
        let mut fields: Map<String, Value> = match kind {
            Kind::Call => {
                once::<IgnoredAny>(json)?;
                fields
            }
            _ => once(json)?,
        };
        let mut block = Self { kind, ..Self::default() };
        let mut take = |name| fields.shift_remove(name).unwrap_or_default();
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        match kind {
            Kind::Text => {
                ["type"].into_iter().chain(TEXTS).for_each(|name| drop(take(name)));
                let content = Content::read(json)?;
                if content.has_call || !content.thoughts.is_empty() {
                    return Err(serde_json::Error::custom("a text has a call or thoughts in it"));
                }
                block.text = content.text;
            }
            Kind::Thinking => block.text = word(take("thinking")),
            Kind::Call => {
                take("type");
                ARGUMENTS.into_iter().for_each(|name| drop(take(name)));
                (block.id, block.name) = (word(take("id")), word(take("name")));
                let Input { input, arguments, args, parameters } = serde_json::from_str(json)?;
                let given = [input, arguments, args, parameters];
                let (input, is_clear) = Arguments::one_of(given);
                (block.input, block.is_unclear) = (input.0, !is_clear);
            }
            Kind::Redacted | Kind::Other => {}
        }
        block.fields = fields;
        Ok(block)
    }

    /// Returns an empty block for a piece whose block never began.
    pub(crate) fn of_piece(index: u64, piece: &RawValue) -> Self {
        let piece: Piece<'_> = serde_json::from_str(piece.get()).unwrap_or_default();
        let kind = match piece.kind() {
            "thinking_delta" | "signature_delta" => "thinking",
            "input_json_delta" => "tool_use",
            _ => "text",
        };
        let mut block = Self { index, kind: Kind::of(kind), ..Self::default() };
        if block.kind == Kind::Thinking {
            block.fields.insert("type".to_owned(), kind.into());
        }
        block
    }

    /// Adds a piece, and returns whether it is one of this block. A piece of text in a call, for
    /// example, is not. `place` is the block's place in the reply.
    pub(crate) fn add(
        &mut self,
        raw: &RawValue,
        place: usize,
        deltas: &mut Deltas,
    ) -> Result<bool> {
        let broken = |source| ProviderError::Decoding { source, raw: raw.get().to_owned() };
        let unclear = |fault| {
            Err(ProviderError::Unclear {
                fault,
                raw: raw.get().to_owned(),
                usage: Usage::unknown(),
            })
        };
        let piece: Piece<'_> = match raw.get().starts_with('{') {
            true => serde_json::from_str(raw.get()).map_err(broken)?,
            false => Piece::default(),
        };
        // Without it, the answer or the call would be another one.
        let must_be_read = match self.kind {
            Kind::Call => true,
            Kind::Text => piece.kind() == "text_delta",
            _ => false,
        };
        if must_be_read && !piece.is_read() && has_more(raw) {
            return unclear("a piece of a text or a call has its content under an unknown name");
        }
        if !raw.get().starts_with('{') {
            return Ok(true);
        }
        match (piece.kind(), self.kind) {
            ("text_delta", kind @ (Kind::Text | Kind::Thinking | Kind::Call)) => {
                let text = piece.text.map(|text| Words::read(text.get())).transpose();
                let text = text.map_err(broken)?.unwrap_or_default().0;
                match kind {
                    _ if text.is_empty() => {}
                    Kind::Text => self.said.content(PROVIDER, text, deltas),
                    _ => return Ok(false),
                }
            }
            ("thinking_delta", kind @ (Kind::Text | Kind::Thinking | Kind::Call)) => {
                let thinking = piece.thinking.map(thoughts).transpose();
                let thinking = thinking.map_err(broken)?.unwrap_or_default().0;
                if kind != Kind::Thinking {
                    return Ok(thinking.is_empty());
                }
                self.text.push_str(&thinking);
                push_reasoning(thinking, deltas);
            }
            ("input_json_delta", kind) => {
                let json = piece.partial_json.map(Arguments::deserialize).transpose();
                let json = json.map_err(broken)?.unwrap_or_default().0;
                let is_input = matches!(kind, Kind::Call | Kind::Other);
                if !is_input && !json.is_empty() {
                    // Without it, the call that it belongs to would have other arguments.
                    return unclear("a piece of a call's input is in a block that is not a call");
                }
                self.pieces.push_str(&json);
                if kind == Kind::Call && !json.is_empty() {
                    self.push_call(place, json, deltas);
                }
            }
            _ => self.merge(serde_json::from_str(raw.get()).map_err(broken)?),
        }
        Ok(true)
    }

    /// Adds a piece of an unknown kind: texts and lists grow, and other values are replaced.
    fn merge(&mut self, piece: Map<String, Value>) {
        for (name, value) in piece {
            match (name.as_str(), value) {
                ("type", _) | (_, Value::Null) => {}
                ("citation", citation) => match self.fields.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => {
                        self.fields.insert("citations".to_owned(), Value::Array(vec![citation]));
                    }
                },
                (_, value) => match (self.fields.get_mut(&name), value) {
                    (Some(Value::String(text)), Value::String(piece)) => text.push_str(&piece),
                    (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                    (_, value) => {
                        self.fields.insert(name, value);
                    }
                },
            }
        }
    }

    /// Adds what is known at the block's start to the deltas.
    pub(crate) fn begun(&mut self, place: usize, deltas: &mut Deltas) {
        match self.kind {
            Kind::Text => self.say(deltas),
            Kind::Thinking => push_reasoning(Cow::Borrowed(&self.text), deltas),
            Kind::Call => self.push_call(place, String::new(), deltas),
            _ => {}
        }
    }

    /// Adds the text at the start of a text block.
    fn say(&mut self, deltas: &mut Deltas) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.said.content(PROVIDER, text, deltas);
        }
    }

    /// Returns whether the block has text of the answer.
    pub(crate) fn says(&self) -> bool {
        self.kind == Kind::Text && self.said.has_text()
    }

    /// Returns whether the block has a text of which this version does not know what it is. It may be
    /// part of the answer.
    pub(crate) fn has_unknown_text(&self) -> bool {
        let says = |name: &str| self.fields.get(name).is_some_and(is_set);
        let is_thought = |kind: &Value| {
            kind.as_str().is_some_and(|kind| PieceKind::of(kind) == PieceKind::Thoughts)
        };
        self.kind == Kind::Other
            && !self.fields.get("type").is_some_and(is_thought)
            && (says("text") || says("refusal"))
    }

    /// Marks the block as one after the first text of the reply: a mark of thoughts at its beginning
    /// is text.
    pub(crate) fn follow(&mut self) {
        if !self.said.has_content() {
            self.said.skip_thoughts();
        }
    }

    /// Marks the end of the block.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the input of a call, and whether the call may be incomplete. The API begins a call with
    /// `{}`. Other servers may begin it with the whole input, and repeat that or `{}` in pieces.
    fn into_input(self) -> (String, bool) {
        let is_blank = |text: &str| text.trim().is_empty() || is_empty_object(text);
        match (is_blank(&self.input), is_blank(&self.pieces)) {
            (false, true) => (self.input, false),
            (false, false) => {
                let value = |text: &str| serde_json::from_str::<Value>(text).ok();
                let is_same =
                    self.input == self.pieces || value(&self.input) == value(&self.pieces);
                (self.pieces, !is_same)
            }
            (true, _) => {
                let is_begun = self.pieces.trim().is_empty();
                let input = if is_begun { self.input } else { self.pieces };
                (input, is_begun && !self.has_ended)
            }
        }
    }

    /// Makes text of what may be the beginning of thoughts.
    pub(crate) fn end_text(&mut self, deltas: &mut Deltas) {
        self.said.end_content(deltas);
    }

    /// Adds what no piece had to the deltas, at the block's end.
    pub(crate) fn ended(&mut self, place: usize, deltas: &mut Deltas) {
        self.end_text(deltas);
        let is_whole = self.pieces.trim().is_empty() && !self.input.is_empty();
        if self.kind == Kind::Call && is_whole && !is_empty_object(&self.input) {
            self.push_call(place, self.input.clone(), deltas);
        }
    }

    fn push_call(&self, place: usize, arguments: String, deltas: &mut Deltas) {
        deltas.push(|| Delta::Call { index: place, name: self.name.clone(), arguments });
    }

    /// Converts the block to parts of a reply. An empty text is not a part.
    pub(crate) fn into_parts(self) -> Vec<ReplyPart> {
        if self.kind == Kind::Text { self.into_texts() } else { vec![self.into_part()] }
    }

    /// Converts a text block: the thoughts in it, and the text.
    fn into_texts(mut self) -> Vec<ReplyPart> {
        let deltas = &mut Deltas::discarded();
        self.say(deltas);
        self.said.end_content(deltas);
        let mut parts = self.said.take();
        self.fields.retain(|_, value| !value.is_null());
        if self.fields.is_empty() {
            return parts;
        }
        // Citations belong to the text.
        let opaque = Opaque::new(PROVIDER, Value::Object(self.fields));
        let text = match parts.pop() {
            Some(ReplyPart::Text(text)) => text,
            other => {
                parts.extend(other);
                Text::from("")
            }
        };
        parts.push(ReplyPart::Text(text.with_opaque(opaque)));
        parts
    }

    /// Converts a block that is not a text.
    fn into_part(mut self) -> ReplyPart {
        match self.kind {
            Kind::Thinking => {
                self.fields.insert("thinking".to_owned(), Value::from(self.text.as_str()));
                let block = Value::Object(self.fields);
                ReplyPart::Reasoning(Reasoning::new(PROVIDER, self.text, block))
            }
            Kind::Redacted => {
                let block = Value::Object(self.fields);
                ReplyPart::Reasoning(Reasoning::new(PROVIDER, "", block))
            }
            Kind::Call => {
                let (id, name) = (std::mem::take(&mut self.id), std::mem::take(&mut self.name));
                let mut fields = std::mem::take(&mut self.fields);
                let is_unclear = self.is_unclear;
                let (arguments, is_incomplete) = self.into_input();
                let mut call = ToolCall::new(id, name, arguments);
                let status = fields.get("status").and_then(Value::as_str).unwrap_or_default();
                call.incomplete = is_incomplete
                    || is_unclear
                    || Unread::of(&fields).may_be_meant(&call.arguments)
                    || !is_whole(status);
                fields.retain(|name, value| is_opaque(name, value));
                if !fields.is_empty() {
                    let opaque = Opaque::new(PROVIDER, Value::Object(fields));
                    call.opaque = Some(Box::new(opaque));
                }
                ReplyPart::Call(call)
            }
            Kind::Text | Kind::Other => {
                if !self.pieces.trim().is_empty() {
                    // Only a reply that was cut off has an input that is not an object.
                    let text = object_of(&self.pieces).unwrap_or(Cow::Borrowed(&self.pieces));
                    let input = serde_json::from_str(&text).unwrap_or_default();
                    self.fields.insert("input".to_owned(), input);
                }
                ReplyPart::Other(Opaque::new(PROVIDER, Value::Object(self.fields)))
            }
        }
    }
}

/// Whether a field of a call goes back with it. A direct call is the default.
fn is_opaque(name: &str, value: &Value) -> bool {
    match name {
        "caller" => value["type"] != "direct",
        _ => !value.is_null(),
    }
}

fn push_reasoning(text: Cow<'_, str>, deltas: &mut Deltas) {
    if !text.is_empty() {
        deltas.push(|| Delta::Reasoning(text.into_owned()));
    }
}
