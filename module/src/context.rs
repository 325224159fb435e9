use std::any::Any;
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
use tokio_util::sync::CancellationToken;
use toolwright_signature::Policy;
use tracing::{Instrument, Span};

use crate::approval::{Approval, Decision};
use crate::error::{Error, Result, Stage};
use crate::event::{Event, EventKind};
use crate::in_call::InCall;
use crate::ledger::{Exhausted, Ledger, Reservation};
use crate::message::ToolCall;
use crate::model::{Delta, LanguageModel, Reply, Request};
use crate::panics;
use crate::telemetry;
use crate::usage::Usage;

/// What belongs to one call and everything below it.
///
/// A module hands it on to whatever it calls. That is how a model inside a tool
/// inside an agent stays inside the run: same cancellation, same deadline, same
/// events, its tokens counted with the rest. There is nothing global to set up and
/// nothing to clean up.
///
/// Cloning costs one reference count. The default has nothing in it.
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
    /// Apart, because every call of a tool has another.
    path: Option<Arc<Way>>,
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
}

/// The calls above, the innermost first: shared by all that is below them.
struct Way {
    /// The tool's name and the call's id in one text, which is one allocation: every
    /// call makes a way, and few are asked for it.
    names: String,
    /// Where the name ends.
    tool: usize,
    above: Option<Arc<Self>>,
}

impl Way {
    fn tool(&self) -> &str {
        &self.names[..self.tool]
    }

    fn call(&self) -> InCall {
        InCall::new(self.tool(), &self.names[self.tool..])
    }
}

/// How many runs may be inside each other.
const DEEPEST: u32 = 16;

/// After this many pieces of a stream everything else gets its turn: deadlines and whoever
/// may cancel, even if the next piece is always there at once.
const PIECES_AT_ONCE: u32 = 64;

type Sink = Arc<dyn Fn(&Event) + Send + Sync>;
type Approver = Arc<dyn Fn(Approval) -> BoxFuture<'static, Result<Decision>> + Send + Sync>;

impl Context {
    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(self.inner.get_or_insert_default()));
        self
    }

    /// The context of a run inside this call: one deeper.
    ///
    /// # Errors
    ///
    /// [`Stage::Limit`], beyond 16 runs inside each other: agents that call
    /// themselves end here, and not with the stack. The whole run ends.
    pub(crate) fn nested(&self) -> Result<Self> {
        let depth = self.inner.as_ref().map_or(0, |inner| inner.depth);
        if depth >= DEEPEST {
            let text =
                format!("agents call each other more than {DEEPEST} deep; does one call itself?");
            return Err(Error::stop(text).at(Stage::Limit));
        }
        Ok(self.clone().with(|inner| inner.depth = depth + 1))
    }

    /// Gives the call a model, for modules that have none of their own.
    #[must_use]
    pub fn with_model(self, model: impl LanguageModel) -> Self {
        self.with(|inner| inner.model = Some(Arc::new(model)))
    }

    /// Counts what the call and everything below it uses.
    ///
    /// It takes the place of the one that was there: to count in both, give it
    /// [`Ledger::child`] of that one.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        self.with(|inner| inner.ledger = Some(ledger))
    }

    /// Says when the call is no longer worth finishing; an earlier one stays.
    ///
    /// Drivers keep it. A module that works long may look at it.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        self.with(|inner| {
            inner.deadline = Some(inner.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        })
    }

    /// Lets someone else end the call, besides whoever can already.
    #[must_use]
    pub fn with_cancellation(self, cancellation: Cancellation) -> Self {
        self.with(|inner| inner.cancellations.push(cancellation))
    }

    /// Tells `sink` what happens, besides whoever is told already.
    ///
    /// It is called on the task that does the work, so it should be quick: hand
    /// events on through a channel if it cannot be. If it panics, the call goes on as if it
    /// had not, and `tracing` gets one error.
    #[must_use]
    pub fn with_events(self, sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        let sink = contained(sink);
        self.with(|inner| {
            inner.sink = Some(match inner.sink.take() {
                None => Arc::new(sink),
                Some(earlier) => Arc::new(move |event| {
                    earlier(event);
                    sink(event);
                }),
            });
        })
    }

    /// Lets someone decide on calls that wait for a person; in place of who did.
    ///
    /// Agents ask where their approval policy says so. Without an approver such a run
    /// ends in an error and can be driven on once it is decided.
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
    /// assert!(toolwright_module::driver::has_approver(&cx));
    /// ```
    #[must_use]
    pub fn with_approver<F, Fut>(self, approver: F) -> Self
    where
        F: Fn(Approval) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Decision>> + Send + 'static,
    {
        let approver: Approver = Arc::new(move |asked| Box::pin(approver(asked)));
        self.with(|inner| inner.approver = Some(approver))
    }

    /// Whether `tracing` spans may hold what is said: prompts, replies, arguments and
    /// results. No, unless said: they may hold a user's data.
    #[must_use]
    pub fn with_captured_content(self, captured: bool) -> Self {
        self.with(|inner| inner.captures_content = captured)
    }

    /// Sets how far what a model writes may be repaired, in the call and in everything
    /// below it; a stricter one stays.
    ///
    /// It holds for the arguments of tools and for the answers to predictors, agents inside
    /// agents included. What these set for themselves can only be stricter.
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
        self.with(|inner| inner.policy = policy)
    }

    /// How far what a model writes may be repaired; [`Policy::Coerce`] if nothing is set.
    #[must_use]
    #[inline]
    pub fn policy(&self) -> Policy {
        self.inner.as_ref().map_or(Policy::default(), |inner| inner.policy)
    }

    /// The context of a tool's call: what happens in it is told and counted as such.
    #[must_use]
    pub(crate) fn in_call(&self, call: &ToolCall) -> Self {
        let mut names = String::with_capacity(call.name.len() + call.id.len());
        names.push_str(&call.name);
        names.push_str(&call.id);
        let way = Way { names, tool: call.name.len(), above: self.path.clone() };
        Self { inner: self.inner.clone(), path: Some(Arc::new(way)) }
    }

    /// The calls that this is in, the outermost first.
    #[must_use]
    pub fn path(&self) -> Vec<InCall> {
        let innermost = self.path.as_deref();
        let calls = std::iter::successors(innermost, |way| way.above.as_deref());
        let mut path: Vec<InCall> = calls.map(Way::call).collect();
        path.reverse();
        path
    }

    /// The same for people: the names of the tools, `a > b`.
    #[must_use]
    pub(crate) fn path_text(&self) -> String {
        let tools: Vec<String> = self.path().into_iter().map(|call| call.tool).collect();
        tools.join(" > ")
    }

    /// The name of the tool that this is a call of.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        Some(self.path.as_ref()?.tool())
    }

    /// Whether there is someone to ask with [`approve`](Self::approve).
    #[must_use]
    pub(crate) fn has_approver(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.approver.is_some())
    }

    /// Asks the approver; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What the approver fails with, and [`Stage::Cancelled`]; [`Stage::Panic`] if it
    /// panics, which ends the whole run where it is.
    pub(crate) async fn approve(&self, asked: Approval) -> Option<Result<Decision>> {
        let approver = self.inner.as_ref()?.approver.as_ref()?;
        let decides = AssertUnwindSafe(async { approver(asked).await }).catch_unwind();
        let decides = async {
            decides.await.unwrap_or_else(|panic| {
                let text = format!("the approver panicked: {}", panics::text_of(panic));
                Err(Error::stop(text).at(Stage::Panic))
            })
        };
        Some(self.until_cancelled(decides).await)
    }

    /// Whether `tracing` spans may hold what is said.
    #[must_use]
    pub(crate) fn captures_content(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.captures_content)
    }

    /// The call's model.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.inner.as_ref()?.model.as_ref()
    }

    /// Where the call's usage is counted.
    #[must_use]
    pub fn ledger(&self) -> Option<&Ledger> {
        self.inner.as_ref()?.ledger.as_ref()
    }

    /// When the call is no longer worth finishing.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.as_ref()?.deadline
    }

    /// Whether somebody ended the call.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellations().iter().any(Cancellation::is_cancelled)
    }

    fn cancellations(&self) -> &[Cancellation] {
        self.inner.as_ref().map_or(&[], |inner| &inner.cancellations)
    }

    /// Whether anybody listens to [`emit`](Self::emit).
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.sink.is_some())
    }

    /// Tells whoever listens; the event is only made if somebody does.
    pub fn emit(&self, event: impl FnOnce() -> EventKind) {
        if let Some(sink) = self.inner.as_ref().and_then(|inner| inner.sink.as_ref()) {
            sink(&Event { path: self.path(), kind: event() });
        }
    }

    /// Runs `work` until it is done or the call is cancelled.
    ///
    /// # Errors
    ///
    /// What `work` fails with, or an error of [`Stage::Cancelled`].
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

    /// Asks a model one question: the one way that modules and drivers do it.
    ///
    /// Reserves what it may cost, counts what it does cost, tells the events and ends
    /// when the call is cancelled. The reply is streamed where somebody listens and
    /// `stream` says so. Where nobody knows what it did cost, the [`Ledger`] keeps what was
    /// reserved.
    ///
    /// # Errors
    ///
    /// What the model fails with; [`Stage::Panic`] if it panics; [`Stage::Cancelled`];
    /// [`Stage::Decoding`] if a stream ends without its reply; [`Stage::Limit`] with [`Exhausted`] for a cause, and the
    /// model is not asked, if a ledger has too little left: the whole run ends.
    pub async fn ask(
        &self,
        model: &dyn LanguageModel,
        request: Request,
        stream: bool,
    ) -> Result<Reply> {
        let mut asking = Asking::new(self, model, &request)?;
        let span = asking.span.clone();
        let streamed = stream && self.has_events();
        let reply = {
            let work = pin!(async {
                if streamed {
                    // Boxed: most replies come whole.
                    let deltas = stream_of(model, request);
                    Box::pin(self.collect(deltas, &mut asking.begun)).await
                } else {
                    self.until_cancelled(model.generate(&request)).await
                }
            });
            let work = AssertUnwindSafe(work).catch_unwind();
            work.instrument(span.clone()).await.unwrap_or_else(|panic| Err(panicked(panic)))
        };
        span.in_scope(|| asking.end(reply.as_ref()));
        reply
    }

    /// The same piece by piece, for whoever shows the pieces: they are no events.
    ///
    /// Ends with [`Delta::Done`] or an error. A stream that is dropped or breaks off before
    /// has cost nobody knows what: what was reserved for it stays reserved.
    pub(crate) fn deltas<'a>(
        &'a self,
        model: &'a dyn LanguageModel,
        request: Request,
    ) -> BoxStream<'a, Result<Delta>> {
        let asking = match Asking::new(self, model, &request) {
            Ok(asking) => asking,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let deltas = stream_of(model, request);
        stream::unfold(Some((deltas, asking, 0)), move |state| async move {
            let (mut deltas, mut asking, mut pieces) = state?;
            give_way(&mut pieces).await;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = AssertUnwindSafe(next).catch_unwind();
            let next = async { next.await.unwrap_or_else(|panic| Err(panicked(panic))) };
            let next = self.until_cancelled(next).instrument(asking.span.clone()).await;
            match &next {
                Ok(Delta::Done(reply)) => asking.end(Ok(&**reply)),
                Ok(_) => {
                    asking.begun = true;
                    return Some((next, Some((deltas, asking, pieces))));
                }
                Err(error) => asking.end(Err(error)),
            }
            Some((next, None))
        })
        .boxed()
    }

    async fn collect(
        &self,
        mut deltas: BoxStream<'_, Result<Delta>>,
        begun: &mut bool,
    ) -> Result<Reply> {
        let mut pieces = 0;
        loop {
            give_way(&mut pieces).await;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = self.until_cancelled(next).await?;
            *begun = true;
            match next {
                Delta::Text(text) => self.emit(|| EventKind::TextDelta { text }),
                Delta::Reasoning(text) => self.emit(|| EventKind::ReasoningDelta { text }),
                Delta::Done(reply) => return Ok(*reply),
                Delta::Call { .. } => {}
            }
        }
    }

    /// An error that ends the run: a ledger has too little left.
    #[must_use]
    pub(crate) fn exhausted(&self, exhausted: Exhausted) -> Error {
        let exhausted = exhausted.asked_by(self.path_text());
        self.emit(|| EventKind::LimitReached {
            limit: exhausted.limit,
            reason: exhausted.to_string(),
        });
        // Shared by all of the run: whoever asks next would be turned away too.
        Error::stop(exhausted).at(Stage::Limit)
    }
}

/// A model's pieces; it is not asked before it is polled: whoever was cancelled already
/// asks nobody.
fn stream_of(model: &dyn LanguageModel, request: Request) -> BoxStream<'_, Result<Delta>> {
    stream::once(async move { model.stream(request) }).flatten().boxed()
}

/// One question to a model, from what is reserved for it to what it came to.
struct Asking<'a> {
    cx: &'a Context,
    model: &'a dyn LanguageModel,
    reserved: Option<Reservation>,
    /// Whether some of the reply came.
    begun: bool,
    /// Where somebody listens.
    started: Option<Instant>,
    span: Span,
}

impl<'a> Asking<'a> {
    fn new(cx: &'a Context, model: &'a dyn LanguageModel, request: &Request) -> Result<Self> {
        // Nothing is set aside for a question that is not asked.
        if cx.is_cancelled() {
            return Err(cancelled_error());
        }
        let reserved = match cx.ledger() {
            None => None,
            Some(ledger) => {
                let most = ledger
                    .most(model, request)
                    .map_err(|no_price| Error::stop(no_price).at(Stage::Setup))?;
                Some(ledger.reserve(most).map_err(|exhausted| cx.exhausted(exhausted))?)
            }
        };
        let span = telemetry::chat(cx, model, request);
        let started = cx.has_events().then(Instant::now);
        Ok(Self { cx, model, reserved, begun: false, started, span })
    }

    /// What it did cost, if that is known. A question that was never sent, or that the
    /// provider said no to before anything came, cost nothing.
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

    /// What it came to, for the ledger and whoever listens.
    fn end(self, end: Result<&Reply, &Error>) {
        let usage = self.usage(end);
        let Self { cx, model, reserved, started, span, .. } = self;
        telemetry::replied(&span, cx, end);
        let spent = cx.ledger().zip(usage).map(|(ledger, usage)| ledger.cost(model.name(), usage));
        // Dropped where nobody knows: what is reserved stays so.
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

/// Lets everything else go on once in a while.
async fn give_way(pieces: &mut u32) {
    *pieces += 1;
    if *pieces <= PIECES_AT_ONCE {
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

/// A listener whose panics change nothing.
fn contained(sink: impl Fn(&Event) + Send + Sync) -> impl Fn(&Event) + Send + Sync {
    let reported = AtomicBool::new(false);
    move |event| {
        let heard = catch_unwind(AssertUnwindSafe(|| sink(event)));
        if let Err(panic) = heard {
            let panic = panics::text_of(panic);
            if !reported.swap(true, Ordering::Relaxed) {
                tracing::error!(panic, "a listener for events panicked; the call goes on");
            }
        }
    }
}

fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = format!("the model panicked: {}", panics::text_of(panic));
    Error::other(text).at(Stage::Panic)
}

fn no_reply() -> Error {
    let text = "the model's stream ended without a reply; its `LanguageModel::stream` must end with `Delta::Done` or an error";
    Error::other(text).at(Stage::Decoding).retryable(true)
}

fn cancelled_error() -> Error {
    // Whoever cancelled a run wants all of it ended, not an observation in it.
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

/// Ends calls from outside: cloned, every copy ends the same ones.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(CancellationToken);

impl Cancellation {
    /// Ends every model call and every agent that has this in its context; a tool that
    /// wants to end early asks its context itself. Calling it again does nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until [`cancel`](Self::cancel) is called.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }
}
