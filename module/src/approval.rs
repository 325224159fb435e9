//! Approval of tool calls by a person.

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::in_call::InCall;
use crate::message::ToolCall;

/// A call that waits for approval, as the approver gets it.
///
/// See [`Context::with_approver`](crate::Context::with_approver).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The calls around this one, outermost first. Not empty for an agent below another agent.
    pub path: Vec<InCall>,
    /// Call that waits, as it would be made.
    pub call: ToolCall,
    /// Effect of the tool.
    pub effect: Effect,
    /// Whether the call was started before and it is unknown whether it took effect. For example,
    /// the program was killed during the call. [`Decision`] says what each decision means then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Number of earlier questions about this call. There are some if the call was made again, and
    /// its outcome was lost again. A decision is for one question.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_before: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A person's decision on a call.
///
/// A call with an [unknown](Approval::unknown) outcome is made again by `Approve`, unless its
/// effect is irreversible. Such a call needs `CallAgain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Make the call.
    Approve,
    /// Make the call again, although it may have taken effect already. It is for a call whose
    /// outcome is unknown, and otherwise like `Approve`.
    CallAgain,
    /// The call has taken effect, and this is its result. It is only for a call whose outcome is
    /// unknown.
    Happened {
        /// The result, for the model.
        result: String,
    },
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
}
