//! Lists and sets.

use std::collections::{BTreeSet, HashSet, LinkedList, VecDeque};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::enums::Status;
use super::plain::Filters;
use super::unions::Shape;

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Lists {
    tags: Vec<String>,
    rows: Vec<Filters>,
    holes: Vec<Option<String>>,
    grid: Vec<Vec<f32>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sequences {
    queue: VecDeque<u8>,
    chain: LinkedList<String>,
    boxed: Box<[bool]>,
    triple: [i32; 3],
    pairs: Vec<(String, i64)>,
    shapes: Vec<Shape>,
    bytes: Bytes,
}

/// A list that is always empty.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct NoneOfThem {
    none: [u8; 0],
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sets {
    sorted: BTreeSet<String>,
    hashed: HashSet<u8>,
    statuses: BTreeSet<Status>,
    maybe: Option<BTreeSet<i64>>,
}
