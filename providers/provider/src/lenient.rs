//! Lenient deserialization, for the values that servers send instead of the documented ones.
//!
//! A reply must not fail because of a field that does not matter: `null` instead of a list, a
//! number instead of a string, a value that the documentation does not have. Use the functions
//! with `#[serde(deserialize_with = "…")]`, and the types as field types.
//!
//! ```
//! use serde::Deserialize;
//! use toolwright_provider::lenient::{self, Count, Text};
//!
//! #[derive(Deserialize, Default)]
//! struct Usage {
//!     #[serde(default)]
//!     input_tokens: Count,
//! }
//!
//! #[derive(Deserialize)]
//! struct Reply {
//!     id: Text,
//!     #[serde(default, deserialize_with = "lenient::object")]
//!     usage: Usage,
//! }
//!
//! let reply: Reply = serde_json::from_str(r#"{"id": 7, "usage": "n/a"}"#)?;
//! assert_eq!((reply.id.0.as_str(), reply.usage.input_tokens.0), ("7", None));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::is_empty_object;

/// Deserializes `null` as the default, as if the field were missing.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text from any JSON value; empty for `null`.
///
/// A number or an object becomes its JSON, because some servers send ids as numbers. A list
/// becomes the texts of its items, because some servers send content as a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text(pub String);

impl Text {
    /// Returns the text, if it is not empty.
    #[must_use]
    pub fn filled(self) -> Option<String> {
        Some(self.0).filter(|text| !text.is_empty())
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

/// A [`Text`] that borrows from the JSON if it can, for the events of a stream.
///
/// ```
/// use std::borrow::Cow;
///
/// use toolwright_provider::lenient::Str;
///
/// let piece: Str<'_> = serde_json::from_str(r#""a word""#)?;
/// assert!(matches!(piece.0, Cow::Borrowed("a word")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Str<'e>(pub Cow<'e, str>);

impl Str<'_> {
    /// Returns the text, if it is not empty.
    #[must_use]
    pub fn filled(self) -> Option<String> {
        Some(self.0).filter(|text| !text.is_empty()).map(Cow::into_owned)
    }
}

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'e, 'e> Deserialize<'de> for Str<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrVisitor).map(Self)
    }
}

struct StrVisitor;

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TextVisitor.expecting(f)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        TextVisitor.visit_bool(value).map(Cow::Owned)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        TextVisitor.visit_i64(value).map(Cow::Owned)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        TextVisitor.visit_u64(value).map(Cow::Owned)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        TextVisitor.visit_f64(value).map(Cow::Owned)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        TextVisitor.visit_map(map).map(Cow::Owned)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        TextVisitor.visit_seq(list).map(Cow::Owned)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<String, A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        Ok(value.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<String, A::Error> {
        let mut text = String::new();
        while let Some(piece) = list.next_element::<Value>()? {
            let piece = piece.get("text").unwrap_or(&piece);
            text.push_str(piece.as_str().unwrap_or_default());
        }
        Ok(text)
    }
}

/// A call's arguments as JSON text: a string's content, or any other value's JSON; empty for
/// `null`.
///
/// The JSON is unchanged: numbers keep their digits, and objects keep repeated fields. For that it
/// needs the original text, which serde does not keep inside of `#[serde(tag = "…")]`,
/// `#[serde(untagged)]` and `#[serde(flatten)]`: there it is an error. Use a struct with optional
/// fields and a `type` for such blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments(pub String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Ok(Self(match raw.get().as_bytes() {
            b"null" => String::new(),
            [b'"', ..] => serde_json::from_str(raw.get()).map_err(D::Error::custom)?,
            _ => raw.get().to_owned(),
        }))
    }
}

impl Arguments {
    /// Returns the first arguments that are not empty. `{}` is used only if all others are
    /// empty.
    #[must_use]
    pub fn first(of: impl IntoIterator<Item = Self>) -> Self {
        let mut found = Self::default();
        for other in of {
            let says_more = !other.0.trim().is_empty() && !is_empty_object(&other.0);
            if says_more || found.0.trim().is_empty() && !other.0.is_empty() {
                found = other;
            }
            if says_more {
                break;
            }
        }
        found
    }
}

/// The text of content, in any of the forms that servers send: a string, a number, an object with
/// the text, or a list of these.
///
/// Deserializing fails for an object whose text cannot be found, because its JSON is not what the
/// model said. Pieces of a list that are not text, such as an image, have no text.
///
/// ```
/// use toolwright_provider::lenient::Words;
///
/// for content in [
///     r#""two""#,
///     r#"{"type": "text", "text": "two"}"#,
///     r#"[{"type": "text", "text": {"value": "two", "annotations": []}}]"#,
/// ] {
///     assert_eq!(&*serde_json::from_str::<Words>(content)?, "two");
/// }
/// assert!(serde_json::from_str::<Words>(r#"{"answer": "two"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words(pub String);

impl std::ops::Deref for Words {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let mut text = String::new();
        match add_words(&value, &mut text) {
            true => Ok(Self(text)),
            false => Err(D::Error::custom("the content has an object without a text")),
        }
    }
}

/// The fields in which an object has its text.
const TEXTS: [&str; 4] = ["text", "value", "content", "parts"];

/// Adds the text of content. Returns `false` for an object whose text cannot be found.
fn add_words(value: &Value, text: &mut String) -> bool {
    match value {
        Value::Null => true,
        Value::String(more) => {
            text.push_str(more);
            true
        }
        Value::Bool(_) | Value::Number(_) => {
            text.push_str(&value.to_string());
            true
        }
        Value::Array(pieces) => pieces.iter().all(|piece| {
            match (piece.get("text"), piece.get("type").and_then(Value::as_str)) {
                (Some(inside), _) => add_words(inside, text),
                // A piece of another kind, such as an image.
                (None, Some(kind)) if !is_text(kind) => true,
                _ => add_words(piece, text),
            }
        }),
        Value::Object(fields) => {
            let found = TEXTS.into_iter().find_map(|name| Some((name, fields.get(name)?)));
            let Some((name, inside)) = found else { return fields.is_empty() };
            // An answer that a server has parsed may have a field of the same name.
            let is_piece = fields.contains_key("type")
                || fields.keys().all(|key| {
                    key == name || matches!(&**key, "role" | "annotations" | "logprobs" | "index")
                });
            is_piece && add_words(inside, text)
        }
    }
}

/// Whether pieces of this kind are text.
fn is_text(kind: &str) -> bool {
    matches!(kind, "" | "text" | "output_text" | "input_text" | "message" | "string")
}

/// A count; `None` for values that are not one, such as `"n/a"`, -1, 1.5 or 1e30.
///
/// In a field of type `Option<Count>`, a field that the server leaves out differs from one whose
/// value is not a count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count(pub Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor).map(Self)
    }
}

/// The largest count. Servers that overflow send numbers such as 4294967295.
const MOST: u64 = 1_000_000_000;

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value).filter(|value| *value <= MOST))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        u64::try_from(value).map_or(Ok(None), |value| self.visit_u64(value))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the value is a whole number from 0 to `MOST`"
    )]
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        let is_count = value.fract() == 0.0 && (0.0..=MOST as f64).contains(&value);
        Ok(is_count.then_some(value as u64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.trim().parse().map_or(Ok(None), |value| self.visit_u64(value))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(|_| None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Deserializes an object, and any other value as the default. For fields that do not matter.
pub fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(if_object(deserializer)?.unwrap_or_default())
}

/// Deserializes an object, and `null` as the default.
///
/// Other values are errors: for serde, a list is also a struct, whose fields are its items.
pub fn fields<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    struct FieldsVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for FieldsVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }

        fn visit_unit<E>(self) -> Result<T, E> {
            Ok(T::default())
        }
    }

    deserializer.deserialize_any(FieldsVisitor(PhantomData))
}

/// Deserializes an object, and any other value, such as `"n/a"`, as `None`.
pub fn if_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ObjectVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }

        fn visit_str<E>(self, _: &str) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(ObjectVisitor(PhantomData))
}

/// Item of a list that a server may replace with a string.
pub trait ListItem: DeserializeOwned {
    /// Returns the items for a string that stands instead of the list.
    fn from_text(text: &str) -> Vec<Self>;
}

/// Deserializes a list. A single object is a list of one item, a string is
/// [`ListItem::from_text`], and any other value is an empty list.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: ListItem,
{
    struct ListVisitor<T>(PhantomData<T>);

    impl<'de, T: ListItem> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element::<Option<T>>()? {
                items.extend(item);
            }
            Ok(items)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(|item| vec![item])
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<T>, E> {
            Ok(T::from_text(text))
        }

        fn visit_bool<E>(self, _: bool) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_i64<E>(self, _: i64) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_u64<E>(self, _: u64) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_f64<E>(self, _: f64) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }

    deserializer.deserialize_any(ListVisitor(PhantomData))
}

/// Returns whether an error field means an error. Some servers send `false`, `0`, `""` or an
/// empty object for success.
#[must_use]
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_from_any_value() {
        for (wire, text) in [
            (r#""plain""#, "plain"),
            ("null", ""),
            ("7", "7"),
            ("-7", "-7"),
            ("1.5", "1.5"),
            ("true", "true"),
            (r#"{"key": "color"}"#, r#"{"key":"color"}"#),
            (r#"[{"type": "text", "text": "one "}, "two", {"image": 1}]"#, "one two"),
        ] {
            assert_eq!(serde_json::from_str::<Text>(wire).unwrap().0, text, "{wire}");
            assert_eq!(serde_json::from_str::<Str<'_>>(wire).unwrap().0, text, "{wire}");
        }
    }

    #[test]
    fn arguments_keep_the_json_of_any_value() {
        for (wire, text) in [
            (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
            ("null", ""),
            (
                r#"{"a": 1.0, "b": 12345678901234567890123, "a": 2}"#,
                r#"{"a": 1.0, "b": 12345678901234567890123, "a": 2}"#,
            ),
            (r#"[{"a": 1}]"#, r#"[{"a": 1}]"#),
            ("7", "7"),
            ("true", "true"),
        ] {
            assert_eq!(serde_json::from_str::<Arguments>(wire).unwrap().0, text, "{wire}");
        }
    }

    #[test]
    fn the_words_of_content_are_found_in_every_form() {
        for (wire, words) in [
            (r#""plain""#, Some("plain")),
            ("null", Some("")),
            ("7", Some("7")),
            (r#"{"type": "text", "text": "one"}"#, Some("one")),
            (r#"{"text": {"value": "one", "annotations": []}}"#, Some("one")),
            (r#"{"role": "model", "parts": [{"text": "one"}, {"text": " two"}]}"#, Some("one two")),
            (r#"[{"type": "text", "text": {"value": "one"}}, "two"]"#, Some("onetwo")),
            (r#"[{"type": "output_text", "text": ["one", {"text": "two"}]}]"#, Some("onetwo")),
            (r#"[{"type": "text", "content": "one"}]"#, Some("one")),
            (r#"["one", {"type": "image_url", "image_url": {"url": "x"}}]"#, Some("one")),
            (r#"{"name": "Ada", "age": 36}"#, None),
            (r#"{"text": "Ada", "age": 36}"#, None),
            (r#"[{"type": "text", "text": {"said": "one"}}]"#, None),
            (r#"[{"said": "one"}]"#, None),
        ] {
            let read = serde_json::from_str::<Words>(wire).ok();
            assert_eq!(read.as_deref(), words, "{wire}");
        }
    }

    #[test]
    fn a_value_that_is_not_a_count_is_not_an_error() {
        for (wire, count) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("0", Some(0)),
            ("-1", None),
            ("-1.5", None),
            ("1.5", None),
            ("1e30", None),
            ("4294967295", None),
            ("18446744073709551615", None),
            (r#""-3""#, None),
            (r#""1000000000000""#, None),
            ("null", None),
            ("true", None),
            (r#""7""#, Some(7)),
            (r#""n/a""#, None),
            (r#"{"a": 1}"#, None),
            ("[1]", None),
        ] {
            assert_eq!(serde_json::from_str::<Count>(wire).unwrap().0, count, "{wire}");
        }
    }
}
