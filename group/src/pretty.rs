//! Readable forms of definitions.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use crate::custom::Format;

const INDENT: &str = "    ";

/// Returns JSON with an indentation of four spaces.
pub(crate) fn indented(value: &Value) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(INDENT.as_bytes());
    match value.serialize(&mut Serializer::with_formatter(&mut text, formatter)) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        // A `Value` always has a JSON form.
        Err(_) => value.to_string(),
    }
}

/// Indents every line of a text by one more level.
pub(crate) fn deeper(text: &str) -> String {
    text.lines().map(|line| format!("{INDENT}{line}")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn format(format: &Format) -> Value {
    match format {
        Format::Text => json!({"type": "text"}),
        Format::Regex(regex) => json!({"type": "grammar", "syntax": "regex", "definition": regex}),
        Format::Lark(lark) => json!({"type": "grammar", "syntax": "lark", "definition": lark}),
    }
}
