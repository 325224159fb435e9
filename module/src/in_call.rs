//! The tool call in which an event happens.
use serde::{Deserialize, Serialize};

/// A tool call that encloses an event or another call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InCall {
    /// Name of the tool.
    pub tool: String,
    /// Id of the call. It distinguishes two calls of the same tool.
    pub id: String,
}
