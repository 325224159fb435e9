//! What a journal says about a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolwright_module::Message;
use toolwright_module::approval::Approval;
use toolwright_module::budget::Spent;
use toolwright_module::event::Ending;
use toolwright_module::message::Part;
use toolwright_orchestrator::Task;
use toolwright_orchestrator::perform::{OutcomeKind, PartId, Record, ReplayError, Waiting};

use crate::error::{JournalError, Result};
use crate::file::{self, Contents, Line};
use crate::{home, name, parts};

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
    /// First words of the task, on one line. It is `None` for a long conversation in a list of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Cost of all parts so far. It is `None` for a file that cannot be read.
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

/// The questions of a run to people.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<PartId, Waiting>,
    /// The questions with a decision, and the person who decided.
    decided: BTreeMap<PartId, (Waiting, Option<String>)>,
    /// The decisions since the last record of another kind. Nothing was done about them yet.
    fresh: BTreeSet<PartId>,
    /// Whether the run has ended without a result, and was not driven again.
    has_stopped: bool,
    /// The replies of models, with which the questions are compared.
    replies: Vec<Record>,
}

impl Questions {
    fn add(&mut self, record: Record) {
        self.has_stopped = matches!(record, Record::Stopped { is_open: false, .. });
        match record {
            Record::Waiting(waiting) => {
                self.waiting.insert(waiting.part.clone(), waiting);
            }
            Record::Ended { part, outcome, identity } => {
                if let Some(waiting) = self.waiting.remove(&part) {
                    self.decided.insert(part.clone(), (waiting, None));
                }
                if let Some((_, by)) = self.decided.get_mut(&part) {
                    *by = outcome.by;
                    self.fresh.insert(part);
                    return;
                }
                if matches!(outcome.kind, OutcomeKind::Reply(_)) {
                    self.replies.push(Record::Ended { part, outcome, identity });
                }
            }
            Record::Finished { .. } | Record::Stopped { is_open: false, .. } => {
                self.waiting.clear()
            }
            _ => {}
        }
        self.fresh.clear();
    }

    /// Checks that each question that waits, or whose decision can still be replaced, is about the
    /// call that would be made.
    pub(crate) fn check(&self) -> Result<(), ReplayError> {
        let replaced = self.decided.iter().filter(|(part, _)| self.fresh.contains(*part));
        let replaced = replaced.map(|(_, (question, _))| question);
        self.waiting.values().chain(replaced).try_for_each(|question| {
            question.check()?;
            question.check_reply(&self.replies)
        })
    }

    /// Returns the call that the person was asked about. If `replaces` is set, it is one whose
    /// decision can be replaced, because nothing followed from it yet. Otherwise it waits.
    pub(crate) fn find(self, id: &str, asked: &Approval, replaces: bool) -> Result<Waiting> {
        let (id, call) = (id.to_owned(), asked.call.id.clone());
        let decided = self.decided.into_iter().find(|(_, (known, _))| known.approval == *asked);
        let waiting = self.waiting.into_values().find(|known| known.approval == *asked);
        match (decided, waiting) {
            (Some((part, (known, _))), _) if replaces && self.fresh.contains(&part) => Ok(known),
            (_, Some(known)) if !replaces => Ok(known),
            (Some((_, (_, by))), _) => Err(JournalError::Decided { id, call, by }),
            (None, _) if self.has_stopped => Err(JournalError::Stopped { id }),
            (None, _) => Err(JournalError::NotWaiting { id, call }),
        }
    }
}

impl FromIterator<Record> for Questions {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut questions = Self::default();
        records.into_iter().for_each(|record| questions.add(record));
        questions
    }
}

/// Maximum number of characters of a task in a list.
const LONGEST_TASK: usize = 200;

/// Returns the first words of a task on one line, for a list.
#[must_use]
pub fn first_words(task: &Task) -> String {
    let mut texts = vec![task.task.as_str()];
    if let Some(Message::User { parts }) = task.history().last().map(|message| &**message) {
        texts.extend(parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        }));
    }
    let mut words = String::new();
    for word in texts.into_iter().flat_map(str::split_whitespace) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if let Some((end, _)) = words.char_indices().nth(LONGEST_TASK) {
            words.truncate(end);
            words.push('…');
            break;
        }
    }
    words
}

/// Reads the records of a file, with their times and without the contents of their parts.
pub(crate) fn records<'a>(
    path: &'a Path,
    contents: &'a Contents<'_>,
) -> impl Iterator<Item = Result<Line<Record>>> + 'a {
    contents.lines.iter().map(move |(at, json)| file::record(path, *at, &parts::without(json)))
}

/// Returns the summary of a file. It is `None` if the run was never started, because the program was
/// killed before its first record was on disk.
pub(crate) fn of_file(path: &Path, bytes: &[u8]) -> Result<Option<RunSummary>> {
    let contents = file::parse(path, bytes)?;
    let records = records(path, &contents).map(|line| {
        let Line { at, record } = line?;
        if let Record::Started(started) = &record {
            name::check(path, &started.id)?;
        }
        Ok((file::time(at), record))
    });
    let mut summary = of_records(records)?;
    if let Some(summary) = &mut summary {
        summary.bytes = bytes.len() as u64 + parts::length(path);
    }
    Ok(summary)
}

/// Returns the summary of the records of a run, each with its time. It is `None` if the run was never
/// started. The home sets [`RunSummary::bytes`] and [`RunSummary::worker`].
///
/// # Errors
///
/// The error of a record, or a question was changed ([`ReplayError::Question`]).
pub fn of_records(
    records: impl IntoIterator<Item = Result<(SystemTime, Record)>>,
) -> Result<Option<RunSummary>> {
    let (mut summary, mut questions) = (None::<RunSummary>, Questions::default());
    // By part, because a record may be there twice.
    let (mut costs, mut count) = (HashMap::new(), 0);
    // Of replies that were stopped.
    let mut unfinished = Spent::default();
    for record in records {
        let (time, record) = record?;
        count += 1;
        if let Some(summary) = &mut summary {
            summary.changed = time;
            (summary.status, summary.ending, summary.error) = match &record {
                Record::Finished { ending, .. } => (RunStatus::Finished, Some(*ending), None),
                Record::Stopped { error, is_open, .. } => {
                    let status = if *is_open { RunStatus::Open } else { RunStatus::Failed };
                    (status, None, Some(error.clone()))
                }
                _ => (RunStatus::Open, None, None),
            };
        }
        if let Record::Started(started) = record {
            summary = Some(RunSummary {
                task: Some(first_words(&started.task())),
                metadata: started.metadata,
                started: time,
                changed: time,
                ..RunSummary::new(started.id, RunStatus::Open)
            });
            continue;
        }
        let cost = home::cost(&record);
        match record.part() {
            Some(part) if cost != Spent::default() => drop(costs.insert(part.clone(), cost)),
            Some(_) => {}
            None => unfinished += cost,
        }
        questions.add(record);
    }
    if let Some(summary) = &mut summary {
        questions.check()?;
        let mut spent = unfinished;
        costs.into_values().for_each(|cost| spent += cost);
        (summary.spent, summary.records) = (Some(spent), count);
        summary.waiting = questions.waiting.into_values().map(|waiting| waiting.approval).collect();
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
