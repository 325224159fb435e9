//! The last step to the normal form: one notation for types, listed values and unions.
//!
//! It runs on a schema whose parts are merged, so that all rules for a value are together.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::keywords::{is_annotation, keyword as known};
use super::super::types::Types;
use super::merge::{types, union_of};
use super::{Normal, Refusal};
use crate::error::SchemaFault;

impl Normal<'_> {
    pub(super) fn finish(&mut self, schema: Value, path: &str) -> Result<Value, Refusal> {
        self.spend(path)?;
        let Value::Object(map) = schema else {
            return Ok(schema);
        };
        if map.contains_key("$ref") {
            return Ok(map.into());
        }
        if let Some(keyword) = union_of(&map) {
            return self.union(keyword, map, path);
        }
        let plain = self.plain(map, path)?;
        if plain == false {
            self.contradiction.get_or_insert_with(|| path.to_owned());
        }
        Ok(plain)
    }

    fn union(
        &mut self,
        keyword: &str,
        mut map: Map<String, Value>,
        path: &str,
    ) -> Result<Value, Refusal> {
        let Some(Value::Array(members)) = map.get_mut(keyword).map(Value::take) else {
            return Ok(map.into());
        };
        let mut finished: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        for member in members {
            match self.finish(member, path)? {
                Value::Bool(false) => {}
                Value::Object(mut inner)
                    if keyword == "anyOf" && inner.len() == 1 && inner.contains_key("anyOf") =>
                {
                    if let Some(Value::Array(inner)) = inner.shift_remove("anyOf") {
                        seen.extend(inner.iter().cloned());
                        finished.extend(inner);
                    }
                }
                // A duplicate has no meaning in `anyOf`; in `oneOf` it would exclude itself.
                member if keyword == "anyOf" && !seen.insert(member.clone()) => {}
                member => finished.push(member),
            }
        }
        if finished.is_empty() {
            return Ok(false.into());
        }
        if keyword == "anyOf" && finished.iter().any(is_any) {
            map.shift_remove(keyword);
            return Ok(map.into());
        }
        nullable(&mut finished);
        if finished.len() > 1 {
            map.insert(keyword.to_owned(), finished.into());
            return Ok(map.into());
        }
        map.shift_remove(keyword);
        let mut only = finished.pop().unwrap_or_default();
        if let Some(only) = only.as_object_mut() {
            only.extend(map);
        }
        Ok(only)
    }

    fn plain(&mut self, mut map: Map<String, Value>, path: &str) -> Result<Value, Refusal> {
        if self.infer && !map.contains_key("type") {
            infer(&mut map);
        }
        if !values(&mut map, path)? {
            return Ok(false.into());
        }
        one_type(&mut map);
        if !object(&mut map) {
            return Ok(false.into());
        }
        if map.get("items") == Some(&Value::Bool(false)) && !map.contains_key("prefixItems") {
            map.shift_remove("items");
            map.insert("maxItems".into(), 0.into());
        }
        self.split(map, path)
    }

    /// Splits a schema into one member for each type, if objects or lists are beside other types.
    fn split(&mut self, map: Map<String, Value>, path: &str) -> Result<Value, Refusal> {
        let kinds: Vec<String> =
            map.get("type").map(types).unwrap_or_default().into_iter().map(Into::into).collect();
        let others = kinds.iter().filter(|kind| *kind != "null").count();
        if others < 2 || !kinds.iter().any(|kind| kind == "object" || kind == "array") {
            return Ok(map.into());
        }
        let mut whole = map.clone();
        let mut members = Vec::new();
        for kind in &kinds {
            self.spend(path)?;
            let mut member = map.clone();
            member.insert("type".into(), kind.as_str().into());
            member.retain(|keyword, _| !is_annotation(keyword) && speaks_of(keyword, kind));
            members.push(Value::Object(member));
        }
        whole.retain(|keyword, _| is_annotation(keyword));
        whole.insert("anyOf".into(), members.into());
        self.union("anyOf", whole, path)
    }
}

pub(super) fn is_any(schema: &Value) -> bool {
    schema.as_object().is_some_and(Map::is_empty)
}

/// Whether a keyword applies to values of a type.
fn speaks_of(keyword: &str, kind: &str) -> bool {
    known(keyword).is_none_or(|known| known.of.meets(Types::named(kind)))
}

/// Merges `[X, null]` into X with the type `null`, if X has a plain type.
fn nullable(members: &mut Vec<Value>) {
    let [Value::Object(one), Value::Object(two)] = members.as_mut_slice() else {
        return;
    };
    let is_null =
        |map: &Map<String, Value>| map.len() == 1 && map.get("type") == Some(&json!("null"));
    let plain = match (is_null(one), is_null(two)) {
        (false, true) => one,
        (true, false) => two,
        _ => return,
    };
    let kinds = plain.get("type").map(types).unwrap_or_default();
    if kinds.is_empty() || plain.contains_key("const") || plain.contains_key("allOf") {
        return;
    }
    if plain.contains_key("not") || plain.contains_key("if") {
        return;
    }
    if !kinds.contains(&"null") {
        let kinds: Vec<_> = kinds.into_iter().chain(["null"]).map(Value::from).collect();
        plain.insert("type".into(), kinds.into());
    }
    if let Some(values) = plain.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let plain = std::mem::take(plain);
    *members = vec![plain.into()];
}

/// Sets the types of a schema without a type: those that its keywords apply to.
fn infer(map: &mut Map<String, Value>) {
    let values = match (map.get("const"), map.get("enum")) {
        (Some(value), _) => std::slice::from_ref(value),
        (None, Some(Value::Array(values))) => values.as_slice(),
        _ => &[],
    };
    let mut kinds: Vec<&str> = Vec::new();
    for kind in values.iter().map(type_of) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        kinds = spoken_of(map);
    }
    let kind: Value = match kinds.as_slice() {
        [] => return,
        [one] => (*one).into(),
        many => json!(many),
    };
    map.shift_insert(0, "type".into(), kind);
}

fn spoken_of(map: &Map<String, Value>) -> Vec<&'static str> {
    let spoken = map.keys().filter(|keyword| *keyword != "format").filter_map(|it| known(it));
    let own = spoken.map(|known| known.of).filter(|of| *of != Types::ALL);
    let spoken = own.fold(Types::NONE, Types::with);
    let names = [
        (Types::OBJECT, "object"),
        (Types::LIST, "array"),
        (Types::TEXT, "string"),
        (Types::NUMBER, "number"),
    ];
    let names = names.into_iter().filter(|(types, _)| spoken.has(*types));
    let mut kinds: Vec<_> = names.map(|(_, name)| name).collect();
    if let (true, Some(format)) = (kinds.is_empty(), map.get("format").and_then(Value::as_str)) {
        // OpenAPI's formats of numbers; all others are for texts.
        kinds.push(match format {
            "float" | "double" => "number",
            "int32" | "int64" => "integer",
            _ => "string",
        });
    }
    kinds
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of(value: &Value, kinds: &[&str]) -> bool {
    let own = type_of(value);
    let whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    kinds.contains(&own)
        || own == "integer" && kinds.contains(&"number")
        || own == "number" && kinds.contains(&"integer") && whole()
}

/// Keeps the values of `enum` and `const` that fit the type and each other; returns whether there
/// are any.
fn values(map: &mut Map<String, Value>, path: &str) -> Result<bool, Refusal> {
    let kinds: Vec<String> =
        map.get("type").map(types).unwrap_or_default().into_iter().map(Into::into).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let fits = |value: &Value| kinds.is_empty() || is_of(value, &kinds);
    if map.get("const").is_some_and(|value| !fits(value)) {
        return Ok(false);
    }
    let fixed = map.get("const").cloned();
    let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) else {
        return Ok(true);
    };
    if values.is_empty() {
        return Err(Refusal::new(
            SchemaFault::Malformed,
            path,
            "the enum is empty; give it values",
        ));
    }
    let mut seen = HashSet::new();
    values.retain(|value| fits(value) && seen.insert(value.to_string()));
    if values.is_empty() || fixed.is_some_and(|value| !values.contains(&value)) {
        return Ok(false);
    }
    Ok(true)
}

/// Removes duplicates from a list of types.
fn one_type(map: &mut Map<String, Value>) {
    let Some(Value::Array(kinds)) = map.get_mut("type") else {
        return;
    };
    let number = kinds.iter().any(|kind| kind == "number");
    let mut seen: Vec<Value> = Vec::new();
    kinds.retain(|kind| {
        let new = !(seen.contains(kind) || number && kind == "integer");
        seen.push(kind.clone());
        new
    });
    if let [one] = kinds.as_slice() {
        let one = one.clone();
        map.insert("type".into(), one);
    }
}

/// Adds schemas for required fields, and drops optional fields that no value fits; returns whether
/// any object fits.
fn object(map: &mut Map<String, Value>) -> bool {
    if map.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        map.shift_remove("required");
    }
    // Keys are always texts.
    if map
        .get("propertyNames")
        .is_some_and(|keys| is_any(keys) || *keys == json!({"type": "string"}))
    {
        map.shift_remove("propertyNames");
    }
    let required: Vec<String> = map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(ToOwned::to_owned))
        .collect();
    let rest = map.get("additionalProperties").cloned();
    let patterns = map.contains_key("patternProperties");
    let closed = rest == Some(Value::Bool(false)) && !patterns;
    let mut unknown = Vec::new();
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        if required.iter().any(|name| properties.get(name) == Some(&Value::Bool(false))) {
            return false;
        }
        if closed {
            properties.retain(|_, schema| *schema != false);
        }
        unknown.extend(required.iter().filter(|name| !properties.contains_key(*name)).cloned());
    } else {
        unknown = required;
    }
    if unknown.is_empty() {
        return true;
    }
    match rest {
        Some(Value::Bool(false)) => patterns,
        Some(rest @ Value::Object(_)) if !patterns && !is_any(&rest) => {
            let properties = map.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.extend(unknown.into_iter().map(|name| (name, rest.clone())));
            }
            true
        }
        _ => true,
    }
}
