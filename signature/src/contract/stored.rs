//! The serialized form of a contract, for runs and recordings.
//!
//! It is deserialized as a run-time contract: the schemas are stored, the type is not.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Contract;
use crate::name;

impl Serialize for Contract {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = self.output_to_write().filter(|it| Some(*it) != self.output_to_read());
        Stored {
            name: self.name.clone(),
            title: self.title.clone(),
            marker: self.marker.clone(),
            description: self.description.clone(),
            input: self.input().clone(),
            output: self.output_to_read().cloned(),
            output_to_write: written.cloned(),
            typed: self.input.typed && self.leaves_open(),
        }
        .serialize(serializer)
    }
}

/// Deserializes a run-time contract, which has schemas but no Rust type.
impl<'de> Deserialize<'de> for Contract {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        name::check(&stored.name).map_err(D::Error::custom)?;
        let Stored { name, title, marker, description, input, output, typed, .. } = stored;
        let output = output.map(|read| (read.clone(), stored.output_to_write.unwrap_or(read)));
        // A description beside that of the contract belongs to the schema: that of `finish` is the
        // output's own.
        let is_stored = !description.is_empty();
        let contract = Self::prepared(name, description, input, None, output, is_stored);
        let mut contract = contract.map_err(D::Error::custom)?;
        // The contract is lowered as the type was, and read as its schema says.
        contract.input.typed = typed;
        if let Some(output) = &mut contract.output {
            output.to_read.typed = typed;
        }
        Ok(Self { title, marker, ..contract })
    }
}

impl Contract {
    /// Whether a schema of a type contains an object without fields. A typed contract treats it as
    /// closed, which the schema alone does not say.
    fn leaves_open(&self) -> bool {
        fn below(schema: &Value) -> bool {
            match schema {
                Value::Object(map) => {
                    let named = map.get("properties").and_then(Value::as_object);
                    let is_object = map.get("type").and_then(Value::as_str) == Some("object");
                    is_object
                        && named.is_none_or(Map::is_empty)
                        && !map.contains_key("additionalProperties")
                        || map.values().any(below)
                }
                Value::Array(items) => items.iter().any(below),
                _ => false,
            }
        }
        // The root is always an object of arguments.
        let roots = [Some(self.input()), self.output_to_read()].into_iter().flatten();
        roots.filter_map(Value::as_object).any(|root| root.values().any(below))
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    marker: Option<String>,
    description: String,
    input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Only where it differs: most types are serialized as they are deserialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_to_write: Option<Value>,
    /// Whether the contract had a type, stored only where that matters: see
    /// [`Contract::leaves_open`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    typed: bool,
}
