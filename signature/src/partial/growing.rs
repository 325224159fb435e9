//! Deserializing values that are not complete yet.

use std::cell::Cell;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::tree::{Tree, ValueKind};

/// The value of a list, an object or a text that still grows, as far as `T` can be made
/// of what is there.
///
/// `T` may have no use for the innermost of what grows, such as half the name of a
/// variant, but be content without it. So what failed is left out, and then what holds
/// it, up to the value asked for. What is complete and does not fit is not left out: the
/// whole will not fit either.
pub(super) fn read<T: DeserializeOwned>(tree: &Tree, id: u32) -> Option<T> {
    let mut without = u32::MAX;
    loop {
        let attempt = Attempt { without, failed: Cell::new(None), misfit: Cell::new(false) };
        match T::deserialize(Value { tree, id, attempt: &attempt }) {
            Ok(value) => return Some(value),
            Err(_) if attempt.misfit.get() => return None,
            Err(_) => without = attempt.failed.get().filter(|failed| *failed > id)?,
        }
    }
}

/// One try at reading.
struct Attempt {
    /// What grows and is as new as this, or newer, is left out. The newer, the deeper.
    without: u32,
    /// The innermost that grows and did not do.
    failed: Cell<Option<u32>>,
    /// Something complete did not do.
    misfit: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Value<'a> {
    tree: &'a Tree,
    id: u32,
    attempt: &'a Attempt,
}

impl<'a> Value<'a> {
    fn is_done(&self) -> bool {
        self.tree.is_done(self.id)
    }

    /// A part of this one, if there is something to be made of it.
    fn part(&self, id: u32) -> Option<Self> {
        let may_grow = id < self.attempt.without
            && matches!(self.tree.kind(id), ValueKind::Object | ValueKind::List | ValueKind::Text);
        (self.tree.is_done(id) || may_grow).then_some(Self { id, ..*self })
    }

    fn refuse<T>(&self) -> Result<T, Error> {
        Err(Error::custom("not complete yet"))
    }

    /// Notes what did not do: the innermost comes first.
    fn noting<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() && self.is_done() {
            self.attempt.misfit.set(true);
        } else if result.is_err() && self.attempt.failed.get().is_none() {
            self.attempt.failed.set(Some(self.id));
        }
        result
    }

    fn list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree.kind(self.id) {
            ValueKind::List => visitor.visit_seq(Items { list: self, next: 0 }),
            _ => self.refuse(),
        }
    }

    fn object<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree.kind(self.id) {
            ValueKind::Object => visitor.visit_map(Fields { object: self, next: 0, value: None }),
            _ => self.refuse(),
        }
    }

    fn text<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree.kind(self.id) {
            ValueKind::Text => visitor.visit_str(self.tree.string(self.id)),
            _ => self.refuse(),
        }
    }
}

/// What is complete is `serde_json`'s; of what grows, each is given what it asks for by
/// this method or none.
macro_rules! deserialize {
    ($($method:ident($($argument:ident: $type:ty),*) $(=> $growing:ident)?;)*) => {$(
        fn $method<V: Visitor<'a>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, Error> {
            if self.is_done() {
                let mut whole = serde_json::Deserializer::from_str(self.tree.slice(self.id));
                return self.noting((&mut whole).$method($($argument,)* visitor));
            }
            self.noting(deserialize!(self visitor $($growing)?))
        }
    )*};
    ($self:ident $visitor:ident $growing:ident) => { $self.$growing($visitor) };
    ($self:ident $visitor:ident) => {{ drop($visitor); $self.refuse() }};
}

/// A growing text is given to what asks for a `String` and to nothing else. An enum may
/// have a variant that the text will not end with (`in`, then `in-progress`), a date
/// may be cut off and still be one, and what asks for anything may look at it in the
/// same ways.
impl<'a> Deserializer<'a> for Value<'a> {
    type Error = Error;

    deserialize! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string() => text;
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_seq() => list;
        deserialize_tuple(len: usize) => list;
        deserialize_tuple_struct(name: &'static str, len: usize) => list;
        deserialize_map() => object;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) => object;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        // `null` is complete, so what grows is something.
        if self.is_done() && self.tree.kind(self.id) == ValueKind::Null {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.is_done() {
            // By its name `serde_json` knows its own, such as `RawValue`.
            let mut whole = serde_json::Deserializer::from_str(self.tree.slice(self.id));
            return self.noting(whole.deserialize_newtype_struct(name, visitor));
        }
        self.noting(visitor.visit_newtype_struct(self))
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

struct Items<'a> {
    list: Value<'a>,
    next: usize,
}

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let items = self.list.tree.children(self.list.id);
        let item = items.get(self.next).and_then(|id| self.list.part(*id));
        self.next += 1;
        item.map(|item| seed.deserialize(item)).transpose()
    }
}

struct Fields<'a> {
    object: Value<'a>,
    next: usize,
    value: Option<Value<'a>>,
}

impl<'a> MapAccess<'a> for Fields<'a> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'a>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let tree = self.object.tree;
        let key = tree.children(self.object.id).get(self.next).copied();
        self.next += 1;
        self.value = key.and_then(|key| tree.value(key)).and_then(|id| self.object.part(id));
        let key = key.filter(|_| self.value.is_some());
        key.map(|key| seed.deserialize(Key(tree.string(key)))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some(value) = self.value.take() else {
            return self.object.refuse();
        };
        seed.deserialize(value)
    }
}

/// A key: a text, also where a map has numbers or booleans for keys.
struct Key<'a>(&'a str);

macro_rules! deserialize_key {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            if self.0.trim_ascii() != self.0 {
                return Err(Error::custom("space in a key that is no text"));
            }
            let mut key = serde_json::Deserializer::from_str(self.0);
            let value = (&mut key).$method(visitor)?;
            key.end().map(|()| value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    deserialize_key! {
        deserialize_bool
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let key: StrDeserializer<'_, Error> = self.0.into_deserializer();
        key.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// The value of a field that is not there: an option is `None`, all else has none.
pub(super) fn absent<T: DeserializeOwned>() -> Option<T> {
    T::deserialize(Absent).ok()
}

struct Absent;

impl<'de> Deserializer<'de> for Absent {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not there"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}
