//! The seam for journals and durable engines: who performs the parts of a run.
//!
//! A run is made of parts: requests to the model, tool calls, a person's decisions, and the runs of
//! agents below. The driver gives each part, with the work that it takes, to the [`Perform`] of the
//! context. A performer returns the [`Outcome`] that it already has, or does the work and keeps the
//! outcome. A run whose program was killed is driven again from its start with the same performer,
//! and every part with an outcome returns at once.
//!
//! If you have a store of records, such as a file or a table, implement [`Store`] and use
//! [`Replay`]. Implement [`Perform`] for an engine that has to run the work itself.
//!
//! Hooks and retries are inside the work; a performer sees outcomes only. A drive from recorded
//! outcomes emits no events of tools and models for them.

mod after;
mod earlier;
mod outcome;
mod part;
mod record;
mod replay;

use std::future::Future;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolwright_module::error::Stage;
use toolwright_module::event::InCall;
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::stable_hash;
use toolwright_module::{Context, Error, Result};

pub(crate) use self::after::common;
pub use self::after::{After, LeftOut};
pub use self::earlier::{Earlier, EarlierCall};
pub use self::outcome::{Outcome, OutcomeKind};
pub use self::part::{Part, PartId, PartIdKind, PartKind};
pub use self::record::{Record, Started, Waiting};
pub use self::replay::{InMemory, Replay, ReplayError, Store};

/// The end of a part: its outcome, or the reason why it has none.
pub type Performed = Result<Outcome, Open>;

/// The work of a part. It runs when it is polled, and at most once.
pub type Work<'a> = BoxFuture<'a, Performed>;

/// The reason why a part has no outcome. The part stays open and the drive ends.
#[derive(Debug)]
#[non_exhaustive]
pub enum Open {
    /// The work ended with an error that is not an outcome, such as an error of the provider or
    /// [`Error::stop`] of a tool, or it did not begin. The next drive does it again. A performer may
    /// return it too, if its error has a stage that the drive should end with.
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

impl From<Open> for Error {
    fn from(open: Open) -> Self {
        match open {
            Open::Work(error) | Open::Interrupted(error) => error,
            Open::Performer(source) => Self::stop(PerformerFailed { source }).at(Stage::Journal),
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
    /// The driver calls this method in the order of the calls, but may poll the futures in any order.
    /// An engine whose journal has an order must therefore reserve the part's place in it when this
    /// method is called, not at the first poll of the future.
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
    /// its limit or the approval policy has changed.
    ///
    /// Default: nothing. The driver then judges recorded calls again with the current agent. It cannot
    /// tell a new run from a recorded one, so a change of the agent can lead to other parts than
    /// those that were recorded. A performer with this default must notice that by
    /// [`Part::identity`], as that of Restate does.
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
pub(crate) fn performer(cx: &Context) -> Option<&Arc<dyn Perform>> {
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

/// The field of a recorded value that is there as its JSON.
const EXACT: &str = "toolwright/json";

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
        let value = match serde_json::to_value(&value) {
            Ok(json) if json.get(EXACT).is_none() => Ok(json),
            // An integer with more than 64 bits has no `Value`, and a field of this name a meaning.
            _ => serde_json::to_string(&value).map(|json| json!({ EXACT: json })),
        };
        let value = value.map_err(|error| Open::Work(Error::other(error)))?;
        Ok(Outcome::new(OutcomeKind::Value(value)))
    };
    let outcome = performer.perform(part, Box::pin(work)).await?;
    match outcome.kind {
        OutcomeKind::Value(value) => {
            let read = match value.get(EXACT).and_then(Value::as_str) {
                Some(json) => serde_json::from_str(json),
                None => serde_json::from_value(value),
            };
            read.map_err(|error| Error::stop(error).at(Stage::Decoding))
        }
        _ => Err(another_kind()),
    }
}

/// Returns the error of a recorded outcome of another kind than its part.
pub(crate) fn another_kind() -> Error {
    let text = "the journal has an outcome of another kind for a part of the run; it is the journal of another run";
    Error::stop(text).at(Stage::Journal)
}
