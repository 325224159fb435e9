//! From the text on the wire to a value of the contract's type.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Fault, Result, Side};
use crate::lower::{accepts_null, is_required};

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
        let mut value: Value = serde_json::from_str(text).map_err(|error| {
            self.error(
                wire,
                Fault {
                    path: "$".into(),
                    message: not_json(text, &error),
                },
            )
        })?;
        if let Some(wrapper) = self.wrapper
            && let Some(inner) = value.get_mut(wrapper)
        {
            value = inner.take();
        }
        if self.unit {
            if !(value.is_object() || value.is_null()) {
                let message = format!("expected an object without fields, got {value}");
                return Err(self.error(
                    wire,
                    Fault {
                        path: "$".into(),
                        message,
                    },
                ));
            }
            value = Value::Null;
        } else {
            drop_absent(self.schema, &mut value);
        }
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = match error.path().to_string() {
                root if root == "." => "$".to_owned(),
                below if below.starts_with('[') => format!("${below}"),
                below => format!("$.{below}"),
            };
            self.error(
                wire,
                Fault {
                    path,
                    message: error.into_inner().to_string(),
                },
            )
        })
    }

    fn error(&self, wire: &str, fault: Fault) -> Error {
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
        return format!(
            "the JSON text ends too early, after {} characters",
            text.chars().count()
        );
    }
    format!("not JSON: {error}")
}

/// Removes null where it stands for a field that was left out.
///
/// Strict dialects make every property required, so a model says null for one it
/// would have left out. Where the type itself takes null, null stays.
fn drop_absent(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let Some(object) = schema.as_object() else {
                return;
            };
            let Some(properties) = object.get("properties").and_then(Value::as_object) else {
                return;
            };
            fields.retain(|name, field| {
                let Some(property) = properties.get(name) else {
                    return true;
                };
                !(field.is_null() && !is_required(object, name) && !accepts_null(property))
            });
            for (name, field) in fields {
                if let Some(property) = properties.get(name) {
                    drop_absent(property, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| drop_absent(schema, item));
            }
        }
        _ => {}
    }
}
