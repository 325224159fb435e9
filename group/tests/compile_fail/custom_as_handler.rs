//! A custom tool added as a function.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Custom, ToolGroup};
use toolwright_module::{Context, Result};

/// Write a biography.
#[derive(Deserialize, JsonSchema)]
struct Bio(String);

impl Custom for Bio {
    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((self.0, ()))
    }
}

fn main() {
    let _ = ToolGroup::<(), ()>::new().handler::<Bio>();
}
