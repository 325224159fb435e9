//! A custom tool added as a function.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_module::{Context, Custom, Result, ToolGroup};

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
