//! The code that all homes of runs share, for a home of your own: everything except the storage of
//! the records. To only run agents, use [`Journal`](crate::Journal).
//!
//! A home keeps the [`Record`]s of a run in their order, and lets one [`Drive`] of the run at a time
//! append to them. [`decided`] and [`cancelled`] return the records for what people do, [`summary`]
//! returns the entry of a list, and [`DriveEnd`] says what the end of a drive means for the run. The
//! crate `toolwright-postgres` is a home with tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::Spent;
use toolwright_module::error::Stage;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{BoxFuture, Usage};
use toolwright_module::{Context, Error, Message};
use toolwright_orchestrator::perform::{
    self, After, LeftOut, Open, PartIdKind, Record, Replay, ReplayError, Started, Store,
};
use toolwright_orchestrator::{
    Agent, AwaitsApproval, Change, Choosing, Conversation, Finished, Resumed, Run, RunError,
    RunState, Task, ToolSet, Unfinished,
};

use crate::deploys;
use crate::error::{JournalError, Result};
use crate::options::{Listener, Options};
use crate::summary::Questions;
pub use crate::summary::{first_words, of_records as summary};

/// The longest id of a run, in bytes.
const MAX_ID_BYTES: usize = 4_096;

/// One drive of a run: of a new one, or of one with records of earlier drives.
///
/// A home calls the methods in this order:
///
/// 1. [`new`](Self::new) with a task, or [`stored`](Self::stored) with the records if the caller
///    does not know the task.
/// 2. After `new`: append [`started`](Self::started) as the first record, if there is no run with this
///    id. Otherwise get the right to drive the run, read its records, and call
///    [`set_records`](Self::set_records). To refuse a wrong task before that, use
///    [`check`](Self::check).
/// 3. If [`finished`] returns a result, return it.
/// 4. If [`earlier_tools`](Self::earlier_tools) returns a hash, read the tools with this hash and call
///    [`check_tools`](Self::check_tools). The home stores the [`tools`](Self::tools) of each new run
///    for that.
/// 5. [`run`](Self::run) drives the run, and appends its records to the [`Store`].
/// 6. [`DriveEnd::of`] the result says what the home does with the run now.
pub struct Drive {
    id: String,
    cx: Context,
    metadata: BTreeMap<String, String>,
    start: Start,
    /// The stored run that the task goes on from.
    earlier_run: Option<String>,
    /// The tools of the agent.
    tools: ToolSet,
    /// The records after the first one.
    records: Vec<Record>,
    /// Whether an error that ends a drive and leaves its run open is a record, so that a person can
    /// see why the run stopped.
    keeps_errors: bool,
}

/// The run before its first step.
#[allow(clippy::large_enum_variant, reason = "there is one for each drive")]
enum Start {
    New(Run),
    Stored(RunState),
}

impl Drive {
    /// Returns a drive of a new run.
    ///
    /// # Errors
    ///
    /// The errors of [`Agent::start`].
    pub fn new<O: Send + Sync + 'static>(
        agent: &Agent<O>,
        id: &str,
        task: impl Into<Task>,
        cx: &Context,
    ) -> toolwright_module::Result<Self> {
        let task = task.into();
        let earlier_run = task.earlier_run().map(ToOwned::to_owned);
        let run = agent.start(task).map_err(wrong_setup)?;
        let drive = Self::of(id, Start::New(run), agent.tool_set(), cx);
        Ok(Self { earlier_run, ..drive })
    }

    /// Returns a drive of a run with the records of earlier drives.
    ///
    /// # Errors
    ///
    /// The first record does not start a run, or it starts one with another type of answer.
    pub fn stored<O: Send + Sync + 'static>(
        agent: &Agent<O>,
        id: &str,
        records: Vec<Record>,
        cx: &Context,
    ) -> Result<Self> {
        let (started, records) = split(id, records)?;
        check_output(id, &started.run, agent.output().map(|output| output.name()))?;
        let mut drive = Self::of(id, Start::Stored(started.run), agent.tool_set(), cx);
        (drive.metadata, drive.records) = (started.metadata, records);
        Ok(drive)
    }

    fn of(id: &str, start: Start, tools: ToolSet, cx: &Context) -> Self {
        let metadata = cx.metadata().cloned().unwrap_or_default();
        let (id, cx, records) = (id.to_owned(), cx.clone(), Vec::new());
        Self { id, cx, metadata, start, earlier_run: None, tools, records, keeps_errors: false }
    }

    /// Records each error that ends the drive and leaves the run open, so that a person can see why it
    /// stopped. Call this if the home does not keep the error elsewhere, such as in a column.
    #[must_use]
    pub fn with_recorded_errors(mut self) -> Self {
        self.keeps_errors = true;
        self
    }

    /// Sets the records of earlier drives, with the first one. They replace the new run and any
    /// records that were set before.
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check), or the first record does not start a run.
    pub fn set_records(&mut self, records: Vec<Record>) -> Result<()> {
        let (started, records) = split(&self.id, records)?;
        self.check(&started)?;
        self.start = Start::Stored(started.run);
        (self.metadata, self.records) = (started.metadata, records);
        Ok(())
    }

    /// Compares the task and the output with those of the run that was started under this id. Other
    /// instructions are the same task, because a deploy may reword them.
    ///
    /// # Errors
    ///
    /// [`JournalError::OtherTask`]
    pub fn check(&self, started: &Started) -> Result<()> {
        let state = self.state();
        check_output(&self.id, &started.run, state.output_name())?;
        match is_same_task(&started.run.history(), &state.history()) {
            true => Ok(()),
            false => Err(JournalError::OtherTask { id: self.id.clone(), what: "task" }),
        }
    }

    /// Returns the start of the run, for its first record.
    ///
    /// # Errors
    ///
    /// The id is empty or too long.
    pub fn started(&self) -> Result<Started> {
        if self.id.is_empty() {
            return Err(JournalError::NoId);
        }
        if self.id.len() > MAX_ID_BYTES {
            return Err(JournalError::LongId { bytes: self.id.len(), most: MAX_ID_BYTES });
        }
        let (metadata, run) = (self.metadata.clone(), self.state().clone());
        Ok(Started::new(&self.id, metadata, run))
    }

    /// Returns the id of the stored run that the task goes on from, if it is known. If the home has this
    /// run, it can [leave out](Started::leave_out) of the start what that run has. Its records are then
    /// [put back](Started::put_back) before they are used.
    #[must_use]
    pub fn earlier_run(&self) -> Option<&str> {
        self.earlier_run.as_deref().filter(|earlier| *earlier != self.id)
    }

    /// Returns the tools of the agent.
    #[must_use]
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns the hash of the tools with which the run was started, if the agent has others now.
    #[must_use]
    pub fn earlier_tools(&self) -> Option<&str> {
        Some(self.state().tool_set_hash()).filter(|hash| *hash != self.tools.hash())
    }

    /// Compares the tools of the agent with those with which the run was started. The changes are
    /// reported when the run is driven.
    ///
    /// # Errors
    ///
    /// [`JournalError::OpenCall`] if the agent cannot make an open call of the run.
    pub fn check_tools(&mut self, earlier: ToolSet) -> Result<()> {
        if !self.records.iter().any(|record| matches!(record, Record::Finished { .. })) {
            deploys::check_open_calls(&self.id, &self.records, &earlier, &self.tools)?;
        }
        if let Start::Stored(state) = &mut self.start {
            *state = state.clone().with_tool_set(earlier);
        }
        Ok(())
    }

    /// Returns the result, if the run has finished.
    ///
    /// # Errors
    ///
    /// [`JournalError::OtherOutput`]
    pub(crate) fn finished<O: DeserializeOwned>(&self) -> Result<Option<Finished<O>>> {
        read_finished(&self.id, self.state(), &self.records)
    }

    fn state(&self) -> &RunState {
        match &self.start {
            Start::New(run) => run.state(),
            Start::Stored(state) => state,
        }
    }

    /// Drives the run to its end, and records the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Agent::drive`] and those of the store.
    pub async fn run<O: Serialize + Send + Sync + 'static>(
        self,
        agent: &Agent<O>,
        store: impl Store + 'static,
        options: &Options,
    ) -> toolwright_module::Result<Finished<O>> {
        let (mut run, drives) = self.begin(agent, store, options)?;
        let result = agent.drive(&mut run, &drives.cx).await;
        drives.end(result).await
    }

    /// Returns the conversation at the end of the records.
    async fn conversation<O: Send + Sync + 'static>(
        self,
        agent: &Agent<O>,
    ) -> toolwright_module::Result<Conversation> {
        let Self { id, cx, metadata, start, records, .. } = self;
        let (mut run, _) = begun(agent, start)?;
        let replay = Replay::in_memory(records).without_new_parts();
        let cx = perform::with_performer(&cx.with_run(&id, metadata), replay.clone());
        match agent.drive(&mut run, &cx).await {
            Err(error) if is_without_outcome(&error) => {}
            Err(error) if error.downcast_ref::<Unfinished>().is_none() => return Err(error),
            // The run has ended, so it has to be at the end of its records.
            _ => replay
                .check_complete(&cx.path())
                .map_err(|error| JournalError::from(error).into_module())?,
        }
        Ok(run.conversation())
    }

    fn begin<O: Send + Sync + 'static, S: Store + 'static>(
        self,
        agent: &Agent<O>,
        store: S,
        options: &Options,
    ) -> toolwright_module::Result<(Run, Drives<S>)> {
        let Self { id, cx, metadata, start, records, keeps_errors, .. } = self;
        let state = match &start {
            Start::New(run) => run.state().clone(),
            Start::Stored(state) => state.clone(),
        };
        let (run, changes) = begun(agent, start)?;
        for change in &changes {
            tracing::warn!(run = id, %change, "the agent of a run has changed");
            if let Some(listener) = &options.change_listener {
                listener(&id, change);
            }
        }
        let failed = match records.last() {
            Some(Record::Stopped { error, .. }) => Some(error.clone()),
            _ => None,
        };
        let nth = AtomicUsize::new(records.len() + 1);
        let listener = options.listener.clone();
        let store = Arc::new(Heard { id: id.clone(), nth, store, listener });
        let replay = Replay::new(records, Arc::clone(&store))
            .with_max_result_bytes(options.max_result_bytes);
        let cx = perform::with_performer(&cx.with_run(&id, metadata), replay.clone());
        Ok((run, Drives { id, start: state, cx, replay, store, failed, keeps_errors }))
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A store with a listener.
struct Heard<S> {
    id: String,
    /// The number of the next record.
    nth: AtomicUsize,
    store: S,
    listener: Option<Listener>,
}

impl<S: Store> Store for Heard<S> {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            // Taken before the record is stored, because records are stored in the order of these calls.
            let nth = self.nth.fetch_add(1, Ordering::Relaxed);
            self.store.append(record).await?;
            if let Some(listener) = &self.listener {
                listener(&self.id, nth, record);
            }
            Ok(())
        })
    }
}

/// A drive that has begun.
struct Drives<S> {
    id: String,
    /// The run before its first step.
    start: RunState,
    cx: Context,
    replay: Replay<Arc<Heard<S>>>,
    store: Arc<Heard<S>>,
    /// The error at the end of the records.
    failed: Option<String>,
    keeps_errors: bool,
}

impl<S: Store> Drives<S> {
    /// Records the end of the drive.
    async fn end<O: Serialize>(
        self,
        result: toolwright_module::Result<Finished<O>>,
    ) -> toolwright_module::Result<Finished<O>> {
        match result {
            Ok(mut result) => {
                let recorded = async {
                    self.replay.check_complete(&self.cx.path())?;
                    let left_out = result.leave_out(&self.start);
                    // By its text, because a value of an `f32` of 0.1 is 0.10000000149011612.
                    let finished = serde_json::to_string(&result);
                    // It takes out what the start has, so that it is there.
                    let _ = result.put_back(left_out, &self.start);
                    let mut finished: Value = serde_json::from_str(&finished?)?;
                    let answer = serde_json::to_string(&result.answer)?;
                    let kept = || serde_json::to_string(&finished["answer"]).ok();
                    if has_long_number(&answer) && kept().as_ref() != Some(&answer) {
                        finished[EXACT_ANSWER] = answer.into();
                    }
                    let ending = result.ending;
                    self.store.append(&Record::Finished { ending, finished, left_out }).await
                };
                recorded.await?;
                Ok(result.of_run(&self.id))
            }
            Err(error) => {
                let text = format!("{error:#}");
                let unfinished = error.downcast_ref::<Unfinished>();
                let is_open = unfinished.is_none();
                let is_kept = !is_open || self.keeps_errors && says_why(&error);
                if is_kept && self.failed.as_ref() != Some(&text) {
                    let mut finished = unfinished.map(|run| run.finished.clone());
                    let left_out = finished.as_mut().map(|run| run.leave_out(&self.start));
                    let left_out = left_out.unwrap_or_default();
                    let finished = finished.and_then(|run| serde_json::to_value(run).ok());
                    let finished = finished.unwrap_or_default();
                    // The error itself is more useful than the error of recording it.
                    let unfinished_reply = None;
                    let stopped = Record::Stopped {
                        error: text,
                        is_open,
                        finished,
                        left_out,
                        unfinished_reply,
                    };
                    let _ = self.store.append(&stopped).await;
                }
                Err(error)
            }
        }
    }
}

/// Returns the run before its first step, with the limits of the agent, and what has changed since.
fn begun<O: Send + Sync + 'static>(
    agent: &Agent<O>,
    start: Start,
) -> toolwright_module::Result<(Run, Vec<Change>)> {
    match start {
        Start::New(run) => Ok((run, Vec::new())),
        Start::Stored(state) => {
            let Resumed { run, changes, .. } = agent.resume(state).map_err(wrong_setup)?;
            Ok((run.with_limits(agent.limits().clone()), changes))
        }
    }
}

/// Returns whether a drive that performs nothing new has come to a part without an outcome.
fn is_without_outcome(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(ReplayError::NoOutcome { .. }))
}

/// Returns whether an error of a drive says more than the records. A cancelled drive was ended by its
/// program, and a call that waits has a record.
fn says_why(error: &Error) -> bool {
    !matches!(error.stage(), Stage::Approval | Stage::Cancelled | Stage::Journal | Stage::Setup)
}

/// What the end of a drive means for its run. A home releases the run then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveEnd {
    /// The run has its result, or the program cancelled the drive. Another drive may begin at once.
    Released,
    /// A call waits for a person. Another drive is of use after a decision.
    Waiting,
    /// The run has ended without a result. It is driven again only if someone asks for it.
    Stopped,
    /// The drive failed. Another one should begin after a pause.
    Failed,
}

impl DriveEnd {
    /// Returns what the result of a drive means for its run.
    #[must_use]
    pub fn of<O>(result: &toolwright_module::Result<Finished<O>>) -> Self {
        match result {
            Ok(_) => Self::Released,
            Err(error) if error.downcast_ref::<AwaitsApproval>().is_some() => Self::Waiting,
            Err(error) if error.downcast_ref::<Unfinished>().is_some() => Self::Stopped,
            Err(error) if error.stage() == Stage::Cancelled => Self::Released,
            Err(_) => Self::Failed,
        }
    }
}

/// The field of a finished run for the JSON of its answer, if the answer as a [`Value`] has rounded
/// integers.
pub(crate) const EXACT_ANSWER: &str = "exact_answer";

/// Returns whether a JSON text may have an integer with more than 64 bits.
fn has_long_number(json: &str) -> bool {
    let digits = json.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit());
    digits.map(<[u8]>::len).max() > Some(18)
}

/// Reads a finished run, with its answer as it was written.
fn read<O: DeserializeOwned>(finished: &Value) -> serde_json::Result<Finished<O>> {
    let Some(exact) = finished[EXACT_ANSWER].as_str() else {
        return Finished::deserialize(finished);
    };
    let fields = finished.as_object().into_iter().flatten().map(|(name, value)| match &**name {
        "answer" => format!("\"answer\":{exact}"),
        _ => format!("{}:{value}", Value::from(&**name)),
    });
    serde_json::from_str(&format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
}

/// Returns the result in the records of a run, if it has finished.
///
/// # Errors
///
/// [`JournalError::OtherOutput`]
pub fn finished<O: DeserializeOwned>(id: &str, records: &[Record]) -> Result<Option<Finished<O>>> {
    match records.first() {
        Some(Record::Started(started)) => read_finished(id, &whole(started)?.run, records),
        _ => Err(JournalError::NoStart { id: id.to_owned() }),
    }
}

fn read_finished<O: DeserializeOwned>(
    id: &str,
    start: &RunState,
    records: &[Record],
) -> Result<Option<Finished<O>>> {
    let found = records.iter().rev().find_map(|record| match record {
        Record::Finished { finished, left_out, .. } => Some((finished, *left_out)),
        _ => None,
    });
    let Some((finished, left_out)) = found else { return Ok(None) };
    let mut finished = read::<O>(finished)
        .map_err(|source| JournalError::OtherOutput { id: id.to_owned(), source })?;
    match finished.put_back(left_out, start) {
        true => Ok(Some(finished.of_run(id))),
        false => Err(JournalError::NoStart { id: id.to_owned() }),
    }
}

/// Returns the conversation of a run from which a later one leaves out what it has: at its end if
/// [`After::is_end`] is set, and at its start otherwise. `records` are its start and its end.
///
/// # Errors
///
/// The run does not begin with its start, or the end was asked for and is not there.
///
/// [`After::is_end`]: toolwright_orchestrator::perform::After::is_end
pub fn stored_conversation(id: &str, records: &[Record], is_end: bool) -> Result<Conversation> {
    let no_start = || JournalError::NoStart { id: id.to_owned() };
    let Some(Record::Started(started)) = records.first() else { return Err(no_start()) };
    match is_end {
        true => Ok(finished::<Value>(id, records)?.ok_or_else(no_start)?.conversation()),
        false => Ok(whole(started)?.conversation()),
    }
}

/// The conversations of earlier runs, for the starts of runs that go on from them.
///
/// A start that was stored [without](Started::leave_out) what an earlier run has gets it back here. The
/// conversations that were read are kept, so that those of many runs are read once.
#[derive(Debug, Clone, Default)]
pub struct Histories(HashMap<(String, String, bool), Conversation>);

impl Histories {
    /// Returns whether the conversation that a start goes on from was read before.
    #[must_use]
    pub fn has(&self, after: &After) -> bool {
        self.0.contains_key(&key(after))
    }

    /// Puts back what the start of a run leaves out. `read` returns the records of an earlier run as they are
    /// stored: its start, and its end if it has finished. It returns `None` if the run is not there.
    ///
    /// ```
    /// use toolwright_journal::home::Histories;
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_orchestrator::perform::{After, Record, Started};
    /// use toolwright_orchestrator::{Agent, Task};
    ///
    /// # let agent = Agent::new(SchemaDriven::default(), [])?;
    /// # let start = |id: &str, task: Task| {
    /// #     let run = agent.start(task)?.state().clone();
    /// #     Ok::<_, Box<dyn std::error::Error>>(Started::new(id, Default::default(), run))
    /// # };
    /// let first = start("chat-1", Task::new("Where is order 7?"))?;
    /// let task = Task::new("And order 8?").with_conversation(first.conversation());
    /// let second = start("chat-2", task)?;
    /// let after = After::new("chat-1", "a mark", false);
    /// let stored = second.clone().leave_out(after, &first.conversation());
    ///
    /// let read = |_: &After| Ok(Some(vec![Record::Started(first.clone())]));
    /// assert_eq!(Histories::default().put_back(stored, read)?, second);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`JournalError::NoEarlierRun`], and the errors of `read`.
    pub fn put_back(
        &mut self,
        started: Started,
        mut read: impl FnMut(&After) -> Result<Option<Vec<Record>>>,
    ) -> Result<Started> {
        // From the run to the first one of the conversation, and back.
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        let (mut id, mut next) = (started.id.clone(), started.after.clone());
        while let Some(after) = next
            && !self.has(&after)
        {
            let missing = || no_earlier_run(&id, &after.run);
            if !seen.insert(key(&after)) {
                return Err(missing());
            }
            let mut records = read(&after)?.ok_or_else(missing)?.into_iter();
            let Some(Record::Started(earlier)) = records.next() else { return Err(missing()) };
            (id, next) = (earlier.id.clone(), earlier.after.clone());
            chain.push((after, earlier, records.next()));
        }
        while let Some((after, earlier, end)) = chain.pop() {
            let start = Record::Started(self.with_known(earlier)?);
            let records: Vec<_> = [Some(start), end].into_iter().flatten().collect();
            let conversation = stored_conversation(&after.run, &records, after.is_end)?;
            self.0.insert(key(&after), conversation);
        }
        self.with_known(started)
    }

    /// Puts back the conversation of an earlier run that was read.
    fn with_known(&self, started: Started) -> Result<Started> {
        let Some(after) = &started.after else { return Ok(started) };
        let missing = no_earlier_run(&started.id, &after.run);
        match self.0.get(&key(after)) {
            Some(earlier) => started.put_back(earlier).ok_or(missing),
            None => Err(missing),
        }
    }
}

fn key(after: &After) -> (String, String, bool) {
    (after.run.clone(), after.mark.clone(), after.is_end)
}

/// Checks that a start has its whole conversation.
fn whole(started: &Started) -> Result<&Started> {
    match &started.after {
        None => Ok(started),
        Some(after) => Err(no_earlier_run(&started.id, &after.run)),
    }
}

/// Returns the error of a run whose earlier run is not there.
#[must_use]
pub fn no_earlier_run(id: &str, earlier: &str) -> JournalError {
    JournalError::NoEarlierRun { id: id.to_owned(), earlier: earlier.to_owned() }
}

/// Returns the conversation of a stored run, for a task of another run
/// ([`Task::with_conversation`]). The run may have finished or not: it may wait for a person, or have
/// failed, stopped or been cancelled. `records` are all of the run, as `entries` of a home returns them.
///
/// The agent is driven over the records, and does nothing that they do not have: no model is asked, no
/// tool is called, and nothing is recorded. The agent and the context have to be those of a drive,
/// because a filter decides which calls the run has refused. Give the context no listener: events of
/// this drive say that it failed.
///
/// Each call has a result. For a call that is still open, it says that the call was not made, or that
/// its effect is not known.
///
/// ```
/// use toolwright_journal::{Journal, home};
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Error, Reply, Request};
/// use toolwright_orchestrator::{Agent, Task};
///
/// # let folder = tempfile::tempdir()?;
/// # let broken = Scripted::new(|_: &Request| Err::<Reply, _>(Error::other("no network")));
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let (journal, cx) = (Journal::open(folder.path())?, Context::default());
/// let agent = Agent::new(broken, [])?;
/// journal.drive(&agent, "chat-1", "What is in the hall?", &cx).await.unwrap_err();
///
/// // The user goes on.
/// let records = journal.entries("chat-1")?.into_iter().map(|(_, record)| record).collect();
/// let before = home::conversation(&agent, "chat-1", records, &cx).await?;
/// let task = Task::new("And in the kitchen?").with_conversation(before);
/// # let agent = Agent::new(Scripted::replies([Reply::text("A table.")]), [])?;
/// let finished = journal.drive(&agent, "chat-2", task, &cx).await?;
/// assert_eq!(finished.history.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`Stage::Journal`] with a [`JournalError`] or a [`ReplayError`] as its cause: the records are
///   damaged, are of another run or another type of answer, or the agent no longer reaches a recorded
///   part.
/// - [`Stage::Setup`]: the agent cannot drive the run.
///
/// [`Task::with_conversation`]: toolwright_orchestrator::Task::with_conversation
pub async fn conversation<O: Send + Sync + 'static>(
    agent: &Agent<O>,
    id: &str,
    records: Vec<Record>,
    cx: &Context,
) -> toolwright_module::Result<Conversation> {
    let ended = finished::<Value>(id, &records).map_err(JournalError::into_module)?;
    if let Some(finished) = ended {
        return Ok(finished.conversation());
    }
    let stopped = match records.last() {
        Some(Record::Stopped { unfinished_reply: Some(parts), .. }) => Some(text_of(parts)),
        _ => None,
    };
    let drive = Drive::stored(agent, id, records, cx).map_err(JournalError::into_module)?;
    let selects = drive.state().choosing() == Choosing::Selector;
    let conversation = drive.conversation(agent).await?.of_run(id);
    Ok(match stopped {
        // The text of such a model is a choice of a tool, of which a half is of no use.
        Some(text) => conversation.with_stopped_reply(if selects { "" } else { &text }),
        None => conversation,
    })
}

fn text_of(parts: &[ReplyPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Returns the last record of a cancelled run. `unfinished_reply` has what is known of the reply that the
/// model was writing, or is `None` if it was writing none.
#[must_use]
pub fn cancelled(unfinished_reply: Option<Vec<ReplyPart>>) -> Record {
    let error = "the run was cancelled; drive it again to continue it".to_owned();
    let (finished, left_out) = (Value::Null, LeftOut::default());
    Record::Stopped { error, is_open: false, finished, left_out, unfinished_reply }
}

/// Returns the record of a person's decision on a call that waits. `person` is the name, if it is
/// known. With `replaces`, the call was decided before, and nothing followed from that.
///
/// Arguments are checked with the contract of the tool. The policy of the agent may refuse them later;
/// then the call is not made, and the model gets the reason.
///
/// # Errors
///
/// The decision does not suit the call ([`JournalError::Decision`]), the call does not wait
/// ([`JournalError::NotWaiting`]), the run has ended ([`JournalError::Stopped`]), the call was decided
/// already ([`JournalError::Decided`]), or a question was changed ([`ReplayError::Question`]).
pub fn decided(
    id: &str,
    records: impl IntoIterator<Item = Record>,
    asked: &Approval,
    decision: Decision,
    person: Option<&str>,
    replaces: bool,
) -> Result<Record> {
    let wrong = |reason: String| {
        let (id, call) = (id.to_owned(), asked.call.id.clone());
        JournalError::Decision { id, call, reason }
    };
    asked.check(&decision).map_err(|reason| wrong(reason.to_string()))?;
    let questions: Questions = records.into_iter().collect();
    questions.check()?;
    let waiting = questions.find(id, asked, replaces)?;
    waiting
        .check_edit(&decision)
        .map_err(|fault| wrong(format!("needs arguments that fit its tool: {fault}")))?;
    Ok(waiting.decided(decision, person))
}

/// Checks that the questions of a run are about calls that the model asked for.
///
/// # Errors
///
/// [`ReplayError::Question`]
pub fn check_questions(records: impl IntoIterator<Item = Record>) -> Result<(), ReplayError> {
    records.into_iter().collect::<Questions>().check()
}

/// Returns the cost in a record. The cost of an agent's call is that of its parts.
#[must_use]
pub fn cost(record: &Record) -> Spent {
    match record {
        Record::Ended { part, outcome, .. } if !matches!(part.kind, PartIdKind::Run { .. }) => {
            outcome.spent
        }
        Record::Stopped { unfinished_reply: Some(_), .. } => Spent::model_call(Usage::unknown()),
        _ => Spent::default(),
    }
}

/// Returns the first record and the others.
fn split(id: &str, mut records: Vec<Record>) -> Result<(Started, Vec<Record>)> {
    let first = (!records.is_empty()).then(|| records.remove(0));
    match first {
        Some(Record::Started(started)) => {
            whole(&started)?;
            Ok((started, records))
        }
        _ => Err(JournalError::NoStart { id: id.to_owned() }),
    }
}

fn check_output(id: &str, stored: &RunState, output: Option<&str>) -> Result<()> {
    match stored.output_name() == output {
        true => Ok(()),
        false => Err(JournalError::OtherTask { id: id.to_owned(), what: "kind of output" }),
    }
}

/// Compares tasks without the instructions, which a deploy may reword.
fn is_same_task(stored: &[Arc<Message>], fresh: &[Arc<Message>]) -> bool {
    let said = |message: &&Arc<Message>| !matches!(***message, Message::System { .. });
    stored.iter().filter(said).eq(fresh.iter().filter(said))
}

fn wrong_setup(error: RunError) -> Error {
    Error::stop(error).at(Stage::Setup)
}
