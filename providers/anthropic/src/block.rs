//! [`Block`]: one content block of a reply, whole or in pieces.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::ToolCall;
use toolwright_module::message::object_of;
use toolwright_module::message::{Opaque, Reasoning, ReplyPart, Text};
use toolwright_module::model::{Delta, Usage};
use toolwright_provider::lenient;
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
        match word {
            "text" => Self::Text,
            "thinking" => Self::Thinking,
            "redacted_thinking" => Self::Redacted,
            "tool_use" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// The fields of a block as they are written. Those of texts and calls are not in the map, because
/// most blocks have no others.
#[derive(Default)]
struct Written<'e> {
    kind: Option<Value>,
    id: Option<Value>,
    name: Option<Value>,
    text: Option<Value>,
    thinking: Option<Value>,
    input: Option<&'e RawValue>,
    others: Map<String, Value>,
}

impl<'e> Written<'e> {
    fn of<A: MapAccess<'e>>(mut map: A) -> Result<Self, A::Error> {
        let mut written = Self::default();
        while let Some(name) = map.next_key::<lenient::Str<'e>>()? {
            match &*name {
                "type" => written.kind = Some(map.next_value()?),
                // All fields go back, so they stay in their order.
                _ if written.is_other() => written.keep(name, map.next_value()?),
                "id" => written.id = Some(map.next_value()?),
                "name" => written.name = Some(map.next_value()?),
                "text" => written.text = Some(map.next_value()?),
                "thinking" => written.thinking = Some(map.next_value()?),
                "input" => written.input = Some(map.next_value()?),
                _ => written.keep(name, map.next_value()?),
            }
        }
        Ok(written)
    }

    /// Whether the type is known to be one without fields of its own.
    fn is_other(&self) -> bool {
        let kind = self.kind.as_ref().and_then(Value::as_str).map(Kind::of);
        matches!(kind, Some(Kind::Redacted | Kind::Other))
    }

    fn keep(&mut self, name: lenient::Str<'_>, value: Value) {
        self.others.insert(name.0.into_owned(), value);
    }

    /// Takes the fields out that a kind of block has of its own. The rest are its `fields`.
    fn into_block(mut self) -> serde_json::Result<Block> {
        let kind = match &self.kind {
            Some(Value::String(kind)) => Kind::of(kind),
            // Some servers leave the type of a text out.
            _ if self.text.is_some() => Kind::Text,
            _ => Kind::Other,
        };
        let mut block = Block { kind, ..Block::default() };
        match kind {
            Kind::Text => {
                self.kind = None;
                let text = self.text.take().unwrap_or_default();
                block.text = lenient::Words::deserialize(text)?.0;
            }
            Kind::Thinking => block.text = word(self.thinking.take()),
            Kind::Call => {
                self.kind = None;
                (block.id, block.name) = (word(self.id.take()), word(self.name.take()));
                if let Some(input) = self.input.take() {
                    block.input = lenient::Arguments::deserialize(input)?.0;
                }
            }
            Kind::Redacted | Kind::Other => {}
        }
        let input = self.input.map(Value::deserialize).transpose()?;
        let rest = [
            ("type", self.kind),
            ("id", self.id),
            ("name", self.name),
            ("input", input),
            ("text", self.text),
            ("thinking", self.thinking),
        ];
        for (name, value) in rest {
            block.fields.extend(value.map(|value| (name.to_owned(), value)));
        }
        block.fields.extend(self.others);
        Ok(block)
    }
}

/// Returns the text of a field, which is empty if it is missing or another value.
fn word(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Reads a block, which may be whole or the start of one.
impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlockVisitor)
    }
}

struct BlockVisitor;

impl<'de> Visitor<'de> for BlockVisitor {
    type Value = Block;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a block, which is an object")
    }

    fn visit_str<E>(self, text: &str) -> Result<Block, E> {
        Ok(Block { kind: Kind::Text, text: text.to_owned(), ..Block::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Block, A::Error> {
        Written::of(map)?.into_block().map_err(A::Error::custom)
    }
}

/// Reads the content of a message: blocks, or a text or a block instead of the list.
pub(crate) fn content<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Block>>, D::Error> {
    struct ContentVisitor;

    impl<'de> Visitor<'de> for ContentVisitor {
        type Value = Option<Vec<Block>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of blocks")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut blocks = Vec::new();
            while let Some(block) = list.next_element::<Block>()? {
                blocks.push(Block { index: blocks.len() as u64, ..block });
            }
            Ok(Some(blocks))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            BlockVisitor.visit_map(map).map(|block| Some(vec![block]))
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            match text.is_empty() {
                true => Ok(Some(Vec::new())),
                false => BlockVisitor.visit_str(text).map(|block| Some(vec![block])),
            }
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(ContentVisitor)
}

/// One piece of a block. All known fields, because only one of them is there.
#[derive(Deserialize)]
pub(crate) struct Piece<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
    #[serde(default, borrow)]
    text: Cow<'e, str>,
    #[serde(default, borrow)]
    thinking: Cow<'e, str>,
    #[serde(default, borrow)]
    partial_json: Cow<'e, str>,
}

/// A piece whose values have another form than the API's.
#[derive(Deserialize)]
struct AnyPiece<'e> {
    #[serde(rename = "type", default)]
    kind: lenient::Text,
    #[serde(borrow, default)]
    text: Option<&'e RawValue>,
    #[serde(borrow, default)]
    partial_json: Option<&'e RawValue>,
}

impl Block {
    /// Returns an empty block for a piece whose block never began.
    pub(crate) fn of_piece(index: u64, piece: &RawValue) -> Self {
        let kind =
            match serde_json::from_str::<Piece<'_>>(piece.get()).as_ref().map(|piece| &*piece.kind)
            {
                Ok("thinking_delta" | "signature_delta") => "thinking",
                Ok("input_json_delta") => "tool_use",
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
        if let Ok(piece) = serde_json::from_str::<Piece<'_>>(raw.get()) {
            match (&*piece.kind, self.kind) {
                ("text_delta", Kind::Text) => {
                    if !piece.text.is_empty() {
                        self.said.content(PROVIDER, piece.text, deltas);
                    }
                    return Ok(true);
                }
                ("thinking_delta", Kind::Thinking) => {
                    self.text.push_str(&piece.thinking);
                    push_reasoning(piece.thinking, deltas);
                    return Ok(true);
                }
                ("text_delta", Kind::Thinking | Kind::Call) => return Ok(piece.text.is_empty()),
                ("thinking_delta", Kind::Text | Kind::Call) => {
                    return Ok(piece.thinking.is_empty());
                }
                ("input_json_delta", Kind::Text | Kind::Thinking | Kind::Redacted)
                    if !piece.partial_json.is_empty() =>
                {
                    // Without it, the call that it belongs to would have other arguments.
                    return Err(ProviderError::Unclear {
                        fault: "a piece of a call's input is in a block that is not a call",
                        raw: raw.get().to_owned(),
                        usage: Usage::unknown(),
                    });
                }
                ("input_json_delta", kind) => {
                    self.pieces.push_str(&piece.partial_json);
                    if kind == Kind::Call && !piece.partial_json.is_empty() {
                        let arguments = piece.partial_json.into_owned();
                        self.push_call(place, arguments, deltas);
                    }
                    return Ok(true);
                }
                _ => {}
            }
        }
        let broken = |source| ProviderError::Decoding { source, raw: raw.get().to_owned() };
        // A server may send the piece as an object where the API has a text. Its content is not lost.
        if raw.get().starts_with('{') {
            let piece: AnyPiece<'_> = serde_json::from_str(raw.get()).map_err(broken)?;
            match (&*piece.kind, self.kind, piece.text, piece.partial_json) {
                ("text_delta", Kind::Text, Some(text), _) => {
                    let text = lenient::Words::deserialize(text).map_err(broken)?;
                    self.said.content(PROVIDER, text.0, deltas);
                    return Ok(true);
                }
                ("input_json_delta", Kind::Call, _, Some(json)) => {
                    let json = lenient::Arguments::deserialize(json).map_err(broken)?;
                    self.pieces.push_str(&json.0);
                    self.push_call(place, json.0, deltas);
                    return Ok(true);
                }
                _ => {}
            }
        }
        if let Value::Object(piece) = serde_json::from_str(raw.get()).map_err(broken)? {
            self.merge(piece);
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
                Text::new("")
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
                let (arguments, is_incomplete) = self.into_input();
                let mut call = ToolCall::new(id, name, arguments);
                call.incomplete = is_incomplete;
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
