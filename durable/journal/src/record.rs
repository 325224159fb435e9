//! What the file of a run contains.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::approval::Approval;
use toolwright_module::event::Ending;
use toolwright_orchestrator::perform::Record;

/// One line of the file: a record and its time.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line<K> {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) record: K,
}

/// The records of a run.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "most records are of the large kind")]
pub(crate) enum Kind {
    /// The first record.
    Started(Started),
    /// A part of the run was begun or has ended.
    Part(Record),
    /// A call waits for a decision.
    Waiting(Waiting),
    /// The run has its result.
    Finished(Ended),
    /// The run has ended without a result.
    Failed(Failed),
}

/// The forms of [`Kind`] that are written from references.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KindRef<'a> {
    Part(&'a Record),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    /// The name of the signature of a typed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
    /// The [`RunState`](toolwright_orchestrator::RunState) before the first step.
    pub(crate) run: Value,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The key of the decision.
    pub(crate) key: String,
    pub(crate) identity: u64,
    pub(crate) approval: Approval,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    /// The [`Finished`](toolwright_orchestrator::Finished) run.
    pub(crate) finished: Value,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) error: String,
}

/// A line of which only the kind of the record and its key are read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outline {
    Started(Started),
    Part(PartOutline),
    Waiting(Waiting),
    Finished(EndingOutline),
    Failed(Failed),
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
