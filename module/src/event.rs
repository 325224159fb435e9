//! Events: what happens in a run, for a screen, a log or a recorder.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_signature::Repair;

use crate::approval::Decision;
use crate::budget::{LimitKind, Money};
use crate::error::Stage;
pub use crate::in_call::InCall;
use crate::ledger::Overshoot;
use crate::message::ToolCall;
use crate::model::Reply;

/// Something that happened in a call, for a screen, a log or a recorder.
///
/// Events tell; they decide nothing, and a run is the same without a listener. They
/// serialise, one object each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The calls that it happened in, the outermost first: empty for an agent that
    /// nobody called as a tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<InCall>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
///
/// An agent tells [`Started`](Self::Started) when it is driven and ends with exactly one
/// of [`Done`](Self::Done) and [`Failed`](Self::Failed); each
/// [`ToolStarted`](Self::ToolStarted) has its [`ToolFinished`](Self::ToolFinished),
/// unless the run was dropped or failed in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// An agent goes to work on a run, a new one or one that was stored.
    Started {
        /// The agent's name.
        agent: String,
        /// Where the run is: 0 if it is new.
        step: u64,
    },
    /// The model wrote some text.
    TextDelta {
        /// The text since the last delta.
        text: String,
    },
    /// The model thought aloud.
    ReasoningDelta {
        /// The text since the last delta.
        text: String,
    },
    /// A model call ended well.
    ModelReplied {
        /// The model's own name, as its server says it.
        model: String,
        /// The reply, with what it cost in tokens.
        reply: Reply,
        /// What it cost in money, as far as prices are known.
        money: Money,
        /// How long it took, retries included.
        elapsed: Duration,
    },
    /// A model call cost more than was reserved for it.
    Overshot {
        /// The model's name.
        model: String,
        /// By how much.
        overshoot: Overshoot,
    },
    /// A tool is about to run.
    ToolStarted {
        /// The call.
        call: ToolCall,
    },
    /// A tool kept its thread for so long without giving way that nothing else could
    /// run on it, deadlines included: move such work to `spawn_blocking`.
    ToolBlocked {
        /// The call.
        call: ToolCall,
        /// How long at a stretch.
        elapsed: Duration,
    },
    /// A tool has run, or could not.
    ToolFinished {
        /// The call, with the arguments as the model wrote them.
        call: ToolCall,
        /// What the model is told.
        text: String,
        /// Why it failed, for the user: the whole error as `{:#}` shows it.
        error: Option<String>,
        /// What had to be done to read the arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<Repair>,
        /// How long it took.
        elapsed: Duration,
    },
    /// A model's typed answer was read after repairs.
    AnswerRepaired {
        /// The name of the signature that the answer is the output of.
        name: String,
        /// What had to be done to read it; never empty.
        repairs: Vec<Repair>,
    },
    /// Calls wait for a person.
    ApprovalAwaited {
        /// The calls.
        calls: Vec<ToolCall>,
    },
    /// A person decided on a call.
    Decided {
        /// The call's id.
        id: String,
        /// What was decided.
        decision: Decision,
    },
    /// Something ran out.
    LimitReached {
        /// What.
        limit: LimitKind,
        /// Whose limit it is; of a ledger what was left, what was asked and who asked.
        reason: String,
    },
    /// An agent came to an end; one that is [`Refused`](Ending::Refused),
    /// [`Stuck`](Ending::Stuck) or [`Unclear`](Ending::Unclear) is an error to the caller.
    Done {
        /// Its answer.
        answer: String,
        /// How it ended.
        ending: Ending,
    },
    /// An agent could not go on; its run is where it was.
    Failed {
        /// Where it failed.
        stage: Stage,
        /// Why: the whole error as `{:#}` shows it.
        error: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// The model was done.
    Answered,
    /// A limit of the run was reached. The answer is what the model could say then.
    LimitReached,
    /// The answer reached `max_output_tokens` and is cut off.
    CutOff,
    /// The model refused; the answer is what it said.
    Refused,
    /// The model made the same mistake too often in a row; the answer says which.
    Stuck,
    /// The model stopped for a reason that this version does not know
    /// ([`Finish::Other`](crate::model::Finish::Other)): the answer may be incomplete.
    Unclear,
}
