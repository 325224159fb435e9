//! Approval of tool calls by a person.

use serde::de::IgnoredAny;
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
    /// Why the call waits, if there is more to say than that its tool always waits. For example,
    /// ``its argument `to` is quoted from the result of `read_mail` ``.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Approval {
    /// Checks that a decision suits the call. Homes of runs and drivers check with this function before
    /// they record the decision. Whether new arguments fit the tool is a question for its contract.
    ///
    /// ```
    /// use toolwright_module::approval::{Approval, Decision, WrongDecision};
    /// use toolwright_module::{Effect, ToolCall};
    ///
    /// let call = ToolCall::new("1", "pay", "{}");
    /// let (path, effect) = (Vec::new(), Effect::Irreversible);
    /// let mut asked =
    ///     Approval { path, call, effect, unknown: false, asked_before: 0, reason: None };
    /// assert_eq!(asked.check(&Decision::Approve), Ok(()));
    /// assert_eq!(asked.check(&Decision::CallAgain), Err(WrongDecision::NotMade));
    ///
    /// // The program was killed during the call.
    /// asked.unknown = true;
    /// assert_eq!(asked.check(&Decision::Approve), Err(WrongDecision::Irreversible));
    /// assert_eq!(asked.check(&Decision::CallAgain), Ok(()));
    /// ```
    ///
    /// # Errors
    ///
    /// [`WrongDecision`] says what to decide instead.
    pub fn check(&self, decision: &Decision) -> Result<(), WrongDecision> {
        match decision {
            // A program may approve every call. That must not pay twice.
            Decision::Approve | Decision::Edit { .. }
                if self.unknown && self.effect == Effect::Irreversible =>
            {
                Err(WrongDecision::Irreversible)
            }
            Decision::CallAgain | Decision::Happened { .. } if !self.unknown => {
                Err(WrongDecision::NotMade)
            }
            Decision::Edit { arguments } => match serde_json::from_str::<IgnoredAny>(arguments) {
                Ok(_) => Ok(()),
                Err(error) => Err(WrongDecision::Arguments(error.to_string())),
            },
            _ => Ok(()),
        }
    }
}

/// The reason why a decision does not suit its call. The text follows the name of the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongDecision {
    /// A plain approval cannot repeat an irreversible call whose outcome is unknown.
    #[error("may have taken effect and is irreversible; decide `CallAgain`, `Happened` or `Deny`")]
    Irreversible,
    /// The call was never begun, so it has no result and cannot be made again.
    #[error("was not made, so it has no result; decide `Approve`, `Edit` or `Deny`")]
    NotMade,
    /// The new arguments are not JSON.
    #[error("needs its arguments as JSON: {0}")]
    Arguments(String),
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
    /// Make the call again, although it may have taken effect already. It is only for a call whose
    /// outcome is unknown.
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
