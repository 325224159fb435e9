//! Wire values as compatible servers really send them.
//!
//! A reply is never refused for what it says beside the point: a `null` where a list
//! should be, a number where a text should be, a word that OpenAI does not know.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

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
/// Numbers and objects become their JSON, because some servers send ids as numbers
/// and arguments as objects. Lists become the texts of their pieces, because some
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

/// A number of things; 0 for whatever is no such number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor).map(Self)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<u64, E> {
        Ok(u64::try_from(value).unwrap_or_default())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and a count is neither negative nor that large"
    )]
    fn visit_f64<E>(self, value: f64) -> Result<u64, E> {
        Ok(value as u64)
    }

    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(text.parse().unwrap_or_default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<u64, A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(|_| 0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u64, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(0)
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
    fn a_count_is_never_a_reason_to_refuse_a_reply() {
        for (wire, count) in [
            ("7", 7),
            ("7.0", 7),
            ("-1", 0),
            ("null", 0),
            ("true", 0),
            (r#""7""#, 7),
            (r#"{"a": 1}"#, 0),
            ("[1]", 0),
        ] {
            assert_eq!(serde_json::from_str::<Count>(wire).unwrap().0, count, "{wire}");
        }
    }
}
