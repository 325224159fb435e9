//! The steps of a run, and their results.
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Exhausted, LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::message::ToolResult;
use toolwright_module::{Reply, Request, ToolCall};

/// A step of a run: the next thing that its driver has to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Number of the step. Its result has the same number.
    pub number: u64,
    /// The thing to do.
    pub kind: StepKind,
}

/// The kind of a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StepKind {
    /// Send this request to the model.
    CallModel(Request),
    /// Call these tools. They may run concurrently, and all of them exist. The run itself answers
    /// calls of unknown tools.
    CallTools(Vec<ToolCall>),
    /// Ask a person about these calls. No call of the model's reply is made before that.
    AwaitApproval(Vec<ToolCall>),
    /// The run is done. It continues only if the answer is rejected, or after `follow_up`.
    Done(RunResult),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Number of the step.
    pub step: u64,
    /// Result of the model, the tools or the person.
    pub kind: StepResultKind,
    /// Duration of the step, without waits for a person.
    #[serde(default)]
    pub elapsed: Duration,
    /// Cost of the step, including models inside tools. If it is `None`, the run counts the calls
    /// and the usage in the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// The kinds of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepResultKind {
    /// The reply, for [`StepKind::CallModel`].
    Model(Reply),
    /// One result for each call, in any order, for [`StepKind::CallTools`].
    Tools(Vec<ToolResult>),
    /// One decision for each call, by its id, for [`StepKind::AwaitApproval`].
    Decisions(Vec<(String, Decision)>),
    /// The reason why the answer cannot be used, for [`StepKind::Done`]. The model
    /// gets it and continues.
    Rejected(String),
    /// The limit that forbids the step. After [`StepKind::CallModel`] the run ends. After
    /// [`StepKind::CallTools`] the model gets as the result of every open call that it was not made.
    /// Give it only if none of these calls was begun.
    Exhausted(LimitKind),
}

impl StepResult {
    /// Returns the model's reply as a result.
    pub fn model(step: u64, reply: Reply) -> Self {
        Self::new(step, StepResultKind::Model(reply))
    }

    /// Returns the tools' results as a result.
    pub fn tools(step: u64, results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self::new(step, StepResultKind::Tools(results.into_iter().collect()))
    }

    /// Returns a person's decisions as a result. Each has the id of its call.
    ///
    /// ```
    /// # use toolwright_module::approval::Decision;
    /// # use toolwright_orchestrator::StepResult;
    /// let answer = StepResult::decisions(3, [("call_1", Decision::deny("Not today."))]);
    /// ```
    pub fn decisions<I: Into<String>>(
        step: u64,
        decisions: impl IntoIterator<Item = (I, Decision)>,
    ) -> Self {
        let decisions = decisions.into_iter().map(|(id, decision)| (id.into(), decision));
        Self::new(step, StepResultKind::Decisions(decisions.collect()))
    }

    /// Returns a rejection of the run's answer, with the reason for the model.
    pub fn rejected(step: u64, why: impl Into<String>) -> Self {
        Self::new(step, StepResultKind::Rejected(why.into()))
    }

    /// Returns the result of a step that a budget forbids, because it has too little left.
    pub fn exhausted(step: u64, exhausted: &Exhausted) -> Self {
        Self::new(step, StepResultKind::Exhausted(exhausted.limit))
    }

    pub(crate) fn new(step: u64, kind: StepResultKind) -> Self {
        Self { step, kind, elapsed: Duration::ZERO, spent: None }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunResult {
    /// The model's last text. In a typed run, the output, which
    /// [`Contract::read_output`](toolwright_signature::Contract::read_output) reads. Empty if the
    /// run ended without one.
    pub answer: String,
    /// The ending of the run.
    pub ending: Ending,
    /// The limit that was reached, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// The provider's word for why the model stopped, for the endings [`Unclear`](Ending::Unclear)
    /// and [`Refused`](Ending::Refused).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
