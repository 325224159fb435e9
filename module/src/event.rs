//! Events of a run, for user interfaces, logs and recorders.

use std::collections::BTreeMap;
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

/// An event of a call, for user interfaces, logs and recorders.
///
/// Events are notifications only: a run behaves the same without a listener. Each event serializes
/// to one JSON object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The calls around the event, outermost first. Empty for an agent that is not called as a
    /// tool.
    ///
    /// What an agent asks a model beside its task has an element of its own: `compact` for the summary
    /// of a compaction, with the number of the request before which it is made, and `check` for the
    /// check of a call, with the id of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<InCall>,
    /// The event itself.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The kind of an event, with its data.
///
/// An agent emits [`Started`](Self::Started) when it begins to run, and exactly one of
/// [`Done`](Self::Done) and [`Failed`](Self::Failed) at the end. Each
/// [`ToolStarted`](Self::ToolStarted) is followed by its [`ToolFinished`](Self::ToolFinished),
/// unless the run was dropped or failed in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// An agent started a new run or resumed a stored one.
    Started {
        /// The agent's name.
        agent: String,
        /// The step number of the run. 0 for a new run.
        step: u64,
    },
    /// The model wrote some text.
    TextDelta {
        /// The text since the last delta.
        text: String,
    },
    /// The model wrote some reasoning.
    ReasoningDelta {
        /// The text since the last delta.
        text: String,
    },
    /// The model wrote a part of a typed answer, which is JSON. Give it to a
    /// [`Partial`](crate::Partial), which reads the fields so far.
    ///
    /// The answer is shown as the model writes it. It may not fit, and then the model writes another
    /// one. When a streamed run ends well, the pieces since the last `at: 0` read as its answer. If the
    /// model wrote it in another form or place, or a repair changed it, the whole answer follows at 0
    /// before [`Done`](Self::Done).
    AnswerDelta {
        /// Length of the answer before this piece, in bytes. At 0 another answer begins, and what was
        /// shown before is void.
        at: usize,
        /// The text since the last delta.
        text: String,
    },
    /// The model wrote a part of a call of a tool.
    CallDelta {
        /// Index that distinguishes the calls of one reply.
        index: usize,
        /// Name of the tool, as far as it is known.
        name: String,
        /// The arguments since the last delta of this call.
        arguments: String,
    },
    /// A model call succeeded.
    ModelReplied {
        /// The model's name, as its server reports it.
        model: String,
        /// The reply, with its usage.
        reply: Reply,
        /// The cost in money. `None` if the price of the model is unknown. If the usage is
        /// [`incomplete`](crate::model::Usage::incomplete), the call may have cost more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        money: Option<Money>,
        /// Duration of the call, including retries.
        elapsed: Duration,
    },
    /// A model call cost more than was reserved for it. There is one event for each unit.
    Overshot {
        /// The model's name.
        model: String,
        /// The reserved and the actual amount.
        overshoot: Overshoot,
    },
    /// A tool is about to run.
    ToolStarted {
        /// Call that started.
        call: ToolCall,
    },
    /// A tool blocked its thread so long that no other task, and no deadline, could run on it. Move
    /// such work to `spawn_blocking`.
    ToolBlocked {
        /// Call whose tool blocks its thread.
        call: ToolCall,
        /// Duration of the longest poll.
        elapsed: Duration,
    },
    /// A tool call finished, or failed to start.
    ToolFinished {
        /// The call, with the arguments as the model wrote them.
        call: ToolCall,
        /// The text that the model gets.
        text: String,
        /// The error for the user, in the `{:#}` form. `None` if the call succeeded.
        error: Option<String>,
        /// The repairs of the arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<Repair>,
        /// Duration of the call.
        elapsed: Duration,
    },
    /// A typed answer of a model was read with repairs.
    AnswerRepaired {
        /// Name of the signature whose output the answer is.
        name: String,
        /// The repairs. Never empty.
        repairs: Vec<Repair>,
    },
    /// Calls wait for approval by a person.
    ApprovalAwaited {
        /// Calls that wait for a person.
        calls: Vec<ToolCall>,
        /// Why they wait, by their ids, if there is more to say than that their tools always wait.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        reasons: BTreeMap<String, String>,
    },
    /// A person decided on a call.
    Decided {
        /// The call's id.
        id: String,
        /// What was decided.
        decision: Decision,
    },
    /// A hook acted on a call. A hook that only runs the call emits no event.
    HookActed {
        /// The hook's name.
        hook: String,
        /// The tool of a tool call. `None` for a model call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// What the hook did.
        did: HookAct,
    },
    /// An agent shortened its conversation before a request. The tokens are estimates.
    Compacted {
        /// Number of tokens that the request would have had.
        tokens_before: u64,
        /// Number of tokens that the request has.
        tokens_after: u64,
        /// Number of results that were cleared or cut.
        cleared: u64,
        /// The summary of the messages that are not sent any more. `None` if only results were cleared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Duration, with that of the summary.
        elapsed: Duration,
    },
    /// A limit was reached.
    LimitReached {
        /// The kind of limit.
        limit: LimitKind,
        /// The owner of the limit. For a ledger also the amount left, the amount requested, and the
        /// caller.
        reason: String,
    },
    /// An agent finished. For the caller, [`Refused`](Ending::Refused), [`Stuck`](Ending::Stuck)
    /// and [`Unclear`](Ending::Unclear) are errors.
    Done {
        /// The agent's answer.
        answer: String,
        /// The ending of the run.
        ending: Ending,
    },
    /// An agent stopped with an error. Its run stays at its last step.
    Failed {
        /// The stage that failed.
        stage: Stage,
        /// The error, in the `{:#}` form.
        error: String,
    },
}

/// What a [`Hook`](crate::hook::Hook) did to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookAct {
    /// It answered in place of the model or the tool, which was not called or failed.
    Answered,
    /// It returned an error in place of a result. The call was not made, or had succeeded.
    Refused,
    /// It runs the call again.
    Retried,
    /// It says that it changed the call or its result.
    Changed,
}

/// The ending of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// The model gave its answer.
    Answered,
    /// The run reached a limit. The answer is what the model could give at that point.
    LimitReached,
    /// The answer reached `max_output_tokens` and is cut off.
    CutOff,
    /// The model refused. The answer is its refusal.
    Refused,
    /// The model repeated the same mistake too often. The answer names the mistake.
    Stuck,
    /// The model stopped for a reason that this version does not know
    /// ([`Finish::Other`](crate::model::Finish::Other)). The answer may be incomplete.
    Unclear,
}
