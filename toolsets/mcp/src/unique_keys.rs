//! [`UniqueKeys`], the check that no object of a JSON text has a key twice. A reader would take one of
//! both without a word.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum number of characters of a key that an error shows.
const MAX_KEY_CHARS: usize = 100;

/// Any value in which no object has a key twice.
pub(crate) struct UniqueKeys;

impl UniqueKeys {
    /// Checks a JSON text.
    ///
    /// # Errors
    ///
    /// It is not JSON, or an object has a key twice, which is an error of data
    /// ([`serde_json::Error::is_data`]).
    pub(crate) fn check(json: &[u8]) -> serde_json::Result<()> {
        serde_json::from_slice::<Self>(json).map(drop)
    }
}

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                let key: String = key.chars().take(MAX_KEY_CHARS).collect();
                return Err(A::Error::custom(format_args!(
                    "field `{key}` is given twice; give it once"
                )));
            }
            keys.insert(key);
            map.next_value::<Self>()?;
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}
