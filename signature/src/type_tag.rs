//! The `_type` field of tagged structs, for their schema.

use schemars::Schema;
use serde_json::{Map, Value};

/// Adds the `_type` field to the schema of a struct with `#[serde(tag = "_type")]`.
///
/// Models distinguish structs by it, and DSPy.rb's tools are called with it. schemars ignores
/// `#[serde(tag = …)]` on a struct, although it supports it on an enum. The field is opt-in,
/// because its bytes are sent with every request.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_signature::{Contract, Signature, type_tag};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// #[serde(tag = "_type")]
/// #[schemars(transform = type_tag("Point"))]
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
pub fn type_tag(name: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        if let Some(schema) = schema.as_object_mut() {
            tag(schema, name);
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
