//! A module that does not say which signature it fulfils.
use toolwright_module::{Context, Module, Result};

struct Anything;

impl Module for Anything {
    async fn call(&self, input: String, _cx: &Context) -> Result<String> {
        Ok(input)
    }
}

fn main() {}
