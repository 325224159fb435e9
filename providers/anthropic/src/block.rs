//! [`Block`]: one content block of a reply, whole or in pieces.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::message::{Opaque, Reasoning, ReplyPart, Text};
use toolwright_module::model::{Delta, Finish};
use toolwright_module::provider::{Deltas, ProviderError, is_empty_object, object_of};
use toolwright_module::{ToolCall, provider::lenient};

use crate::{PROVIDER, Result};

/// A content block of a reply, to which the pieces of a stream are added.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The server's index, which the pieces name.
    pub(crate) index: u64,
    kind: Kind,
    /// All fields but those below.
    fields: Map<String, Value>,
    /// The text of a text block, or the thinking of a thinking block.
    text: String,
    /// The input at the block's start. Its digits stay as the model wrote them.
    input: String,
    /// The pieces of the input, which take the place of the one at the start.
    pieces: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Redacted,
    Call,
    /// A tool that the server runs, its result, or a kind that this version does not know.
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

/// The input of a block as it is written.
#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    input: lenient::Arguments,
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

impl Block {
    /// Reads a block, which may be whole or the start of one.
    pub(crate) fn begin(index: u64, raw: &str) -> Result<Self> {
        let broken = |source| ProviderError::Decoding { source, raw: raw.to_owned() };
        let mut fields: Map<String, Value> = match serde_json::from_str(raw).map_err(broken)? {
            Value::Object(fields) => fields,
            Value::String(text) => Map::from_iter([("text".to_owned(), Value::from(text))]),
            _ => {
                return Err(broken(serde_json::Error::custom(
                    "expected a block, which is an object",
                )));
            }
        };
        // Some servers leave the type of a text out.
        let kind = fields.get("type").and_then(Value::as_str);
        let kind = match kind {
            Some(kind) => Kind::of(kind),
            None if fields.contains_key("text") => Kind::Text,
            None => Kind::Other,
        };
        let text = match kind {
            Kind::Text => fields.remove("text"),
            Kind::Thinking => fields.remove("thinking"),
            _ => None,
        };
        let text = match text {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let input = match kind {
            Kind::Call => {
                fields.remove("input");
                serde_json::from_str::<Input>(raw).map_err(broken)?.input.0
            }
            _ => String::new(),
        };
        Ok(Self { index, kind, fields, text, input, pieces: String::new() })
    }

    /// Returns an empty block for a piece whose block never began.
    pub(crate) fn of_piece(index: u64, piece: &RawValue) -> Self {
        let kind =
            match serde_json::from_str::<Piece<'_>>(piece.get()).as_ref().map(|piece| &*piece.kind)
            {
                Ok("thinking_delta" | "signature_delta") => "thinking",
                Ok("input_json_delta") => "tool_use",
                _ => "text",
            };
        let fields = Map::from_iter([("type".to_owned(), Value::from(kind))]);
        let (text, input, pieces) = Default::default();
        Self { index, kind: Kind::of(kind), fields, text, input, pieces }
    }

    /// Adds a piece. `place` is the block's place in the reply.
    pub(crate) fn add(&mut self, raw: &RawValue, place: usize, deltas: &mut Deltas) -> Result<()> {
        if let Ok(piece) = serde_json::from_str::<Piece<'_>>(raw.get()) {
            match (&*piece.kind, self.kind) {
                ("text_delta", Kind::Text) => {
                    self.text.push_str(&piece.text);
                    push_text(piece.text, Delta::Text, deltas);
                    return Ok(());
                }
                ("thinking_delta", Kind::Thinking) => {
                    self.text.push_str(&piece.thinking);
                    push_text(piece.thinking, Delta::Reasoning, deltas);
                    return Ok(());
                }
                ("input_json_delta", kind) => {
                    self.pieces.push_str(&piece.partial_json);
                    if kind == Kind::Call && !piece.partial_json.is_empty() {
                        let arguments = piece.partial_json.into_owned();
                        self.push_call(place, arguments, deltas);
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        match serde_json::from_str(raw.get()) {
            Ok(Value::Object(piece)) => self.merge(piece),
            Ok(_) => {}
            Err(source) => {
                return Err(ProviderError::Decoding { source, raw: raw.get().to_owned() });
            }
        }
        Ok(())
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
    pub(crate) fn begun(&self, place: usize, deltas: &mut Deltas) {
        match self.kind {
            Kind::Text => push_text(Cow::Borrowed(&self.text), Delta::Text, deltas),
            Kind::Thinking => push_text(Cow::Borrowed(&self.text), Delta::Reasoning, deltas),
            Kind::Call => self.push_call(place, String::new(), deltas),
            _ => {}
        }
    }

    /// Adds what no piece had to the deltas, at the block's end.
    pub(crate) fn ended(&self, place: usize, deltas: &mut Deltas) {
        let is_whole = self.pieces.trim().is_empty() && !self.input.is_empty();
        if self.kind == Kind::Call && is_whole && !is_empty_object(&self.input) {
            self.push_call(place, self.input.clone(), deltas);
        }
    }

    fn push_call(&self, place: usize, arguments: String, deltas: &mut Deltas) {
        let name = || self.word("name").to_owned();
        deltas.push(|| Delta::Call { index: place, name: name(), arguments });
    }

    fn word(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Converts the block to a part of a reply. An empty text is not a part.
    pub(crate) fn into_part(mut self, finish: &Finish) -> Option<ReplyPart> {
        match self.kind {
            Kind::Text => {
                self.fields.retain(|name, value| name != "type" && !value.is_null());
                let text = Text::new(self.text);
                if self.fields.is_empty() {
                    return (!text.is_empty()).then_some(ReplyPart::Text(text));
                }
                let opaque = Opaque::new(PROVIDER, Value::Object(self.fields));
                Some(ReplyPart::Text(text.with_opaque(opaque)))
            }
            Kind::Thinking => {
                self.fields.insert("thinking".to_owned(), Value::from(self.text.as_str()));
                let block = Value::Object(self.fields);
                Some(ReplyPart::Reasoning(Reasoning::new(PROVIDER, self.text, block)))
            }
            Kind::Redacted => {
                let block = Value::Object(self.fields);
                Some(ReplyPart::Reasoning(Reasoning::new(PROVIDER, "", block)))
            }
            Kind::Call => {
                let (id, name) = (self.word("id").to_owned(), self.word("name").to_owned());
                let is_whole = self.pieces.trim().is_empty();
                let mut arguments = if is_whole { self.input } else { self.pieces };
                if arguments.trim().is_empty() && *finish != Finish::Length {
                    "{}".clone_into(&mut arguments);
                }
                let mut call = ToolCall::new(id, name, arguments);
                self.fields.retain(|name, value| is_opaque(name, value));
                if !self.fields.is_empty() {
                    let opaque = Opaque::new(PROVIDER, Value::Object(self.fields));
                    call.opaque = Some(Box::new(opaque));
                }
                Some(ReplyPart::Call(call))
            }
            Kind::Other => {
                if !self.pieces.trim().is_empty() {
                    // Only a reply that was cut off has an input that is not an object.
                    let text = object_of(&self.pieces).unwrap_or(Cow::Borrowed(&self.pieces));
                    let input = serde_json::from_str(&text).unwrap_or_default();
                    self.fields.insert("input".to_owned(), input);
                }
                Some(ReplyPart::Other(Opaque::new(PROVIDER, Value::Object(self.fields))))
            }
        }
    }
}

/// Whether a field of a call goes back with it. A direct call is the default.
fn is_opaque(name: &str, value: &Value) -> bool {
    match name {
        "type" | "id" | "name" => false,
        "caller" => value["type"] != "direct",
        _ => !value.is_null(),
    }
}

fn push_text(text: Cow<'_, str>, delta: fn(String) -> Delta, deltas: &mut Deltas) {
    if !text.is_empty() {
        deltas.push(|| delta(text.into_owned()));
    }
}
