//! The input type without `impl Signature`.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Predict, testing::SchemaDriven};

/// Name the capital of a country.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Capital {
    country: String,
}

fn main() {
    let _ = Predict::<Capital>::new(SchemaDriven::default());
}
