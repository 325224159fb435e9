//! What the journal and the state of a workflow contain.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::Error;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::{Audience, ContextExceeded, Stage};
use toolwright_orchestrator::perform::Outcome;

/// The key of the state with the calls that wait for a person.
pub(crate) const WAITING: &str = "toolwright waiting";

/// Number of chunks of events that the state keeps.
pub(crate) const CHUNKS: u64 = 1024;

/// Returns the key of the state with a chunk of events. New chunks replace the oldest ones.
pub(crate) fn chunk_key(number: u64) -> String {
    format!("toolwright events {}", number % CHUNKS)
}

/// The result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// The [`Part::identity`](toolwright_orchestrator::perform::Part::identity).
    pub(crate) identity: u64,
    pub(crate) body: Body,
    /// The events since the step before. They are values, because the state that is made of them has
    /// to be the same bytes in each replay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Value>,
    /// Number of events that were too large.
    #[serde(default)]
    pub(crate) left_out: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "most steps are of the large kind")]
pub(crate) enum Body {
    /// The next step makes a call that must not be repeated automatically.
    Begun,
    Outcome(Outcome),
    /// The work ended with an error that is not an outcome.
    Failed(Failed),
    /// The drive has ended.
    End,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) text: String,
    pub(crate) stage: Stage,
    pub(crate) is_retryable: bool,
    /// Whether it ends the whole run, and not only that of an agent below the agent.
    pub(crate) ends_the_run: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context_exceeded: Option<ContextExceeded>,
}

impl Failed {
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            text: error.to_string(),
            stage: error.stage(),
            is_retryable: error.is_retryable(),
            ends_the_run: error.audience() == Audience::Run,
            context_exceeded: error.context_exceeded(),
        }
    }

    pub(crate) fn error(self) -> Error {
        let error = match self.ends_the_run {
            true => Error::stop(self.text),
            false => Error::other(self.text),
        };
        let error = error.at(self.stage).retryable(self.is_retryable);
        match self.context_exceeded {
            Some(exceeded) => error.with_context_exceeded(exceeded),
            None => error,
        }
    }
}

/// A call that waits for a decision, in the state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The name of the promise with the decision.
    pub(crate) promise: String,
    pub(crate) approval: Approval,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// A person's decision, as the value of its promise. It holds for no other call than the one that the
/// person saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) approval: Approval,
    pub(crate) decision: Decision,
}

/// Events, in the state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) number: u64,
    pub(crate) events: Vec<Value>,
    pub(crate) left_out: u64,
    pub(crate) is_last: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_what_a_driver_decides_by() {
        let exceeded = ContextExceeded::new(Some(9000), Some(8192));
        let error = Error::stop("too long").at(Stage::Provider).with_context_exceeded(exceeded);
        let json = serde_json::to_string(&Failed::new(&error)).unwrap();
        let error = serde_json::from_str::<Failed>(&json).unwrap().error();
        assert_eq!((error.stage(), error.audience()), (Stage::Provider, Audience::Run));
        assert_eq!(error.context_exceeded(), Some(exceeded));
        let before =
            r#"{"text": "no", "stage": "module", "is_retryable": false, "ends_the_run": false}"#;
        assert_eq!(
            serde_json::from_str::<Failed>(before).unwrap().error().context_exceeded(),
            None
        );
    }
}
