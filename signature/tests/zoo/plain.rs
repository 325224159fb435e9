//! Texts, numbers, booleans, structs of them, and types without a value.

use std::borrow::Cow;
use std::num::{NonZeroI32, NonZeroU8};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_signature::Signature;

use super::enums::{Priority, Status};

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Plain {
    title: String,
    count: u32,
    ratio: f64,
    done: bool,
    // Not in alphabetical order on purpose: order is declaration order.
    attempts: i8,
}

/// Search legal documents by query.
///
/// A second paragraph.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Documented {
    /// Words to look for.
    query: String,
    /// Only documents with this status.
    status: Status,
    /// Where to look.
    place: Option<Place>,
}

/// A place.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Place {
    city: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Filters {
    year: Option<i32>,
    status: Status,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Nested {
    filters: Filters,
    more: Option<Filters>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Integers {
    tiny: i8,
    small: i16,
    usual: i32,
    large: i64,
    native: isize,
    natural_tiny: u8,
    natural_small: u16,
    natural: u32,
    natural_large: u64,
    natural_native: usize,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Huge {
    signed: i128,
    natural: u128,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Floats {
    single: f32,
    double: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct NonZeros {
    divisor: NonZeroU8,
    step: NonZeroI32,
    maybe: Option<NonZeroU8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Texts {
    letter: char,
    cow: Cow<'static, str>,
    boxed: Box<str>,
    shared: Arc<str>,
    path: PathBuf,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pointers {
    boxed: Box<Place>,
    shared: Arc<Place>,
    cow: Cow<'static, [u8]>,
    nothing: (),
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Spans {
    pages: Range<u32>,
    years: RangeInclusive<i32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ping;

impl Signature for Ping {
    type Output = ();
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Empty {}

impl Signature for Empty {
    type Output = ();
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Name(String);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Wrapping(Filters);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tuple(String, u8);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tuples {
    pair: (String, i64),
    nested: ((bool, u8), Place),
    single: (String,),
    maybe: Option<(u8, Option<String>)>,
}

/// Instances share a name and differ in their schema.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    next: Option<T>,
    total: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pages {
    words: Page<String>,
    places: Page<Place>,
}

/// Fields with the names that lowering itself gives.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reserved {
    key: String,
    value: i64,
    input: Option<String>,
    result: Vec<u8>,
    item_0: bool,
    additional_properties: Vec<String>,
    _type: Option<String>,
}

/// Looks like a wrapped input.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct LikeInput {
    input: Option<Box<LikeResult>>,
}

/// Looks like a wrapped output.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct LikeResult {
    result: String,
}

/// Looks like a tuple that became an object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct LikeTuple {
    item_0: String,
    item_1: u8,
}

/// Names that are no words of Rust, JSON pointers or schemas.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct OddNames {
    #[serde(rename = "$ref")]
    reference: String,
    #[serde(rename = "a b")]
    spaced: u8,
    #[serde(rename = "straße/~")]
    escaped: bool,
    #[serde(rename = "properties")]
    properties: Option<String>,
    #[serde(rename = "required")]
    required: Vec<String>,
    r#type: Priority,
}
