//! The last step to the normal form: one notation for types, listed values and unions.
//!
//! Begin with [`Normal::finish`]. It runs on a schema whose parts are merged, so that all rules for
//! a value are together:
//!
//! ```text
//! {"minLength": 1}                            → {"type": "string", "minLength": 1}
//! {"type": ["object", "string"], …}           → anyOf of an object and a string
//! {"type": "string", "enum": ["a", 1]}        → {"type": "string", "enum": ["a"]}
//! anyOf [{"type": "string"}, {"type": "null"}] → {"type": ["string", "null"]}
//! ```
//!
//! A schema that no value fits becomes `false`. A union drops such members, an object such optional
//! fields.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::keywords::{
    Keywords, add_null, has_type, is_annotation, items, keyword as known, text, texts,
};
use super::super::types::{Types, type_name};
use super::Normal;
use super::merge::{types, union_of};
use crate::error::{Checked, SchemaFault, refuse};
use crate::reading::pattern::Pattern;

impl Normal<'_> {
    /// Returns the normal form of a merged schema.
    pub(super) fn finish(&mut self, schema: Value, path: &str) -> Checked<Value> {
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

    /// Finishes the members of a union, flattens `anyOf` in `anyOf`, and drops duplicates.
    fn union(&mut self, keyword: &str, mut map: Keywords, path: &str) -> Checked<Value> {
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
        nullable(&mut finished, keyword);
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

    /// Finishes a schema that is not a union or a reference.
    fn plain(&mut self, mut map: Keywords, path: &str) -> Checked<Value> {
        if self.infer && !map.contains_key("type") {
            infer(&mut map);
        }
        if !values(&mut map, path)? {
            return Ok(false.into());
        }
        one_type(&mut map);
        self.matching_patterns(&mut map, path);
        if !object(&mut map) && !without_objects(&mut map, path)? {
            return Ok(false.into());
        }
        if map.get("items") == Some(&Value::Bool(false)) && !map.contains_key("prefixItems") {
            map.shift_remove("items");
            map.insert("maxItems".into(), 0.into());
        }
        self.split(map, path)
    }

    /// Merges the schema of each declared field with those of the patterns that its name matches: both
    /// apply to the field.
    ///
    /// ```text
    /// {"properties": {"a1": {"type": "integer"}}, "patternProperties": {"^a": {"minimum": 1}}}
    /// → {"properties": {"a1": {"type": "integer", "minimum": 1}}, "patternProperties": …}
    /// ```
    /// Two schemas that cannot be merged, because one contains itself, stay as they are.
    fn matching_patterns(&mut self, map: &mut Keywords, path: &str) {
        let Some(Value::Object(patterns)) = map.get("patternProperties") else { return };
        let patterns: Vec<_> =
            patterns.iter().map(|(text, schema)| (Pattern::new(text), schema.clone())).collect();
        let Some(fields) = map.get_mut("properties").and_then(Value::as_object_mut) else { return };
        for (name, field) in fields {
            let is_match = |pattern: &Pattern| pattern.is_known() && pattern.is_match(name);
            for (_, schema) in patterns.iter().filter(|(pattern, _)| is_match(pattern)) {
                let below = format!("{path}.{name}");
                if let Ok(both) = self.merge_parts(field.clone(), schema.clone(), &below) {
                    *field = both;
                }
            }
        }
    }

    /// Splits a schema into one member for each type, if objects or lists are beside other types.
    ///
    /// ```text
    /// {"type": ["object", "string"], "properties": {…}, "minLength": 1}
    /// → anyOf [{"type": "object", "properties": {…}}, {"type": "string", "minLength": 1}]
    /// ```
    fn split(&mut self, mut map: Keywords, path: &str) -> Checked<Value> {
        let kinds = map.get("type").cloned().unwrap_or_default();
        let kinds = types(&kinds);
        let others = kinds.iter().filter(|kind| **kind != "null").count();
        if others < 2 || !kinds.iter().any(|kind| matches!(*kind, "object" | "array")) {
            beside_values(&mut map);
            return Ok(map.into());
        }
        let mut whole = map.clone();
        let mut members = Vec::new();
        for kind in kinds {
            self.spend(path)?;
            let mut member = map.clone();
            member.insert("type".into(), kind.into());
            let is_about = |keyword: &str| {
                known(keyword).is_none_or(|known| known.of.meets(Types::named(kind)))
            };
            member.retain(|keyword, _| !is_annotation(keyword) && is_about(keyword));
            beside_values(&mut member);
            members.push(Value::Object(member));
        }
        whole.retain(|keyword, _| is_annotation(keyword));
        whole.insert("anyOf".into(), members.into());
        self.union("anyOf", whole, path)
    }
}

/// Whether a schema is `{}`.
fn is_any(schema: &Value) -> bool {
    schema.as_object().is_some_and(Map::is_empty)
}

/// Merges `[X, null]` into X with the type `null`, if X has a plain type.
///
/// It does not do so beside rules that null would then have to fit.
fn nullable(members: &mut Vec<Value>, keyword: &str) {
    let [Value::Object(one), Value::Object(two)] = members.as_mut_slice() else {
        return;
    };
    let is_null = |map: &Keywords| map.len() == 1 && map.get("type") == Some(&json!("null"));
    let plain = match (is_null(one), is_null(two)) {
        (false, true) => one,
        (true, false) => two,
        _ => return,
    };
    let rules = ["const", "allOf", "not", "if"];
    // In `oneOf`, a null that both members take fits neither.
    let excluded = keyword == "oneOf" && has_type(plain, "null");
    if excluded
        || !plain.contains_key("type")
        || rules.iter().any(|keyword| plain.contains_key(*keyword))
    {
        return;
    }
    add_null(plain);
    let plain = std::mem::take(plain);
    *members = vec![plain.into()];
}

/// Sets the types of a schema without a type: those that its keywords apply to.
///
/// ```text
/// {"enum": ["a", 1]}    → type ["string", "integer"]
/// {"required": ["a"]}   → type "object"
/// {"format": "int32"}   → type "integer"
/// ```
fn infer(map: &mut Keywords) {
    let values = match (map.get("const"), map.get("enum")) {
        (Some(value), _) => std::slice::from_ref(value),
        (None, Some(Value::Array(values))) => values.as_slice(),
        _ => &[],
    };
    let mut kinds: Vec<&str> = Vec::new();
    for kind in values.iter().map(type_name) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        kinds = spoken_of(map);
    }
    let kind = match kinds.as_slice() {
        [] => return,
        [one] => json!(one),
        many => json!(many),
    };
    map.shift_insert(0, "type".into(), kind);
}

/// Returns the names of the types that the keywords apply to.
fn spoken_of(map: &Keywords) -> Vec<&'static str> {
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
    if let (true, Some(format)) = (kinds.is_empty(), text(map, "format")) {
        // OpenAPI's formats of numbers; all others are for texts.
        kinds.push(match format {
            "float" | "double" => "number",
            "int32" | "int64" => "integer",
            _ => "string",
        });
    }
    kinds
}

/// Keeps the values of `enum` and `const` that fit the type and each other; returns whether there
/// are any.
fn values(map: &mut Keywords, path: &str) -> Checked<bool> {
    let kinds = map.get("type").map_or(Types::ALL, Types::of_keyword);
    let is_whole = |value: &Value| value.as_f64().is_none_or(|number| number.fract() == 0.0);
    let fits = |value: &Value| {
        let own = kinds.common(Types::of_value(value));
        own != Types::NONE && (own != Types::INTEGER || is_whole(value))
    };
    if map.get("const").is_some_and(|value| !fits(value)) {
        return Ok(false);
    }
    let fixed = map.get("const").cloned();
    let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) else {
        return Ok(true);
    };
    if values.is_empty() {
        return refuse(SchemaFault::Malformed, path, "the enum is empty; give it values");
    }
    let mut seen = HashSet::new();
    values.retain(|value| fits(value) && seen.insert(value.to_string()));
    if values.is_empty() || fixed.is_some_and(|value| !values.contains(&value)) {
        return Ok(false);
    }
    Ok(true)
}

/// Moves the rules for lists and objects into `allOf` if such values are listed: reading compares a
/// listed value as a whole, and checks `allOf` beside it.
///
/// ```text
/// {"type": "array", "enum": [[1], [2, 3]], "maxItems": 1}
/// → {"type": "array", "enum": [[1], [2, 3]], "allOf": [{"type": "array", "maxItems": 1}]}
/// ```
fn beside_values(map: &mut Keywords) {
    let kind = map.get("type").cloned();
    let listed = map.get("const").into_iter().chain(items(map, "enum"));
    if !listed.into_iter().any(|value| value.is_array() || value.is_object()) {
        return;
    }
    let parts = Types::LIST.with(Types::OBJECT);
    let is_rule = |keyword: &str| {
        known(keyword).is_some_and(|known| known.of != Types::NONE && parts.has(known.of))
    };
    let names: Vec<String> = map.keys().filter(|keyword| is_rule(keyword)).cloned().collect();
    let mut rules: Keywords =
        names.iter().filter_map(|name| map.shift_remove_entry(name)).collect();
    if rules.is_empty() {
        return;
    }
    // A rule for one type does not exclude values of the others.
    rules.extend(kind.map(|kind| ("type".to_owned(), kind)));
    if let Some(all) = map.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        all.push(rules.into());
    }
}

/// Removes the type `object` and its rules, for a schema that no object fits; returns whether other
/// types are left. Without a type, in a constraint, all others are.
fn without_objects(map: &mut Keywords, path: &str) -> Checked<bool> {
    let Some(kind) = map.get("type") else { return Ok(true) };
    let mut kinds: Vec<Value> = types(kind).into_iter().map(Value::from).collect();
    kinds.retain(|kind| *kind != "object");
    if kinds.is_empty() {
        return Ok(false);
    }
    map.retain(|keyword, _| known(keyword).is_none_or(|known| known.of != Types::OBJECT));
    map.insert("type".into(), kinds.into());
    one_type(map);
    values(map, path)
}

/// Removes duplicates from a list of types.
///
/// ```text
/// ["integer", "number"] → "number"
/// ```
fn one_type(map: &mut Keywords) {
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
///
/// ```text
/// {"required": ["a"], "additionalProperties": S} → property `a` with the schema S
/// {"required": ["a"], "properties": {"a": false}} → no object fits
/// ```
fn object(map: &mut Keywords) -> bool {
    if map.get("required").is_some_and(|names| *names == json!([])) {
        map.shift_remove("required");
    }
    // Keys are always texts.
    let any_key = |keys: &Value| is_any(keys) || *keys == json!({"type": "string"});
    if map.get("propertyNames").is_some_and(any_key) {
        map.shift_remove("propertyNames");
    }
    let required: Vec<String> = texts(map, "required").map(str::to_owned).collect();
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
