use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Exhausted, LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::message::ToolResult;
use toolwright_module::{Reply, Request, ToolCall};

/// One thing to be done, with its number in the run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Which step this is; its answer says so too.
    pub number: u64,
    /// What is to be done.
    pub kind: StepKind,
}

/// What a step asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StepKind {
    /// Ask the model.
    CallModel(Request),
    /// Call these tools: all of them may run side by side, and all of them exist. The
    /// run answers calls of others itself.
    CallTools(Vec<ToolCall>),
    /// Ask a person about these calls; nothing of the model's reply is done before.
    AwaitApproval(Vec<ToolCall>),
    /// Nothing more, unless the answer is rejected or the run is asked on.
    Done(RunResult),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepResult {
    /// Which step it answers.
    pub step: u64,
    /// What came of it.
    pub kind: StepResultKind,
    /// How long it took; waiting for a person does not count.
    #[serde(default)]
    pub elapsed: Duration,
    /// What it came to, models inside tools included; `None` counts the calls and what
    /// the reply says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// The kinds of answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepResultKind {
    /// To [`StepKind::CallModel`].
    Model(Reply),
    /// To [`StepKind::CallTools`]: one result for each call, in any order.
    Tools(Vec<ToolResult>),
    /// To [`StepKind::AwaitApproval`]: one decision for each call, by its id.
    Decisions(Vec<(String, Decision)>),
    /// To [`StepKind::Done`] of a typed run: why the answer cannot be used. The model
    /// is told and goes on.
    Rejected(String),
    /// To [`StepKind::CallModel`]: it cannot be done, because this ran out. The run ends.
    Exhausted(LimitKind),
}

impl StepResult {
    /// The model's reply.
    pub fn model(step: u64, reply: Reply) -> Self {
        Self::new(step, StepResultKind::Model(reply))
    }

    /// The tools' results.
    pub fn tools(step: u64, results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self::new(step, StepResultKind::Tools(results.into_iter().collect()))
    }

    /// What a person decided on each call, by its id.
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

    /// Why the run's answer cannot be used, for the model to read.
    pub fn rejected(step: u64, why: impl Into<String>) -> Self {
        Self::new(step, StepResultKind::Rejected(why.into()))
    }

    /// The model cannot be asked, because a budget has too little left.
    pub fn exhausted(step: u64, exhausted: &Exhausted) -> Self {
        Self::new(step, StepResultKind::Exhausted(exhausted.limit))
    }

    pub(crate) fn new(step: u64, kind: StepResultKind) -> Self {
        Self { step, kind, elapsed: Duration::ZERO, spent: None }
    }

    /// The same with how long it took.
    #[must_use]
    pub fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The same with what it came to, as a ledger counted it.
    #[must_use]
    pub fn with_spent(mut self, spent: Spent) -> Self {
        self.spent = Some(spent);
        self
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunResult {
    /// The model's last text; in a typed run the output, as
    /// [`Contract::read_output`](toolwright_signature::Contract::read_output) reads it.
    /// Empty if the run ended without one.
    pub answer: String,
    /// How the run ended.
    pub ending: Ending,
    /// Which limit was reached, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// The provider's word for why the model stopped, of an ending that is
    /// [`Unclear`](Ending::Unclear).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
