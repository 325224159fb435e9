//! [`Words`] and [`Piece`]: content, in any of the forms that servers send.
//!
//! Both read the JSON text and not a `Value`, so that a number keeps its digits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use toolwright_module::runner::ARGUMENTS;
use toolwright_signature::check_fields_once;

use super::{Str, is_set};
use crate::ending::{is_for_calls, is_same};

/// The text of content, in any of the forms that servers send: a string, a number, an object with
/// the text, or a list of these.
///
/// An object whose text cannot be found is an error, because its JSON is not what the model said.
/// Pieces of a list that are not text, such as an image or a thought, have no text.
///
/// ```
/// use toolwright_provider::lenient::Words;
///
/// for content in [
///     r#""two""#,
///     r#"{"type": "text", "text": "two"}"#,
///     r#"[{"type": "text", "text": {"value": "two", "annotations": []}}]"#,
/// ] {
///     assert_eq!(&*Words::read(content)?, "two");
/// }
/// assert!(Words::read(r#"{"answer": "two"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// As the type of a field it needs the original text, as [`Arguments`](super::Arguments) does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words<'e>(pub Cow<'e, str>);

impl std::ops::Deref for Words<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'e> Words<'e> {
    /// Reads content from its JSON text, in which no object may give a field [twice](super::once).
    ///
    /// # Errors
    ///
    /// It is not JSON, it gives a field twice, or it has an object whose text cannot be found.
    pub fn read(json: &'e str) -> serde_json::Result<Self> {
        if json.starts_with('"') {
            return Ok(Self(serde_json::from_str::<Str<'e>>(json)?.0));
        }
        let piece = Piece::of(json, Place::Alone)?;
        match piece.has_call {
            true => Err(Error::custom("a text has a call in it")),
            false => Ok(Self(piece.text.into())),
        }
    }

    /// Returns the text, if it is not empty.
    #[must_use]
    pub fn filled(self) -> Option<String> {
        Some(self.0).filter(|text| !text.is_empty()).map(Cow::into_owned)
    }
}

impl<'de: 'e, 'e> Deserialize<'de> for Words<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(<&RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

/// Deserializes a field of thoughts. What is not [`Words`] is its JSON, because thoughts are only
/// shown, and an answer must not fail because of them.
pub fn thoughts<'de: 'e, 'e, D>(deserializer: D) -> Result<Words<'e>, D::Error>
where
    D: Deserializer<'de>,
{
    let json = <&RawValue>::deserialize(deserializer)?.get();
    if json.starts_with('"') {
        return Words::read(json).map_err(D::Error::custom);
    }
    Ok(Words(match Piece::of(json, Place::Alone) {
        Ok(Piece { text, thoughts, .. }) => (thoughts + &text).into(),
        Err(_) => json.into(),
    }))
}

/// What a piece of content is, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Text of the answer.
    Text,
    /// Thoughts of the model.
    Thoughts,
    /// A call of a tool.
    Call,
    /// A kind without text, such as an image, or one that this version does not know.
    Other,
}

impl PieceKind {
    /// Returns the kind that a server's word stands for. Gateways send the words of other APIs.
    #[must_use]
    pub fn of(word: &str) -> Self {
        const TEXT: [&str; 6] = ["", "text", "output_text", "input_text", "message", "string"];
        // Those of Anthropic and Mistral, and those of Responses.
        const THOUGHTS: [&str; 5] =
            ["thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text"];
        let is_in = |words: &[&str]| words.iter().any(|known| is_same(word, known));
        match () {
            () if is_in(&TEXT) => Self::Text,
            () if is_in(&THOUGHTS) => Self::Thoughts,
            () if is_for_calls(word) || is_same(word, "function") => Self::Call,
            () => Self::Other,
        }
    }
}

/// The fields in which an object has its text.
pub const TEXTS: [&str; 4] = ["text", "value", "content", "parts"];

/// The fields beside the text of a piece whose type a server leaves out.
const BESIDE_TEXT: [&str; 10] = [
    "type",
    "thinking",
    "role",
    "annotations",
    "citations",
    "logprobs",
    "index",
    "id",
    "refusal",
    "thought",
];

/// A piece of content: an item of a list, or all of the content.
///
/// A piece with a text that is not known to be a text of the answer is an error. It may be anything,
/// such as the result of a tool that the server runs, and without it the answer may be another one.
///
/// ```
/// use toolwright_provider::lenient::Piece;
///
/// let piece = Piece::read(r#"{"type": "thinking", "thinking": "2 or 3?"}"#)?;
/// assert_eq!((&*piece.text, &*piece.thoughts), ("", "2 or 3?"));
/// assert!(Piece::read(r#"{"type": "tool_result", "text": "17"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    /// Text of the answer.
    pub text: String,
    /// Thoughts of the model.
    pub thoughts: String,
    /// Words with which the model refuses.
    pub refusal: String,
    /// Whether it is a call, or has one inside. This type does not read it.
    pub has_call: bool,
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a list, where an object may be a piece without text, such as an image.
    List,
    /// Where a text belongs.
    Alone,
}

type Fields<'e> = BTreeMap<String, &'e RawValue>;

impl Piece {
    /// Reads an item of a list of content from its JSON text, in which no object may give a field
    /// [twice](super::once).
    ///
    /// # Errors
    ///
    /// It is not JSON, it gives a field twice, or it has an object with something unknown where its
    /// text belongs.
    pub fn read(json: &str) -> serde_json::Result<Self> {
        Self::of(json, Place::List)
    }

    fn of(json: &str, place: Place) -> serde_json::Result<Self> {
        check_fields_once(json.as_bytes(), &ARGUMENTS)?;
        let mut piece = Self::default();
        piece.add(serde_json::from_str(json)?, false, place)?;
        Ok(piece)
    }

    fn add(&mut self, value: &RawValue, is_thought: bool, place: Place) -> serde_json::Result<()> {
        let json = value.get();
        match json.as_bytes() {
            b"null" => {}
            [b'"', ..] => self.say(&serde_json::from_str::<Str<'_>>(json)?, is_thought),
            [b'[', ..] => {
                for piece in serde_json::from_str::<Vec<&RawValue>>(json)? {
                    self.add(piece, is_thought, Place::List)?;
                }
            }
            [b'{', ..] => self.add_object(&serde_json::from_str(json)?, is_thought, place)?,
            // A number keeps its digits.
            _ => self.say(json, is_thought),
        }
        Ok(())
    }

    fn say(&mut self, text: &str, is_thought: bool) {
        if is_thought { &mut self.thoughts } else { &mut self.text }.push_str(text);
    }

    fn add_object(
        &mut self,
        fields: &Fields<'_>,
        is_thought: bool,
        place: Place,
    ) -> serde_json::Result<()> {
        let kind = fields.get("type").filter(|kind| kind.get().starts_with('"'));
        let kind = kind.map(|kind| serde_json::from_str::<Str<'_>>(kind.get())).transpose()?;
        let kind = PieceKind::of(&kind.unwrap_or_default());
        let has = |name: &str| fields.get(name).is_some_and(|value| is_filled(value));
        if kind == PieceKind::Call {
            self.has_call = true;
            return Ok(());
        }
        if let Some(refusal) = fields.get("refusal").filter(|refusal| is_set_raw(refusal)) {
            self.refusal.push_str(&Self::of(refusal.get(), Place::Alone)?.text);
        }
        let is_mark = fields.get("thought").is_some_and(|mark| mark.get() == "true");
        let is_thought = is_thought || is_mark || kind == PieceKind::Thoughts;
        let thinking = fields.get("thinking").filter(|_| has("thinking"));
        let mut texts = TEXTS.into_iter().filter(|name| has(name)).map(|name| fields[name]);
        if is_thought {
            let found = thinking.copied().or_else(|| texts.next());
            return found.map_or(Ok(()), |thoughts| self.add(thoughts, true, Place::Alone));
        }
        if kind == PieceKind::Other {
            return match has("text") || place == Place::Alone {
                true => Err(Error::custom("the content has a text of an unknown type")),
                false => Ok(()),
            };
        }
        let found = texts.next();
        // Some servers repeat the text under another name.
        if found.is_some_and(|text| texts.any(|other| other.get() != text.get())) {
            return Err(Error::custom("a piece of the content has two texts"));
        }
        // An object that a server has parsed may have a field with the name of a text.
        let is_known = |(name, value): (&String, &&RawValue)| {
            let names = BESIDE_TEXT.iter().chain(&TEXTS);
            names.into_iter().any(|known| known == name) || !is_set_raw(value)
        };
        let is_typed = found.is_some() && fields.contains_key("type");
        if !is_typed && !fields.iter().all(is_known) {
            return Err(Error::custom("the content has an object without a text"));
        }
        if let Some(thinking) = thinking {
            self.add(thinking, true, Place::Alone)?;
        }
        found.map_or(Ok(()), |text| self.add(text, false, Place::Alone))
    }
}

/// Returns whether a field has a text, or an object or list that may have one.
fn is_filled(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}

fn is_set_raw(value: &RawValue) -> bool {
    serde_json::from_str(value.get()).is_ok_and(|value| is_set(&value))
}
