//! The seam for journals and durable engines: who performs the parts of a run.
//!
//! A run is made of parts: questions to the model, tool calls, a person's decisions, and the runs of
//! agents below. The driver gives each part, with the work that it takes, to the [`Perform`] of the
//! context. A performer returns the [`Outcome`] that it already has, or does the work and keeps the
//! outcome. A run whose program was killed is driven again from its start with the same performer,
//! and every part with an outcome returns at once.
//!
//! If you have a place to append to, such as a file or a table, implement [`Append`] and use
//! [`Replay`]. Implement [`Perform`] for an engine that has to run the work itself.
//!
//! Hooks and retries are inside the work; a performer sees outcomes only. A drive from recorded
//! outcomes emits no events of tools and models for them.

mod earlier;
mod outcome;
mod part;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_module::driver::stable_hash;
use toolwright_module::error::Stage;
use toolwright_module::event::InCall;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Error, Result};

pub use self::earlier::{Earlier, EarlierCall};
pub use self::outcome::{Outcome, OutcomeKind};
pub use self::part::{NoPartId, Part, PartId, PartIdKind, PartKind};

/// The end of a part: its outcome, or the reason why it has none.
pub type Performed = Result<Outcome, Open>;

/// The work of a part. It runs when it is polled, and at most once.
pub type Work<'a> = BoxFuture<'a, Performed>;

/// The reason why a part has no outcome. The part stays open and the drive ends.
#[derive(Debug)]
#[non_exhaustive]
pub enum Open {
    /// The work ended with an error that is not an outcome, such as an error of the provider or
    /// [`Error::stop`] of a tool, or it did not begin. The next drive does it again.
    Work(Error),
    /// A cancellation or a deadline of the context ended the work during a call. It is unknown
    /// whether the call took effect.
    Interrupted(Error),
    /// The performer failed: a full disk, or a journal of another run. The model never sees it.
    Performer(Box<dyn std::error::Error + Send + Sync>),
}

/// Makes `?` in a performer an error of the performer.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Open {
    fn from(error: E) -> Self {
        Self::Performer(Box::new(error))
    }
}

impl Open {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Work(error) | Self::Interrupted(error) => error,
            Self::Performer(source) => Error::stop(PerformerFailed { source }).at(Stage::Journal),
        }
    }
}

/// The error of a run whose performer failed. The run is unchanged, and can be driven again.
#[derive(Debug, thiserror::Error)]
#[error("the run could not be recorded: {source}; fix the cause and drive the run again")]
#[non_exhaustive]
pub struct PerformerFailed {
    /// The performer's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The performer of the parts of runs. Set it with [`with_performer`].
pub trait Perform: Send + Sync {
    /// Returns the outcome of a part that was performed before, or performs it: does `work`, and
    /// keeps its outcome. The part's [`id`](Part::id) identifies it in a run and in every run
    /// below.
    ///
    /// An engine that needs an order takes the part's place when this method is called, not at the
    /// first poll of the future.
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed>;

    /// Performs a batch of calls that may run concurrently, at most `most` at a time. Returns one
    /// result for each, in order. The default implementation calls [`perform`](Self::perform) for
    /// all, in order.
    fn perform_all<'a>(
        &'a self,
        parts: Vec<(Part, Work<'a>)>,
        most: usize,
    ) -> BoxFuture<'a, Vec<Performed>> {
        let most = most.max(1);
        let started: Vec<_> =
            parts.into_iter().map(|(part, work)| self.perform(part, work)).collect();
        if started.len() <= most {
            return Box::pin(join_all(started));
        }
        Box::pin(stream::iter(started).buffered(most).collect())
    }

    /// Returns whether runs below one batch may run side by side. Default: `true`. It is `false`
    /// for an engine with one ordered journal.
    fn side_by_side(&self) -> bool {
        true
    }

    /// Returns what earlier drives of the run at this path did. The driver calls it once, at the
    /// start of a drive of the run.
    ///
    /// The run does not judge recorded calls again: a call with an outcome keeps it even if the tool,
    /// its limit or the approval policy has changed. Default: nothing, so the current agent judges
    /// recorded calls again.
    fn earlier(&self, path: &[InCall]) -> Earlier {
        let _ = path;
        Earlier::default()
    }
}

/// Returns a hash that is the same in every release.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let hash = stable_hash(texts);
    // Both halves, so that no digit of the hash is lost.
    (hash as u64) ^ ((hash >> 64) as u64)
}

/// The performer in a context. `None` inside of a call that has no parts.
struct Performer(Option<Arc<dyn Perform>>);

/// Sets the performer of the runs in this context and below it.
///
/// ```
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Reply};
/// use toolwright_orchestrator::Agent;
/// use toolwright_orchestrator::perform::{Replay, Record, with_performer};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), [])?;
/// let journal = Replay::in_memory([]);
/// let cx = with_performer(&Context::default(), journal.clone());
/// assert_eq!(agent.run("Say hello.", &cx).await?.answer, "Hello.");
///
/// // The program is killed. Another one has the same records, and asks no model.
/// let records: Vec<Record> = journal.records();
/// let agent = Agent::new(Scripted::replies([]), [])?;
/// let cx = with_performer(&Context::default(), Replay::in_memory(records));
/// assert_eq!(agent.run("Say hello.", &cx).await?.answer, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn with_performer(cx: &Context, performer: impl Perform + 'static) -> Context {
    cx.clone().with(Performer(Some(Arc::new(performer))))
}

/// Returns the performer of a context.
#[must_use]
pub fn performer(cx: &Context) -> Option<&Arc<dyn Perform>> {
    cx.get::<Performer>()?.0.as_ref()
}

/// The name in a context.
struct Decider(String);

/// Sets the name of the person whose decisions the approver of this context gives. A performer keeps
/// it with each decision; see [`Outcome::by`].
///
/// ```
/// # use toolwright_module::{Context, Effect, Reply, ToolCall};
/// # use toolwright_module::testing::Scripted;
/// use toolwright_module::approval::{Approval, Decision};
/// use toolwright_orchestrator::perform::{Record, Replay, with_decider, with_performer};
/// # use toolwright_orchestrator::{Agent, ApprovalPolicy};
/// # /// Send a letter.
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct SendLetter {}
/// # impl toolwright_module::Signature for SendLetter { type Output = String; }
/// # let letter = toolwright_module::from_fn(async |_: SendLetter| Ok("Sent.".to_owned()));
/// # let call = ToolCall::new("1", "send_letter", "{}");
/// # let model = Scripted::replies([Reply::calls([call]), Reply::text("Done.")]);
/// # let agent = Agent::new(model, [toolwright_module::Tool::new(letter)?])?
/// #     .with_approval(ApprovalPolicy::from_effect(Effect::Write))?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
///
/// let journal = Replay::in_memory([]);
/// let cx = Context::default().with_approver(async |_: Approval| Ok(Decision::Approve));
/// let cx = with_performer(&with_decider(&cx, "Kate"), journal.clone());
/// agent.run("Send the letter.", &cx).await?;
/// let by = journal.records().into_iter().find_map(|record| match record {
///     Record::Ended { outcome, .. } => outcome.by,
///     _ => None,
/// });
/// assert_eq!(by.as_deref(), Some("Kate"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn with_decider(cx: &Context, person: impl Into<String>) -> Context {
    cx.clone().with(Decider(person.into()))
}

/// Returns the name of the person who decides.
pub(crate) fn decider(cx: &Context) -> Option<&str> {
    cx.get::<Decider>().map(|decider| &*decider.0)
}

/// Returns the context without its performer, for a call that is performed as a whole.
pub(crate) fn without_performer(cx: Context) -> Context {
    cx.with(Performer(None))
}

/// Performs a value of a module as a part of the run, so that it is computed once.
///
/// The module has to return `true` from [`Module::has_parts`], and everything else in it has to be
/// a part too. Otherwise its call is performed as a whole, and this function only does the work.
/// `name` must be unique in the call. The work must be repeatable: if the program is killed
/// during it, it is done again.
///
/// [`Module::has_parts`]: toolwright_module::Module::has_parts
///
/// # Errors
///
/// The error of the work, [`Stage::Journal`] if the performer fails, and [`Stage::Decoding`] if the
/// recorded value is not a `T`.
pub async fn value<T: Serialize + DeserializeOwned + Send>(
    cx: &Context,
    name: &str,
    work: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let Some(performer) = performer(cx).cloned() else { return work.await };
    let part = Part { path: cx.path(), kind: PartKind::Value { name: name.to_owned() } };
    let work = async move {
        let value = work.await.map_err(Open::Work)?;
        let value = serde_json::to_value(value).map_err(|error| Open::Work(Error::other(error)))?;
        Ok(Outcome::new(OutcomeKind::Value(value)))
    };
    let outcome = performer.perform(part, Box::pin(work)).await.map_err(Open::into_error)?;
    match outcome.kind {
        OutcomeKind::Value(value) => {
            serde_json::from_value(value).map_err(|error| Error::stop(error).at(Stage::Decoding))
        }
        _ => Err(another_kind()),
    }
}

/// Returns the error of a recorded outcome of another kind than its part.
pub(crate) fn another_kind() -> Error {
    let text = "the journal has an outcome of another kind for a part of the run; it is the journal of another run";
    Error::stop(text).at(Stage::Journal)
}

/// One record of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "most records are of the large kind")]
pub enum Record {
    /// A call that must not be repeated by itself was begun.
    Begun {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
    },
    /// A begun call has ended with an error that is not an outcome, such as [`Error::stop`] of its
    /// tool. It may be made again.
    Failed {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
    },
    /// A part has ended.
    Ended {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
        /// Its outcome.
        outcome: Outcome,
    },
}

/// A place to append records to, such as a file or a table.
pub trait Append: Send + Sync {
    /// Appends a record. It must be on disk when the future ends.
    ///
    /// The future is dropped one second after the deadline of the context. The next drive appends
    /// the record again then, and a record that is in the list twice does no harm.
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>>;
}

/// A performer over a list of records. It finds outcomes in the records, and appends new ones.
///
/// The example `stored_run` uses it with a table of SQLite.
pub struct Replay<A> {
    known: Arc<Mutex<HashMap<PartId, Known>>>,
    under_way: Arc<Mutex<HashSet<PartId>>>,
    append: Arc<A>,
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

/// A part is performed by another drive of the same run.
#[derive(Debug, thiserror::Error)]
#[error("another drive performs the part {part} of this run now; drive a run only once at a time")]
#[non_exhaustive]
pub struct UnderWay {
    /// The id of the part.
    pub part: PartId,
}

/// Removes a part from the parts under way.
struct Performs<'a>(&'a Mutex<HashSet<PartId>>, PartId);

impl Drop for Performs<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// The records are of another run.
#[derive(Debug, thiserror::Error)]
#[error(
    "the journal belongs to another run: its part {part} has another task or other arguments; use one journal for each run"
)]
#[non_exhaustive]
pub struct OtherRun {
    /// The id of the part.
    pub part: PartId,
}

impl<A: Append> Replay<A> {
    /// Returns a performer with the records of a run so far. New records go to `append`.
    pub fn new(records: impl IntoIterator<Item = Record>, append: A) -> Self {
        let mut known: HashMap<PartId, Known> = HashMap::new();
        for record in records {
            match record {
                // A mark does not undo an outcome.
                Record::Begun { part, identity } => {
                    let begun = Known { identity, outcome: None, is_appended: true };
                    known.entry(part).or_insert(begun);
                }
                Record::Failed { part, .. } => {
                    if known.get(&part).is_some_and(|known| known.outcome.is_none()) {
                        known.remove(&part);
                    }
                }
                Record::Ended { part, identity, outcome } => {
                    let outcome = Some(outcome);
                    known.insert(part, Known { identity, outcome, is_appended: true });
                }
            }
        }
        let (known, append) = (Arc::new(Mutex::new(known)), Arc::new(append));
        Self { known, under_way: Arc::default(), append }
    }

    async fn perform_part(&self, part: Part, work: Work<'_>) -> Performed {
        let (id, identity) = (part.id(), part.identity());
        let is_first = {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.insert(id.clone())
        };
        if !is_first {
            return Err(UnderWay { part: id }.into());
        }
        let _performs = Performs(&self.under_way, id.clone());
        let found = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let begun = found.is_some();
        if let Some(known) = found {
            if known.identity != identity {
                return Err(OtherRun { part: id }.into());
            }
            if let Some(outcome) = known.outcome {
                return match known.is_appended {
                    true => Ok(outcome),
                    false => self.end(id, identity, outcome).await,
                };
            }
        }
        let outcome = if part.is_repeatable() {
            work.await?
        } else if begun {
            Outcome::new(OutcomeKind::Unknown)
        } else {
            let begun = Record::Begun { part: id.clone(), identity };
            self.append.append(&begun).await?;
            // Known now, because a second drive may follow in this process.
            let begun = Known { identity, outcome: None, is_appended: true };
            self.keep(id.clone(), begun);
            match work.await {
                Err(Open::Work(error)) => {
                    let failed = Record::Failed { part: id.clone(), identity };
                    self.append.append(&failed).await?;
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                    return Err(Open::Work(error));
                }
                ended => ended?,
            }
        };
        self.end(id, identity, outcome).await
    }

    /// Appends an outcome. It is known before, so that a later drive does not lose it if the append
    /// fails or is dropped, and appends it again.
    async fn end(&self, part: PartId, identity: u64, outcome: Outcome) -> Performed {
        let known = |is_appended| Known { identity, outcome: Some(outcome.clone()), is_appended };
        self.keep(part.clone(), known(false));
        let ended = Record::Ended { part: part.clone(), identity, outcome: outcome.clone() };
        self.append.append(&ended).await?;
        self.keep(part, known(true));
        Ok(outcome)
    }

    fn keep(&self, part: PartId, known: Known) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(part, known);
    }
}

impl<A: Append> Perform for Replay<A> {
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
        Box::pin(self.perform_part(part, work))
    }

    fn earlier(&self, path: &[InCall]) -> Earlier {
        let mut earlier = Earlier::default();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (part, known) in &*known {
            let outcome = known.outcome.as_ref().map(|outcome| &outcome.kind);
            earlier.add(path, part, matches!(outcome, Some(OutcomeKind::Reply(_))));
        }
        earlier
    }
}

/// Clones have the same records.
impl<A> Clone for Replay<A> {
    fn clone(&self) -> Self {
        Self {
            known: Arc::clone(&self.known),
            under_way: Arc::clone(&self.under_way),
            append: Arc::clone(&self.append),
        }
    }
}

impl<A> fmt::Debug for Replay<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Replay").field("parts", &known.len()).finish_non_exhaustive()
    }
}

/// A place that keeps records in memory, for tests.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Vec<Record>>);

impl Append for InMemory {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
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
        self.append.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Notes whether the work of a part ran.
#[derive(Default)]
pub(crate) struct Made(AtomicBool);

impl Made {
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
