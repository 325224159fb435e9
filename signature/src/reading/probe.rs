//! Whether serde enforces the texts that a schema lists.
//!
//! In: a plan and a type. Out: whether every listed text is a Rust enum. An `enum` in a schema may
//! come from such an enum, which serde enforces, or from an attribute of a `String`, which accepts
//! any text. The schema is the same in both cases. So the type is deserialized up to each such
//! place, to see what it asks the deserializer for:
//!
//! ```text
//! struct Task { levels: Vec<Level> }      the place: field `levels`, then its first item
//! Task::deserialize(Way)   →  deserialize_struct   →  a map with the field `levels` only
//! Vec::deserialize(Way)    →  deserialize_seq      →  a list of one item
//! Level::deserialize(Way)  →  deserialize_enum     →  an enum; the probe ends
//! ```
//!
//! Begin with [`lists_are_enums`].

use std::cell::Cell;
use std::collections::HashSet;

use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::limits::PROBED_PLACES;
use crate::reading::read_plan::ReadPlan;
use crate::schema::graph::Id;

/// One step down into a value.
#[derive(Clone, Copy)]
enum ProbeStep<'f> {
    /// The field of a struct.
    Field(&'f str),
    /// The first item of a list or a tuple.
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

/// Whether a type asks for an enum at the end of a path.
fn is_enum<T: DeserializeOwned>(way: &[ProbeStep<'_>]) -> bool {
    let found = Cell::new(false);
    // It never returns a value: the end of the path is an error.
    let _ = T::deserialize(Way { steps: way, found: &found });
    found.get()
}

/// A deserializer that leads a type down to one place.
struct Way<'w> {
    /// The steps that are left.
    steps: &'w [ProbeStep<'w>],
    /// Set if the type asks for an enum after the last step.
    found: &'w Cell<bool>,
}

/// The error that ends every probe. It is never shown.
fn another() -> Error {
    Error::custom("the way leads elsewhere")
}

impl<'w> Way<'w> {
    /// Returns the next step, and the deserializer below it.
    fn next(&self) -> Option<(ProbeStep<'w>, Self)> {
        let (step, steps) = self.steps.split_first()?;
        Some((*step, Self { steps, found: self.found }))
    }
}

/// Goes down through options, newtypes, lists and structs, and stops at an enum.
impl<'de> Deserializer<'de> for Way<'_> {
    type Error = Error;

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct map identifier ignored_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(another())
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

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.next() {
            Some((ProbeStep::First, below)) => {
                visitor.visit_seq(SeqDeserializer::new([below].into_iter()))
            }
            _ => Err(another()),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.next() {
            Some((ProbeStep::Field(name), below)) => {
                visitor.visit_map(MapDeserializer::new([(name, below)].into_iter()))
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

impl IntoDeserializer<'_, Error> for Way<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
