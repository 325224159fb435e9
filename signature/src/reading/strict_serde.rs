//! `serde_json` without its extensions of JSON's types: a list for a struct, an object for the name
//! of a variant, an infinite `f32`.
//!
//! In: a text and a type. Out: the value, or `None` if the text needs a closer look. A plain contract
//! is read with this alone, so it must be fast. It only observes which methods of a deserializer and
//! of a visitor are called:
//!
//! ```text
//! struct Find { limit: u8 }     {"limit": 5}           → read
//!                               {"limit": 5, "x": 1}   → None: `x` has to be listed
//!                               [5]                    → None: serde alone would read it
//! ```
//!
//! Begin with [`read`]. [`Strict`] wraps whatever serde hands on: a deserializer, a visitor, a seed,
//! or the access to a list or an object. [`asks`] uses the same wrapper for facts about a type that no
//! schema contains.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

/// What a type asked its deserializer for.
#[derive(Default)]
pub(crate) struct Asked {
    /// The name of the last struct.
    pub(crate) name: Cell<Option<&'static str>>,
    /// Whether it asked for a variant of an enum.
    pub(crate) variant: Cell<bool>,
    /// Whether it asked for a value of unknown fields or type. It reads such a value from a buffer,
    /// where nothing can be observed: a type with a flattened field does.
    pub(crate) buffered: Cell<bool>,
    /// Whether it skipped a field that it does not know.
    skipped: Cell<bool>,
}

/// Reads a text that needs no repair; `None` means that it needs a further check.
#[inline]
pub(super) fn read<T: DeserializeOwned>(wire: &str, asked: &Asked) -> Option<T> {
    // serde would accept a list for a struct.
    if !wire.starts_with('{') && !wire.trim_ascii_start().starts_with('{') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(wire);
    let value = T::deserialize(Strict { inner: &mut json, asked }).ok()?;
    let is_whole = !asked.buffered.get() && !asked.skipped.get();
    (is_whole && json.end().is_ok()).then_some(value)
}

/// Returns what a type asks for when it reads a text.
pub(crate) fn asks<T: DeserializeOwned>(json: &str) -> Asked {
    let asked = Asked::default();
    // The value does not matter: many types do not accept such a text.
    let _ = T::deserialize(Strict {
        inner: &mut serde_json::Deserializer::from_str(json),
        asked: &asked,
    });
    asked
}

/// A wrapper around an object of serde, with a place to record what is asked for.
struct Strict<'c, I> {
    inner: I,
    asked: &'c Asked,
}

impl<'c, I> Strict<'c, I> {
    /// Wraps a part with the same place to record.
    fn of<O>(&self, inner: O) -> Strict<'c, O> {
        Strict { inner, asked: self.asked }
    }

    /// Records that a value is buffered, and fails.
    fn buffered<T, E: Error>(&self) -> Result<T, E> {
        self.asked.buffered.set(true);
        Err(E::custom("not plain"))
    }
}

/// Methods that pass a visitor on: itself, in a [`Strict`], or in a visitor of its own.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*) $(=> $wrapper:ident)*;)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            $(let visitor = forward!($wrapper, self.of(visitor));)*
            self.inner.$method($($argument,)* visitor)
        }
    )*};
    ($($method:ident)*) => { forward! { $($method();)* } };
    (Strict, $visitor:expr) => { $visitor };
    ($wrapper:ident, $visitor:expr) => { $wrapper($visitor) };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier
    }

    forward! {
        deserialize_unit_struct(name: &'static str);
        deserialize_f32() => Single;
        deserialize_option() => Strict;
        deserialize_newtype_struct(name: &'static str) => Strict;
        deserialize_seq() => Strict;
        deserialize_tuple(length: usize) => Strict;
        deserialize_tuple_struct(name: &'static str, length: usize) => Strict;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        self.buffered()
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        // A struct with a flattened field, or keys that are data: the second of two equal keys
        // would win.
        self.buffered()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.asked.skipped.set(true);
        self.inner.deserialize_ignored_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.asked.name.set(Some(name));
        let visitor = Object(self.of(visitor));
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.asked.variant.set(true);
        let visitor = Variant(self.of(visitor));
        self.inner.deserialize_str(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor with some methods. All others fail, as serde's defaults do.
macro_rules! visitor {
    ($name:ident, $($inner:tt).+, { $($body:tt)* }) => {
        impl<'de, V: Visitor<'de>> Visitor<'de> for $name<'_, V> {
            type Value = V::Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.$($inner).+.expecting(f)
            }

            $($body)*
        }
    };
}

// Passes the parts of options, newtypes and lists on, each in a wrapper again. Which method is called
// is up to `serde_json`: for `deserialize_seq` only `visit_seq`, and so on.
visitor!(Strict, inner, {
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.visit_some(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        let items = self.of(items);
        self.inner.visit_seq(items)
    }
});

/// The visitor of an `f32`: `serde_json` would round a larger number to infinity.
struct Single<'c, V>(Strict<'c, V>);
/// The visitor of a struct: `serde_json` would also read a list.
struct Object<'c, V>(Strict<'c, V>);
/// The visitor of an enum: `serde_json` would also read an object.
struct Variant<'c, V>(Strict<'c, V>);

visitor!(Single, 0.inner, {
    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.0.inner.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.inner.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        if !(value as f32).is_finite() {
            return Err(E::custom("too large for 32 bits"));
        }
        self.0.inner.visit_f64(value)
    }
});

visitor!(Object, 0.inner, {
    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let fields = self.0.of(fields);
        self.0.inner.visit_map(fields)
    }
});

visitor!(Variant, 0.inner, {
    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.inner.visit_enum(name.into_deserializer())
    }
});

/// The seed of an item or a field: its deserializer is wrapped.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.deserialize(inner)
    }
}

/// The items of a list: their seeds are wrapped.
impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.of(seed);
        self.inner.next_element_seed(seed)
    }
}

/// The fields of a struct: the seeds of the values are wrapped, and the keys are not.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.of(seed);
        self.inner.next_value_seed(seed)
    }
}
