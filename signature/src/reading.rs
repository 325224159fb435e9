//! From the text on the wire to a value of the contract's type.

mod once;

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Fault, Result, Side};
use crate::lowering::{accepts_null, is_required, members};
use crate::reading::once::Once;
use crate::schema::{WRAPPER, resolve};

/// A schema that texts are read against.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    pub(crate) schema: Value,
    /// Somewhere null can only stand for a field that was left out. serde may take it
    /// for something else: another member of a union, a flattened `None`.
    null_is_absent: bool,
}

impl Readable {
    pub(crate) fn new(schema: Value) -> Self {
        Self { null_is_absent: has_absent(&schema, &schema), schema }
    }
}

/// What a text is read against, and for whom.
pub(crate) struct Target<'a> {
    pub(crate) contract: &'a str,
    pub(crate) side: Side,
    /// `None` if nothing is known of the value.
    pub(crate) readable: Option<&'a Readable>,
    /// The type is written `null` but asked for as an object.
    pub(crate) unit: bool,
    /// The model was asked to put the value in [`WRAPPER`].
    pub(crate) wrapped: bool,
}

/// An object with the one property [`WRAPPER`].
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Wrapped<T> {
    // Otherwise serde would read a missing `Option` as `None`.
    #[serde(deserialize_with = "T::deserialize")]
    result: T,
}

impl Target<'_> {
    pub(crate) fn read<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        let null_is_absent = self.readable.is_some_and(|readable| readable.null_is_absent);
        // The way nearly every text goes: one pass, nothing in between.
        if !(self.unit || null_is_absent && wire.contains("null"))
            && let Some(value) = self.read_as_it_is(wire)
        {
            return Ok(value);
        }
        self.read_restored(wire)
    }

    fn read_as_it_is<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        if !self.wrapped {
            return serde_json::from_str(text).ok();
        }
        // Only an object: serde would take a list of one for it too.
        if !text.trim_start().starts_with('{') {
            return None;
        }
        serde_json::from_str(text).ok().map(|Wrapped { result }| result)
    }

    /// Undoes what lowering did to the shape, then reads.
    fn read_restored<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        // Some servers send nothing where a tool takes no arguments.
        let text = if wire.trim().is_empty() { "{}" } else { wire };
        let Once(mut value) = serde_json::from_str(text).map_err(|error| {
            self.error(wire, Fault { path: "$".into(), message: not_json(text, &error) })
        })?;
        let mut root = String::from("$");
        if self.wrapped
            && let Some(inner) = value.get_mut(WRAPPER)
        {
            value = inner.take();
            root = format!("$.{WRAPPER}");
        }
        if self.unit {
            if !(value.is_object() || value.is_null()) {
                let message = format!("expected an object without fields, got {value}");
                return Err(self.error(wire, Fault { path: "$".into(), message }));
            }
            value = Value::Null;
        } else if let Some(Readable { schema, .. }) = self.readable
            && !drop_absent(schema, schema, &mut value)
            && let Some(value) = self.read_as_it_is(text)
        {
            // The text knows numbers that the value does not: `u128`.
            return Ok(value);
        }
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = match error.path().to_string() {
                all if all == "." => root.clone(),
                below if below.starts_with('[') => format!("{root}{below}"),
                below => format!("{root}.{below}"),
            };
            self.error(wire, Fault { path, message: error.into_inner().to_string() })
        })
    }

    fn error(&self, wire: &str, mut fault: Fault) -> Error {
        shorten(&mut fault.message);
        shorten(&mut fault.path);
        Error::Reading {
            contract: self.contract.to_owned(),
            side: self.side,
            faults: vec![fault],
            raw: wire.to_owned(),
        }
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("the JSON text ends too early, after {} characters", text.chars().count());
    }
    if error.is_data() {
        return error.to_string();
    }
    format!("not JSON: {error}")
}

/// Cuts out the middle of a text that quotes a value as long as a book: the start says
/// what is wrong, the end what was expected.
fn shorten(text: &mut String) {
    const ENDS: usize = 1_000;
    if text.len() > 2 * ENDS {
        let head = text.floor_char_boundary(ENDS);
        let tail = text.ceil_char_boundary(text.len() - ENDS);
        text.replace_range(head..tail, " … ");
    }
}

/// Whether null stands for an absent field, and for nothing else, anywhere in `node`.
///
/// Looks at data too, such as a `default`: a wrong yes costs time only.
fn has_absent(root: &Value, node: &Value) -> bool {
    match node {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            properties
                .into_iter()
                .flatten()
                .any(|(name, property)| null_is_absent(root, map, name, property))
                || map.values().any(|below| has_absent(root, below))
        }
        Value::Array(items) => items.iter().any(|below| has_absent(root, below)),
        _ => false,
    }
}

/// Strict dialects make every property required, so a model says null for one it
/// would have left out. Where the type itself takes null, null is a value.
fn null_is_absent(root: &Value, object: &Map<String, Value>, name: &str, property: &Value) -> bool {
    !is_required(object, name) && !accepts_null(root, property)
}

/// Removes null where it stands for a field that was left out; whether there was one.
fn drop_absent(root: &Value, schema: &Value, value: &mut Value) -> bool {
    if !(value.is_object() || value.is_array()) {
        return false;
    }
    let Some(schema) = part(root, schema, value) else {
        return false;
    };
    let mut dropped = false;
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return false;
            };
            fields.retain(|name, field| {
                let absent = field.is_null()
                    && properties
                        .get(name)
                        .is_some_and(|property| null_is_absent(root, schema, name, property));
                dropped |= absent;
                !absent
            });
            for (name, field) in fields {
                if let Some(property) = properties.get(name) {
                    dropped |= drop_absent(root, property, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    dropped |= drop_absent(root, schema, item);
                }
            }
        }
        _ => {}
    }
    dropped
}

/// The part of a schema that speaks of a value: behind references, and of a union the
/// one member that has the value's fields.
fn part<'a>(root: &'a Value, schema: &'a Value, value: &Value) -> Option<&'a Map<String, Value>> {
    let mut only = None;
    let mut in_union = false;
    let mut waiting = vec![schema];
    // Each reference once: a union may lead back to itself many times over.
    let mut followed = HashSet::new();
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            if followed.insert(reference) {
                waiting.extend(resolve(root, reference));
            }
        } else if let Some(members) = members(map) {
            in_union = true;
            waiting.extend(members);
        } else if !in_union || has_fields(map, value) {
            // Two that fit: null may mean something else in each.
            if only.replace(map).is_some() {
                return None;
            }
        }
    }
    only
}

fn has_fields(member: &Map<String, Value>, value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let Some(properties) = member.get("properties").and_then(Value::as_object) else {
                return false;
            };
            let tagged = |(name, property): (&String, &Value)| {
                property.get("const").is_none_or(|tag| fields.get(name) == Some(tag))
            };
            fields.keys().all(|name| properties.contains_key(name)) && properties.iter().all(tagged)
        }
        Value::Array(_) => member.contains_key("items"),
        _ => false,
    }
}
