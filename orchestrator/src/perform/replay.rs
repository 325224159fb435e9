//! [`Replay`], the performer over the records of a run.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use toolwright_module::event::InCall;
use toolwright_module::model::BoxFuture;

use super::{
    Earlier, Open, Outcome, OutcomeKind, Part, PartId, PartKind, Perform, Performed, Record,
    Waiting, Work,
};

/// A store of the records of one run, such as a file or a table.
pub trait Store: Send + Sync {
    /// Appends a record. It must be on disk when the future ends.
    ///
    /// A record may be in the list twice, so an append whose result is unknown can be repeated.
    /// Records have no numbers; only their order counts. The future is dropped one second after the
    /// deadline of the context, and the next drive then appends the record again.
    ///
    /// # Errors
    ///
    /// The record was not stored. The drive ends, and no model sees the error. With
    /// [`Open::Performer`], which `?` makes, the drive ends with the stage
    /// [`Stage::Journal`](toolwright_module::error::Stage::Journal). [`Open::Work`] keeps the stage of
    /// its error, for example that of a run that was cancelled meanwhile.
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>>;
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        (**self).append(record)
    }
}

/// Records that do not fit their run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A part is performed by another drive of the same run.
    #[error(
        "another drive performs the part {part} of this run now; drive a run only once at a time"
    )]
    UnderWay {
        /// The id of the part.
        part: PartId,
    },
    /// The records are of another run.
    #[error(
        "the journal belongs to another run: its part {part} has another task or other arguments; use one journal for each run"
    )]
    OtherRun {
        /// The id of the part.
        part: PartId,
    },
    /// The agent has changed, and its run no longer reaches a recorded part.
    #[error(
        "the agent did not reach the recorded part {part} of the run; drive the run with the previous version of the agent, or start a new run"
    )]
    OtherAgent {
        /// The id of the part.
        part: PartId,
    },
    /// A part has no outcome, and nothing new may be performed
    /// ([`Replay::without_new_parts`]).
    #[error("the part {part} of the run has no outcome yet; drive the run to perform it")]
    NoOutcome {
        /// The id of the part.
        part: PartId,
    },
    /// A recorded question is not about the call that would be made: something else wrote to the
    /// records. Neither the question nor a decision on it is used.
    #[error(
        "the question about the call `{call}` is damaged: {reason}; do not decide on it, and restore the run from a backup or delete it"
    )]
    Question {
        /// The id of the call.
        call: String,
        /// What differs.
        reason: &'static str,
    },
}

/// A performer over the records of a run. It finds outcomes in the records, and appends new ones.
///
/// The example `stored_run` uses it with a table of SQLite.
pub struct Replay<S> {
    shared: Arc<(Mutex<State>, S)>,
    max_result_bytes: u64,
    performs_new: bool,
}

#[derive(Default)]
struct State {
    known: HashMap<PartId, Known>,
    /// The recorded questions.
    waiting: HashMap<PartId, Waiting>,
    /// The questions that ended with an earlier drive, so that they are asked again.
    withdrawn: HashSet<PartId>,
    under_way: HashSet<PartId>,
    /// The recorded parts that the run has not come to yet, by the path of their run.
    ahead: HashMap<Vec<InCall>, BTreeSet<PartId>>,
}

/// What the records say about one part.
#[derive(Clone)]
struct Known {
    identity: u64,
    /// `None` for a part that was begun and has not ended.
    outcome: Option<Outcome>,
    /// Whether the outcome is on disk.
    is_appended: bool,
}

/// Removes a part from the parts under way.
struct Performs<'a>(&'a Mutex<State>, PartId);

impl Drop for Performs<'_> {
    fn drop(&mut self) {
        locked(self.0).under_way.remove(&self.1);
    }
}

impl State {
    fn add(&mut self, record: Record) {
        match record {
            Record::Begun { part, identity } => {
                self.ahead.entry(part.path.clone()).or_default().insert(part.clone());
                // A mark does not undo an outcome.
                let begun = Known { identity, outcome: None, is_appended: true };
                self.known.entry(part).or_insert(begun);
            }
            Record::Failed { part, .. } => {
                // The call is open, so nothing is lost with it.
                if self.known.get(&part).is_some_and(|known| known.outcome.is_none()) {
                    self.known.remove(&part);
                    self.ahead.get_mut(&part.path).map(|parts| parts.remove(&part));
                }
            }
            Record::Ended { part, identity, outcome } => {
                self.ahead.entry(part.path.clone()).or_default().insert(part.clone());
                let outcome = Some(outcome);
                self.known.insert(part, Known { identity, outcome, is_appended: true });
            }
            Record::Waiting(waiting) => self.ask(waiting),
            Record::Stopped { is_open: false, .. } => {
                self.withdrawn = self.waiting.keys().cloned().collect();
            }
            Record::Started(_) | Record::Finished { .. } | Record::Stopped { .. } => {}
        }
    }
}

impl State {
    fn ask(&mut self, waiting: Waiting) {
        self.withdrawn.remove(&waiting.part);
        self.waiting.insert(waiting.part.clone(), waiting);
    }

    fn asks(&self, part: &PartId) -> bool {
        self.waiting.contains_key(part) && !self.withdrawn.contains(part)
    }
}

impl<S: Store> Replay<S> {
    /// Returns a performer with the records of a run so far. New records go to `store`.
    pub fn new(records: impl IntoIterator<Item = Record>, store: S) -> Self {
        let mut state = State::default();
        records.into_iter().for_each(|record| state.add(record));
        let shared = Arc::new((Mutex::new(state), store));
        Self { shared, max_result_bytes: u64::MAX, performs_new: true }
    }

    /// Performs nothing: a drive goes only as far as the records do, and then ends with
    /// [`ReplayError::NoOutcome`]. No model is asked, no tool is called, and nothing is recorded.
    ///
    /// It is for a program that reads the state of a run, such as [`Run::conversation`].
    ///
    /// [`Run::conversation`]: crate::Run::conversation
    #[must_use]
    pub fn without_new_parts(mut self) -> Self {
        self.performs_new = false;
        self
    }

    /// Sets the maximum length of the result of a call, in bytes of JSON. Default: no limit. A longer
    /// result is not recorded; see [`Outcome::with_most_bytes`].
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: u64) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Checks that the run at this path has come to all its recorded parts. The run itself has the
    /// path of its context. Call it at the end of the run.
    ///
    /// # Errors
    ///
    /// [`ReplayError::OtherAgent`]
    pub fn check_complete(&self, path: &[InCall]) -> Result<(), ReplayError> {
        match self.state().ahead.get(path).and_then(BTreeSet::first) {
            Some(part) => Err(ReplayError::OtherAgent { part: part.clone() }),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.shared.0)
    }

    async fn append(&self, record: &Record) -> Result<(), Open> {
        self.shared.1.append(record).await
    }

    async fn perform_part(&self, part: Part, id: PartId, work: Work<'_>) -> Performed {
        let identity = part.identity();
        let question = Waiting::of(&part);
        let found = {
            let mut state = self.state();
            // A decision holds for the call that the person saw. The question is checked also if
            // there is a decision, which is then found without the work.
            if let (Some(asked), Some(known)) = (&question, state.waiting.get(&id)) {
                known.check_asked(&asked.approval)?;
            }
            if !state.under_way.insert(id.clone()) {
                return Err(ReplayError::UnderWay { part: id }.into());
            }
            state.known.get(&id).cloned()
        };
        let _performs = Performs(&self.shared.0, id.clone());
        let begun = found.is_some();
        if let Some(known) = found {
            if known.identity != identity {
                return Err(ReplayError::OtherRun { part: id }.into());
            }
            if let Some(outcome) = known.outcome {
                // A drive from many records would otherwise keep its thread until the last one, and
                // other tasks of the thread could not run, such as the one that renews a lease.
                yield_now().await;
                return match known.is_appended {
                    true => Ok(outcome),
                    false => self.end(id, identity, outcome).await,
                };
            }
        }
        if !self.performs_new {
            if matches!(part.kind, PartKind::Ask { .. }) {
                self.check_complete(&part.path)?;
            }
            return Err(ReplayError::NoOutcome { part: id }.into());
        }
        let outcome = if part.is_repeatable() {
            if let Some(asked) = question {
                self.ask(asked).await?;
            }
            if matches!(part.kind, PartKind::Ask { .. }) {
                self.check_complete(&part.path)?;
            }
            work.await?
        } else if begun {
            Outcome::new(OutcomeKind::Unknown)
        } else {
            self.append(&Record::Begun { part: id.clone(), identity }).await?;
            // Known now, because a second drive may follow in this process.
            self.keep(id.clone(), Known { identity, outcome: None, is_appended: true });
            match work.await {
                Err(Open::Work(error)) => {
                    self.append(&Record::Failed { part: id.clone(), identity }).await?;
                    self.state().known.remove(&id);
                    return Err(Open::Work(error));
                }
                ended => ended?,
            }
        };
        let outcome = match &part.kind {
            PartKind::Call { call, .. } | PartKind::Run { call } => {
                outcome.with_most_bytes(call, self.max_result_bytes)?
            }
            _ => outcome,
        };
        self.end(id, identity, outcome).await
    }

    /// Records a question before a person is asked: the answer may come days later, and from another
    /// process.
    async fn ask(&self, waiting: Waiting) -> Result<(), Open> {
        if !self.state().asks(&waiting.part) {
            self.append(&Record::Waiting(waiting.clone())).await?;
            self.state().ask(waiting);
        }
        Ok(())
    }

    /// Appends an outcome. It is known before, so that a later drive does not lose it if the append
    /// fails or is dropped, and appends it again.
    async fn end(&self, part: PartId, identity: u64, outcome: Outcome) -> Performed {
        let known = |is_appended| Known { identity, outcome: Some(outcome.clone()), is_appended };
        self.keep(part.clone(), known(false));
        let ended = Record::Ended { part: part.clone(), identity, outcome: outcome.clone() };
        self.append(&ended).await?;
        self.keep(part, known(true));
        Ok(outcome)
    }

    fn keep(&self, part: PartId, known: Known) {
        self.state().known.insert(part, known);
    }
}

/// Lets other tasks of the thread run.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<S: Store> Perform for Replay<S> {
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
        let id = part.id();
        if let Some(parts) = self.state().ahead.get_mut(&part.path) {
            parts.remove(&id);
        }
        Box::pin(self.perform_part(part, id, work))
    }

    fn earlier(&self, path: &[InCall]) -> Earlier {
        let mut earlier = Earlier::default();
        for (part, known) in &self.state().known {
            let is_reply = |outcome: &Outcome| matches!(outcome.kind, OutcomeKind::Reply(_));
            let is_reply = known.outcome.as_ref().is_some_and(is_reply);
            earlier.add(path, part, is_reply.then_some(known.identity));
        }
        earlier
    }
}

/// Clones have the same records.
impl<S> Clone for Replay<S> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        let Self { max_result_bytes, performs_new, .. } = *self;
        Self { shared, max_result_bytes, performs_new }
    }
}

impl<S> fmt::Debug for Replay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = locked(&self.shared.0).known.len();
        f.debug_struct("Replay").field("parts", &parts).finish_non_exhaustive()
    }
}

/// A store in memory, for tests.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Vec<Record>>);

impl Store for InMemory {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        locked(&self.0).push(record.clone());
        Box::pin(async { Ok(()) })
    }
}

impl Replay<InMemory> {
    /// Returns a performer that keeps its records in memory, for tests.
    pub fn in_memory(records: impl IntoIterator<Item = Record>) -> Self {
        let records: Vec<_> = records.into_iter().collect();
        Self::new(records.clone(), InMemory(Mutex::new(records)))
    }

    /// Returns all records so far.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        locked(&self.shared.1.0).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
