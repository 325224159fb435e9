//! Maps.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::enums::{Priority, Status};
use super::plain::{Filters, Place};
use super::unions::{Scalar, Shape};

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Maps {
    config: BTreeMap<String, Scalar>,
    mappings: HashMap<String, Priority>,
    by_number: BTreeMap<i16, String>,
    by_status: BTreeMap<Status, Filters>,
    ordered: IndexMap<String, u8>,
    maybe: Option<BTreeMap<String, Option<i64>>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct DeepMaps {
    of_maps: BTreeMap<String, BTreeMap<u8, String>>,
    of_structs: BTreeMap<String, Place>,
    of_lists: BTreeMap<String, Vec<i64>>,
    of_unions: BTreeMap<String, Shape>,
    of_pairs: BTreeMap<String, Vec<KeyValue>>,
}

/// What a map becomes where a dialect has none.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct KeyValue {
    key: String,
    value: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pairs {
    pairs: Vec<KeyValue>,
    map: BTreeMap<String, i64>,
}

/// Keys with a rule of their own.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Code(#[schemars(regex(pattern = r"^[A-Z]{2}[0-9]{1,3}$"))] String);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Coded {
    names: BTreeMap<Code, String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FreeForm {
    name: String,
    details: Map<String, Value>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Anything {
    value: Value,
    maybe: Option<Value>,
    many: Vec<Value>,
}
