//! The `_type` field of tagged structs, for their schema.

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::reading::strict_serde::asks;

/// Adds the `_type` field to the schema of a struct with `#[serde(tag = "_type")]`.
///
/// Models distinguish structs by it, and DSPy.rb's tools are called with it. schemars ignores
/// `#[serde(tag = …)]` on a struct, although it supports it on an enum. The field is opt-in,
/// because its bytes are sent with every request. Its value is the name that serde writes: the name
/// of the type, or that of `#[serde(rename = "…")]`.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_signature::{Contract, Signature, type_tag};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// #[serde(tag = "_type")]
/// #[schemars(transform = type_tag::<Self>)]
/// struct Point {
///     x: i64,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Draw {
///     at: Point,
/// }
///
/// impl Signature for Draw {
///     type Output = ();
/// }
///
/// let contract = Contract::of::<Draw>()?;
/// let at = &contract.input()["properties"]["at"];
/// assert_eq!(at["properties"]["_type"]["const"], "Point");
/// assert_eq!(at["required"][0], "_type");
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
pub fn type_tag<T: DeserializeOwned + JsonSchema>(schema: &mut Schema) {
    if let Some(schema) = schema.as_object_mut() {
        match asks::<T>("{}").name.get() {
            Some(name) => tag(schema, name),
            // A struct with a flattened field is a map for serde, which then has no name.
            None => tag(schema, &T::schema_name()),
        }
    }
}

/// Inserts the tag as the first field, as serde serializes it.
fn tag(schema: &mut Map<String, Value>, name: &str) {
    const TAG: &str = "_type";
    let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
    if let Some(properties) = properties.as_object_mut() {
        let tag = serde_json::json!({"type": "string", "const": name});
        properties.shift_insert(0, TAG.to_owned(), tag);
    }
    let required = schema.entry("required").or_insert_with(|| Vec::<Value>::new().into());
    if let Some(required) = required.as_array_mut() {
        required.insert(0, TAG.into());
    }
}
