use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_module::{Reply, Request, ToolCall, ToolResult, Usage};

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
    /// Nothing more, unless the answer is rejected.
    Done(RunResult),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// Which step it answers.
    pub step: u64,
    /// What came of it.
    pub kind: AnswerKind,
    /// How long it took.
    #[serde(default)]
    pub elapsed: Duration,
    /// What models below the tools used; a reply carries its own.
    #[serde(default)]
    pub nested_usage: Usage,
}

/// The kinds of answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerKind {
    /// To [`StepKind::CallModel`].
    Model(Reply),
    /// To [`StepKind::CallTools`]: one result for each call, in any order.
    Tools(Vec<ToolResult>),
    /// To [`StepKind::Done`] of a typed run: why the answer cannot be used. The model
    /// is told and goes on.
    Rejected(String),
}

impl Answer {
    /// The model's reply.
    pub fn model(step: u64, reply: Reply) -> Self {
        Self::new(step, AnswerKind::Model(reply))
    }

    /// The tools' results.
    pub fn tools(step: u64, results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self::new(step, AnswerKind::Tools(results.into_iter().collect()))
    }

    /// Why the run's answer cannot be used, for the model to read.
    pub fn rejected(step: u64, why: impl Into<String>) -> Self {
        Self::new(step, AnswerKind::Rejected(why.into()))
    }

    fn new(step: u64, kind: AnswerKind) -> Self {
        Self { step, kind, elapsed: Duration::ZERO, nested_usage: Usage::default() }
    }

    /// The same with how long it took.
    #[must_use]
    pub fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The same with what models below the tools used.
    #[must_use]
    pub fn with_nested_usage(mut self, usage: Usage) -> Self {
        self.nested_usage = usage;
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
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// The model was done.
    Answered,
    /// The iterations were used up. The answer is what the model could say then.
    LimitReached,
    /// The answer reached `max_output_tokens` and is cut off.
    CutOff,
    /// The model refused; the answer is what it said.
    Refused,
}
