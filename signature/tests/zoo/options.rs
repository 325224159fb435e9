//! Fields that may be absent, null, or both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::enums::{Priority, Status};
use super::plain::Place;
use super::unions::{Event, Loose, Shape};

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Optional {
    note: Option<String>,
    limit: Option<u8>,
    status: Option<Status>,
    priority: Option<Priority>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct OptionalKinds {
    flag: Option<bool>,
    ratio: Option<f64>,
    place: Option<Place>,
    list: Option<Vec<String>>,
    map: Option<BTreeMap<String, i64>>,
    tuple: Option<(String, u8)>,
    tagged: Option<Shape>,
    event: Option<Event>,
    loose: Option<Loose>,
    nothing: Option<()>,
    twice: Option<Option<u8>>,
    boxed: Option<Box<Place>>,
}

/// Left out, null and a value are three things.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Patch {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    note: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u8>,
}

/// Keeps a null that is given.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Null must be said. schemars lets an `Option` be left out whatever serde says, so it is
/// told otherwise.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Spoken {
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(required, extend("type" = ["integer", "null"]))]
    end: Option<u8>,
}

fn ten() -> u32 {
    10
}

fn some_ten() -> Option<u32> {
    Some(10)
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Defaulted {
    #[serde(default = "ten")]
    limit: u32,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    status: Status,
    /// Null means no ceiling, which is not the default.
    #[serde(default = "some_ten")]
    ceiling: Option<u32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct AllDefaulted {
    retries: u8,
    host: String,
    proxy: Option<String>,
    extra: BTreeMap<String, u8>,
}

impl Default for AllDefaulted {
    fn default() -> Self {
        Self { retries: 3, host: "localhost".into(), proxy: None, extra: BTreeMap::new() }
    }
}
