//! The `_type` field of tagged structs, for their schema.

use std::cell::Cell;

use schemars::{JsonSchema, Schema};
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

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
        match name_of::<T>() {
            Some(name) => tag(schema, name),
            // A struct with a flattened field is a map for serde, which then has no name.
            None => tag(schema, &T::schema_name()),
        }
    }
}

/// Returns the name by which a struct asks serde for its fields.
fn name_of<T: DeserializeOwned>() -> Option<&'static str> {
    struct Named<'n>(&'n Cell<Option<&'static str>>);

    impl<'de> Deserializer<'de> for Named<'_> {
        type Error = Error;

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("only the name is read"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            _: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Error> {
            self.0.set(Some(name));
            self.deserialize_any(visitor)
        }
    }

    let name = Cell::new(None);
    // It never returns a value: the name is known before the first field.
    let _ = T::deserialize(Named(&name));
    name.get()
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
