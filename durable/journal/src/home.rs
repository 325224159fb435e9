//! The parts of a drive that another home of runs, such as a database, shares with the journal:
//! everything except the storage of the records. To only run agents, use
//! [`Journal`](crate::Journal).
//!
//! A home keeps the [`Entry`]s of a run in their order, the first of which is [`Fresh::started`]. To
//! drive the run, it adds them to a [`Stored`], and gives this with a [`Place`] for further entries
//! to a [`Drive`]. The crate `toolwright-postgres` does so with tables.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::Stage;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Effect, Error, Message};
use toolwright_orchestrator::perform::{self, PartId, Record};
use toolwright_orchestrator::{
    Agent, Change, Finished, Limits, Resumed, Run, RunError, RunState, Task, ToolSet, Unfinished,
};

use crate::deploys;
use crate::error::{JournalError, Result};
use crate::performer::Recorder;
pub use crate::record::{Ended, Entry, Failed, Started, Waiting};
use crate::summary::{self, Decisions};

/// The largest result of a call by default, in bytes of JSON, without its images, documents and
/// sounds.
pub const MAX_RESULT_BYTES: u64 = 1 << 20;

/// The longest id of a run, in bytes.
pub const MAX_ID_BYTES: usize = 4_096;

/// Gets each difference between the agent that began a run and the one that drives it, with the id
/// of the run.
pub type ChangeListener = Arc<dyn Fn(&str, &Change) + Send + Sync>;

/// The place of the entries of one run during a drive.
pub trait Place: Send + Sync + 'static {
    /// The error of the home. It ends the drive, and the model never sees it.
    type Error: std::error::Error + From<JournalError> + Send + Sync + 'static;

    /// Appends an entry. It must be safe when the future ends. If the future is dropped, the entry
    /// may be appended or not.
    fn append<'a>(&'a self, entry: Entry<'a>) -> BoxFuture<'a, Result<(), Self::Error>>;

    /// Returns whether an error that ends a drive and leaves its run open is an entry, so that a
    /// person can see why the run stopped. Default: `false`.
    fn keeps_errors(&self) -> bool {
        false
    }
}

/// A new run, before its first record is stored.
#[derive(Debug)]
pub struct Fresh {
    run: Run,
    signature: Option<String>,
    tools: ToolSet,
}

impl Fresh {
    /// Returns a run of an agent.
    ///
    /// # Errors
    ///
    /// The errors of [`Agent::start`].
    pub fn new<O>(agent: &Agent<O>, task: impl Into<Task>) -> toolwright_module::Result<Self>
    where
        O: Send + Sync + 'static,
    {
        let run = agent.start(task).map_err(wrong_setup)?;
        let signature = agent.output().map(|output| output.name().to_owned());
        Ok(Self { run, signature, tools: agent.tool_set() })
    }

    /// Returns the first record of the run.
    ///
    /// # Errors
    ///
    /// The id is empty or too long, or the run cannot be written as JSON.
    pub fn started(&self, id: &str, metadata: BTreeMap<String, String>) -> Result<Started> {
        if id.is_empty() {
            return Err(JournalError::NoId);
        }
        if id.len() > MAX_ID_BYTES {
            return Err(JournalError::LongId { bytes: id.len(), most: MAX_ID_BYTES });
        }
        let json = |source| JournalError::Json { id: id.to_owned(), source };
        let run = serde_json::to_value(&self.run).map_err(json)?;
        Ok(Started { id: id.to_owned(), metadata, signature: self.signature.clone(), run })
    }

    /// Returns the tools of the agent.
    #[must_use]
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns the name of the type of a typed answer.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// Compares the task with that of the run that was started under this id. Other instructions
    /// are the same task, because a deploy may reword them.
    ///
    /// # Errors
    ///
    /// [`JournalError::OtherTask`]
    pub fn check_task(&self, id: &str, stored: &RunState) -> Result<()> {
        match is_same_task(&stored.history(), self.run.history()) {
            true => Ok(()),
            false => Err(JournalError::OtherTask { id: id.to_owned(), what: "task" }),
        }
    }
}

/// The records of a run.
#[derive(Default)]
pub struct Stored {
    started: Option<Started>,
    parts: Vec<Record>,
    waiting: HashMap<PartId, Waiting>,
    finished: Option<Value>,
    failed: Option<String>,
}

impl Stored {
    /// Adds the next record.
    pub fn add(&mut self, entry: Entry<'_>) {
        self.failed = None;
        match entry {
            Entry::Started(started) => self.started = Some(started),
            Entry::Part(part) => self.parts.push(part.into_owned()),
            Entry::Waiting(waiting) => {
                drop(self.waiting.insert(waiting.part.clone(), waiting));
            }
            Entry::Finished(ended) => self.finished = Some(ended.finished),
            Entry::Failed(failed) => self.failed = Some(failed.error),
        }
    }

    /// Returns the first record.
    #[must_use]
    pub fn started(&self) -> Option<&Started> {
        self.started.as_ref()
    }

    /// Takes the result of a run that has finished.
    pub fn take_finished(&mut self) -> Option<Value> {
        self.finished.take()
    }

    /// Checks that an agent with the tools `now` can make the open calls of the run. `before` are the
    /// tools with which the run was started.
    ///
    /// # Errors
    ///
    /// [`JournalError::OpenCall`]
    pub fn check_open_calls(&self, id: &str, before: &ToolSet, now: &ToolSet) -> Result<()> {
        if self.finished.is_some() {
            return Ok(());
        }
        deploys::check_open_calls(id, &self.parts, before, now)
    }

    /// Takes the state of the run before its first step. It is `None` if there is no first record.
    /// `signature` is the name of the type of the agent's answer.
    ///
    /// # Errors
    ///
    /// The run was started by an agent with another type of answer, or the state cannot be read.
    pub fn take_state(&mut self, id: &str, signature: Option<&str>) -> Result<Option<RunState>> {
        let Some(started) = &mut self.started else { return Ok(None) };
        if started.signature.as_deref() != signature {
            let what = "kind of output";
            return Err(JournalError::OtherTask { id: id.to_owned(), what });
        }
        let state = serde_json::from_value(started.run.take());
        state.map(Some).map_err(|source| JournalError::Json { id: id.to_owned(), source })
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// One drive of a run over its records.
pub struct Drive<P> {
    id: String,
    cx: Context,
    recorder: Recorder<P>,
    place: Arc<P>,
    /// The state before the first step.
    state: RunState,
    /// The error at the end of the records.
    failed: Option<String>,
    change_listener: Option<ChangeListener>,
}

impl<P: Place> Drive<P> {
    /// Returns a drive of the run with these records and the state of [`Stored::take_state`]. No
    /// result of a call that is longer than this is recorded.
    #[must_use]
    pub fn new(
        id: &str,
        state: RunState,
        stored: Stored,
        place: Arc<P>,
        max_result_bytes: u64,
        cx: &Context,
    ) -> Self {
        let Stored { started, parts, waiting, failed, .. } = stored;
        let metadata = started.map(|started| started.metadata).unwrap_or_default();
        let recorder = Recorder::new(id, parts, waiting, Arc::clone(&place), max_result_bytes);
        let cx = cx.clone().with_run(id, metadata);
        let cx = perform::with_performer(&cx, recorder.clone());
        let (id, change_listener) = (id.to_owned(), None);
        Self { id, cx, recorder, place, state, failed, change_listener }
    }

    /// Sets a listener for the differences since the run was started.
    #[must_use]
    pub fn with_change_listener(mut self, listener: Option<ChangeListener>) -> Self {
        self.change_listener = listener;
        self
    }

    /// Drives the run to its end, and records the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Agent::drive`] and those of the place.
    pub async fn run<O>(self, agent: &Agent<O>) -> toolwright_module::Result<Finished<O>>
    where
        O: Serialize + Send + Sync + 'static,
    {
        let Self { id, cx, recorder, place, state, failed, change_listener } = self;
        let resumed = agent.resume(state).map_err(wrong_setup)?;
        let mut run = at_start(&id, resumed, agent.limits(), change_listener);
        let result = agent.drive(&mut run, &cx).await;
        End { id, cx, recorder, place, failed }.record(result).await
    }
}

impl<P> fmt::Debug for Drive<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The end of a drive.
struct End<P> {
    id: String,
    cx: Context,
    recorder: Recorder<P>,
    place: Arc<P>,
    failed: Option<String>,
}

/// Returns the last entry of a cancelled run.
#[must_use]
pub fn cancelled() -> Entry<'static> {
    let error = "the run was cancelled; drive it again to continue it".to_owned();
    Entry::Failed(Failed { error, is_open: false, finished: Value::Null })
}

impl<P: Place> End<P> {
    async fn record<O: Serialize>(
        self,
        result: toolwright_module::Result<Finished<O>>,
    ) -> toolwright_module::Result<Finished<O>> {
        match result {
            Ok(finished) => {
                let recorded = async {
                    self.recorder.check_complete(&self.cx.path())?;
                    let value = serde_json::to_value(&finished)
                        .map_err(|source| JournalError::Json { id: self.id.clone(), source })?;
                    let ended = Ended { ending: finished.ending, finished: value };
                    self.place.append(Entry::Finished(ended)).await
                };
                let failed = |error| Error::stop(error).at(Stage::Journal);
                recorded.await.map_err(|error: P::Error| failed(error))?;
                Ok(finished)
            }
            Err(error) => {
                let text = format!("{error:#}");
                let unfinished = error.downcast_ref::<Unfinished>();
                let is_open = unfinished.is_none();
                let is_kept = !is_open || self.place.keeps_errors() && says_why(&error);
                if is_kept && self.failed.as_ref() != Some(&text) {
                    let finished =
                        unfinished.and_then(|run| serde_json::to_value(&run.finished).ok());
                    let finished = finished.unwrap_or_default();
                    // The error itself is more useful than the error of recording it.
                    let failed = Failed { error: text, is_open, finished };
                    let _ = self.place.append(Entry::Failed(failed)).await;
                }
                Err(error)
            }
        }
    }
}

/// Returns whether an error of a drive says more than the records. A cancelled drive was ended by its
/// program, and a call that waits has a record.
fn says_why(error: &Error) -> bool {
    !matches!(error.stage(), Stage::Approval | Stage::Cancelled | Stage::Journal | Stage::Setup)
}

/// Checks what can be checked of a decision without the agent. The rest is checked by the next
/// drive, before anything is done about the decision.
///
/// # Errors
///
/// [`JournalError::Decision`]
pub fn check_decision(id: &str, waiting: &Approval, decision: &Decision) -> Result<()> {
    let refused = |reason: String| {
        let (id, call) = (id.to_owned(), waiting.call.id.clone());
        Err(JournalError::Decision { id, call, reason })
    };
    match decision {
        Decision::Approve | Decision::Edit { .. }
            if waiting.unknown && waiting.effect == Effect::Irreversible =>
        {
            refused("may have taken effect and is irreversible; decide `CallAgain`, `Happened` or `Deny`".to_owned())
        }
        Decision::Edit { arguments } => {
            match serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
                Ok(_) => Ok(()),
                Err(error) => refused(format!("needs its arguments as JSON: {error}")),
            }
        }
        _ => Ok(()),
    }
}

/// Returns the call that the person was asked about. It waits, or with `replaces` it was decided and
/// nothing followed from that. `entries` are the records of the run as JSON.
///
/// # Errors
///
/// An entry cannot be read, the call does not wait ([`JournalError::NotWaiting`]), it was decided
/// already ([`JournalError::Decided`]), or a question was changed ([`JournalError::Question`]).
pub fn find_waiting<'a>(
    id: &str,
    entries: impl IntoIterator<Item = &'a str>,
    asked: &Approval,
    replaces: bool,
) -> Result<Waiting> {
    let json = |source| JournalError::Json { id: id.to_owned(), source };
    let mut decisions = Decisions::default();
    let entries: Vec<&str> = entries.into_iter().collect();
    for entry in &entries {
        decisions.add(serde_json::from_str(entry).map_err(json)?);
    }
    let read = entries.iter().map(|entry| serde_json::from_str(entry).map_err(json));
    summary::check_questions(id, &decisions, read)?;
    summary::find_waiting(id, decisions, asked, replaces)
}

/// Checks that a question of a run is about the call that its decision is for. It is for lists of
/// runs, which do not read all records.
///
/// # Errors
///
/// [`JournalError::Question`]
pub fn check_question(id: &str, waiting: &Waiting) -> Result<()> {
    waiting.check(id)
}

/// Returns the run at its start, with the tools and limits of the agent, and reports the changes.
fn at_start(id: &str, resumed: Resumed, limits: &Limits, listener: Option<ChangeListener>) -> Run {
    for change in &resumed.changes {
        tracing::warn!(run = id, %change, "the agent of a run has changed");
        if let Some(listener) = &listener {
            listener(id, change);
        }
    }
    resumed.run.with_limits(limits.clone())
}

/// Compares tasks without the instructions, which a deploy may reword.
fn is_same_task(stored: &[Arc<Message>], fresh: &[Arc<Message>]) -> bool {
    let said = |message: &&Arc<Message>| !matches!(***message, Message::System { .. });
    stored.iter().filter(said).eq(fresh.iter().filter(said))
}

fn wrong_setup(error: RunError) -> Error {
    Error::stop(error).at(Stage::Setup)
}
