//! The `_type` field of structs that serde tags, shown in their schema.

use schemars::Schema;
use serde_json::{Map, Value};

/// Shows `_type` in the schema of a struct that serde writes it for.
///
/// Models tell structs apart by it, and DSPy.rb's tools are called with it. schemars does
/// not know `#[serde(tag = …)]` on a struct, so it has to be told; on an enum it knows.
/// Off unless asked for, because every byte is paid on every call.
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

/// First, as serde writes it.
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
