//! The result of a finished run.
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::{Message, ToolCall};

use crate::conversation::{Carried, Conversation, Origin};
use crate::perform::{LeftOut, common};
use crate::repaired_call::RepairedCall;
use crate::run::Run;
use crate::state::RunState;
use crate::step::RunResult;

/// A finished run: its answer, how it ended and what it used.
///
/// The answer has the type of the [`Agent`](crate::Agent): a text, or a value.
///
/// It serializes as JSON, for example for a log or a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finished<O = String> {
    /// The model's last text, or the typed answer.
    pub answer: O,
    /// The ending of the run. After [`Ending::LimitReached`] the answer may be incomplete.
    pub ending: Ending,
    /// The limit that ended the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// The provider's stop reason, if the ending is [`Unclear`](Ending::Unclear) or
    /// [`Refused`](Ending::Refused).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of rounds of tool calls.
    pub iterations: u32,
    /// Everything that the run used, including models and tools below its tools.
    pub spent: Spent,
    /// The names of the tools that were called, each once.
    pub tools_used: Vec<String>,
    /// The tool calls that failed, with the whole error; the model gets a shorter text.
    ///
    /// A call of a tool that does not exist is only in the history. The list covers only
    /// the last call of `drive`, because a stored run does not keep failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ToolFailure>,
    /// The calls whose arguments had to be repaired, as the model wrote them. A stored run
    /// keeps them. A typed answer is a call of `finish`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repaired: Vec<RepairedCall>,
    /// The whole conversation.
    pub history: Vec<Arc<Message>>,
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub(crate) carried: Box<Carried>,
}

/// A tool call that failed, with the error for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolFailure {
    /// Call that failed.
    pub call: ToolCall,
    /// The whole error, as `{:#}` shows it.
    pub error: String,
}

impl Finished {
    pub(crate) fn new(run: &Run, result: RunResult, failures: Vec<ToolFailure>) -> Self {
        Self {
            answer: result.answer,
            ending: result.ending,
            limit: result.limit,
            reason: result.reason,
            iterations: run.iterations(),
            spent: run.spent(),
            tools_used: run.tools_used().to_vec(),
            failures,
            repaired: run.repaired().to_vec(),
            history: run.history().to_vec(),
            carried: Box::new(run.carried()),
        }
    }

    /// Replaces the answer's text by the value that was read from it.
    pub(crate) fn with_answer<O>(self, answer: O) -> Finished<O> {
        Finished {
            answer,
            ending: self.ending,
            limit: self.limit,
            reason: self.reason,
            iterations: self.iterations,
            spent: self.spent,
            tools_used: self.tools_used,
            failures: self.failures,
            repaired: self.repaired,
            history: self.history,
            carried: self.carried,
        }
    }
}

impl<O> Finished<O> {
    /// Returns the conversation, for the next task: [`Task::with_conversation`].
    ///
    /// [`Task::with_conversation`]: crate::Task::with_conversation
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        Conversation { history: self.history.clone(), carried: self.carried.clone() }
    }

    /// Sets the id of the stored run that this is the result of, as
    /// [`Conversation::of_run`] does.
    #[must_use]
    pub fn of_run(mut self, id: &str) -> Self {
        self.carried.run = Origin(Some(id.into()));
        self
    }

    /// Takes out the messages and the edit that the start of the run has, for the record of the end.
    /// Returns what was taken out.
    pub fn leave_out(&mut self, start: &RunState) -> LeftOut {
        let messages = common(&self.history, &start.messages);
        self.history.drain(..messages);
        let is_sent = self.carried.sent.is_some() && self.carried.sent == start.sent;
        if is_sent {
            self.carried.sent = None;
        }
        LeftOut { messages, is_sent }
    }

    /// Puts back what [`leave_out`](Self::leave_out) took out. Returns whether the start has it.
    #[must_use]
    pub fn put_back(&mut self, left_out: LeftOut, start: &RunState) -> bool {
        let Some(messages) = start.messages.get(..left_out.messages) else { return false };
        self.history.splice(..0, messages.iter().cloned());
        if left_out.is_sent {
            self.carried.sent.clone_from(&start.sent);
        }
        true
    }
}
