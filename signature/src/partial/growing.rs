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

/// Deserializes an incomplete list, object or text, if `T` can be made of the values so far.
///
/// `T` may not accept the innermost incomplete value, such as half the name of a variant, but may
/// not need it. So a value that failed is left out, and then the value that contains it, up to the
/// requested value. A complete value that fails is not left out, because the complete answer would
/// fail too.
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

/// One attempt to deserialize.
struct Attempt {
    /// Incomplete values that start here or later are left out. Later ones are deeper.
    without: u32,
    /// The innermost incomplete value that failed.
    failed: Cell<Option<u32>>,
    /// Whether a complete value failed.
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

    /// Returns the deserializer of a part, if the part is not left out.
    fn part(&self, id: u32) -> Option<Self> {
        let may_grow = id < self.attempt.without
            && matches!(self.tree.kind(id), ValueKind::Object | ValueKind::List | ValueKind::Text);
        (self.tree.is_done(id) || may_grow).then_some(Self { id, ..*self })
    }

    fn refuse<T>(&self) -> Result<T, Error> {
        Err(Error::custom("not complete yet"))
    }

    /// Records a failure: the innermost comes first.
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

/// Complete values are deserialized by `serde_json`. Incomplete values only support the methods
/// for their own kind.
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

/// An incomplete text is given only to types that ask for a `String`. An enum may have a variant
/// that is not the final one (`in`, then `in-progress`), and a date may be valid although it is cut
/// off. A type that asks for any value may do the same.
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
        // `null` is complete, so an incomplete value is `Some`.
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
            // `serde_json` recognises its own types by name, such as `RawValue`.
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

/// A key: a text, also for maps with numbers or booleans as keys.
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

/// An absent field: an option is `None`, and every other type fails.
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
