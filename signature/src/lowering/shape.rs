//! What kind of value a schema of the normal form speaks of.
//!
//! Lowering a schema and lowering a value ask here, so that they cannot disagree.

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::limits::HOPS;
use crate::schema::{DEFINITIONS, resolve};
use crate::wire_shapes::{KEY, VALUE};

pub(crate) type Schema = Map<String, Value>;

pub(crate) enum Shape<'a> {
    /// Anything at all, an object of anything included.
    Any,
    /// What the reference leads to.
    Reference(&'a str),
    /// One of several.
    Union(&'a [Value]),
    /// Values that are listed, all the rest aside.
    Values(Vec<&'a Value>),
    /// An object whose fields all have names.
    Struct(Struct<'a>),
    /// An object of any fields that fit.
    Map(Pairs<'a>),
    /// A list with a schema for each place.
    Tuple(&'a [Value]),
    /// A list of any length.
    List(Option<&'a Value>),
    /// Text, number, boolean or null.
    Scalar,
}

pub(crate) struct Struct<'a> {
    schema: &'a Schema,
    pub(crate) properties: Option<&'a Schema>,
    /// Made when first asked for: most who ask for a shape do not ask for it.
    required: OnceCell<HashSet<&'a str>>,
}

/// What fields without a name of their own may be: a key beside a value.
pub(crate) struct Pairs<'a> {
    /// One for each pattern of keys.
    pub(crate) kinds: Vec<(Value, &'a Value)>,
}

impl<'a> Shape<'a> {
    pub(crate) fn of(schema: &'a Schema) -> Self {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return Self::Reference(reference);
        }
        if let Some(members) = members(schema) {
            return Self::Union(members);
        }
        if let Some(values) = listed(schema) {
            return Self::Values(values);
        }
        if has_type(schema, "object") {
            return object(schema);
        }
        if has_type(schema, "array") {
            return list(schema);
        }
        if schema.contains_key("type") { Self::Scalar } else { Self::Any }
    }
}

fn object(schema: &Schema) -> Shape<'_> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let this = Struct { schema, properties, required: OnceCell::new() };
    if properties.is_some_and(|properties| !properties.is_empty()) {
        return Shape::Struct(this);
    }
    match (this.pairs(), schema.get("additionalProperties")) {
        (Some(pairs), _) => Shape::Map(pairs),
        (None, None) if properties.is_none() => Shape::Any,
        _ => Shape::Struct(this),
    }
}

fn list(schema: &Schema) -> Shape<'_> {
    let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if first.is_empty() {
        return Shape::List(schema.get("items"));
    }
    Shape::Tuple(first)
}

impl<'a> Struct<'a> {
    /// What fields it may have beside its own; nothing is said where nothing is written.
    pub(crate) fn pairs(&self) -> Option<Pairs<'a>> {
        let own_key = self.schema.get("propertyNames");
        let text = || json!({"type": "string"});
        let mut kinds = Vec::new();
        let patterns = self.schema.get("patternProperties").and_then(Value::as_object);
        for (pattern, value) in patterns.into_iter().flatten() {
            if *value != Value::Bool(false) {
                kinds.push((json!({"type": "string", "pattern": pattern}), value));
            }
        }
        let rest = self.schema.get("additionalProperties");
        if let Some(rest) = rest.filter(|rest| **rest != Value::Bool(false)) {
            kinds.push((own_key.cloned().unwrap_or_else(text), rest));
        }
        (!kinds.is_empty()).then_some(Pairs { kinds })
    }

    pub(crate) fn requires(&self, name: &str) -> bool {
        self.required.get_or_init(|| required(self.schema).collect()).contains(name)
    }
}

impl Pairs<'_> {
    /// Whether nothing is said of the values.
    pub(crate) fn are_any(&self) -> bool {
        self.kinds.iter().any(|(_, value)| is_any(value))
    }
}

/// Whether a tuple says what follows its places.
pub(crate) fn goes_on(schema: &Schema, places: usize) -> bool {
    let ends = schema.get("maxItems").and_then(Value::as_u64) == Some(places as u64);
    !ends && !matches!(schema.get("items"), None | Some(Value::Bool(false)))
}

/// Whether a tuple may stop before its last place.
pub(crate) fn stops_early(schema: &Schema, places: usize) -> bool {
    schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) < places as u64
}

fn is_any(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => matches!(Shape::of(map), Shape::Any),
        other => *other == Value::Bool(true),
    }
}

/// The members of a union.
pub(crate) fn members(schema: &Schema) -> Option<&[Value]> {
    schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array().map(Vec::as_slice)
}

/// The values of `const` or `enum`.
pub(crate) fn listed(schema: &Schema) -> Option<Vec<&Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only]);
    }
    Some(schema.get("enum")?.as_array()?.iter().collect())
}

pub(crate) fn has_type(schema: &Schema, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

pub(crate) fn required(schema: &Schema) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether some value that `is` tells of may fit a schema: its unions and references
/// followed, each once.
pub(crate) fn may(root: &Value, schema: &Value, is: &impl Fn(&Schema) -> bool) -> bool {
    let mut waiting = vec![schema];
    let mut followed: Vec<&str> = Vec::new();
    while let Some(schema) = waiting.pop() {
        let Value::Object(map) = schema else {
            continue;
        };
        match Shape::of(map) {
            Shape::Reference(reference) => {
                if followed.contains(&reference) {
                    continue;
                }
                if followed.len() >= HOPS {
                    return true;
                }
                followed.push(reference);
                waiting.extend(resolve(root, reference));
            }
            Shape::Union(members) => waiting.extend(members),
            Shape::Any => return true,
            _ => {
                if is(map) {
                    return true;
                }
            }
        }
    }
    false
}

/// Whether null fits.
pub(crate) fn takes_null(root: &Value, schema: &Value) -> bool {
    may(root, schema, &|map| match listed(map) {
        Some(values) => values.iter().any(|value| value.is_null()),
        None => has_type(map, "null"),
    })
}

/// Whether a list may fit.
pub(crate) fn takes_list(root: &Value, schema: &Value) -> bool {
    may(root, schema, &|map| has_type(map, "array"))
}

/// Whether a list may fit whose items are pairs: it could not be told from a map.
pub(crate) fn takes_pairs(root: &Value, schema: &Value) -> bool {
    let pair = |map: &Schema| match Shape::of(map) {
        Shape::Struct(Struct { properties: Some(properties), .. }) => {
            [KEY, VALUE].iter().all(|name| properties.contains_key(*name))
        }
        Shape::Map(_) => true,
        _ => false,
    };
    may(root, schema, &|map| match Shape::of(map) {
        Shape::List(Some(items)) => may(root, items, &pair),
        Shape::List(None) => true,
        Shape::Tuple(items) => items.iter().all(|item| may(root, item, &pair)),
        _ => false,
    })
}

/// Whether an object may fit that has `field` and needs none but those that `known` knows:
/// what is written with these fields in a dialect could be taken for it.
pub(crate) fn takes_object(
    root: &Value,
    schema: &Value,
    field: &str,
    known: &impl Fn(&str) -> bool,
) -> bool {
    may(root, schema, &|map| {
        let needed = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let own = map.get("properties").is_some_and(|own| own.get(field).is_some());
        let further = own || map.get("additionalProperties") != Some(&Value::Bool(false));
        has_type(map, "object") && further && needed.filter_map(Value::as_str).all(known)
    })
}

/// The definitions of a root.
pub(crate) fn definitions(root: &Value) -> Option<&Schema> {
    root.get(DEFINITIONS)?.as_object()
}
