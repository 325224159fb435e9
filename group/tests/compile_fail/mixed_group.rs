//! Two handlers of different contexts in one group.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Result};

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

impl Handle<u64, ()> for SayHello {
    async fn handle(self, _cx_in: &u64, _cx: &Context) -> Result<(String, ())> {
        Ok((String::new(), ()))
    }
}

/// Say goodbye.
#[derive(Deserialize, JsonSchema)]
struct SayGoodbye {}

impl Handle<String, ()> for SayGoodbye {
    async fn handle(self, _cx_in: &String, _cx: &Context) -> Result<(String, ())> {
        Ok((String::new(), ()))
    }
}

fn main() -> Result<()> {
    let _ = ToolGroup::new().handler::<SayHello>()?.handler::<SayGoodbye>()?;
    Ok(())
}
