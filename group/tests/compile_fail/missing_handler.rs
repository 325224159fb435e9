//! A type that is filled in and does nothing.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::ToolGroup;

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

fn main() {
    let _ = ToolGroup::<(), ()>::new().handler::<SayHello>();
}
