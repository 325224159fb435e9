//! Contracts and tools in a few lines for a person.

use serde_json::Value;
use toolwright_module::{Contract, Effect, Tool};

use crate::show::visible;

/// Returns the name, the description, one line per field of the input, and the output.
pub(crate) fn contract(contract: &Contract) -> String {
    let output = contract.output_to_write().map_or("text".to_owned(), |it| kind(it, DEPTH));
    visible(contract.name()) + &purpose(contract) + "\n  returns " + &output + "\n"
}

/// Returns the effect, the description, and one line per field of the input. `source` says who
/// declares the effect.
pub(crate) fn tool(tool: &Tool, source: &str) -> String {
    let effect = match tool.effect() {
        Effect::Read => format!("read-only{source}"),
        Effect::Idempotent => format!("idempotent{source}"),
        // A server that says nothing has this effect, too.
        Effect::Irreversible if source.is_empty() => "irreversible".to_owned(),
        _ => "may change things".to_owned(),
    };
    format!(" ({effect}){}\n", purpose(tool.contract()))
}

/// Returns the lines of a description below a heading.
pub(crate) fn below(description: Option<&str>) -> String {
    let mut text = String::new();
    for line in description.unwrap_or_default().lines() {
        text.push_str(format!("\n  {}", visible(line)).trim_end_matches(' '));
    }
    text
}

/// Returns the description, and one line per field of the input.
fn purpose(contract: &Contract) -> String {
    let mut text = below(Some(contract.description()));
    let schema = contract.input();
    for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
        let optional = if required(schema, name) { "" } else { ", optional" };
        text.push_str(&format!("\n    {}: {}{optional}", visible(name), kind(argument, DEPTH)));
        if let Some(default) = argument.get("default") {
            text.push_str(&format!(", default: {}", visible(&default.to_string())));
        }
        if let Some(said) = argument["description"].as_str() {
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!(". {}", visible(&said)));
        }
    }
    text
}

/// Number of levels of a schema that are described.
const DEPTH: usize = 8;

fn required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
}

/// Returns the type of a schema in a few words.
fn kind(schema: &Value, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    let or = |kinds: Vec<String>| kinds.join(" or ");
    if let Some(values) = schema["enum"].as_array() {
        return or(values.iter().map(|value| visible(&value.to_string())).collect());
    }
    if let Some(value) = schema.get("const") {
        return visible(&value.to_string());
    }
    if let Some(schemas) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return or(schemas.iter().map(|schema| kind(schema, depth)).collect());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return visible(reference.rsplit('/').next().unwrap_or_default());
    }
    let fields = schema["properties"].as_object();
    let named = |name: &str| match (schema.get("items"), fields) {
        (Some(items), _) if name == "array" => format!("array of {}", kind(items, depth)),
        (_, Some(fields)) if name == "object" => {
            let field = |(name, field): (&String, &Value)| {
                let optional = if required(schema, name) { "" } else { "?" };
                format!("{}{optional}: {}", visible(name), kind(field, depth))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        _ => visible(name),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => or(names.iter().filter_map(Value::as_str).map(named).collect()),
        _ => "anything".to_owned(),
    }
}
