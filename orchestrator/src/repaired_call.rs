use serde::{Deserialize, Serialize};
use toolwright_module::ToolCall;
use toolwright_signature::Repair;

/// A call whose arguments had to be repaired before they could be read.
///
/// The history holds the call as it was read: that is what the model sees of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepairedCall {
    /// The call as the model wrote it. Of a call chosen by a selector, the arguments are
    /// the whole reply.
    pub call: ToolCall,
    /// What was done to read it; never empty.
    pub repairs: Vec<Repair>,
}
