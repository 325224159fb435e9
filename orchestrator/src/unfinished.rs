use std::fmt;
use std::sync::Arc;

use toolwright_module::{Ending, Error, Limit, Message, Spent, Stage, ToolCall};

use crate::repaired_call::RepairedCall;
use crate::tool_orchestrator::{Finished, ToolFailure};

/// A run that ended without what was asked for: what there is of it.
///
/// Found with [`Error::downcast_ref`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", sentence(self))]
#[non_exhaustive]
pub struct Unfinished {
    /// The name of the agent, or of the signature that it fulfils.
    pub name: String,
    /// What the model said last; of a model that got stuck, what with.
    pub answer: String,
    /// How the run ended.
    pub ending: Ending,
    /// Which limit was reached, if one was.
    pub limit: Option<Limit>,
    /// The provider's word for why the model stopped, of an ending that is
    /// [`Unclear`](Ending::Unclear).
    pub reason: Option<String>,
    /// How many rounds of tool calls there were.
    pub iterations: u32,
    /// What the run came to, everything below its tools included.
    pub spent: Spent,
    /// The names of the tools that were called, each once.
    pub tools_used: Vec<String>,
    /// The calls that failed, with all that is known: the model was told less.
    pub failures: Vec<ToolFailure>,
    /// The calls whose arguments had to be repaired, as the model wrote them.
    pub repaired: Vec<RepairedCall>,
    /// The whole conversation.
    pub history: Vec<Arc<Message>>,
}

fn sentence(unfinished: &Unfinished) -> String {
    let Unfinished { name, iterations, limit, answer, ending, .. } = unfinished;
    let no_output = format!("`{name}` came to no output in {iterations} iterations");
    match (ending, limit) {
        (Ending::Refused, _) => "the model refused the task; its reply says why".to_owned(),
        (Ending::Stuck, _) => format!("`{name}` got stuck: {answer}"),
        (Ending::Unclear, _) => format!(
            "the model stopped with {:?}, which this version does not know, so the answer of `{name}` may be incomplete; run it again or try another model",
            unfinished.reason.as_deref().unwrap_or_default(),
        ),
        (Ending::CutOff, _) => {
            format!("{no_output}; its answer was cut off: raise `max_output_tokens`")
        }
        (_, Some(Limit::Time)) => format!("{no_output}; its time ran out: raise `max_time`"),
        (_, Some(limit)) if *limit != Limit::Iterations => {
            format!("{no_output}; its {limit} ran out: raise them in its `Budget`")
        }
        _ => format!(
            "{no_output}; raise `max_iterations`, or look at its history for what it is missing"
        ),
    }
}

impl Unfinished {
    pub(crate) fn error(name: &str, finished: Finished) -> Error {
        let stage = match finished.ending {
            Ending::Refused | Ending::Unclear => Stage::Provider,
            _ => Stage::Limit,
        };
        let usage = finished.spent.usage;
        let raw = finished.answer.clone();
        let unfinished = Self {
            name: name.to_owned(),
            answer: finished.answer,
            ending: finished.ending,
            limit: finished.limit,
            reason: finished.reason,
            iterations: finished.iterations,
            spent: finished.spent,
            tools_used: finished.tools_used,
            failures: finished.failures,
            repaired: finished.repaired,
            history: finished.history,
        };
        let error = Error::other(unfinished).at(stage).with_usage(usage);
        // What it got stuck with stands in the sentence already.
        if stage == Stage::Limit && raw.is_empty() { error } else { error.with_raw(raw) }
    }
}

/// Calls wait for a person, and there is no approver to ask.
///
/// The run is at its step [`AwaitApproval`](crate::StepKind::AwaitApproval): store it,
/// [`apply`](crate::Run::apply) [`Answer::decisions`](crate::Answer::decisions) when
/// they are there, and drive it on. Found with [`Error::downcast_ref`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AwaitsApproval {
    /// The names of the tools on the way to the agent, `a > b`; empty for one that is
    /// nobody's tool.
    pub path: String,
    /// The calls.
    pub calls: Vec<ToolCall>,
}

impl fmt::Display for AwaitsApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = Vec::new();
        for call in &self.calls {
            let name = match self.path.as_str() {
                "" => format!("`{}`", call.name),
                path => format!("`{path} > {}`", call.name),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let waits = if names.len() == 1 { "waits" } else { "wait" };
        let advice = if self.path.is_empty() {
            "apply `Answer::decisions` to the run and drive it on, or give the context an approver"
        } else {
            "a call of an agent below an agent needs an approver: `Context::with_approver`"
        };
        write!(f, "{} {waits} for a person's approval; {advice}", names.join(", "))
    }
}

impl std::error::Error for AwaitsApproval {}
