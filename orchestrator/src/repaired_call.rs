//! A call with repaired arguments.
use serde::{Deserialize, Serialize};
use toolwright_module::ToolCall;
use toolwright_signature::Repair;

/// A call whose arguments had to be repaired, in its original form.
///
/// The history, and so the model, has the repaired form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepairedCall {
    /// The call as the model wrote it. For a call chosen by a selector, the arguments are the whole
    /// reply.
    pub call: ToolCall,
    /// The repairs. Never empty.
    pub repairs: Vec<Repair>,
}
