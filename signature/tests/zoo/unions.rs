//! Enums with data, with a tag in each of serde's places or without one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_signature::type_tag;

use super::enums::{Priority, Status};
use super::plain::{Filters, Place};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
    Nothing,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    Started,
    Moved { x: i32, y: i32 },
    Failed(String),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub(crate) enum Reply {
    Text(String),
    Number(i64),
    Silence,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Loose {
    Text(String),
    Whole(i64),
    Broken(f64),
    Place(Place),
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Circle {
    radius: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Square {
    side: f64,
    label: Option<String>,
}

/// A union of structs, told apart by `_type` (S43).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_type")]
pub(crate) enum Figure {
    Circle(Circle),
    Square(Square),
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Drawing {
    main: Figure,
    others: Vec<Figure>,
    background: Option<Figure>,
}

/// A union of enums (S36).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Action {
    Priority(Priority),
    Status(Status),
}

/// S35 and S36 in one.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Flexible {
    value: Scalar,
    action: Action,
    fallback: Option<Scalar>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Text(String),
    Whole(i64),
    Broken(f64),
}

/// What `serde_json::Number` says in one word (S40), as a union.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Numeric {
    Whole(i64),
    Broken(f64),
}

/// Both members can fit: anything with a name is the first.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Overlapping {
    Named { name: String, size: Option<u8> },
    Sized { size: u8, name: Option<String> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum MapOrPairs {
    Map(BTreeMap<String, i64>),
    Pairs(Vec<Pair>),
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pair {
    key: String,
    value: i64,
}

/// Every kind of variant, with the tag outside.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Command {
    Stop,
    Wait(u8),
    Goto(i32, i32),
    Find {
        /// Words to look for.
        search_text: String,
        #[serde(default)]
        max_hits: u8,
    },
    Filter(Filters),
    Maybe(Option<u8>),
    #[serde(skip)]
    Hidden,
}

/// Every kind of variant, with the tag beside.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c", deny_unknown_fields)]
pub(crate) enum Beside {
    Unit,
    New(Place),
    Pair(String, u8),
    Fields { x: i32, y: Option<i32> },
    Maybe(Option<u8>),
}

/// Every kind of variant that can have its tag inside.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Inside {
    Clear,
    Set { key: String, value: i64 },
    GetAll { keys: Vec<String> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum NestedUnion {
    Shape { shape: Shape },
    Event { event: Event },
    Reply { reply: Option<Reply> },
}

/// A tagged union whose last member takes whatever has no known tag.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WithOther {
    Known {
        id: u8,
    },
    #[serde(other)]
    Other,
}

/// A tagged union with a member that has no tag.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartlyTagged {
    Named(String),
    #[serde(untagged)]
    Number(i64),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum MaybeText {
    Text(String),
    Nothing,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Outcome {
    last: Result<u8, String>,
}

/// A struct that names itself (S43).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_type")]
#[schemars(transform = type_tag::<Self>)]
pub(crate) struct Point {
    x: i64,
    note: Option<String>,
}
