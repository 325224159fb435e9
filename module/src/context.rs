//! The context of a call: model, ledger, deadline, cancellation, events, approver and policy.
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::future::{Either, FutureExt, select, select_all};
use futures_util::stream::{self, StreamExt};
/// A handle that cancels every model call and every agent that has it in its context. A tool that
/// wants to stop early checks its context. Clones cancel the same calls.
pub use tokio_util::sync::CancellationToken as Cancellation;
use toolwright_signature::Policy;
use tracing::{Instrument, Span};

use crate::approval::{Approval, Decision};
use crate::budget::Spent;
use crate::error::{Error, Result, Stage};
use crate::event::{Event, EventKind};
use crate::hook::chain::{self, Piece};
use crate::hook::{AnyHook, Hook};
use crate::in_call::InCall;
use crate::ledger::{Exhausted, Holder, Ledger, Refused, Reservation};
use crate::message::ToolCall;
use crate::model::{Delta, LanguageModel, Reply, Request};
use crate::panic_text;
use crate::stable_hash::stable_hash;
use crate::telemetry;
use crate::usage::Usage;

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

/// Number of pieces of a stream after which the task yields. Deadlines and cancellations then take
/// effect even if the next piece is always ready.
const PIECES_PER_TURN: u32 = 64;

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

    fn streams(&self) -> &[u64] {
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
    /// let cx = Context::default().with_hook(Retry::new(2));
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
        let path = CallPath { names, tool: call.name.len(), above: self.path.clone() };
        let cx = Self { inner: self.inner.clone(), path: Some(Arc::new(path)) };
        match self.ledger().and_then(Ledger::in_call) {
            Some(ledger) => cx.with_ledger(ledger),
            None => cx,
        }
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

    /// Sends one request to a model. Modules and agents use this function for every model call.
    ///
    /// It reserves the largest possible cost, records the actual cost, emits events, and stops when
    /// the call is cancelled. The reply is streamed if `stream` is set and there is a listener. If
    /// the actual cost is unknown, the [`Ledger`] keeps the reservation.
    ///
    /// A call that does not fit beside other calls in progress waits for them, until the context's
    /// deadline: they may cost less than they have reserved. Calls that wait are served in order. A
    /// call that would not fit even if all others released their reservations is refused at once.
    /// So is a call beyond the number of calls, because a number is never released. A reservation of
    /// the program ([`Ledger::reserve`]) and one of a stream that is not read may never be
    /// released; a call waits for these only about a minute. A call is refused at once if it needs
    /// the reservation of a tool call around it.
    ///
    /// # Errors
    ///
    /// - The model's own error.
    /// - [`Stage::Panic`]: the model panicked.
    /// - [`Stage::Cancelled`]: the call was cancelled.
    /// - [`Stage::Decoding`]: a stream ended without its reply.
    /// - [`Stage::Limit`] with [`Exhausted`] as its cause: a ledger has too little left. The
    ///   request was not sent, and the whole run ends.
    /// - [`Stage::Limit`] without it: the deadline passed while the call waited.
    /// - The error of a [`Hook`].
    pub async fn ask(
        &self,
        model: &dyn LanguageModel,
        request: Request,
        stream: bool,
    ) -> Result<Reply> {
        match self.hooks() {
            [] => self.ask_model(model, request, Emit { stream, answer: None }).await,
            hooks => Box::pin(chain::ask(self, hooks, model, request, stream, None)).await,
        }
    }

    /// Like [`ask`](Self::ask), without the hooks.
    pub(crate) async fn ask_model(
        &self,
        model: &dyn LanguageModel,
        request: Request,
        pieces: impl Pieces,
    ) -> Result<Reply> {
        let stream = pieces.are_wanted(self);
        let holder = match pieces.are_read_by_the_program() {
            true => Holder::PROGRAM,
            false => Holder::in_streams(self.streams()),
        };
        let mut call = ModelCall::new(self, model, &request, stream, holder).await?;
        let span = call.span.clone();
        let replied = if stream {
            let deltas = stream_of(model, request);
            let collected = self.collect(deltas, &mut call.begun, pieces);
            AssertUnwindSafe(collected).catch_unwind().instrument(span).await
        } else {
            let generated = async { self.until_cancelled(model.generate(&request)).await };
            AssertUnwindSafe(generated).catch_unwind().instrument(span).await
        };
        let reply = replied.unwrap_or_else(|panic| Err(panicked(panic)));
        let span = call.span.clone();
        span.in_scope(|| call.end(reply.as_ref()));
        reply
    }

    /// Like [`ask`](Self::ask), but returns the pieces instead of emitting them as events.
    ///
    /// The stream ends with [`Delta::Done`] or an error. If it is dropped or breaks off before, its
    /// cost is unknown and the reservation stays.
    pub(crate) fn deltas<'a>(
        &'a self,
        model: &'a dyn LanguageModel,
        request: Request,
    ) -> BoxStream<'a, Result<Piece>> {
        if !self.hooks().is_empty() {
            return chain::deltas(self, self.hooks(), model, request);
        }
        // The program reads this stream, and may stop at any time.
        let begins = async move {
            match ModelCall::new(self, model, &request, true, Holder::PROGRAM).await {
                Ok(call) => self.pieces(call, request),
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        stream::once(begins).flatten().boxed()
    }

    /// Returns the pieces of the reply to a call that has its reservation.
    fn pieces<'a>(&'a self, call: ModelCall<'a>, request: Request) -> BoxStream<'a, Result<Piece>> {
        let deltas = stream_of(call.model, request);
        stream::unfold(Some((deltas, call, 0)), move |state| async move {
            let (mut deltas, mut call, mut pieces) = state?;
            yield_now_and_then(&mut pieces).await;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = AssertUnwindSafe(next).catch_unwind();
            let next = async { next.await.unwrap_or_else(|panic| Err(panicked(panic))) };
            let next = self.until_cancelled(next).instrument(call.span.clone()).await;
            match &next {
                Ok(Delta::Done(reply)) => call.end(Ok(&**reply)),
                Ok(_) => {
                    call.begun = true;
                    return Some((next.map(Piece::Delta), Some((deltas, call, pieces))));
                }
                Err(error) => call.end(Err(error)),
            }
            Some((next.map(Piece::Delta), None))
        })
        .boxed()
    }

    async fn collect(
        &self,
        mut deltas: BoxStream<'_, Result<Delta>>,
        begun: &mut bool,
        pieces: impl Pieces,
    ) -> Result<Reply> {
        let (mut taken, mut answer) = (0, AnswerSoFar::of(pieces.answer()));
        loop {
            yield_now_and_then(&mut taken).await;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = self.until_cancelled(next).await?;
            *begun = true;
            match next {
                Delta::Done(reply) => return Ok(*reply),
                delta => pieces.take(delta, self, &mut answer),
            }
        }
    }

    /// Reserves the largest cost of a model call. It waits if the call fits only after others.
    async fn reserve(&self, ledger: &Ledger, most: Spent, holder: Holder) -> Result<Reservation> {
        let reserves = ledger.reserve_or_wait(most, self.streams(), holder, self.deadline());
        let reserves = self.until_cancelled(async { Ok(reserves.await) });
        reserves.await?.map_err(|refused| match refused {
            Refused::Exhausted(exhausted) => self.exhausted(exhausted),
            Refused::Late => {
                let text = "the deadline of this call passed while it waited for other calls, whose largest cost takes the rest of the budget; allow more time, or more in the budget";
                Error::stop(text).at(Stage::Limit)
            }
        })
    }

    /// Emits a piece of a reply.
    pub(crate) fn emit_delta(&self, delta: Delta, answer: &mut AnswerSoFar<'_>) {
        match delta {
            Delta::Text(text) => self.emit(|| EventKind::TextDelta { text }),
            Delta::Reasoning(text) => self.emit(|| EventKind::ReasoningDelta { text }),
            Delta::Call { index, name, arguments } => {
                match answer.piece(index, &name, &arguments) {
                    Some(at) => self.emit(|| EventKind::AnswerDelta { at, text: arguments }),
                    None => self.emit(|| EventKind::CallDelta { index, name, arguments }),
                }
            }
            Delta::Done(_) => {}
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

/// Returns the pieces of a model's reply. The request is sent at the first poll, so a call that was
/// cancelled before sends none.
fn stream_of(model: &dyn LanguageModel, request: Request) -> BoxStream<'_, Result<Delta>> {
    stream::once(async move { model.stream(request) }).flatten().boxed()
}

/// The receiver of the pieces of a reply.
pub(crate) trait Pieces: Copy + Send + Sync {
    fn are_wanted(self, cx: &Context) -> bool;
    /// Returns whether the call goes on only while the program reads the pieces.
    fn are_read_by_the_program(self) -> bool;
    /// Returns the name of the tool whose arguments are the answer.
    fn answer(&self) -> Option<&str>;
    fn take(self, delta: Delta, cx: &Context, answer: &mut AnswerSoFar<'_>);
}

/// The pieces of a typed answer that were emitted.
pub(crate) struct AnswerSoFar<'a> {
    /// The name of the tool whose arguments are the answer.
    tool: Option<&'a str>,
    /// The index of the call, once it has begun.
    index: Option<usize>,
    length: usize,
}

impl<'a> AnswerSoFar<'a> {
    pub(crate) fn of(tool: Option<&'a str>) -> Self {
        Self { tool, index: None, length: 0 }
    }

    /// Returns where in the answer this piece of a call belongs. `None` if it is of another call.
    fn piece(&mut self, index: usize, name: &str, arguments: &str) -> Option<usize> {
        if self.tool != Some(name) || *self.index.get_or_insert(index) != index {
            return None;
        }
        let at = self.length;
        self.length += arguments.len();
        Some(at)
    }
}

/// Emits the pieces as events if `stream`.
#[derive(Clone, Copy)]
pub(crate) struct Emit<'a> {
    pub(crate) stream: bool,
    /// The name of the tool whose arguments are the answer.
    pub(crate) answer: Option<&'a str>,
}

impl Pieces for Emit<'_> {
    fn are_wanted(self, cx: &Context) -> bool {
        self.stream && cx.has_events()
    }

    fn are_read_by_the_program(self) -> bool {
        false
    }

    fn answer(&self) -> Option<&str> {
        self.answer
    }

    fn take(self, delta: Delta, cx: &Context, answer: &mut AnswerSoFar<'_>) {
        cx.emit_delta(delta, answer);
    }
}

/// One model call, from its reservation to its cost.
struct ModelCall<'a> {
    cx: &'a Context,
    model: &'a dyn LanguageModel,
    reserved: Option<Reservation>,
    /// Whether a part of the reply has arrived.
    begun: bool,
    /// The start of the call. `None` without a listener.
    started: Option<Instant>,
    span: Span,
}

impl<'a> ModelCall<'a> {
    async fn new(
        cx: &'a Context,
        model: &'a dyn LanguageModel,
        request: &Request,
        stream: bool,
        holder: Holder,
    ) -> Result<Self> {
        // A call that is cancelled before it starts reserves nothing.
        if cx.is_cancelled() {
            return Err(cancelled_error());
        }
        let reserved = match cx.ledger() {
            None => None,
            Some(ledger) => {
                let most = ledger
                    .most(model, request)
                    .map_err(|no_price| Error::stop(no_price).at(Stage::Setup))?;
                Some(cx.reserve(ledger, most, holder).await?)
            }
        };
        let span = telemetry::chat(cx, model, request, stream);
        let started = cx.has_events().then(Instant::now);
        Ok(Self { cx, model, reserved, begun: false, started, span })
    }

    /// Returns the usage of the call, if it is known. A request that was not sent, or that the
    /// provider rejected before any output, used nothing.
    fn usage(&self, end: Result<&Reply, &Error>) -> Option<Usage> {
        match end {
            Ok(reply) => Some(reply.usage),
            Err(error) => {
                let refused = matches!(error.stage(), Stage::Setup | Stage::Provider);
                let free = (refused && !self.begun).then(Usage::default);
                error.known_usage().or(free)
            }
        }
    }

    /// Records the result of the call in the ledger, the span and the events.
    fn end(self, end: Result<&Reply, &Error>) {
        let usage = self.usage(end);
        let Self { cx, model, reserved, started, span, .. } = self;
        let spent = cx.ledger().zip(usage).map(|(ledger, usage)| ledger.cost(model.name(), usage));
        telemetry::replied(&span, cx, end, spent.map(|spent| spent.money));
        // With unknown cost the reservation is dropped, which keeps its amount reserved.
        let overshoot = reserved.zip(spent).and_then(|(reserved, spent)| reserved.settle(spent));
        if let Ok(reply) = end {
            cx.emit(|| EventKind::ModelReplied {
                model: reply.model.clone().unwrap_or_else(|| model.name().to_owned()),
                reply: reply.clone(),
                money: spent.map(|spent| spent.money).unwrap_or_default(),
                elapsed: started.map_or(Duration::ZERO, |started| started.elapsed()),
            });
        }
        if let Some(overshoot) = overshoot {
            cx.emit(|| EventKind::Overshot { model: model.name().to_owned(), overshoot });
        }
    }
}

/// Yields to other tasks once in [`PIECES_PER_TURN`] calls.
async fn yield_now_and_then(pieces: &mut u32) {
    *pieces += 1;
    if *pieces <= PIECES_PER_TURN {
        return;
    }
    *pieces = 0;
    let mut given = false;
    poll_fn(|task| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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

fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = format!("the model panicked: {}", panic_text::text_of(panic));
    Error::other(text).at(Stage::Panic)
}

fn no_reply() -> Error {
    let text = "the model's stream ended without a reply; its `LanguageModel::stream` must end with `Delta::Done` or an error";
    Error::other(text).at(Stage::Decoding).retryable(true)
}

fn cancelled_error() -> Error {
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
