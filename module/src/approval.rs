//! Approval of tool calls by a person.

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::in_call::InCall;
use crate::message::ToolCall;

/// A call that waits for approval, as the approver gets it.
///
/// See [`Context::with_approver`](crate::Context::with_approver).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The calls around this one, outermost first. Not empty for an agent below another agent.
    pub path: Vec<InCall>,
    /// The call.
    pub call: ToolCall,
    /// The effect of the call.
    pub effect: Effect,
}

impl Approval {
    /// Returns a request for approval.
    #[must_use]
    pub fn new(path: Vec<InCall>, call: ToolCall, effect: Effect) -> Self {
        Self { path, call, effect }
    }
}

/// A person's decision on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Make the call.
    Approve,
    /// Do not make the call. The model gets the reason.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
    /// Make the call with other arguments. The model is informed of the change.
    Edit {
        /// All arguments, as JSON text.
        arguments: String,
    },
}

impl Decision {
    /// Returns a denial with its reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// Returns an approval with other arguments.
    pub fn edit(arguments: impl Into<String>) -> Self {
        Self::Edit { arguments: arguments.into() }
    }
}
