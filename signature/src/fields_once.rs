//! [`check_fields_once`], the check that no object of a JSON text gives a field twice.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Maximum number of characters of a name that an error shows.
const MAX_NAME_CHARS: usize = 100;

/// Checks that a text is JSON and that no object in it gives a field twice. Most readers take the last
/// value of such a field, and some the first, so it is not clear which one is meant.
///
/// The fields `unread` of the outermost object may have any value, for example because a contract
/// checks it.
///
/// # Errors
///
/// The text is not JSON, or an object gives a field twice, which is an error of data
/// ([`serde_json::Error::is_data`]).
///
/// ```
/// use toolwright_signature::check_fields_once;
///
/// let call = br#"{"name": "look", "input": {"at": 1, "at": 2}}"#;
/// let error = check_fields_once(call, &[]).unwrap_err().to_string();
/// assert!(error.starts_with("field `at` is given twice; give it once"));
/// assert!(check_fields_once(call, &["input"]).is_ok());
/// ```
pub fn check_fields_once(json: &[u8], unread: &[&str]) -> serde_json::Result<()> {
    let mut text = serde_json::Deserializer::from_slice(json);
    FieldsOnce { unread }.deserialize(&mut text)?;
    text.end()
}

/// A value, and all values in it.
struct FieldsOnce<'a> {
    unread: &'a [&'a str],
}

/// The name of a field.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for FieldsOnce<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldsOnce<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            if names.contains(&name) {
                let name: String = name.0.chars().take(MAX_NAME_CHARS).collect();
                let fault = format_args!("field `{name}` is given twice; give it once");
                return Err(A::Error::custom(fault));
            }
            match self.unread.contains(&&*name.0) {
                true => drop(map.next_value::<IgnoredAny>()?),
                false => map.next_value_seed(FieldsOnce { unread: &[] })?,
            }
            names.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(FieldsOnce { unread: &[] })?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
