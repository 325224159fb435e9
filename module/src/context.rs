//! The context of a call: model, ledger, deadline, cancellation, events, approver and policy. Its
//! model calls are in `model_call.rs`.
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures_core::future::BoxFuture;
use futures_util::future::{Either, FutureExt, select, select_all};
/// A handle that cancels every model call and every agent that has it in its context. A tool that
/// wants to stop early checks its context. Clones cancel the same calls.
pub use tokio_util::sync::CancellationToken as Cancellation;
use toolwright_signature::{Policy, stable_hash};

use crate::approval::{Approval, Decision};
use crate::error::{Error, Result, Stage};
use crate::event::{Event, EventKind};
use crate::hook::{AnyHook, Hook};
use crate::in_call::InCall;
use crate::ledger::{Exhausted, Holder, Ledger};
use crate::message::ToolCall;
use crate::model::LanguageModel;
use crate::panic_text;

/// The settings of a call and of everything below it.
///
/// A module passes its context to everything that it calls. A model inside a tool inside an agent
/// then has the cancellation, the deadline, the events and the ledger of the whole run. There is no
/// global state.
///
/// A clone costs one reference count. The default context is empty.
///
/// ```
/// use toolwright_module::{Cancellation, Context};
///
/// let cancellation = Cancellation::default();
/// let cx = Context::default().with_cancellation(cancellation.clone());
/// assert!(!cx.is_cancelled());
/// cancellation.cancel();
/// assert!(cx.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Context {
    inner: Option<Arc<Inner>>,
    /// Separate from `inner`, because every tool call has its own path.
    path: Option<Arc<CallPath>>,
}

#[derive(Clone, Default)]
struct Inner {
    model: Option<Arc<dyn LanguageModel>>,
    ledger: Option<Ledger>,
    deadline: Option<Instant>,
    cancellations: Vec<Cancellation>,
    depth: u32,
    sink: Option<Sink>,
    approver: Option<Approver>,
    captures_content: bool,
    policy: Policy,
    /// The values of the program, each an `Arc<T>` in a box, by the type `T`. The last one of a
    /// type applies.
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
    /// The outermost one first.
    hooks: Vec<AnyHook>,
    /// The numbers of the streams around the call that the program reads. The outermost one first.
    streams: Vec<u64>,
}

/// The tool calls around a context: the innermost one and a link to those around it. Contexts below
/// share it.
struct CallPath {
    /// The tool's name and the call's id in one string. Every call allocates it, and few read it.
    names: String,
    /// The length of the tool's name.
    tool: usize,
    /// Whether the call has got text that strangers wrote.
    is_untrusted: AtomicBool,
    above: Option<Arc<Self>>,
}

impl CallPath {
    fn tool(&self) -> &str {
        &self.names[..self.tool]
    }

    fn call(&self) -> InCall {
        InCall { tool: self.tool().to_owned(), id: self.names[self.tool..].to_owned() }
    }
}

/// The id and metadata of a run, a value of its context.
struct RunInfo {
    id: String,
    metadata: BTreeMap<String, String>,
}

/// Maximum number of runs inside each other.
const MAX_DEPTH: u32 = 16;

type Sink = Arc<dyn Fn(&Event) + Send + Sync>;
type Approver = Arc<dyn Fn(Approval) -> BoxFuture<'static, Result<Decision>> + Send + Sync>;

impl Context {
    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(self.inner.get_or_insert_default()));
        self
    }

    /// Returns the context of a run inside this call, one level deeper.
    ///
    /// # Errors
    ///
    /// [`Stage::Limit`] beyond 16 runs inside each other. An agent that calls itself then ends with
    /// an error instead of a stack overflow. The whole run ends.
    pub(crate) fn nested(&self) -> Result<Self> {
        let depth = self.inner.as_ref().map_or(0, |inner| inner.depth);
        if depth >= MAX_DEPTH {
            let text =
                format!("agents call each other more than {MAX_DEPTH} deep; does one call itself?");
            return Err(Error::stop(text).at(Stage::Limit));
        }
        Ok(self.clone().change(|inner| inner.depth = depth + 1))
    }

    /// Returns the context of a stream that the program reads. Its calls go on only while it is
    /// read, which the [`Ledger`] has to know.
    #[must_use]
    pub(crate) fn in_stream(self) -> Self {
        self.change(|inner| inner.streams.push(Holder::new_number()))
    }

    /// Returns the numbers of the streams around the call that the program reads.
    pub(crate) fn streams(&self) -> &[u64] {
        self.inner.as_ref().map_or(&[], |inner| &inner.streams)
    }

    /// Adds a value of the program, such as a database or the user of the request. Every module
    /// below finds it by its type with [`get`](Self::get). A value of the same type replaces an
    /// earlier one for this context and those below it.
    ///
    /// Contracts and tools are then made once, and not for each request.
    ///
    /// ```
    /// use std::fmt::Display;
    /// use std::sync::Arc;
    /// use toolwright_module::Context;
    ///
    /// struct Tenant(u32);
    /// struct Db;
    ///
    /// let name: Arc<dyn Display + Send + Sync> = Arc::new("Ada");
    /// let cx = Context::default().with(Tenant(7)).with(Arc::new(Db)).with(name);
    /// assert_eq!(cx.get::<Tenant>().map(|tenant| tenant.0), Some(7));
    /// // A value in an `Arc` is also found without it.
    /// assert!(cx.get::<Db>().is_some());
    /// assert!(cx.get::<dyn Display + Send + Sync>().is_some());
    /// assert!(cx.get::<String>().is_none());
    /// ```
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: T) -> Self {
        let id = TypeId::of::<Arc<T>>();
        self.change(|inner| {
            inner.values.retain(|(known, _)| *known != id);
            inner.values.push((id, Arc::new(Arc::new(value))));
        })
    }

    /// Returns the value of this type; see [`with`](Self::with).
    #[must_use]
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<&T> {
        let (plain, shared) = (TypeId::of::<Arc<T>>(), TypeId::of::<Arc<Arc<T>>>());
        let values = self.inner.as_ref()?.values.iter().rev();
        // The last one applies, whether it was added as `T` or as `Arc<T>`.
        let (id, value) = values.into_iter().find(|(id, _)| *id == plain || *id == shared)?;
        if *id == plain {
            return value.downcast_ref::<Arc<T>>().map(|value| &**value);
        }
        value.downcast_ref::<Arc<Arc<T>>>().map(|value| &***value)
    }

    /// Sets the id and the metadata of the run, for tools, spans and journals. The id must be unique
    /// among the runs of a store.
    ///
    /// ```
    /// use toolwright_module::Context;
    ///
    /// let cx = Context::default().with_run("order-17", [("tenant", "acme")]);
    /// assert_eq!(cx.run_id(), Some("order-17"));
    /// assert_eq!(cx.metadata().unwrap()["tenant"], "acme");
    /// ```
    #[must_use]
    pub fn with_run<K: Into<String>, V: Into<String>>(
        self,
        id: impl Into<String>,
        metadata: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let metadata = metadata.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.with(RunInfo { id: id.into(), metadata: metadata.collect() })
    }

    /// Returns the id of the run; see [`with_run`](Self::with_run).
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        self.get::<RunInfo>().map(|run| &*run.id)
    }

    /// Returns the metadata of the run; see [`with_run`](Self::with_run).
    #[must_use]
    pub fn metadata(&self) -> Option<&BTreeMap<String, String>> {
        self.get::<RunInfo>().map(|run| &run.metadata)
    }

    /// Returns a key for this tool call that is the same each time the call is made, and differs
    /// from that of every other call. A service that knows such keys then does the work once.
    ///
    /// It has 32 hexadecimal digits. It is `None` outside of tool calls, and in a run without an id.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<String> {
        let (run, path) = (self.run_id()?, self.path());
        if path.is_empty() {
            return None;
        }
        let names = path.iter().flat_map(|call| [&*call.tool, &*call.id]);
        Some(format!("{:032x}", stable_hash(std::iter::once(run).chain(names))))
    }

    /// Sets the model for modules that have none of their own.
    #[must_use]
    pub fn with_model(self, model: impl LanguageModel) -> Self {
        self.change(|inner| inner.model = Some(Arc::new(model)))
    }

    /// Sets the ledger that counts the cost of the call and everything below it.
    ///
    /// It replaces an earlier ledger. To count in both, pass [`Ledger::child`] of the earlier one.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        self.change(|inner| inner.ledger = Some(ledger))
    }

    /// Sets the deadline of the call. An earlier deadline stays.
    ///
    /// Agents enforce it. A module that runs long may check it.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        self.change(|inner| {
            inner.deadline = Some(inner.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        })
    }

    /// Adds a cancellation. Those set before stay.
    #[must_use]
    pub fn with_cancellation(self, cancellation: Cancellation) -> Self {
        self.change(|inner| inner.cancellations.push(cancellation))
    }

    /// Adds a listener for events. Those set before stay.
    ///
    /// The listener runs on the task that does the work, so it should be quick; otherwise let it
    /// send the events through a channel. If it panics, the call continues and `tracing` gets one
    /// error.
    #[must_use]
    pub fn with_events(self, sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        let sink = contained(sink);
        self.change(|inner| {
            inner.sink = Some(match inner.sink.take() {
                None => Arc::new(sink),
                Some(earlier) => Arc::new(move |event| {
                    earlier(event);
                    sink(event);
                }),
            });
        })
    }

    /// Adds a hook around every model call and tool call of this context and those below it. Hooks
    /// added before are outside of it.
    ///
    /// ```
    /// use toolwright_module::Context;
    /// use toolwright_module::hook::Retry;
    ///
    /// // A call that fails with a retryable error is made up to two more times.
    /// let cx = Context::default().with_hook(Retry::default());
    /// ```
    #[must_use]
    pub fn with_hook(self, hook: impl Hook) -> Self {
        self.change(|inner| inner.hooks.push(AnyHook::new(hook)))
    }

    /// Returns the context without a hook.
    pub(crate) fn without_hook(&self, hook: &AnyHook) -> Self {
        self.clone().change(|inner| inner.hooks.retain(|other| !other.is(hook)))
    }

    /// Returns the hooks, the outermost one first.
    #[inline]
    pub(crate) fn hooks(&self) -> &[AnyHook] {
        self.inner.as_ref().map_or(&[], |inner| &inner.hooks)
    }

    /// Sets the approver, which decides on calls that wait for a person. It replaces an earlier
    /// one.
    ///
    /// An agent's approval policy says which calls wait. Without an approver such a run ends with
    /// an error, and can be resumed after the decision.
    ///
    /// ```
    /// use toolwright_module::Context;
    /// use toolwright_module::approval::{Approval, Decision};
    ///
    /// let cx = Context::default().with_approver(|asked: Approval| async move {
    ///     // Here a program asks its user.
    ///     Ok(match asked.call.name.as_str() {
    ///         "memory_clear" => Decision::deny("We still need the memory."),
    ///         _ => Decision::Approve,
    ///     })
    /// });
    /// assert!(toolwright_module::runner::has_approver(&cx));
    /// ```
    #[must_use]
    pub fn with_approver<F, Fut>(self, approver: F) -> Self
    where
        F: Fn(Approval) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Decision>> + Send + 'static,
    {
        let approver: Approver = Arc::new(move |asked| Box::pin(approver(asked)));
        self.change(|inner| inner.approver = Some(approver))
    }

    /// Sets whether `tracing` spans may contain prompts, replies, arguments and results. Default:
    /// `false`, because they may contain a user's data.
    #[must_use]
    pub fn with_captured_content(self, captured: bool) -> Self {
        self.change(|inner| inner.captures_content = captured)
    }

    /// Sets how far a model's texts may be repaired, in the call and everything below it. A
    /// stricter policy stays.
    ///
    /// It applies to the arguments of tools and to the answers of predictors, including those of
    /// agents inside agents. Their own policies can only be stricter.
    ///
    /// ```
    /// use toolwright_module::{Context, Policy};
    ///
    /// let cx = Context::default().with_policy(Policy::Strict);
    /// assert_eq!(cx.with_policy(Policy::Repair).policy(), Policy::Strict);
    /// ```
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        if policy >= self.policy() {
            return self;
        }
        self.change(|inner| inner.policy = policy)
    }

    /// Returns how far a model's texts may be repaired. Default: [`Policy::Coerce`].
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Policy {
        self.inner.as_ref().map_or(Policy::default(), |inner| inner.policy)
    }

    /// Returns the context of a tool call. Its events and errors have the call in their path.
    #[must_use]
    pub(crate) fn in_call(&self, call: &ToolCall) -> Self {
        let mut names = String::with_capacity(call.name.len() + call.id.len());
        names.push_str(&call.name);
        names.push_str(&call.id);
        let (tool, above) = (call.name.len(), self.path.clone());
        let path = CallPath { names, tool, is_untrusted: AtomicBool::new(false), above };
        let cx = Self { inner: self.inner.clone(), path: Some(Arc::new(path)) };
        match self.ledger().and_then(Ledger::in_call) {
            Some(ledger) => cx.with_ledger(ledger),
            None => cx,
        }
    }

    /// Marks the tool call of this context as one that has got text that strangers wrote. Its result
    /// is then marked, as that of an [untrusted](crate::Tool::untrusted) tool.
    ///
    /// Calls of untrusted tools in this context, and agents that make them, do this themselves. Call
    /// it in a tool that gets such text only sometimes. It has no effect outside of tool calls.
    pub fn note_untrusted(&self) {
        if let Some(path) = &self.path {
            path.is_untrusted.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the tool call of this context is marked by
    /// [`note_untrusted`](Self::note_untrusted).
    pub(crate) fn has_untrusted(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.is_untrusted.load(Ordering::Relaxed))
    }

    /// Returns the tool calls around this context, outermost first.
    #[must_use]
    pub fn path(&self) -> Vec<InCall> {
        let innermost = self.path.as_deref();
        let calls = std::iter::successors(innermost, |path| path.above.as_deref());
        let mut path: Vec<InCall> = calls.map(CallPath::call).collect();
        path.reverse();
        path
    }

    /// Returns the names of the tools on the path, as in `a > b`.
    #[must_use]
    pub(crate) fn path_text(&self) -> String {
        let tools: Vec<String> = self.path().into_iter().map(|call| call.tool).collect();
        tools.join(" > ")
    }

    /// Returns the name of the tool whose call this is.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        Some(self.path.as_ref()?.tool())
    }

    /// Returns whether there is an approver for [`approve`](Self::approve).
    #[must_use]
    pub(crate) fn has_approver(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.approver.is_some())
    }

    /// Asks the approver. Returns `None` without one.
    ///
    /// # Errors
    ///
    /// The approver's own error, [`Stage::Cancelled`], and [`Stage::Panic`] if the approver panics.
    /// A panic ends the whole run.
    pub(crate) async fn approve(&self, asked: Approval) -> Option<Result<Decision>> {
        let approver = self.inner.as_ref()?.approver.as_ref()?;
        let decides = AssertUnwindSafe(async { approver(asked).await }).catch_unwind();
        let decides = async {
            decides.await.unwrap_or_else(|panic| {
                let text = format!("the approver panicked: {}", panic_text::text_of(panic));
                Err(Error::stop(text).at(Stage::Panic))
            })
        };
        Some(self.until_cancelled(decides).await)
    }

    /// Returns whether `tracing` spans may contain prompts, replies, arguments and results.
    #[must_use]
    pub(crate) fn captures_content(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.captures_content)
    }

    /// Returns the model of the context.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.inner.as_ref()?.model.as_ref()
    }

    /// Returns the ledger of the context.
    #[must_use]
    pub fn ledger(&self) -> Option<&Ledger> {
        self.inner.as_ref()?.ledger.as_ref()
    }

    /// Returns the deadline of the call.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.as_ref()?.deadline
    }

    /// Returns whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellations().iter().any(Cancellation::is_cancelled)
    }

    fn cancellations(&self) -> &[Cancellation] {
        self.inner.as_ref().map_or(&[], |inner| &inner.cancellations)
    }

    /// Returns whether there is a listener for [`emit`](Self::emit).
    pub(crate) fn has_events(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.sink.is_some())
    }

    /// Sends an event to the listeners. The closure runs only if there is one.
    pub fn emit(&self, event: impl FnOnce() -> EventKind) {
        if let Some(sink) = self.inner.as_ref().and_then(|inner| inner.sink.as_ref()) {
            sink(&Event { path: self.path(), kind: event() });
        }
    }

    /// Runs `work` until it finishes or the call is cancelled.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error of [`Stage::Cancelled`].
    pub async fn until_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancellations = self.cancellations();
        if cancellations.is_empty() {
            return work.await;
        }
        let cancelled = select_all(cancellations.iter().map(|one| Box::pin(one.cancelled())));
        match select(cancelled, pin!(work)).await {
            Either::Left(_) => Err(cancelled_error()),
            Either::Right((result, _)) => result,
        }
    }

    /// Returns the error that ends a run whose ledger has too little left.
    #[must_use]
    pub(crate) fn exhausted(&self, mut exhausted: Exhausted) -> Error {
        exhausted.by = self.path_text();
        self.emit(|| EventKind::LimitReached {
            limit: exhausted.limit,
            reason: exhausted.to_string(),
        });
        // All of the run shares the ledger, so the next call would be rejected too.
        Error::stop(exhausted).at(Stage::Limit)
    }
}

/// Returns a listener that catches the panics of `sink` and reports the first.
fn contained(sink: impl Fn(&Event) + Send + Sync) -> impl Fn(&Event) + Send + Sync {
    let reported = AtomicBool::new(false);
    move |event| {
        let heard = catch_unwind(AssertUnwindSafe(|| sink(event)));
        if let Err(panic) = heard {
            let panic = panic_text::text_of(panic);
            if !reported.swap(true, Ordering::Relaxed) {
                tracing::error!(panic, "a listener for events panicked; the call goes on");
            }
        }
    }
}

pub(crate) fn cancelled_error() -> Error {
    // A cancellation is meant for the whole run, so the model does not get it as a tool's error.
    Error::stop("the call was cancelled").at(Stage::Cancelled)
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("model", &self.model().map(|model| model.name().to_owned()))
            .field("deadline", &self.deadline())
            .field("cancelled", &self.is_cancelled())
            .field("events", &self.has_events())
            .finish_non_exhaustive()
    }
}
