//! From the text on the wire to a value of the contract's type.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Fault, Result, Side};
use crate::lower::{accepts_null, is_required};
use crate::once::Once;

/// What a text is read against.
pub(crate) struct Target<'a> {
    pub(crate) contract: &'a str,
    pub(crate) side: Side,
    pub(crate) schema: &'a Value,
    /// The type is written `null` but asked for as an object.
    pub(crate) unit: bool,
    /// The property that a model was asked to put the value in.
    pub(crate) wrapper: Option<&'a str>,
}

impl Target<'_> {
    pub(crate) fn read<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        // The way nearly every text goes: one pass, nothing in between.
        if !self.unit
            && self.wrapper.is_none()
            && let Ok(value) = serde_json::from_str(wire)
        {
            return Ok(value);
        }
        self.read_restored(wire)
    }

    /// Undoes what lowering did to the shape, then reads.
    fn read_restored<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        // Some servers send nothing where a tool takes no arguments.
        let text = if wire.trim().is_empty() { "{}" } else { wire };
        let Once(mut value) = serde_json::from_str(text).map_err(|error| {
            self.error(wire, Fault { path: "$".into(), message: not_json(text, &error) })
        })?;
        let mut root = String::from("$");
        if let Some(wrapper) = self.wrapper
            && let Some(inner) = value.get_mut(wrapper)
        {
            value = inner.take();
            root = format!("$.{wrapper}");
        }
        if self.unit {
            if !(value.is_object() || value.is_null()) {
                let message = format!("expected an object without fields, got {value}");
                return Err(self.error(wire, Fault { path: "$".into(), message }));
            }
            value = Value::Null;
        } else {
            drop_absent(self.schema, self.schema, &mut value);
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

/// Removes null where it stands for a field that was left out.
///
/// Strict dialects make every property required, so a model says null for one it
/// would have left out. Where the type itself takes null, null stays.
fn drop_absent(root: &Value, schema: &Value, value: &mut Value) {
    let Some(schema) = part(root, schema, value, HOPS) else {
        return;
    };
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            fields.retain(|name, field| {
                let Some(property) = properties.get(name) else {
                    return true;
                };
                !(field.is_null() && !is_required(schema, name) && !accepts_null(property))
            });
            for (name, field) in fields {
                if let Some(property) = properties.get(name) {
                    drop_absent(root, property, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| drop_absent(root, schema, item));
            }
        }
        _ => {}
    }
}

/// Enough for references and unions in each other; a circle of them ends here.
const HOPS: u8 = 16;

/// The part of a schema that speaks of a value: behind references, and of a union the
/// one member that has the value's fields.
fn part<'a>(
    root: &'a Value,
    schema: &'a Value,
    value: &Value,
    hops: u8,
) -> Option<&'a Map<String, Value>> {
    let hops = hops.checked_sub(1)?;
    let map = schema.as_object()?;
    if let Some(target) = map.get("$ref") {
        let target = root.pointer(target.as_str()?.strip_prefix('#')?)?;
        return part(root, target, value, hops);
    }
    let Some(members) = map.get("anyOf").or_else(|| map.get("oneOf")) else {
        return Some(map);
    };
    let mut fitting = members
        .as_array()?
        .iter()
        .filter_map(|member| part(root, member, value, hops))
        .filter(|member| has_fields(member, value));
    // Two that fit: null may mean something else in each.
    let only = fitting.next()?;
    fitting.next().is_none().then_some(only)
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
