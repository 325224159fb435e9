//! A module for two signatures at once.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Module, Result, Signature};

/// Add.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {}

impl Signature for Add {
    type Output = u8;
}

/// Multiply.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Multiply {}

impl Signature for Multiply {
    type Output = u8;
}

struct Calculator;

impl Module for Calculator {
    type Signature = Add;
    async fn call(&self, _input: Add, _cx: &Context) -> Result<u8> {
        Ok(1)
    }
}

impl Module for Calculator {
    type Signature = Multiply;
    async fn call(&self, _input: Multiply, _cx: &Context) -> Result<u8> {
        Ok(2)
    }
}

fn main() {}
