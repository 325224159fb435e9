//! A handler that needs another context than its group has.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Result};

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

impl Handle<String, u32> for SayHello {
    async fn handle(self, name: &String, _cx: &Context) -> Result<(String, u32)> {
        Ok((name.clone(), 0))
    }
}

fn main() {
    let _ = ToolGroup::<u64, u32>::new().handler::<SayHello>();
}
