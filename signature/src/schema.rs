//! From a Rust type or a foreign schema to the schema of a contract, and on to its graph.
//!
//! This file makes the schema of a type with schemars ([`to_read`], [`to_write`]), and adds rules
//! that schemars leaves out. It also has what all steps need for roots, definitions and references.
//! The submodules are the next steps, in order:
//!
//! 1. `check` rejects a foreign schema that has keywords with values of the wrong kind,
//! 2. `older_drafts` rewrites older drafts and OpenAPI with the keywords of JSON Schema 2020-12,
//! 3. `fold` writes the schema of a recursive type once,
//! 4. `normal` converts a schema to the normal form, with one notation for each rule,
//! 5. [`graph`] makes the typed graph that reading, lowering and comparing read.
//!
//! ```text
//! public schema: {"$ref": "#/$defs/A", "description": "…"}   what a contract shows and stores
//! normal form:   {"type": "object", "properties": {…}}       what lowering repeats
//! graph:         Node { shape: Struct, types: OBJECT, … }    what every later step decides by
//! ```
//!
//! `attributes` checks the schemas of Rust types for rules that cannot be meant.
//!
//! The first three steps change the public schema of a contract, the others do not. [`keywords`] is
//! the table of keywords for all of them, [`types`] the set of JSON types, and [`media`] finds the
//! fields that hold images and the like.

mod attributes;
mod check;
mod fold;
pub(crate) mod graph;
pub(crate) mod keywords;
pub(crate) mod media;
mod normal;
mod older_drafts;
pub(crate) mod types;

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use schemars::Schema;
use schemars::generate::{Contract as Direction, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value, json};

pub(crate) use self::attributes::check_attributes;
pub(crate) use self::check::check;
pub(crate) use self::keywords::{DEFINITIONS, Keywords, below, below_mut, path_below};
use self::keywords::{items, text};
use self::media::MediaField;
pub(crate) use self::normal::{NOTHING_FITS, keep_used, leads_nowhere, normal};
pub(crate) use self::older_drafts::{modernise, modernise_marked};
use crate::limits::ROOT_PARTS;

/// Returns the schema that serde deserializes into `T`, with everything that schemars writes, and the
/// fields that hold media.
pub(crate) fn to_read<T: JsonSchema>() -> (Value, Vec<MediaField>) {
    generate::<T>(Direction::Deserialize)
}

/// Returns the schema that serde serializes from `T`, and the fields that hold media.
pub(crate) fn to_write<T: JsonSchema>() -> (Value, Vec<MediaField>) {
    generate::<T>(Direction::Serialize)
}

/// Removes parts that cost bytes in every request and do not help a model.
pub(crate) fn without_noise(schema: Value) -> Value {
    let Ok(mut schema) = Schema::try_from(schema) else {
        return Value::Bool(true);
    };
    RecursiveTransform(drop_widths).transform(&mut schema);
    schema.to_value()
}

/// Returns the type's doc comment.
pub(crate) fn description_of<T: JsonSchema + ?Sized>() -> Option<String> {
    let text = root_text::<T>("description")?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the title that the type sets itself; the default title of schemars is the type's name.
pub(crate) fn title_of<T: JsonSchema>() -> Option<String> {
    root_text::<T>("title").filter(|title| *title != T::schema_name())
}

/// Returns the text of a keyword in the schema of a type.
fn root_text<T: JsonSchema + ?Sized>(keyword: &str) -> Option<String> {
    let schema = settings(Direction::Deserialize).into_generator().into_root_schema_for::<T>();
    schema.get(keyword)?.as_str().map(str::to_owned)
}

/// Returns the settings of schemars, for deserializing or serializing.
fn settings(direction: Direction) -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        // Every provider understands inlined schemas, OpenAI's strict mode rejects
        // a `$ref` with a description beside it, and definitions cost bytes.
        // Recursion still goes through `$defs`.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = direction;
    })
}

/// Returns the schema of a type, with the rules that schemars leaves out, and the fields that hold
/// media.
fn generate<T: JsonSchema>(direction: Direction) -> (Value, Vec<MediaField>) {
    let mut schema = settings(direction).into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    RecursiveTransform(complete).transform(&mut schema);
    let mut schema = schema.to_value();
    let media = media::take(&mut schema);
    fold::fold(&mut schema);
    (schema, media)
}

/// Removes parts that cost bytes in every request and do not help a model, and adds rules that
/// schemars leaves out: the schema accepts the texts that serde deserializes.
fn complete(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    replace_format(schema);
    name_no_fields(schema);
    if schema.get("default").is_some_and(Value::is_null) {
        schema.shift_remove("default");
    }
    // `Result`: derived unions close their members, this one does not.
    if let Some(Value::Array(members)) = schema.get_mut("oneOf") {
        members.iter_mut().filter_map(Value::as_object_mut).for_each(close_variant);
    }
}

/// Replaces formats that JSON Schema does not define, because several providers reject them.
///
/// ```text
/// {"format": "partial-time"} → {"pattern": "^([01][0-9]|2[0-3]):…$"}
/// ```
fn replace_format(schema: &mut Keywords) {
    /// The pattern of chrono's and jiff's dates without a time zone.
    const DATE: &str = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
    /// The pattern of their times.
    const TIME: &str = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?";
    let pattern = match text(schema, "format") {
        Some("partial-date-time") => format!("^{DATE}T{TIME}$"),
        Some("partial-time") => format!("^{TIME}$"),
        _ => return,
    };
    schema.shift_remove("format");
    schema.entry("pattern").or_insert(pattern.into());
}

/// Drops the formats for Rust's number types.
///
/// ```text
/// {"type": "integer", "format": "uint32"} → {"type": "integer", "minimum": 0, "maximum": 4294967295}
/// {"type": "integer", "format": "int64"}  → {"type": "integer"}
/// ```
fn drop_widths(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    // Ranges that schemars writes for smaller widths. A range of 64 bits is not worth its bytes:
    // models do not reach it, and the type still enforces it.
    let range: Option<(i64, i64)> = match text(schema, "format") {
        Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
        Some("uint32") => Some((0, u32::MAX.into())),
        Some(format) if is_width(format) => None,
        _ => return,
    };
    schema.shift_remove("format");
    if let Some((least, most)) = range {
        schema.entry("minimum").or_insert(least.into());
        schema.entry("maximum").or_insert(most.into());
    }
}

/// Whether a format is OpenAPI's name for a number type of Rust.
fn is_width(format: &str) -> bool {
    let width = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    matches!(format, "float" | "double")
        || width.is_some_and(|width| width.chars().all(|c| c.is_ascii_digit()))
}

/// Closes a variant of `Result` to other fields.
///
/// schemars writes them without `additionalProperties`, so that an object with both `Ok` and `Err`
/// would fit both variants.
fn close_variant(member: &mut Keywords) {
    let own = member.get("properties").and_then(Value::as_object);
    let is = |name| {
        member.get("required") == Some(&json!([name]))
            && own.is_some_and(|own| own.len() == 1 && own.contains_key(name))
    };
    if is("Ok") || is("Err") {
        member.entry("additionalProperties").or_insert(false.into());
    }
}

/// Distinguishes a struct without fields from an object of any fields: schemars writes a map of
/// anything with `additionalProperties`, and a struct without fields without any rule.
///
/// ```text
/// struct Empty {}          {"type": "object"} → {"type": "object", "properties": {}}
/// HashMap<String, Value>   {"type": "object", "additionalProperties": true}, unchanged
/// ```
fn name_no_fields(schema: &mut Keywords) {
    let silent = |keyword: &String| matches!(keyword.as_str(), "type" | "description" | "title");
    if text(schema, "type") == Some("object") && schema.keys().all(silent) {
        schema.insert("properties".into(), json!({}));
    }
}

/// Whether the type of a schema is object, and no other.
pub(crate) fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Whether a value is an object without entries.
fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// Adds `type: object` to a root that has no type but is always an object: a union of objects, a
/// reference to an object, or a schema that only has properties.
///
/// ```text
/// {"anyOf": [{"type": "object", …}, {"type": "object", …}]} → {"type": "object", "anyOf": […]}
/// ```
pub(crate) fn root_object(schema: &mut Value) {
    if schema.get("type").is_none()
        && is_always_object(schema)
        && let Some(map) = schema.as_object_mut()
    {
        map.shift_insert(0, "type".into(), "object".into());
    }
}

/// Whether a keyword says nothing about values.
fn is_noise(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "title" | "description")
}

/// Whether a root without a type accepts objects only. It follows references and unions, each part
/// once.
fn is_always_object(root: &Value) -> bool {
    let mut waiting = vec![root];
    let mut followed = HashSet::new();
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object().filter(|_| followed.len() < ROOT_PARTS) else {
            return false;
        };
        if is_object(schema) || map.get("const").is_some_and(Value::is_object) {
            continue;
        }
        let decides = |part: &&Value| is_object(part) || part.get("$ref").is_some();
        let union = ["anyOf", "oneOf"].into_iter().find(|keyword| map.contains_key(*keyword));
        if let Some(reference) = text(map, "$ref") {
            if followed.insert(reference) {
                waiting.push(resolve(root, reference).unwrap_or(&Value::Null));
            }
        } else if map.contains_key("type") {
            return false;
        } else if let Some(part) = items(map, "allOf").find(decides) {
            waiting.push(part);
        } else if map.contains_key("properties") {
            // Only an object has fields.
        } else if let Some(union) = union {
            waiting.extend(items(map, union));
        } else if !std::ptr::eq(schema, root) || !map.keys().all(|keyword| is_noise(keyword)) {
            return false;
        }
    }
    true
}

/// Whether objects and lists nest deeper than `levels`.
pub(crate) fn is_deeper(node: &Value, levels: usize) -> bool {
    let deeper = |below: &Value| levels == 0 || is_deeper(below, levels - 1);
    match node {
        Value::Object(map) => map.values().any(deeper),
        Value::Array(items) => items.iter().any(deeper),
        _ => false,
    }
}

/// Drops schemas without recursion, because the default drop takes stack for each level.
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

/// Returns the schema of an input without fields.
pub(crate) fn nothing() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// Closes a struct without fields: it accepts no fields.
///
/// ```text
/// {"type": "object", "properties": {}}
/// → {"type": "object", "properties": {}, "additionalProperties": false}
/// ```
pub(crate) fn close_empty(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    let known = |keyword: &String| matches!(&**keyword, "type" | "properties" | "description");
    if map.get("properties").is_some_and(is_empty) && map.keys().all(known) {
        map.insert("additionalProperties".into(), false.into());
    }
}

/// Closes an input whose `properties` are empty and that has no other rule: it takes no
/// arguments. Beside other keywords, empty `properties` have no effect and are removed.
///
/// ```text
/// {"type": "object", "properties": {}}              → closed
/// {"type": "object", "properties": {}, "anyOf": […]} → {"type": "object", "anyOf": […]}
/// ```
pub(crate) fn close_fieldless(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    if !root.get("properties").is_some_and(is_empty) {
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

/// Returns an object of required properties, in order, with their definitions at its root.
///
/// ```text
/// [("result", {"$ref": "#/$defs/A", "$defs": {"A": …}})]
/// → {"type": "object", "properties": {"result": ref A}, "required": ["result"], "$defs": {"A": …}}
/// ```
pub(crate) fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let mut definitions = Map::new();
    let mut inner = Map::new();
    let mut required = Vec::new();
    for (name, mut schema) in properties {
        hoist(name, &mut schema, &mut definitions);
        inner.insert(name.into(), schema);
        required.push(Value::from(name));
    }
    let mut root = json!({"type": "object", "properties": inner, "required": required});
    if !definitions.is_empty() {
        root[DEFINITIONS] = definitions.into();
    }
    root
}

/// Moves a schema's definitions out, so that it can be embedded below another root.
///
/// A schema that refers to its own root becomes a definition itself, named after the property.
fn hoist(name: &str, schema: &mut Value, definitions: &mut Keywords) {
    // Two properties may each have a definition of the same name.
    rename_definitions(schema, |name| definitions.contains_key(name));
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(own)) = map.shift_remove("$defs") {
        definitions.extend(own);
    }
    // A type that contains itself refers to its root, which changes here.
    let name = free_name(&plain_name(name), &mut 1, |name| definitions.contains_key(name));
    let target = reference_to(&name);
    let away = |reference: &str| (reference == "#").then(|| target.clone());
    if redirect(schema, &away) {
        definitions.values_mut().for_each(|definition| {
            redirect(definition, &away);
        });
        definitions.insert(name, schema.take());
        *schema = json!({ "$ref": target });
    }
}

/// Returns a name that is the same in a URI and in a JSON pointer. Parsers treat a reference as
/// one or the other, and only a URI has percent signs.
fn plain_name(name: &str) -> String {
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')), "_")
}

/// Renames definitions that are taken or not plain, with all references to them.
///
/// ```text
/// {"$ref": "#/$defs/Vec<u8>", "$defs": {"Vec<u8>": …}}
/// → {"$ref": "#/$defs/Vec_u8_", "$defs": {"Vec_u8_": …}}
/// ```
pub(crate) fn rename_definitions(schema: &mut Value, is_taken: impl Fn(&str) -> bool) {
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
    // One at a time, to keep their order.
    for (name, definition) in std::mem::take(own) {
        own.insert(renamed.get(&reference_to(&name)).cloned().unwrap_or(name), definition);
    }
    let moved = |reference: &str| {
        // The rest of the pointer leads into the definition and does not change.
        let end = reference.match_indices('/').nth(2).map_or(reference.len(), |(at, _)| at);
        let (definition, rest) = reference.split_at(end);
        Some(reference_to(renamed.get(definition)?) + rest)
    };
    redirect(schema, &|reference| moved(reference).or_else(|| moved(&percent_decoded(reference)?)));
}

/// Returns the name, or else the name with the next free number.
///
/// `number` is the last number in use, so that many definitions of one name do not count from 1
/// each time: `Node`, `Node_2`, `Node_3`.
fn free_name(name: &str, number: &mut usize, is_taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    while is_taken(&free) {
        *number += 1;
        free = format!("{name}_{number}");
    }
    free
}

/// Returns the reference to a definition: `A/B` → `#/$defs/A~1B`.
pub(crate) fn reference_to(definition: &str) -> String {
    format!("#/$defs/{}", definition.replace('~', "~0").replace('/', "~1"))
}

/// Rewrites the references in a schema for which `to` returns one; returns whether there was one.
///
/// `to` gets the whole reference, with its `#`. References in data, such as in a `const`, are not
/// changed.
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

/// Returns the target of a reference inside the same schema.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Returns the JSON pointer of a reference, if it leads to a schema.
pub(crate) fn pointer_of(root: &Value, reference: &Value) -> Option<String> {
    let leads = |pointer: &str| root.pointer(pointer).is_some_and(is_schema);
    let plain = reference.as_str()?.strip_prefix('#')?;
    if leads(plain) {
        Some(plain.to_owned())
    } else {
        percent_decoded(plain).filter(|it| leads(it))
    }
}

/// Whether a value can be a schema.
fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Decodes percent signs of a URI: `a%20b` → `a b`. `None` if the result is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}
