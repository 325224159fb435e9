//! Types that contain themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// What comes after.
    pub(crate) next: Option<Box<Node>>,
    #[serde(default)]
    pub(crate) weight: u8,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tree {
    Leaf(u8),
    Branch { left: Box<Tree>, right: Box<Tree> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Forest {
    tallest: Tree,
    /// All the others.
    others: Vec<Tree>,
    path: Node,
}

/// Two types that contain each other.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Folder {
    name: String,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Entry {
    File { size: u64 },
    Folder { folder: Folder },
}

/// Contains itself in a map.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Menu {
    label: String,
    below: BTreeMap<String, Menu>,
}

/// Contains itself without a tag.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Term {
    Number(i64),
    Text(String),
    List(Vec<Term>),
    Call { function: String, arguments: Vec<Term> },
}

/// Contains itself in an optional field with a tag beside.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", content = "on")]
pub(crate) enum Logic {
    True,
    Not(Box<Logic>),
    And(Vec<Logic>),
}
