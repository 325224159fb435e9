use serde::{Deserialize, Serialize};

/// A call of a tool, as something that others happen in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InCall {
    /// The tool's name.
    pub tool: String,
    /// The call's id: tells two calls of one tool apart.
    pub id: String,
}

impl InCall {
    /// A call of a tool.
    pub fn new(tool: impl Into<String>, id: impl Into<String>) -> Self {
        Self { tool: tool.into(), id: id.into() }
    }
}
