//! From a Rust type or a foreign schema to the schema that a contract keeps, and on to its
//! graph.
//!
//! This file makes the schema of a type from what schemars says and adds what schemars leaves
//! out. The submodules are the steps after it, in order:
//!
//! 1. `check` refuses a foreign schema with keywords of the wrong kind,
//! 2. `older_drafts` rewrites older drafts and OpenAPI in the words of JSON Schema 2020-12,
//! 3. `fold` writes the schema of a recursive type once,
//! 4. `normal` brings a schema to the normal form: one way to say each thing,
//! 5. [`graph`] makes the typed graph that reading, lowering and comparing read.
//!
//! [`keywords`] is the table of keywords for all of them, [`types`] the set of JSON types.

mod check;
mod fold;
pub(crate) mod graph;
pub(crate) mod keywords;
mod normal;
mod older_drafts;
pub(crate) mod types;

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use schemars::Schema;
use schemars::generate::{Contract as Direction, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value};

pub(crate) use self::check::check;
pub(crate) use self::keywords::{DEFINITIONS, below, below_mut, path_below};
pub(crate) use self::normal::{NOTHING_FITS, Refusal, keep_used, leads_nowhere, normal};
pub(crate) use self::older_drafts::{modernise, modernise_marked};
use crate::limits::ROOT_PARTS;
use crate::wire_shapes::RESULT;

/// The schema of what serde reads into `T`, with all that schemars says of it.
pub(crate) fn to_read<T: JsonSchema>() -> Value {
    generate::<T>(Direction::Deserialize)
}

/// The schema of what serde writes from `T`.
pub(crate) fn to_write<T: JsonSchema>() -> Value {
    generate::<T>(Direction::Serialize)
}

/// A schema without what costs bytes on every call and tells a model nothing.
pub(crate) fn without_noise(schema: Value) -> Value {
    let Ok(mut schema) = Schema::try_from(schema) else {
        return Value::Bool(true);
    };
    RecursiveTransform(drop_widths).transform(&mut schema);
    schema.to_value()
}

/// The type's doc comment.
pub(crate) fn description_of<T: JsonSchema + ?Sized>() -> Option<String> {
    let schema = settings(Direction::Deserialize).into_generator().into_root_schema_for::<T>();
    let text = schema.get("description")?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The title that a type gives itself; schemars' own is the type's name.
pub(crate) fn title_of<T: JsonSchema>() -> Option<String> {
    let schema = settings(Direction::Deserialize).into_generator().into_root_schema_for::<T>();
    let title = schema.get("title")?.as_str()?;
    (title != T::schema_name()).then(|| title.to_owned())
}

fn settings(direction: Direction) -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        // Every provider understands inlined schemas, OpenAI's strict mode refuses
        // a `$ref` with a description beside it, and definitions cost bytes.
        // Recursion still goes through `$defs`.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = direction;
    })
}

fn generate<T: JsonSchema>(direction: Direction) -> Value {
    let mut schema = settings(direction).into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    RecursiveTransform(mend).transform(&mut schema);
    let mut schema = schema.to_value();
    fold::fold(&mut schema);
    schema
}

/// Drops what costs bytes on every call and tells a model nothing, and says what
/// schemars leaves out: the schema accepts what serde reads.
fn mend(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    mend_format(schema);
    name_no_fields(schema);
    if schema.get("default").is_some_and(Value::is_null) {
        schema.shift_remove("default");
    }
    // `Result`: the derived unions close their members, this one does not.
    if let Some(Value::Array(members)) = schema.get_mut("oneOf") {
        members.iter_mut().filter_map(Value::as_object_mut).for_each(close_variant);
    }
}

/// JSON Schema does not know these formats, and several providers refuse them.
fn mend_format(schema: &mut Map<String, Value>) {
    const DATE: &str = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
    const TIME: &str = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?";
    let pattern = match schema.get("format").and_then(Value::as_str) {
        Some("partial-date-time") => format!("^{DATE}T{TIME}$"),
        Some("partial-time") => format!("^{TIME}$"),
        _ => return,
    };
    schema.shift_remove("format");
    schema.entry("pattern").or_insert(pattern.into());
}

/// Drops the names of Rust's numbers.
fn drop_widths(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    match schema.get("format").and_then(Value::as_str) {
        // Ranges as schemars gives them for the smaller widths. A range of 64 bits is
        // not worth its bytes: no model comes near, and the type still enforces it.
        Some("int32") => width(schema, i32::MIN.into(), i32::MAX.into()),
        Some("uint32") => width(schema, 0, u32::MAX.into()),
        Some(format) if is_width(format) => {
            schema.shift_remove("format");
        }
        _ => {}
    }
}

/// OpenAPI's names for Rust's number types.
fn is_width(format: &str) -> bool {
    let width = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    matches!(format, "float" | "double")
        || width.is_some_and(|width| width.chars().all(|c| c.is_ascii_digit()))
}

fn width(schema: &mut Map<String, Value>, least: i64, most: i64) {
    schema.shift_remove("format");
    schema.entry("minimum").or_insert(least.into());
    schema.entry("maximum").or_insert(most.into());
}

fn close_variant(member: &mut Map<String, Value>) {
    let is = |name| {
        member.get("required") == Some(&serde_json::json!([name]))
            && member
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|own| own.len() == 1 && own.contains_key(name))
    };
    if is("Ok") || is("Err") {
        member.entry("additionalProperties").or_insert(false.into());
    }
}

/// Tells a struct without fields from an object of any fields: schemars writes a map of
/// anything with `additionalProperties`, so this is all it says of such a struct.
fn name_no_fields(schema: &mut Map<String, Value>) {
    let silent = |keyword: &String| matches!(keyword.as_str(), "type" | "description" | "title");
    if is_type_object(schema) && schema.keys().all(silent) {
        schema.insert("properties".into(), Value::Object(Map::new()));
    }
}

fn is_type_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

pub(crate) fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Says that the root is an object where that only follows from what it says: a union of
/// objects, a reference to one, nothing but properties.
pub(crate) fn root_object(schema: &mut Value) {
    if schema.get("type").is_none()
        && is_always_object(schema)
        && let Some(map) = schema.as_object_mut()
    {
        map.shift_insert(0, "type".into(), "object".into());
    }
}

fn is_noise(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "title" | "description")
}

fn is_always_object(root: &Value) -> bool {
    let mut waiting = vec![root];
    let mut followed = HashSet::new();
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object().filter(|_| followed.len() < ROOT_PARTS) else {
            return false;
        };
        let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
        if is_object(schema) || map.get("const").is_some_and(Value::is_object) {
            continue;
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            if followed.insert(reference) {
                let target = resolve(root, reference);
                waiting.push(target.unwrap_or(&Value::Null));
            }
        } else if map.contains_key("type") {
            return false;
        } else if let Some(parts) = list("allOf")
            && let Some(part) =
                parts.iter().find(|part| is_object(part) || part.get("$ref").is_some())
        {
            waiting.push(part);
        } else if map.contains_key("properties") {
            // Only an object has fields.
        } else if let Some(members) = list("anyOf").or_else(|| list("oneOf")) {
            waiting.extend(members);
        } else if !std::ptr::eq(schema, root) || !map.keys().all(|keyword| is_noise(keyword)) {
            return false;
        }
    }
    true
}

/// Whether there are more than `levels` objects and lists in each other.
pub(crate) fn is_deeper(node: &Value, levels: usize) -> bool {
    let deeper = |below: &Value| levels == 0 || is_deeper(below, levels - 1);
    match node {
        Value::Object(map) => map.values().any(deeper),
        Value::Array(items) => items.iter().any(deeper),
        _ => false,
    }
}

/// Drops schemas without recursion: dropping one by itself takes stack for each level.
pub(crate) fn take_apart(schemas: impl IntoIterator<Item = Value>) {
    let mut left: Vec<Value> = schemas.into_iter().collect();
    while let Some(node) = left.pop() {
        match node {
            Value::Object(map) => left.extend(map.into_iter().map(|(_, below)| below)),
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
}

/// The schema of an input with no fields.
pub(crate) fn nothing() -> Value {
    serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// Lets nothing into a struct without fields: nothing is asked for.
pub(crate) fn close_empty(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    let empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let says_more =
        |keyword: &String| !matches!(keyword.as_str(), "type" | "properties" | "description");
    if map.get("properties").is_some_and(empty) && !map.keys().any(says_more) {
        map.insert("additionalProperties".into(), false.into());
    }
}

/// Lets nothing into an input whose `properties` are empty and that says no more: it takes no
/// arguments. Beside other keywords, empty `properties` say nothing and go.
pub(crate) fn close_fieldless(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    if !root.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty) {
        return;
    }
    root.shift_remove("properties");
    let silent = root.iter().all(|(keyword, value)| {
        matches!(keyword.as_str(), "type" | "nullable")
            || is_noise(keyword)
            || value.as_array().is_some_and(Vec::is_empty)
    });
    if silent {
        root.extend(nothing().as_object_mut().map(std::mem::take).unwrap_or_default());
    }
}

/// Wraps a value that is not an object: `{"result": …}`.
pub(crate) fn wrap(schema: Value) -> Value {
    object([(RESULT, schema)])
}

/// An object of required properties, in order, with their definitions at its root.
pub(crate) fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let mut definitions = Map::new();
    let mut inner = Map::new();
    let mut required = Vec::new();
    for (name, mut schema) in properties {
        hoist(name, &mut schema, &mut definitions);
        inner.insert(name.into(), schema);
        required.push(Value::from(name));
    }
    let mut root = Map::new();
    root.insert("type".into(), "object".into());
    root.insert("properties".into(), inner.into());
    root.insert("required".into(), required.into());
    if !definitions.is_empty() {
        root.insert("$defs".into(), definitions.into());
    }
    Value::Object(root)
}

/// Moves a schema's definitions out, so that it can stand below another root.
fn hoist(name: &str, schema: &mut Value, definitions: &mut Map<String, Value>) {
    // Two properties may each have a definition of the same name.
    rename_definitions(schema, |name| definitions.contains_key(name));
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(own)) = map.shift_remove("$defs") {
        definitions.extend(own);
    }
    // A type that contains itself refers to its root, which is about to be another.
    let name = free_name(&plain_name(name), &mut 1, |name| definitions.contains_key(name));
    let target = reference_to(&name);
    let away = |reference: &str| (reference == "#").then(|| target.clone());
    if redirect(schema, &away) {
        definitions.values_mut().for_each(|definition| {
            redirect(definition, &away);
        });
        definitions.insert(name, schema.take());
        *schema = serde_json::json!({ "$ref": target });
    }
}

/// Gives definitions names that need no escapes in a reference.
pub(crate) fn plain_definitions(schema: &mut Value) {
    rename_definitions(schema, |_| false);
}

/// A name that is the same in a URI and in a JSON pointer: readers take a reference for
/// one or the other, and only the first has percent signs.
fn plain_name(name: &str) -> String {
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')), "_")
}

/// Renames definitions that are taken or not plain, with all references to them.
fn rename_definitions(schema: &mut Value, is_taken: impl Fn(&str) -> bool) {
    let Some(own) = schema.get_mut("$defs").and_then(Value::as_object_mut) else {
        return;
    };
    let mut names: HashSet<String> = own.keys().cloned().collect();
    let mut renamed = HashMap::new();
    let mut number = 1;
    for name in own.keys() {
        let plain = plain_name(name);
        if plain != *name || is_taken(name) {
            let free =
                free_name(&plain, &mut number, |name| names.contains(name) || is_taken(name));
            names.insert(free.clone());
            renamed.insert(reference_to(name), free);
        }
    }
    if renamed.is_empty() {
        return;
    }
    // One by one, because they keep their order.
    for (name, definition) in std::mem::take(own) {
        own.insert(renamed.get(&reference_to(&name)).cloned().unwrap_or(name), definition);
    }
    let moved = |reference: &str| {
        // What follows leads into the definition and stays.
        let end = reference.match_indices('/').nth(2).map_or(reference.len(), |(at, _)| at);
        let (definition, rest) = reference.split_at(end);
        Some(reference_to(renamed.get(definition)?) + rest)
    };
    redirect(schema, &|reference| moved(reference).or_else(|| moved(&percent_decoded(reference)?)));
}

/// The name, or the name with a number that goes up from call to call.
fn free_name(name: &str, number: &mut usize, is_taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    while is_taken(&free) {
        *number += 1;
        free = format!("{name}_{number}");
    }
    free
}

pub(crate) fn reference_to(definition: &str) -> String {
    format!("#/$defs/{}", definition.replace('~', "~0").replace('/', "~1"))
}

/// Rewrites the references in a schema that `to` knows; whether there was one.
pub(crate) fn redirect(schema: &mut Value, to: &impl Fn(&str) -> Option<String>) -> bool {
    let Some(map) = schema.as_object_mut() else {
        return false;
    };
    let mut found = false;
    if let Some(Value::String(reference)) = map.get_mut("$ref")
        && let Some(target) = to(reference)
    {
        *reference = target;
        found = true;
    }
    for below in below_mut(map) {
        found |= redirect(below, to);
    }
    found
}

/// What a reference refers to, if that is inside the same schema.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}
