//! Wire values as compatible servers really send them.
//!
//! A reply is never refused for what it says beside the point: a `null` where a list
//! should be, a number where a text should be, a word that OpenAI does not know.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::assembly::is_empty_object;

/// Reads `null` as if the field were not there.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text, whatever form it came in; empty for `null`.
///
/// Numbers and objects become their JSON, because some servers send ids as numbers. Lists become the texts of their pieces, because some
/// send content that way.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Text(pub(crate) String);

impl Text {
    /// The text, if there is any.
    pub(crate) fn filled(self) -> Option<String> {
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

/// A call's arguments as JSON text: a text as it is, any other value as its JSON; empty for
/// `null`.
///
/// The JSON is the server's own: numbers keep their digits and objects all their fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Arguments(pub(crate) String);

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
    /// The first that says anything; `{}` only where none says more.
    pub(crate) fn first(of: impl IntoIterator<Item = Self>) -> Self {
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

/// A number of things; `None` for whatever is no such number, such as `"n/a"` or -1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor).map(Self)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(value).ok())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and a count is not that large"
    )]
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok((value >= 0.0).then_some(value as u64))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.trim().parse().ok())
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

/// An object; the default for whatever else there is. For what is beside the point.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(if_object(deserializer)?.unwrap_or_default())
}

/// An object, or nothing for `null`. Serde would read a list as its fields, in their order.
pub(crate) fn fields<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let raw = <Box<RawValue>>::deserialize(deserializer)?;
    match raw.get().as_bytes() {
        b"null" => Ok(T::default()),
        [b'{', ..] => serde_json::from_str(raw.get()).map_err(D::Error::custom),
        _ => Err(D::Error::custom("an object was expected")),
    }
}

/// An object; `None` for whatever else there is, such as `"n/a"`.
pub(crate) fn if_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
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

/// What may stand in a list.
pub(crate) trait Listed: DeserializeOwned {
    /// What a text says that stands where the list should.
    fn of_text(text: &str) -> Vec<Self>;
}

/// A list; one object by itself, or a text, where a list should be; empty for `null` and
/// for other values.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Listed,
{
    struct ListVisitor<T>(PhantomData<T>);

    impl<'de, T: Listed> Visitor<'de> for ListVisitor<T> {
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
            Ok(T::of_text(text))
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

/// Whether a field that announces an error does so: some servers send `false` or `""` for
/// success.
pub(crate) fn is_said(value: &Value) -> bool {
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
    fn a_text_comes_in_many_forms() {
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
        }
    }

    #[test]
    fn arguments_keep_the_text_of_any_value() {
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
    fn a_count_is_never_a_reason_to_refuse_a_reply() {
        for (wire, count) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("0", Some(0)),
            ("-1", None),
            ("-1.5", None),
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
