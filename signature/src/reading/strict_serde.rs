//! `serde_json` without its extensions of JSON's types: a list for a struct, an object for the name
//! of a variant, an infinite `f32`.
//!
//! In: a text and a type. Out: the value, or `None` if the text needs a closer look. A plain contract
//! is read with this alone, so it must be fast. It only observes which methods of a visitor are
//! called:
//!
//! ```text
//! struct Find { limit: u8 }     {"limit": 5}           → read
//!                               {"limit": 5, "x": 1}   → None: `x` has to be listed
//!                               [5]                    → None: serde alone would read it
//! ```
//!
//! Begin with [`read`]. [`Strict`] wraps whatever serde hands on: a deserializer, a visitor, a seed,
//! or the access to a list or an object.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::Ordering;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

use crate::reading::read_plan::ReadPlan;

/// Actions of a type that hide values from this deserializer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// No such action.
    Nothing,
    /// It skipped an unknown field.
    Unasked,
    /// It buffered a value before deserializing it.
    Buffered,
}

/// Reads a text that needs no repair; `None` means that it needs a further check.
#[inline]
pub(super) fn read<T: DeserializeOwned>(wire: &str, plan: &ReadPlan) -> Option<T> {
    // serde would accept a list for a struct.
    if !wire.starts_with('{') && !wire.trim_ascii_start().starts_with('{') {
        return None;
    }
    let seen = Cell::new(Seen::Nothing);
    let mut json = serde_json::Deserializer::from_str(wire);
    match T::deserialize(Strict { inner: &mut json, seen: &seen }) {
        Ok(value) if seen.get() == Seen::Nothing => json.end().ok().map(|()| value),
        _ => {
            if seen.get() == Seen::Buffered {
                plan.buffered.store(true, Ordering::Relaxed);
            }
            None
        }
    }
}

/// Whether a type has a flattened field: serde then asks for a map.
///
/// Such a type reads its fields from a buffer, where nothing can be observed.
pub(super) fn flattens<T: DeserializeOwned>() -> bool {
    let seen = Cell::new(Seen::Nothing);
    let mut json = serde_json::Deserializer::from_str("{}");
    // The result does not matter: many types do not accept an empty object.
    let _ = T::deserialize(Strict { inner: &mut json, seen: &seen });
    seen.get() == Seen::Buffered
}

/// A wrapper around an object of serde, with a place to record its actions.
struct Strict<'c, I> {
    inner: I,
    seen: &'c Cell<Seen>,
}

impl<'c, I> Strict<'c, I> {
    /// Wraps a part with the same place to record.
    #[inline]
    fn of<O>(&self, inner: O) -> Strict<'c, O> {
        Strict { inner, seen: self.seen }
    }

    /// Records that a value is buffered, and fails.
    fn buffered<T, E: Error>(&self) -> Result<T, E> {
        self.seen.set(Seen::Buffered);
        Err(E::custom("not plain"))
    }
}

/// Methods that pass a visitor on: itself, in a [`Strict`], or in a visitor of its own.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*) $(=> $wrapper:ident)*;)*) => {$(
        #[inline]
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
        deserialize_any() => Scalar;
        deserialize_f32() => Single;
        deserialize_option() => Strict;
        deserialize_newtype_struct(name: &'static str) => Strict;
        deserialize_seq() => Strict;
        deserialize_tuple(length: usize) => Strict;
        deserialize_tuple_struct(name: &'static str, length: usize) => Strict;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) => Object;
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        // A struct with a flattened field, or keys that are data: the second of two equal keys
        // would win.
        self.buffered()
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.seen.set(Seen::Unasked);
        self.inner.deserialize_ignored_any(visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Variant(self.of(visitor));
        self.inner.deserialize_str(visitor)
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Passes the parts of options, newtypes, lists and structs on, each in a wrapper again.
///
/// Which method is called is up to `serde_json`: for `deserialize_seq` only `visit_seq`, and so on.
impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.visit_some(inner)
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.visit_newtype_struct(inner)
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        let items = self.of(items);
        self.inner.visit_seq(items)
    }
}

/// The visitor of a value that its type buffers before deserializing it. Buffered values cannot be
/// observed here, so only scalars are allowed.
struct Scalar<'c, V>(Strict<'c, V>);
/// The visitor of an `f32`: `serde_json` would round a larger number to infinity.
struct Single<'c, V>(Strict<'c, V>);
/// The visitor of a struct: `serde_json` would also read a list.
struct Object<'c, V>(Strict<'c, V>);
/// The visitor of an enum: `serde_json` would also read an object.
struct Variant<'c, V>(Strict<'c, V>);

/// A visitor with some methods. All others fail, as serde's defaults do.
macro_rules! visitor {
    ($name:ident { $($body:tt)* }) => {
        impl<'de, V: Visitor<'de>> Visitor<'de> for $name<'_, V> {
            type Value = V::Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.inner.expecting(f)
            }

            $($body)*
        }
    };
}

/// Methods that pass a scalar on.
macro_rules! pass {
    ($($method:ident: $type:ty),*) => {$(
        #[inline]
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.inner.$method(value)
        }
    )*};
}

visitor!(Scalar {
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        self.0.buffered()
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        self.0.buffered()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.buffered()
    }

    pass!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128,
        visit_f64: f64, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String);
});

visitor!(Single {
    pass!(visit_i64: i64, visit_u64: u64);

    #[inline]
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        if !(value as f32).is_finite() {
            return Err(E::custom("too large for 32 bits"));
        }
        self.0.inner.visit_f64(value)
    }
});

visitor!(Object {
    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let fields = self.0.of(fields);
        self.0.inner.visit_map(fields)
    }
});

visitor!(Variant {
    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.inner.visit_enum(name.into_deserializer())
    }
});

/// The seed of an item or a field: its deserializer is wrapped.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.deserialize(inner)
    }
}

/// The items of a list: their seeds are wrapped.
impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.of(seed);
        self.inner.next_element_seed(seed)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The fields of a struct: the seeds of the values are wrapped, and the keys are not.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(seed)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.of(seed);
        self.inner.next_value_seed(seed)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}
