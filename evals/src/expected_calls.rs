//! The calls that a case expects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that a case expects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExpectedCall {
    /// Name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
}

impl ExpectedCall {
    /// Returns a call with these arguments.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self { tool: tool.into(), arguments }
    }
}
