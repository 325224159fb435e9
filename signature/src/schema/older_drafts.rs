//! Schemas of older drafts and OpenAPI, rewritten with the keywords of JSON Schema 2020-12.
//!
//! Begin with [`modernise`]. Keywords that 2020-12 has renamed or forbids are rewritten, and all
//! others stay unchanged. The result is the public schema of a contract:
//!
//! ```text
//! draft 3     {"properties": {"a": {"required": true}}} → {"required": ["a"], …}
//! draft 4     {"minimum": 0, "exclusiveMinimum": true}  → {"exclusiveMinimum": 0}
//! draft 7     {"items": [A, B], "additionalItems": C}   → {"prefixItems": [A, B], "items": C}
//!             {"definitions": {…}}                      → {"$defs": {…}}
//! 2019-09     {"$recursiveRef": "#"}                    → {"$ref": "#"}
//! OpenAPI 3.0 {"type": "string", "nullable": true}      → {"type": ["string", "null"]}
//! ```
//!
//! References by name (`$id`, `$anchor`) become references by pointer, so that later steps know one
//! kind.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::keywords::{DEFINITIONS, Keywords, add_null, below, below_mut, is_count};
use super::{free_name, redirect, reference_to};

/// Whether the value of a keyword may be null. For other keywords, null is Go's way to write an
/// empty list, and has no meaning.
pub(super) fn may_be_null(keyword: &str) -> bool {
    matches!(keyword, "const" | "default" | "example" | "examples")
}

/// Rewrites keywords that 2020-12 has renamed or forbids; all others stay unchanged.
///
/// Sources: the release notes of drafts 4 to 2020-12; OpenAPI 3.0, "Schema Object", for
/// `nullable`.
pub(crate) fn modernise(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    each(root);
    let places = places(schema);
    if !places.is_empty() {
        redirect(schema, &|reference| local(&places, reference));
    }
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    let moved = move_definitions(root);
    if !moved.is_empty() {
        redirect(schema, &|reference| {
            moved.iter().find_map(|(from, to)| {
                let rest = reference.strip_prefix(from.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
            })
        });
    }
}

/// Rewrites a foreign schema, and sets its `$schema` to 2020-12 if anything changed.
///
/// A schema without changes keeps its `$schema`.
pub(crate) fn modernise_marked(schema: &mut Value) {
    /// The `$schema` of 2020-12.
    const MODERN: &str = "https://json-schema.org/draft/2020-12/schema";
    let older = schema.get("$schema").is_some_and(|marker| marker != MODERN);
    let before = older.then(|| schema.clone());
    modernise(schema);
    if before.is_some_and(|before| before != *schema)
        && let Some(marker) = schema.get_mut("$schema")
    {
        *marker = MODERN.into();
    }
}

/// Rewrites a schema and all schemas below it.
fn each(map: &mut Keywords) {
    map.retain(|keyword, value| !value.is_null() || may_be_null(keyword));
    lift_required(map);
    once(map, "required");
    once(map, "type");
    whole(map);
    tuple(map);
    exclusive(map, "exclusiveMinimum", "minimum");
    exclusive(map, "exclusiveMaximum", "maximum");
    dependencies(map);
    for dynamic in ["$recursiveRef", "$dynamicRef"] {
        if let Some(target) = map.shift_remove(dynamic) {
            map.entry("$ref").or_insert(target);
        }
    }
    for below in below_mut(map) {
        if let Some(below) = below.as_object_mut() {
            each(below);
        }
    }
    nullable(map);
}

/// Moves draft 3's `required: true` from a property to the object.
///
/// ```text
/// {"properties": {"a": {"type": "string", "required": true}}}
/// → {"properties": {"a": {"type": "string"}}, "required": ["a"]}
/// ```
fn lift_required(map: &mut Keywords) {
    let mut lifted = Vec::new();
    for (name, property) in
        map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        if property.get("required").is_some_and(Value::is_boolean)
            && property.shift_remove("required") == Some(Value::Bool(true))
        {
            lifted.push(Value::from(name.clone()));
        }
    }
    if map.get("required").is_some_and(Value::is_boolean) {
        map.shift_remove("required");
    }
    if !lifted.is_empty()
        && let Some(required) = map.entry("required").or_insert_with(|| json!([])).as_array_mut()
    {
        required.extend(lifted);
    }
}

/// Removes duplicates from a list: they have no meaning, and validators reject them.
fn once(map: &mut Keywords, keyword: &str) {
    if let Some(list) = map.get_mut(keyword).and_then(Value::as_array_mut) {
        let mut seen = HashSet::new();
        list.retain(|one| seen.insert(one.clone()));
    }
}

/// Converts counts such as `2.0`: an integer in JSON Schema, but not for most parsers.
fn whole(map: &mut Keywords) {
    for (keyword, value) in map {
        if let Some(count) = value.as_f64().filter(|_| value.is_f64() && is_count(keyword)) {
            // A larger count than the largest integer has the same effect.
            *value = (count as u64).into();
        }
    }
}

/// Rewrites tuples: until 2019-09 a tuple was a list under `items`.
///
/// ```text
/// {"items": [A, B], "additionalItems": C} → {"prefixItems": [A, B], "items": C}
/// ```
fn tuple(map: &mut Keywords) {
    if map.get("items").is_some_and(Value::is_array) {
        let old = std::mem::take(map);
        for (keyword, value) in old {
            let keyword = match keyword.as_str() {
                "items" => "prefixItems".to_owned(),
                "additionalItems" => "items".to_owned(),
                _ => keyword,
            };
            map.insert(keyword, value);
        }
    } else {
        // Beside a schema for all items, it never had a meaning.
        map.shift_remove("additionalItems");
    }
}

/// Rewrites draft 4's `exclusiveMinimum: true` beside `minimum`; without `minimum` it has no
/// meaning.
///
/// ```text
/// {"minimum": 0, "exclusiveMinimum": true}  → {"exclusiveMinimum": 0}
/// {"minimum": 0, "exclusiveMinimum": false} → {"minimum": 0}
/// ```
fn exclusive(map: &mut Keywords, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = map.get(exclusive) else {
        return;
    };
    let is_exclusive = *is_exclusive;
    map.shift_remove(exclusive);
    if is_exclusive && let Some(value) = map.shift_remove(bound) {
        map.insert(exclusive.into(), value);
    }
}

/// Splits `dependencies`: until 2019-09 it contained both required fields and schemas.
///
/// ```text
/// {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}
/// → {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}
/// ```
fn dependencies(map: &mut Keywords) {
    let Some(Value::Object(old)) = map.shift_remove("dependencies") else {
        return;
    };
    for (name, needed) in old {
        let keyword = if needed.is_array() { "dependentRequired" } else { "dependentSchemas" };
        if let Some(all) = map.entry(keyword).or_insert_with(|| json!({})).as_object_mut() {
            all.insert(name, needed);
        }
    }
}

/// Rewrites `nullable`: OpenAPI 3.0 has no type `null`.
///
/// ```text
/// {"type": "string", "enum": ["a"], "nullable": true} → {"type": ["string", "null"], "enum": ["a", null]}
/// {"$ref": "#/$defs/A", "nullable": true}             → {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}
/// ```
fn nullable(map: &mut Keywords) {
    if !map.get("nullable").is_some_and(Value::is_boolean)
        || map.shift_remove("nullable") != Some(Value::Bool(true))
    {
        return;
    }
    if map.contains_key("type") || map.contains_key("enum") {
        return add_null(map);
    }
    let mut told = Map::new();
    for annotation in ["description", "default", DEFINITIONS, "definitions"] {
        told.extend(map.shift_remove_entry(annotation));
    }
    let inner = std::mem::take(map);
    map.insert("anyOf".into(), json!([inner, {"type": "null"}]));
    map.extend(told);
}

/// Moves definitions to `$defs`, which is their keyword since 2019-09; returns the old and the new
/// pointers.
///
/// If both keywords have a definition of one name, the moved one gets a number.
fn move_definitions(root: &mut Keywords) -> Vec<(String, String)> {
    let free = root.get(DEFINITIONS).is_none_or(Value::is_object);
    if !free || !root.get("definitions").is_some_and(Value::is_object) {
        return Vec::new();
    }
    let old = root.shift_remove("definitions").unwrap_or_default();
    let (Value::Object(old), Some(definitions)) =
        (old, root.entry(DEFINITIONS).or_insert_with(|| json!({})).as_object_mut())
    else {
        return Vec::new();
    };
    let mut moved = Vec::new();
    for (name, definition) in old {
        let new = free_name(&name, &mut 1, |name| definitions.contains_key(name));
        if new != name {
            let from = reference_to(&name).replacen(DEFINITIONS, "definitions", 1);
            moved.push((from, reference_to(&new)));
        }
        definitions.insert(new, definition);
    }
    moved.push(("#/definitions".to_owned(), format!("#/{DEFINITIONS}")));
    moved
}

/// Converts a reference by name to a reference by pointer.
fn local(places: &HashMap<String, String>, reference: &str) -> Option<String> {
    if let Some(pointer) = places.get(reference) {
        return Some(format!("#{pointer}"));
    }
    let (name, below) = reference.split_once('#').filter(|(name, _)| !name.is_empty())?;
    let pointer = places.get(name)?;
    if below.is_empty() || below.starts_with('/') {
        return Some(format!("#{pointer}{below}"));
    }
    Some(format!("#{}", places.get(&format!("#{below}"))?))
}

/// Returns the pointers of the names in a schema: `#anchor` or an `$id`. An `$id` is removed if
/// references below it would start there.
///
/// ```text
/// {"$defs": {"A": {"$anchor": "node", …}}} → {"#node": "/$defs/A"}
/// ```
fn places(root: &mut Value) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut waiting = vec![(root, String::new())];
    while let Some((schema, pointer)) = waiting.pop() {
        let Some(map) = schema.as_object_mut() else {
            continue;
        };
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = map.get(keyword) {
                found.entry(format!("#{anchor}")).or_insert_with(|| pointer.clone());
            }
        }
        let id = if pointer.is_empty() { map.get("$id").cloned() } else { map.shift_remove("$id") };
        if let Some(Value::String(id)) = id {
            found.entry(id.trim_end_matches('#').to_owned()).or_insert_with(|| pointer.clone());
        }
        waiting.extend(with_pointers(map, &pointer));
    }
    found
}

/// Returns the schemas directly below one, each with its JSON pointer.
fn with_pointers<'a>(map: &'a mut Keywords, pointer: &str) -> Vec<(&'a mut Value, String)> {
    let mut steps = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (keyword, name, _) in below(map) {
        let count = counts.entry(keyword).or_default();
        let is_list = map.get(keyword).is_some_and(Value::is_array);
        let name = name.map(|name| name.replace('~', "~0").replace('/', "~1"));
        let step = name.or_else(|| is_list.then(|| count.to_string()));
        *count += 1;
        steps.push((keyword.to_owned(), step));
    }
    let below = below_mut(map).into_iter().zip(steps);
    let pointed = below.map(|(schema, (keyword, step))| {
        let step = step.map(|step| format!("/{step}")).unwrap_or_default();
        (schema, format!("{pointer}/{keyword}{step}"))
    });
    pointed.collect()
}
