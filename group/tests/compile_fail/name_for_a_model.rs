//! The model's name where the model is wanted.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Predict, Signature};

/// Name the capital of a country.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Capital {
    country: String,
}

impl Signature for Capital {
    type Output = String;
}

fn main() {
    let _ = Predict::<Capital>::new("gpt-5-mini");
}
