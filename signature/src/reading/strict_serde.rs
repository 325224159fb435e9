//! `serde_json` without its extensions of JSON's types: a list for a struct, an object for the name
//! of a variant, an infinite `f32`.
//!
//! A plain contract is read with this alone, so it must be fast. It only observes which methods of
//! a visitor are called.

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
    #[inline]
    fn of<O>(&self, inner: O) -> Strict<'c, O> {
        Strict { inner, seen: self.seen }
    }
}

macro_rules! forward {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )*};
}

macro_rules! wrap {
    ($($method:ident $wrapper:ident;)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = $wrapper(self.of(visitor));
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier
    }

    wrap! {
        deserialize_any Scalar;
        deserialize_f32 Single;
        deserialize_option Optional;
        deserialize_seq Listed;
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        // A struct with a flattened field, or keys that are data: the second of two equal keys
        // would win.
        self.seen.set(Seen::Buffered);
        Err(D::Error::custom("not plain"))
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.seen.set(Seen::Unasked);
        self.inner.deserialize_ignored_any(visitor)
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Newtype(self.of(visitor));
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Listed(self.of(visitor));
        self.inner.deserialize_tuple(length, visitor)
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Listed(self.of(visitor));
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Object(self.of(visitor));
        self.inner.deserialize_struct(name, fields, visitor)
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

/// A value that its type buffers before deserializing it. Buffered values cannot be observed here,
/// so only scalars are allowed.
struct Scalar<'c, V>(Strict<'c, V>);
struct Single<'c, V>(Strict<'c, V>);
struct Optional<'c, V>(Strict<'c, V>);
struct Newtype<'c, V>(Strict<'c, V>);
struct Listed<'c, V>(Strict<'c, V>);
struct Object<'c, V>(Strict<'c, V>);
struct Variant<'c, V>(Strict<'c, V>);

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
        self.0.seen.set(Seen::Buffered);
        Err(A::Error::custom("not plain"))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        self.0.seen.set(Seen::Buffered);
        Err(A::Error::custom("not plain"))
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.seen.set(Seen::Buffered);
        Err(E::custom("not plain"))
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

visitor!(Optional {
    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.inner.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.inner.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.0.of(inner);
        self.0.inner.visit_some(inner)
    }
});

visitor!(Newtype {
    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.0.of(inner);
        self.0.inner.visit_newtype_struct(inner)
    }
});

visitor!(Listed {
    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        let items = self.0.of(items);
        self.0.inner.visit_seq(items)
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

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let inner = self.of(inner);
        self.inner.deserialize(inner)
    }
}

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
