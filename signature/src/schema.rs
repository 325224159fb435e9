//! From a Rust type to the JSON Schema that a contract keeps.

use schemars::JsonSchema;
use schemars::Schema;
use schemars::generate::{Contract as Direction, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value};

/// The schema of what serde reads into `T`.
pub(crate) fn to_read<T: JsonSchema>() -> Value {
    generate::<T>(Direction::Deserialize)
}

/// The schema of what serde writes from `T`.
pub(crate) fn to_write<T: JsonSchema>() -> Value {
    generate::<T>(Direction::Serialize)
}

/// The type's doc comment.
pub(crate) fn description_of<T: JsonSchema + ?Sized>() -> Option<String> {
    let schema = settings(Direction::Deserialize).into_generator().into_root_schema_for::<T>();
    let text = schema.get("description")?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
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
    RecursiveTransform(drop_noise).transform(&mut schema);
    schema.to_value()
}

/// Drops what costs bytes on every call and tells a model nothing.
fn drop_noise(schema: &mut Schema) {
    // OpenAPI's names for Rust's number types; JSON Schema does not know them and
    // several providers refuse them. The type itself still enforces the range.
    let rust_number = schema.get("format").and_then(Value::as_str).is_some_and(|format| {
        let width = format.trim_start_matches(['u', 'i']).trim_start_matches("nt");
        matches!(format, "float" | "double")
            || ((format.starts_with("int") || format.starts_with("uint"))
                && width.chars().all(|c| c.is_ascii_digit()))
    });
    if rust_number {
        schema.remove("format");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

pub(crate) fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
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

/// The schema of an input with no fields.
pub(crate) fn nothing() -> Value {
    serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// An object at the root for what is none: `{"result": …}`.
pub(crate) fn wrap(schema: Value) -> Value {
    object([(WRAPPER, schema)])
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
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(own)) = map.shift_remove("$defs") {
        definitions.extend(own);
    }
    // A type that contains itself refers to its root, which is about to be another.
    let target = format!("#/$defs/{name}");
    if redirect(schema, &target) {
        definitions.values_mut().for_each(|definition| {
            redirect(definition, &target);
        });
        definitions.insert(name.to_owned(), schema.take());
        *schema = serde_json::json!({ "$ref": target });
    }
}

/// Points every `"$ref": "#"` below `node` at `target`; whether there was one.
fn redirect(node: &mut Value, target: &str) -> bool {
    match node {
        Value::Object(map) => {
            let mut found = false;
            for (key, value) in map {
                if key == "$ref" && value == "#" {
                    *value = target.into();
                    found = true;
                } else {
                    found |= redirect(value, target);
                }
            }
            found
        }
        Value::Array(items) => {
            let mut found = false;
            for item in items {
                found |= redirect(item, target);
            }
            found
        }
        _ => false,
    }
}

/// The one property of a wrapped output.
pub(crate) const WRAPPER: &str = "result";
