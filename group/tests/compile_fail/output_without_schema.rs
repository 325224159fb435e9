//! An output that lacks a derive.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::Signature;

/// Name the capital of a country.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Capital {
    country: String,
}

#[derive(Serialize, Deserialize)]
struct City {
    name: String,
}

impl Signature for Capital {
    type Output = City;
}

fn main() {}
