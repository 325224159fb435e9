//! The tool that the benches' models call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Effect, Signature, Tool, from_fn};

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Add {
    /// The first number.
    pub(crate) a: i64,
    /// The second number.
    pub(crate) b: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    pub(crate) sum: i64,
}

impl Signature for Add {
    type Output = Sum;
}

#[allow(dead_code, reason = "one bench's tool waits before it adds")]
pub(crate) fn add() -> Tool {
    let add = from_fn(async |Add { a, b }: Add| Ok(Sum { sum: a + b }));
    Tool::new(add.with_effect(Effect::Read)).unwrap()
}
