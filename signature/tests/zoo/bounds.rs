//! Bounds that only the schema has, and texts with a format.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
pub(crate) struct MoreBounds {
    #[schemars(range(min = -1.5, max = 1.5))]
    ratio: f64,
    #[schemars(range(min = 1))]
    page: u32,
    #[schemars(length(equal = 4))]
    pin: String,
    #[schemars(length(min = 1), inner(length(min = 1, max = 8)))]
    names: Vec<String>,
    #[schemars(contains(pattern = "@"))]
    handle: String,
    #[schemars(extend("multipleOf" = 5))]
    steps: u16,
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    weight: f64,
    #[schemars(extend("examples" = ["a", "b"]))]
    example: String,
    #[schemars(range(max = 100))]
    maybe: Option<u8>,
    #[schemars(extend("uniqueItems" = true))]
    distinct: Vec<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Addresses {
    four: Ipv4Addr,
    six: Ipv6Addr,
}

/// S48: the name of something that was registered, as a list known to the compiler.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClassName(
    #[schemars(extend("enum" = ["Legal::SearchDocuments", "Circle", "HTTPGet"]))] String,
);
