//! A handler that gives only a text.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::Handle;
use toolwright_module::{Context, Result};

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

impl Handle for SayHello {
    async fn handle(self, (): &(), _cx: &Context) -> Result<String> {
        Ok("Hello!".to_owned())
    }
}

fn main() {}
