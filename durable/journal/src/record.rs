//! What is recorded of a run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::Message;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::event::Ending;
use toolwright_orchestrator::perform::{Outcome, OutcomeKind, Record};
use toolwright_orchestrator::{RunState, Task};

/// One line of the file: a record and its time.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line<K> {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) record: K,
}

/// A record of a run. It is stored as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "most records are of the large kind")]
pub enum Entry<'a> {
    /// The first record.
    Started(Started),
    /// A part of the run was begun or has ended.
    Part(Cow<'a, Record>),
    /// A call waits for a decision.
    Waiting(Waiting),
    /// The run has its result.
    Finished(Ended),
    /// The run has ended without a result.
    Failed(Failed),
}

/// The first record of a run.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Started {
    /// The id.
    pub id: String,
    /// The metadata of the first drive.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The name of the signature of a typed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The [`RunState`](toolwright_orchestrator::RunState) before the first step.
    pub run: Value,
}

impl Started {
    /// Returns the task, with the conversation before it and without the instructions.
    ///
    /// # Errors
    ///
    /// The state of the run cannot be read.
    pub fn task(&self) -> Result<Task, serde_json::Error> {
        let mut said = RunState::deserialize(&self.run)?.history();
        said.retain(|message| !matches!(**message, Message::System { .. }));
        Ok(said.into())
    }
}

/// A call that waits for a decision.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The key of the decision.
    pub key: String,
    /// Its [`Part::identity`](toolwright_orchestrator::perform::Part::identity).
    pub identity: u64,
    /// What the person decides on.
    pub approval: Approval,
}

impl Waiting {
    pub(crate) fn new(key: String, identity: u64, approval: Approval) -> Self {
        Self { key, identity, approval }
    }

    /// Returns the record of a person's decision.
    #[must_use]
    pub fn decided(&self, decision: Decision) -> Record {
        let outcome = Outcome::new(OutcomeKind::Decided(decision));
        Record::Ended { key: self.key.clone(), identity: self.identity, outcome }
    }
}

/// The result of a run.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// How the run ended.
    pub ending: Ending,
    /// The [`Finished`](toolwright_orchestrator::Finished) run.
    pub finished: Value,
}

/// The end of a run without a result, or of a drive with an error.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// The error.
    pub error: String,
    /// Whether only the drive ended. The next drive goes on where the run is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
    /// The [`Finished`](toolwright_orchestrator::Finished) run, if the run has ended. Its answer is
    /// not a result, and its conversation has the texts with which the run answered calls that no
    /// tool got.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub finished: Value,
}

/// A line of which only the kind of the record and its key are read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outline {
    Started(Started),
    Part(PartOutline),
    Waiting(Waiting),
    Finished(EndingOutline),
    Failed(FailedOutline),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartOutline {
    Begun(IgnoredAny),
    Failed(IgnoredAny),
    Ended(KeyOutline),
}

#[derive(Deserialize)]
pub(crate) struct KeyOutline {
    pub(crate) key: String,
}

#[derive(Deserialize)]
pub(crate) struct FailedOutline {
    pub(crate) error: String,
    #[serde(default)]
    pub(crate) is_open: bool,
}

#[derive(Deserialize)]
pub(crate) struct EndingOutline {
    pub(crate) ending: Ending,
}

/// Returns the present time for a line.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of a line.
pub(crate) fn time(at: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at)).unwrap_or(SystemTime::UNIX_EPOCH)
}
