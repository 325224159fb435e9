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

mod words;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use toolwright_module::runner::{ARGUMENTS, given_arguments};
pub use toolwright_module::runner::{Unread, is_set};
use toolwright_signature::check_fields_once;

pub use self::words::{Piece, PieceKind, TEXTS, Words, thoughts};

/// Deserializes content of a model from its JSON text, in which no object may give a field twice: most
/// types would take the last value of such a field. The arguments of a call may have one, because the
/// tool's contract checks them and the model can then correct them.
///
/// ```
/// use serde_json::{Map, Value};
/// use toolwright_provider::lenient::once;
///
/// assert!(once::<Value>(r#"{"text": {"value": "a", "value": "b"}}"#).is_err());
/// assert!(once::<Value>(r#"{"name": "look", "input": {"at": 1, "at": 2}}"#).is_ok());
/// ```
///
/// # Errors
///
/// The text is not JSON of a `T`, or gives a field twice.
pub fn once<'t, T: Deserialize<'t>>(json: &'t str) -> serde_json::Result<T> {
    check_fields_once(json.as_bytes(), &ARGUMENTS)?;
    serde_json::from_str(json)
}

/// Returns the fields of a call, in their order.
///
/// A value with more levels than `serde_json` takes is a text of its JSON: the call's arguments are for
/// the model to correct, and must not end the run.
///
/// ```
/// use toolwright_provider::lenient::call_fields;
///
/// let list = "[".repeat(400) + &"]".repeat(400);
/// let fields = call_fields(&format!(r#"{{"name": "look", "input": {list}}}"#))?;
/// assert_eq!(fields["name"], "look");
/// assert_eq!(fields["input"], list);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// The text is not a JSON object.
pub fn call_fields(json: &str) -> serde_json::Result<Map<String, Value>> {
    struct Fields(Map<String, Value>);

    impl<'de> Deserialize<'de> for Fields {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(FieldsVisitor)
        }
    }

    struct FieldsVisitor;

    impl<'de> Visitor<'de> for FieldsVisitor {
        type Value = Fields;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
            let mut fields = Map::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                let json = value.get();
                fields.insert(name, serde_json::from_str(json).unwrap_or_else(|_| json.into()));
            }
            Ok(Fields(fields))
        }
    }

    serde_json::from_str(json).map(|Fields(fields)| fields)
}

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

    /// Returns the first text that is not empty, and whether all others are empty or equal to it.
    #[must_use]
    pub fn one_of(given: impl IntoIterator<Item = Self>) -> (Self, bool) {
        let mut filled = given.into_iter().filter(|text| !text.is_empty());
        let first = filled.next().unwrap_or_default();
        let is_clear = filled.all(|other| other == first);
        (first, is_clear)
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
        Ok(Self(Str::deserialize(deserializer)?.0.into_owned()))
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
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Cow::Owned(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        while let Some(piece) = list.next_element::<Value>()? {
            let piece = piece.get("text").unwrap_or(&piece);
            text.push_str(piece.as_str().unwrap_or_default());
        }
        Ok(Cow::Owned(text))
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
    /// Returns the arguments among those that a server sent under several names, and whether all say
    /// the same; see [`given_arguments`].
    #[must_use]
    pub fn one_of(given: impl IntoIterator<Item = Self>) -> (Self, bool) {
        let (found, is_clear) = given_arguments(given.into_iter().map(|given| given.0));
        (Self(found.unwrap_or_default()), is_clear)
    }
}

/// A count; `None` for values that are not one, such as `"n/a"`, -1, 1.5 or 1e30.
///
/// In a field of type `Option<Count>`, a field that the server leaves out differs from one whose
/// value is not a count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count(pub Option<u64>);

/// The largest count. Servers that overflow send numbers such as 4294967295.
const MOST: u64 = 1_000_000_000;

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = match Value::deserialize(deserializer)? {
            // A whole number may have a fraction of zero, as in `7.0`.
            Value::Number(number) => {
                number.as_u64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok())
            }
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        Ok(Self(count.filter(|count| *count <= MOST)))
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

/// Deserializes an object, and any other value, such as `"n/a"`, as `None`.
pub fn if_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(ObjectVisitor { is_strict: false, of: PhantomData })
}

/// Deserializes an object, and `null` as the default.
///
/// Other values are errors: for serde, a list is also a struct, whose fields are its items.
pub fn fields<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let visitor = ObjectVisitor { is_strict: true, of: PhantomData };
    Ok(deserializer.deserialize_any(visitor)?.unwrap_or_default())
}

struct ObjectVisitor<T> {
    /// Whether a value that is not an object is an error.
    is_strict: bool,
    of: PhantomData<T>,
}

impl<T> ObjectVisitor<T> {
    fn other<E: Error>(self, found: Unexpected<'_>) -> Result<Option<T>, E> {
        match self.is_strict {
            true => Err(E::invalid_type(found, &"an object")),
            false => Ok(None),
        }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.other(Unexpected::Seq)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        self.other(Unexpected::Str(text))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        self.other(Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<T>, E> {
        self.other(Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<T>, E> {
        self.other(Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<T>, E> {
        self.other(Unexpected::Float(value))
    }
}
