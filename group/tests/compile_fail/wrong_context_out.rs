//! A handler that gives another context than its group has.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Result};

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

impl Handle<(), u32> for SayHello {
    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, u32)> {
        Ok((String::new(), 0))
    }
}

fn main() {
    let _ = ToolGroup::<(), f64>::new().handler::<SayHello>();
}
