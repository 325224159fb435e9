//! Deserializing values that are not complete yet.
//!
//! In: a value in the [`Tree`] that still grows. Out: a `T` of the parts so far, if there is one:
//!
//! ```text
//! received: {"rows": [{"name": "Ta", "state": "in-pro
//!
//! String at rows[0].name     →  "Ta" is complete
//! Vec<Row> at rows           →  [Row { name: "Ta", state: None }], if `state` is an option
//! Vec<Row> at rows           →  [], if `state` is a required enum: half its name may be wrong
//! u32 at rows                →  nothing
//! ```
//!
//! Begin with [`read`]. It is a serde deserializer over the tree: complete parts are given to
//! `serde_json`, and of incomplete ones only texts, lists and objects are offered.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::Error;

use super::tree::Tree;
use crate::reading::tokenizer::TokenKind;

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

/// The deserializer of one value.
#[derive(Clone, Copy)]
struct Value<'a> {
    tree: &'a Tree,
    id: u32,
    attempt: &'a Attempt,
}

impl<'a> Value<'a> {
    /// Whether the value is complete.
    fn is_done(&self) -> bool {
        self.tree.is_done(self.id)
    }

    /// Returns the deserializer of a part, if the part is not left out.
    ///
    /// Numbers, booleans and null are left out until they are complete: `12` may become `125`.
    fn part(&self, id: u32) -> Option<Self> {
        let may_grow = id < self.attempt.without
            && matches!(self.tree.kind(id), TokenKind::Object | TokenKind::List | TokenKind::Text);
        (self.tree.is_done(id) || may_grow).then_some(Self { id, ..*self })
    }

    /// Fails, because the type asks for a value that is not complete.
    fn refuse<T>(&self) -> Result<T, Error> {
        Err(Error::custom("not complete yet"))
    }

    /// Records a failure: the innermost comes first.
    ///
    /// A complete value that fails ends all attempts: the complete answer would fail too.
    fn noting<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() && self.is_done() {
            self.attempt.misfit.set(true);
        } else if result.is_err() && self.attempt.failed.get().is_none() {
            self.attempt.failed.set(Some(self.id));
        }
        result
    }

    /// Offers the parts so far, if the value is of the kind that the type asks for.
    fn growing<V: Visitor<'a>>(self, kind: TokenKind, visitor: V) -> Result<V::Value, Error> {
        match kind {
            _ if kind != self.tree.kind(self.id) => self.refuse(),
            TokenKind::List => visitor.visit_seq(Items { list: self, next: 0 }),
            TokenKind::Object => visitor.visit_map(Fields { object: self, next: 0, value: None }),
            _ => visitor.visit_str(self.tree.string(self.id)),
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
            self.noting(deserialize!(=> self visitor $($growing)?))
        }
    )*};
    ($($method:ident)*) => { deserialize! { $($method();)* } };
    (=> $self:ident $visitor:ident $growing:ident) => { $self.growing(TokenKind::$growing, $visitor) };
    (=> $self:ident $visitor:ident) => {{ drop($visitor); $self.refuse() }};
}

/// An incomplete text is given only to types that ask for a `String`. An enum may have a variant
/// that is not the final one (`in`, then `in-progress`), and a date may be valid although it is cut
/// off. A type that asks for any value may do the same.
impl<'a> Deserializer<'a> for Value<'a> {
    type Error = Error;

    deserialize! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier
    }

    deserialize! {
        deserialize_string() => Text;
        deserialize_unit_struct(name: &'static str);
        deserialize_seq() => List;
        deserialize_tuple(len: usize) => List;
        deserialize_tuple_struct(name: &'static str, len: usize) => List;
        deserialize_map() => Object;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) => Object;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        // `null` is complete, so an incomplete value is `Some`.
        if self.is_done() && self.tree.kind(self.id) == TokenKind::Null {
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

/// The items of an incomplete list.
struct Items<'a> {
    list: Value<'a>,
    /// The index of the next item.
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

/// The fields of an incomplete object.
struct Fields<'a> {
    object: Value<'a>,
    /// The index of the next key.
    next: usize,
    /// The value of the last key.
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
        let Some(key) = key.filter(|_| self.value.is_some()) else {
            return Ok(None);
        };
        let object = serde_json::Map::from_iter([(tree.string(key).to_owned(), true.into())]);
        object.deserialize_map(Key(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some(value) = self.value.take() else {
            return self.object.refuse();
        };
        seed.deserialize(value)
    }
}

/// Deserializes a key as `serde_json` does, also into numbers, booleans and enums: from an object
/// with this key only.
struct Key<S>(S);

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Key<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let key = object.next_key_seed(self.0)?;
        object.next_value::<IgnoredAny>().map(|_| key)
    }
}

/// Returns the value of an absent field: an option is `None`, and every other type has none.
pub(super) fn absent<T: DeserializeOwned>() -> Option<T> {
    #[derive(serde::Deserialize)]
    struct Parent<T> {
        field: T,
    }
    serde_json::from_str("{}").ok().map(|parent: Parent<T>| parent.field)
}
