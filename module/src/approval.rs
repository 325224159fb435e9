//! Approval of tool calls by a person.

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::in_call::InCall;
use crate::message::ToolCall;

/// A call that waits for a person, as an approver is asked about it.
///
/// See [`Context::with_approver`](crate::Context::with_approver).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The calls on the way to this one, the outermost first: of an agent below an
    /// agent.
    pub path: Vec<InCall>,
    /// The call.
    pub call: ToolCall,
    /// What it does to the world.
    pub effect: Effect,
}

impl Approval {
    /// What an approver is asked.
    #[must_use]
    pub fn new(path: Vec<InCall>, call: ToolCall, effect: Effect) -> Self {
        Self { path, call, effect }
    }
}

/// What a person says to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Make it.
    Approve,
    /// Do not make it; the model is told why.
    Deny {
        /// Why, for the model to read.
        reason: String,
    },
    /// Make it with these arguments; the model is told so.
    Edit {
        /// All arguments, as JSON text.
        arguments: String,
    },
}

impl Decision {
    /// Not to make the call, and why.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// To make the call with other arguments.
    pub fn edit(arguments: impl Into<String>) -> Self {
        Self::Edit { arguments: arguments.into() }
    }
}
