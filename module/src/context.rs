use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_core::stream::BoxStream;
use futures_util::future::{Either, select, select_all};
use futures_util::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result, Stage};
use crate::event::Event;
use crate::language_model::{Delta, LanguageModel, Reply, Request, Usage};

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
pub struct Context(Option<Arc<Inner>>);

#[derive(Clone, Default)]
struct Inner {
    model: Option<Arc<dyn LanguageModel>>,
    ledger: Option<Ledger>,
    deadline: Option<Instant>,
    cancellations: Vec<Cancellation>,
    depth: u32,
    sink: Option<Sink>,
}

/// How many runs may be inside each other.
const DEEPEST: u32 = 16;

type Sink = Arc<dyn Fn(&Event) + Send + Sync>;

impl Context {
    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(self.0.get_or_insert_default()));
        self
    }

    /// The context of a run inside this call: one deeper.
    ///
    /// # Errors
    ///
    /// [`Stage::Limit`], beyond 16 runs inside each other: agents that call
    /// themselves end here, and not with the stack. The whole run ends.
    pub fn below(&self) -> Result<Self> {
        let depth = self.0.as_ref().map_or(0, |inner| inner.depth);
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
    /// [`Ledger::below`] of that one.
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
    /// events on through a channel if it cannot be.
    #[must_use]
    pub fn with_events(self, sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
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

    /// The call's model.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.0.as_ref()?.model.as_ref()
    }

    /// Where the call's usage is counted.
    #[must_use]
    pub fn ledger(&self) -> Option<&Ledger> {
        self.0.as_ref()?.ledger.as_ref()
    }

    /// When the call is no longer worth finishing.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline
    }

    /// Whether somebody ended the call.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellations().iter().any(Cancellation::is_cancelled)
    }

    fn cancellations(&self) -> &[Cancellation] {
        self.0.as_ref().map_or(&[], |inner| &inner.cancellations)
    }

    /// Whether anybody listens to [`emit`](Self::emit).
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.sink.is_some())
    }

    /// Tells whoever listens; the event is only made if somebody does.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(sink) = self.0.as_ref().and_then(|inner| inner.sink.as_ref()) {
            sink(&event());
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
    /// Counts the usage, tells the events and ends when the call is cancelled. The
    /// reply is streamed where somebody listens and `stream` says so.
    ///
    /// # Errors
    ///
    /// What the model fails with; [`Stage::Cancelled`]; [`Stage::Decoding`] if a stream
    /// ends without its reply; [`Stage::Limit`], and the model is not asked, if the
    /// ledger has nothing left: the whole run ends.
    pub async fn ask(
        &self,
        model: &dyn LanguageModel,
        request: Request,
        stream: bool,
    ) -> Result<Reply> {
        if stream && self.has_events() {
            return self.collect(self.deltas(model, request)).await;
        }
        self.may_ask()?;
        let started = Instant::now();
        let reply = self.until_cancelled(model.generate(&request)).await;
        self.account(model, started, reply.as_ref());
        reply
    }

    /// The same piece by piece, for whoever shows the pieces: they are no events.
    ///
    /// Ends with [`Delta::Done`] or an error, and only then is the usage known: a stream
    /// that is dropped counts for nothing.
    pub(crate) fn deltas<'a>(
        &'a self,
        model: &'a dyn LanguageModel,
        request: Request,
    ) -> BoxStream<'a, Result<Delta>> {
        if let Err(error) = self.may_ask() {
            return stream::iter([Err(error)]).boxed();
        }
        let started = Instant::now();
        // Not before it is polled: whoever was cancelled already asks nobody.
        let deltas = stream::once(async move { model.stream(request) }).flatten().boxed();
        stream::unfold(Some(deltas), move |deltas| async move {
            let mut deltas = deltas?;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = self.until_cancelled(next).await;
            let end = match &next {
                Ok(Delta::Done(reply)) => Some(Ok(&**reply)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            };
            let over = end.is_some();
            if let Some(end) = end {
                self.account(model, started, end);
            }
            Some((next, (!over).then_some(deltas)))
        })
        .boxed()
    }

    async fn collect(&self, mut deltas: BoxStream<'_, Result<Delta>>) -> Result<Reply> {
        while let Some(delta) = deltas.next().await {
            match delta? {
                Delta::Text(text) => self.emit(|| Event::TextDelta { text }),
                Delta::Reasoning(text) => self.emit(|| Event::ReasoningDelta { text }),
                Delta::Done(reply) => return Ok(*reply),
                Delta::Call { .. } => {}
            }
        }
        Err(no_reply())
    }

    fn may_ask(&self) -> Result<()> {
        self.ledger().map_or(Ok(()), Ledger::check)
    }

    /// What a model call came to, for the ledger and whoever listens.
    fn account(&self, model: &dyn LanguageModel, started: Instant, end: Result<&Reply, &Error>) {
        let usage = end.map_or_else(Error::usage, |reply| reply.usage);
        if let Some(ledger) = self.ledger() {
            ledger.record(usage);
        }
        if let Ok(reply) = end {
            self.emit(|| Event::ModelReplied {
                model: reply.model.clone().unwrap_or_else(|| model.name().to_owned()),
                usage,
                elapsed: started.elapsed(),
            });
        }
    }
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

/// Counts what model calls cost, a run's own and those of everything below it.
///
/// ```
/// use toolwright_module::{Ledger, Usage};
///
/// let run = Ledger::default();
/// let tool = run.below();
/// tool.record(Usage::new(10, 2));
/// assert_eq!(tool.used().input_tokens, 10);
/// assert_eq!(run.used().input_tokens, 10);
/// assert_eq!(run.model_calls(), 1);
/// ```
///
/// The default counts and bounds nothing; [`limited`](Self::limited) bounds.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    spent: Mutex<(Usage, u64)>,
    /// How many tokens may be used, read and written together.
    limit: Option<u64>,
    above: Option<Ledger>,
}

impl Ledger {
    /// A ledger under which no model is asked once this many tokens are used, read and
    /// written together.
    ///
    /// A call that began before may still go beyond it: what one costs is known
    /// afterwards.
    ///
    /// ```
    /// use toolwright_module::{Ledger, Usage};
    ///
    /// let ledger = Ledger::limited(100);
    /// ledger.below().record(Usage::new(60, 30));
    /// assert_eq!(ledger.left(), Some(10));
    /// ```
    #[must_use]
    pub fn limited(tokens: u64) -> Self {
        Self(Arc::new(Account { limit: Some(tokens), ..Account::default() }))
    }

    /// A ledger of its own whose entries count in this one too.
    #[must_use]
    pub fn below(&self) -> Self {
        Self(Arc::new(Account { above: Some(self.clone()), ..Account::default() }))
    }

    /// Enters one model call.
    pub fn record(&self, usage: Usage) {
        {
            let mut spent = self.0.spent.lock().unwrap_or_else(PoisonError::into_inner);
            spent.0 += usage;
            spent.1 += 1;
        }
        if let Some(above) = &self.0.above {
            above.record(usage);
        }
    }

    /// What was used so far.
    #[must_use]
    pub fn used(&self) -> Usage {
        self.0.spent.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// How many model calls were made so far.
    #[must_use]
    pub fn model_calls(&self) -> u64 {
        self.0.spent.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// How many tokens may still be used, by the tightest limit of this and of those
    /// above; `None` where there is none.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        let own = self.0.limit.map(|limit| {
            let used = self.used();
            limit.saturating_sub(used.input_tokens.saturating_add(used.output_tokens))
        });
        let above = self.0.above.as_ref().and_then(Self::left);
        own.into_iter().chain(above).min()
    }

    fn check(&self) -> Result<()> {
        if self.left() != Some(0) {
            return Ok(());
        }
        // Shared by all of the run: whoever asks next would be turned away too.
        let text = "the call's tokens are used up; allow more with `Ledger::limited`";
        Err(Error::stop(text).at(Stage::Limit))
    }
}
