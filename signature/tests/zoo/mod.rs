//! Types that stand for everything serde and schemars can say, shared by the tests.
//!
//! A new kind of type is a new specimen here and a line in [`tour`]: every test that
//! walks the zoo then covers it.
#![allow(dead_code, reason = "types exist for their schemas, and not every test takes all")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_signature::Signature;

/// Whatever may stand on either side of a contract.
pub(crate) trait Specimen:
    Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> Specimen for T {}

/// What a test does with each type.
pub(crate) trait Visitor {
    fn visit<T: Specimen>(&mut self, case: &str);
}

/// Shows every specimen to a visitor.
pub(crate) fn tour(visitor: &mut impl Visitor) {
    visitor.visit::<Plain>("plain");
    visitor.visit::<Documented>("documented");
    visitor.visit::<Optional>("optional");
    visitor.visit::<Defaulted>("defaulted");
    visitor.visit::<Status>("enum_with_wire_names");
    visitor.visit::<Priority>("enum_with_documented_values");
    visitor.visit::<Nested>("nested_structs");
    visitor.visit::<Lists>("lists");
    visitor.visit::<Tuple>("tuple");
    visitor.visit::<BTreeMap<String, i64>>("map_with_text_keys");
    visitor.visit::<BTreeMap<u32, String>>("map_with_number_keys");
    visitor.visit::<BTreeMap<Status, u8>>("map_with_enum_keys");
    visitor.visit::<Shape>("union_with_a_tag_inside");
    visitor.visit::<Event>("union_with_a_tag_outside");
    visitor.visit::<Reply>("union_with_a_tag_beside");
    visitor.visit::<Loose>("union_without_a_tag");
    visitor.visit::<Node>("recursive_struct");
    visitor.visit::<Tree>("recursive_union");
    visitor.visit::<Forest>("recursion_below_the_root");
    visitor.visit::<Ping>("unit_struct");
    visitor.visit::<()>("unit");
    visitor.visit::<Empty>("empty_struct");
    visitor.visit::<Name>("newtype_of_text");
    visitor.visit::<Wrapping>("newtype_of_a_struct");
    visitor.visit::<TwoWays>("read_and_written_differ");
    visitor.visit::<Bounded>("bounds");
    visitor.visit::<Flat>("flattened_struct");
    visitor.visit::<FlatUnion>("flattened_union");
    visitor.visit::<Closed>("unknown_fields_denied");
    visitor.visit::<Anything>("any_value");
}

/// Takes a specimen in a field and gives it back at the root.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
pub(crate) struct Echo<T: Specimen> {
    given: T,
}

impl<T: Specimen> Signature for Echo<T> {
    type Output = T;

    fn name() -> Cow<'static, str> {
        "give_back".into()
    }
}

/// Takes a specimen as it is.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "", transparent)]
pub(crate) struct Bare<T: Specimen>(T);

impl<T: Specimen> Signature for Bare<T> {
    type Output = T;

    fn name() -> Cow<'static, str> {
        "take".into()
    }
}

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
pub(crate) struct Optional {
    note: Option<String>,
    limit: Option<u8>,
    status: Option<Status>,
    priority: Option<Priority>,
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

#[derive(
    Serialize, Deserialize, JsonSchema, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    #[default]
    Open,
    InProgress,
    Done,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    /// Whenever there is time.
    Low,
    /// Before anything else.
    High,
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
pub(crate) struct Lists {
    tags: Vec<String>,
    rows: Vec<Filters>,
    holes: Vec<Option<String>>,
    grid: Vec<Vec<f32>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tuple(String, u8);

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
pub(crate) struct Bounded {
    #[schemars(range(min = 1, max = 10))]
    stars: u8,
    #[schemars(length(min = 2, max = 5))]
    code: String,
    #[schemars(length(max = 3))]
    tags: Vec<String>,
    #[schemars(regex(pattern = r"^[a-z]+$"))]
    word: String,
    #[schemars(email)]
    mail: String,
    #[schemars(url)]
    link: String,
    letter: char,
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
#[serde(deny_unknown_fields)]
pub(crate) struct Closed {
    key: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Anything {
    value: serde_json::Value,
}
