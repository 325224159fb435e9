//! What the database says about a run.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolwright_journal::RunStatus;
use toolwright_module::approval::Approval;
use toolwright_module::event::Ending;

/// The id, the state and the metadata of a run, without its conversation.
///
/// See [`Runs::runs`](crate::Runs::runs).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// The id.
    pub id: String,
    /// The state.
    pub status: RunStatus,
    /// The metadata of the first drive.
    pub metadata: BTreeMap<String, String>,
    /// The time of the start, by the clock of the database.
    pub started: SystemTime,
    /// The time of the last record.
    pub changed: SystemTime,
    /// The name of the worker that drives the run now.
    pub worker: Option<String>,
    /// The calls that wait for a person's decision. Answer one with
    /// [`Runs::decide`](crate::Runs::decide).
    pub waiting: Vec<Approval>,
    /// How a finished run ended.
    pub ending: Option<Ending>,
    /// The error of a run that failed, or of the last drive of an open one.
    pub error: Option<String>,
    /// Number of records.
    pub records: usize,
    /// Length of the records.
    pub bytes: u64,
}
