//! What serde's and schemars' attributes change.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::ParseIntError;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::enums::Status;
use super::plain::{Filters, Place};
use super::unions::{Event, Reply, Shape};

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct TwoWays {
    #[serde(rename(serialize = "written", deserialize = "read"))]
    renamed: u8,
    #[serde(default)]
    always_written: u8,
    #[serde(skip_deserializing)]
    only_written: u8,
    #[serde(skip_serializing)]
    only_read: u8,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Flat {
    first: String,
    #[serde(flatten)]
    filters: Filters,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatUnion {
    #[serde(flatten)]
    shape: Shape,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatUnionBeside {
    name: String,
    #[serde(flatten)]
    shape: Shape,
    after: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatEvent {
    name: String,
    #[serde(flatten)]
    event: Event,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatReply {
    name: String,
    #[serde(flatten)]
    reply: Reply,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatMap {
    name: String,
    #[serde(flatten)]
    numbers: BTreeMap<String, i64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatAny {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatOption {
    name: String,
    #[serde(flatten)]
    place: Option<Place>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FlatTwice {
    #[serde(flatten)]
    filters: Filters,
    #[serde(flatten)]
    place: Place,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Closed {
    key: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClosedOutside {
    inner: Filters,
    maybe: Option<Closed>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub(crate) struct Renamed {
    first_name: String,
    #[serde(rename = "called")]
    nick_name: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Aliased {
    #[serde(alias = "title", alias = "headline")]
    name: String,
    #[serde(default, alias = "max")]
    limit: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Skipped {
    kept: String,
    #[serde(skip)]
    gone: u8,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Transparent {
    inner: Filters,
}

/// Whole numbers as texts: what languages without 64 bits send.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct With {
    #[serde(with = "as_text")]
    #[schemars(with = "String", regex(pattern = r"^(0|[1-9][0-9]{0,8})$"))]
    id: u64,
    #[serde(serialize_with = "Serialize::serialize", deserialize_with = "trimmed")]
    #[schemars(with = "String")]
    name: String,
}

mod as_text {
    use super::{Deserialize, Deserializer, Display, FromStr, ParseIntError, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err = ParseIntError>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

fn trimmed<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(String::deserialize(from)?.trim().to_owned())
}

/// A type of another crate, without serde.
pub(crate) struct Foreign {
    width: u16,
    height: u16,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Foreign")]
struct ForeignForm {
    width: u16,
    height: u16,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Remote {
    #[serde(with = "ForeignForm")]
    size: Foreign,
}

/// Read as one type, written as another.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
#[serde(from = "String", into = "Words")]
pub(crate) struct Sentence(Vec<String>);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Words {
    words: Vec<String>,
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        Self(text.split_whitespace().map(str::to_owned).collect())
    }
}

impl From<Sentence> for Words {
    fn from(Sentence(words): Sentence) -> Self {
        Self { words }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Converted {
    said: Sentence,
    status: Status,
}
