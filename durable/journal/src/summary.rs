//! What a journal says about a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolwright_module::approval::Approval;
use toolwright_module::budget::Spent;
use toolwright_module::event::Ending;
use toolwright_orchestrator::perform::{PartId, PartIdKind};

use crate::error::{JournalError, Result};
use crate::file::{self, Contents};
use crate::record::{self, Entry, Line, Outline, PartOutline, Waiting};
use crate::{name, parts};

/// The id, the state and the metadata of a run, without its conversation.
///
/// See [`Journal::runs`](crate::Journal::runs). Runs in a database have the same summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// Run id.
    pub id: String,
    /// Whether the run is open, waits or has ended.
    pub status: RunStatus,
    /// The metadata of the first drive.
    pub metadata: BTreeMap<String, String>,
    /// First words of the task, on one line. It is `None` for a long conversation in a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Cost of all parts so far. It is `None` in a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// The time of the first record.
    pub started: SystemTime,
    /// The time of the last record.
    pub changed: SystemTime,
    /// The name of the worker that drives the run now. It is `None` in a folder, which knows no
    /// names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The calls that wait for a person's decision. Answer one with
    /// [`Journal::decide`](crate::Journal::decide).
    pub waiting: Vec<Approval>,
    /// How a finished run ended.
    pub ending: Option<Ending>,
    /// The error of a run that failed, of a file that cannot be read, or of the last drive of an
    /// open run.
    pub error: Option<String>,
    /// Number of records.
    pub records: usize,
    /// Length of the file with its file of parts, or of the records in a database.
    pub bytes: u64,
}

impl RunSummary {
    /// Returns the summary of a run of which no more is known.
    #[must_use]
    pub fn new(id: impl Into<String>, status: RunStatus) -> Self {
        Self {
            id: id.into(),
            status,
            metadata: BTreeMap::new(),
            task: None,
            spent: None,
            started: SystemTime::UNIX_EPOCH,
            changed: SystemTime::UNIX_EPOCH,
            worker: None,
            waiting: Vec::new(),
            ending: None,
            error: None,
            records: 0,
            bytes: 0,
        }
    }
}

/// The state of a run in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// It has not ended. It is driven now, or it was interrupted: drive it again.
    Open,
    /// A call waits for a person's decision.
    Waiting,
    /// It has its result.
    Finished,
    /// It has ended without a result, for example because the model refused. It can be driven again.
    Failed,
    /// Its file is damaged, or another version wrote it.
    Unreadable,
}

impl RunStatus {
    /// Returns whether the run has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

/// The calls that wait or waited for a decision.
#[derive(Default)]
pub(crate) struct Decisions {
    pub(crate) waiting: BTreeMap<PartId, Waiting>,
    /// The calls with a decision, and the person who decided.
    pub(crate) decided: BTreeMap<PartId, (Waiting, Option<String>)>,
    /// The decisions since the last record of another kind. Nothing was done about them yet.
    pub(crate) fresh: BTreeSet<PartId>,
}

impl Decisions {
    pub(crate) fn add(&mut self, record: Outline) {
        match record {
            Outline::Waiting(waiting) => {
                self.waiting.insert(waiting.part.clone(), waiting);
            }
            Outline::Part(PartOutline::Ended(ended)) => {
                if let Some(waiting) = self.waiting.remove(&ended.part) {
                    self.decided.insert(ended.part.clone(), (waiting, None));
                }
                if let Some((_, by)) = self.decided.get_mut(&ended.part) {
                    *by = ended.outcome.by;
                    self.fresh.insert(ended.part);
                    return;
                }
            }
            Outline::Finished(_) => self.waiting.clear(),
            _ => {}
        }
        self.fresh.clear();
    }
}

/// Returns the call that the person was asked about. If `replaces` is set, it is one whose decision
/// can be replaced, because nothing followed from it yet. Otherwise it waits.
pub(crate) fn find_waiting(
    id: &str,
    decisions: Decisions,
    asked: &Approval,
    replaces: bool,
) -> Result<Waiting> {
    let Decisions { waiting, decided, fresh } = decisions;
    let (id, call) = (id.to_owned(), asked.call.id.clone());
    let decided = decided.into_iter().find(|(_, (known, _))| known.approval == *asked);
    let waiting = waiting.into_values().find(|known| known.approval == *asked);
    match (decided, waiting) {
        (Some((part, (known, _))), _) if replaces && fresh.contains(&part) => Ok(known),
        (_, Some(known)) if !replaces => Ok(known),
        (Some((_, (_, by))), _) => Err(JournalError::Decided { id, call, by }),
        (None, _) => Err(JournalError::NotWaiting { id, call }),
    }
}

/// Checks that each question that waits, or whose decision can still be replaced, is about the call
/// that would be made. `entries` are the records of the run.
pub(crate) fn check_questions<'a>(
    id: &str,
    decisions: &Decisions,
    entries: impl IntoIterator<Item = Result<Entry<'a>>>,
) -> Result<()> {
    let Decisions { waiting, decided, fresh } = decisions;
    let replaced = decided.iter().filter(|(part, _)| fresh.contains(*part));
    let replaced = replaced.map(|(_, (question, _))| question);
    let questions: Vec<&Waiting> = waiting.values().chain(replaced).collect();
    if questions.is_empty() {
        return Ok(());
    }
    questions.iter().try_for_each(|question| question.check(id))?;
    let mut records = Vec::new();
    for entry in entries {
        if let Entry::Part(record) = entry? {
            records.push(record.into_owned());
        }
    }
    questions.iter().try_for_each(|question| question.check_reply(id, &records))
}

/// Reads the records of a file.
pub(crate) fn entries<'a>(
    path: &'a Path,
    contents: &'a Contents<'_>,
) -> impl Iterator<Item = Result<Entry<'static>>> + 'a {
    contents.lines.iter().map(move |(at, json)| {
        let line = serde_json::from_str::<Line<Entry<'_>>>(&parts::without(json));
        line.map(|line| line.record)
            .map_err(|error| JournalError::damaged(path, *at, error.to_string()))
    })
}

/// Reads the outlines of records with their times.
pub(crate) fn outlines<'a>(
    path: &'a Path,
    contents: &'a Contents<'_>,
) -> impl Iterator<Item = Result<Line<Outline>>> + 'a {
    contents.lines.iter().map(move |(at, json)| {
        serde_json::from_str(&parts::without(json))
            .map_err(|error| JournalError::damaged(path, *at, error.to_string()))
    })
}

/// Returns the summary of a file. It is `None` if the run was never started, because the program was
/// killed before its first record was on disk.
pub(crate) fn of_file(path: &Path, bytes: &[u8]) -> Result<Option<RunSummary>> {
    let contents = file::parse(path, bytes)?;
    let (mut summary, mut decisions) = (None::<RunSummary>, Decisions::default());
    // By part, because a record may be there twice.
    let mut costs = HashMap::new();
    for line in outlines(path, &contents) {
        let Line { at, record } = line?;
        let time = record::time(at);
        if let Some(summary) = &mut summary {
            summary.changed = time;
            (summary.status, summary.ending, summary.error) = match &record {
                Outline::Finished(ended) => (RunStatus::Finished, Some(ended.ending), None),
                Outline::Failed(failed) => {
                    let status = if failed.is_open { RunStatus::Open } else { RunStatus::Failed };
                    (status, None, Some(failed.error.clone()))
                }
                _ => (RunStatus::Open, None, None),
            };
        }
        match record {
            Outline::Started(started) => {
                let name = name::of_run(&started.id);
                if path.file_name().is_some_and(|found| *found != *name) {
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                    return Err(name::other(path, &name::id_of(&stem), &started.id));
                }
                summary = Some(RunSummary {
                    task: started.first_words(),
                    metadata: started.metadata,
                    started: time,
                    changed: time,
                    records: contents.lines.len(),
                    bytes: bytes.len() as u64 + parts::length(path),
                    ..RunSummary::new(started.id, RunStatus::Open)
                });
            }
            record => {
                // The cost of an agent's call is that of its parts.
                if let Outline::Part(PartOutline::Ended(ended)) = &record
                    && ended.outcome.spent != Spent::default()
                    && !matches!(ended.part.kind, PartIdKind::Run { .. })
                {
                    costs.insert(ended.part.clone(), ended.outcome.spent);
                }
                decisions.add(record);
            }
        }
    }
    if let Some(summary) = &mut summary {
        check_questions(&summary.id, &decisions, entries(path, &contents))?;
        let mut spent = Spent::default();
        costs.into_values().for_each(|cost| spent += cost);
        summary.spent = Some(spent);
        summary.waiting = decisions.waiting.into_values().map(|waiting| waiting.approval).collect();
        if !summary.waiting.is_empty() && summary.status == RunStatus::Open {
            summary.status = RunStatus::Waiting;
        }
    }
    Ok(summary)
}

/// Returns the summary of a file that cannot be read.
pub(crate) fn unreadable(id: String, path: &Path, error: &JournalError) -> RunSummary {
    let metadata = path.metadata().ok();
    let time = |time: std::io::Result<SystemTime>| time.unwrap_or(SystemTime::UNIX_EPOCH);
    let changed = metadata.as_ref().map_or(SystemTime::UNIX_EPOCH, |data| time(data.modified()));
    RunSummary {
        started: changed,
        changed,
        error: Some(error.to_string()),
        bytes: metadata.map_or(0, |data| data.len()),
        ..RunSummary::new(id, RunStatus::Unreadable)
    }
}
