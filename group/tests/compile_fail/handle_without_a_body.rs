//! `impl Handle` without its one function.
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::Handle;

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct SayHello {}

impl Handle for SayHello {}

fn main() {}
