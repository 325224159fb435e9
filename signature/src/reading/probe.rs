//! Whether serde enforces the texts that a schema lists.
//!
//! An `enum` in a schema may come from a Rust enum, which serde enforces, or from an attribute of a
//! `String`, which accepts any text. The schema is the same in both cases. So the type is
//! deserialized up to each such place, to see what it asks the deserializer for.

use std::cell::Cell;
use std::collections::HashSet;

use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};

use crate::limits::PROBED_PLACES;
use crate::reading::read_plan::ReadPlan;
use crate::schema::graph::Id;

/// One step down into a value.
#[derive(Clone, Copy)]
enum ProbeStep<'f> {
    Field(&'f str),
    First,
}

/// Whether every list of texts in a plain schema is an enum in `T`.
///
/// Also `false` if this cannot be determined, such as behind the first position of a tuple. The
/// schema is then checked, which is always correct.
pub(super) fn lists_are_enums<T: DeserializeOwned>(plan: &ReadPlan) -> bool {
    let mut seen = HashSet::from([plan.root()]);
    let mut waiting: Vec<(Id, Vec<ProbeStep<'_>>)> = vec![(plan.root(), Vec::new())];
    let mut places = 0;
    while let Some((id, way)) = waiting.pop() {
        let node = plan.node(id);
        let fields =
            node.object.fields.iter().map(|field| (ProbeStep::Field(&field.name), field.node));
        let items = node.list.items.map(|id| (ProbeStep::First, id));
        let first = node.list.prefix.first().map(|id| (ProbeStep::First, *id));
        if node.list.prefix.iter().skip(1).any(|id| plan.lists_below(*id)) {
            return false;
        }
        for (step, below) in fields.chain(items).chain(first) {
            let mut way = way.clone();
            way.push(step);
            if plan.node(below).values.is_some() {
                places += 1;
                if places > PROBED_PLACES || !is_enum::<T>(&way) {
                    return false;
                }
            } else if seen.insert(below) {
                waiting.push((below, way));
            }
        }
    }
    true
}

fn is_enum<T: DeserializeOwned>(way: &[ProbeStep<'_>]) -> bool {
    let found = Cell::new(false);
    // It never returns a value: the end of the path is an error.
    let _ = T::deserialize(Way { steps: way, found: &found });
    found.get()
}

/// A deserializer that leads a type down to one place.
struct Way<'w> {
    steps: &'w [ProbeStep<'w>],
    found: &'w Cell<bool>,
}

fn another() -> Error {
    Error::custom("the way leads elsewhere")
}

impl<'w> Way<'w> {
    fn next(&self) -> Option<(ProbeStep<'w>, Self)> {
        let (step, steps) = self.steps.split_first()?;
        Some((*step, Self { steps, found: self.found }))
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.next() {
            Some((ProbeStep::First, below)) => {
                visitor.visit_seq(Only { name: None, below: Some(below) })
            }
            _ => Err(another()),
        }
    }
}

macro_rules! refuse {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(another())
        }
    )*};
}

impl<'de> Deserializer<'de> for Way<'_> {
    type Error = Error;

    refuse! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_unit deserialize_map deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: V,
    ) -> Result<V::Value, Error> {
        Err(another())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.next() {
            Some((ProbeStep::Field(name), below)) => {
                visitor.visit_map(Only { name: Some(name), below: Some(below) })
            }
            _ => Err(another()),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.found.set(self.steps.is_empty());
        Err(another())
    }
}

/// An object or a list with one value.
struct Only<'w> {
    name: Option<&'w str>,
    below: Option<Way<'w>>,
}

impl<'de> MapAccess<'de> for Only<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.below.take().map_or_else(|| Err(another()), |below| seed.deserialize(below))
    }
}

impl<'de> SeqAccess<'de> for Only<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.below.take().map(|below| seed.deserialize(below)).transpose()
    }
}
