//! Model calls: reservation, cancellation, streaming, events and the actual cost.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_core::stream::BoxStream;
use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use tracing::{Instrument, Span};

use crate::budget::Spent;
use crate::context::{Context, cancelled_error};
use crate::error::{Error, Result, Stage};
use crate::event::EventKind;
use crate::hook::chain::{self, Piece};
use crate::ledger::{Granted, Holder, Ledger, Refused, Reservation, has_timer};
use crate::model::{Delta, LanguageModel, Reply, Request};
use crate::panic_text;
use crate::shared_budget::{SharedHold, SharedRefused};
use crate::shown_answer::ShownAnswer;
use crate::telemetry;
use crate::telemetry::metrics::Meter;
use crate::usage::Usage;

/// Number of pieces of a stream after which the task yields. Deadlines and cancellations then take
/// effect even if the next piece is always ready.
const PIECES_PER_TURN: u32 = 64;

impl Context {
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
    /// - [`Stage::Limit`] with [`Exhausted`](crate::budget::Exhausted) as its cause: a ledger has too
    ///   little left. The request was not sent, and the whole run ends.
    /// - [`Stage::Limit`] without it: the deadline passed while the call waited.
    /// - The error of a [`Hook`](crate::hook::Hook).
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
        if stream {
            let mut deltas = self.pieces(call, request);
            let mut answer = AnswerSoFar::of(pieces.answer());
            while let Some(delta) = deltas.next().await {
                match delta? {
                    Delta::Done(reply) => return Ok(*reply),
                    delta => pieces.take(delta, self, &mut answer),
                }
            }
            return Err(no_reply());
        }
        let generated = async { self.until_cancelled(model.generate(&request)).await };
        let generated = AssertUnwindSafe(generated).catch_unwind().instrument(call.span.clone());
        let generated = call.keeping(pin!(generated)).await;
        let reply = generated.unwrap_or_else(|panic| Err(panicked(panic)));
        call.end(reply.as_ref()).await;
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
        stream::once(begins).flatten().map(|delta| delta.map(Piece::Delta)).boxed()
    }

    /// Returns the pieces of the reply to a call that has its reservation.
    fn pieces<'a>(&'a self, call: ModelCall<'a>, request: Request) -> BoxStream<'a, Result<Delta>> {
        // The request is sent at the first poll, so a call that was cancelled before sends none.
        let model = call.model;
        let deltas = stream::once(async move { model.stream(request) }).flatten().boxed();
        stream::unfold(Some((deltas, call, 0)), move |state| async move {
            let (mut deltas, mut call, mut pieces) = state?;
            yield_now_and_then(&mut pieces).await;
            let next = async { deltas.next().await.unwrap_or_else(|| Err(no_reply())) };
            let next = AssertUnwindSafe(next).catch_unwind();
            let next = async { next.await.unwrap_or_else(|panic| Err(panicked(panic))) };
            let next = self.until_cancelled(next).instrument(call.span.clone());
            let next = call.keeping(pin!(next)).await;
            match &next {
                Ok(Delta::Done(reply)) => call.end(Ok(&**reply)).await,
                Ok(_) => {
                    call.begun = true;
                    return Some((next, Some((deltas, call, pieces))));
                }
                Err(error) => call.end(Err(error)).await,
            }
            Some((next, None))
        })
        .boxed()
    }

    /// Reserves the largest cost of a model call. It waits if the call fits only after others.
    async fn reserve(&self, ledger: &Ledger, most: Spent, holder: Holder) -> Result<Reservation> {
        let reserves = ledger.reserve_or_wait(most, self.streams(), holder, self.deadline());
        let reserves = self.until_cancelled(async { Ok(reserves.await) });
        reserves.await?.map_err(|refused| match refused {
            Refused::Exhausted(exhausted) => self.exhausted(exhausted),
            Refused::Late => late(),
        })
    }

    /// Reserves the largest cost of a model call in the budgets that several processes share.
    async fn reserve_shared(&self, ledger: &Ledger, most: Spent) -> Result<Option<SharedHold>> {
        let budgets = ledger.shared_budgets();
        if budgets.is_empty() {
            return Ok(None);
        }
        if !has_timer() {
            let text = "a shared budget needs tokio's timer; build the runtime with `enable_time` or `enable_all`";
            return Err(Error::stop(text).at(Stage::Setup));
        }
        let reserves = SharedHold::reserve(&budgets, most, self.deadline());
        let reserves = self.until_cancelled(async { Ok(reserves.await) });
        reserves.await?.map(Some).map_err(|refused| match refused {
            SharedRefused::Exhausted(exhausted) => self.exhausted(exhausted),
            SharedRefused::Late => late(),
            SharedRefused::Failed(error) => error,
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
}

/// The receiver of the pieces of a reply.
pub(crate) trait Pieces: Copy + Send + Sync {
    fn are_wanted(self, cx: &Context) -> bool;
    /// Returns whether the call goes on only while the program reads the pieces.
    fn are_read_by_the_program(self) -> bool;
    /// Returns the answer that the arguments of a call are.
    fn answer(&self) -> Option<&ShownAnswer>;
    fn take(self, delta: Delta, cx: &Context, answer: &mut AnswerSoFar<'_>);
}

/// The pieces of a typed answer that were emitted.
pub(crate) struct AnswerSoFar<'a> {
    /// The answer of the whole run.
    shown: Option<&'a ShownAnswer>,
    /// The index of the call, once it has begun.
    index: Option<usize>,
    length: usize,
}

impl<'a> AnswerSoFar<'a> {
    pub(crate) fn of(shown: Option<&'a ShownAnswer>) -> Self {
        Self { shown, index: None, length: 0 }
    }

    /// Returns where in the answer this piece of a call belongs. `None` if it is of another call.
    fn piece(&mut self, index: usize, name: &str, arguments: &str) -> Option<usize> {
        let shown = self.shown.filter(|shown| shown.is_of(name))?;
        if *self.index.get_or_insert(index) != index {
            return None;
        }
        let at = self.length;
        self.length += arguments.len();
        shown.add(at, arguments);
        Some(at)
    }
}

/// Emits the pieces as events if `stream`.
#[derive(Clone, Copy)]
pub(crate) struct Emit<'a> {
    pub(crate) stream: bool,
    pub(crate) answer: Option<&'a ShownAnswer>,
}

impl Pieces for Emit<'_> {
    fn are_wanted(self, cx: &Context) -> bool {
        self.stream && cx.has_events()
    }

    fn are_read_by_the_program(self) -> bool {
        false
    }

    fn answer(&self) -> Option<&ShownAnswer> {
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
    /// The reservations in shared budgets. Boxed, because most calls have none.
    shared: Option<Box<SharedHold>>,
    /// Whether a part of the reply has arrived.
    begun: bool,
    /// The start of the call. `None` without a listener.
    started: Option<Instant>,
    span: Span,
    meter: Meter<'a>,
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
        let (reserved, shared) = match cx.ledger() {
            None => (None, None),
            Some(ledger) => {
                let most = ledger
                    .most(model, request)
                    .map_err(|no_price| Error::stop(no_price).at(Stage::Setup))?;
                // The shared budgets come last. Their calls end by themselves, and wait for none here.
                let granted = Granted::new(cx.reserve(ledger, most, holder).await?);
                let shared = Box::pin(cx.reserve_shared(ledger, most)).await?;
                (granted.take(), shared.map(Box::new))
            }
        };
        let span = telemetry::chat(cx, model, request, stream);
        let started = cx.has_events().then(Instant::now);
        let meter = Meter::start(model);
        Ok(Self { cx, model, reserved, shared, begun: false, started, span, meter })
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

    /// Polls the call, and renews its reservations in shared budgets meanwhile.
    async fn keeping<F: Future>(&mut self, call: Pin<&mut F>) -> F::Output {
        match &mut self.shared {
            None => call.await,
            Some(shared) => Box::pin(shared.keep(call)).await,
        }
    }

    /// Records the result of the call in the ledger, the span and the events, and then in the shared
    /// budgets. When this returns, they have the cost, so a run records no reply whose cost they do
    /// not know.
    async fn end(mut self, end: Result<&Reply, &Error>) {
        let shared = self.shared.take();
        let spent = self.end_here(end);
        if let Some(shared) = shared {
            Box::pin(shared.end(spent)).await;
        }
    }

    /// Records the result of the call in this process. Returns its cost, if it is known.
    fn end_here(self, end: Result<&Reply, &Error>) -> Option<Spent> {
        let usage = self.usage(end);
        let Self { cx, model, reserved, started, span, meter, .. } = self;
        let _entered = span.enter();
        let is_asked =
            cx.ledger().is_some() || cx.has_events() || !span.is_disabled() || meter.is_on();
        let spent = usage.filter(|_| is_asked);
        let spent = spent.map(|usage| Ledger::cost(cx.ledger(), model, end.ok(), usage));
        let money = spent.filter(|spent| spent.unpriced_calls == 0).map(|spent| spent.money);
        telemetry::replied(&span, cx, end, money);
        meter.end(end, money);
        // With unknown cost the reservation is dropped, which keeps its amount reserved.
        let settled = reserved.zip(spent).map(|(reserved, spent)| reserved.settle(spent));
        if let Ok(reply) = end {
            cx.emit(|| EventKind::ModelReplied {
                model: reply.model.clone().unwrap_or_else(|| model.name().to_owned()),
                reply: reply.clone(),
                money,
                elapsed: started.map_or(Duration::ZERO, |started| started.elapsed()),
            });
        }
        for overshoot in settled.into_iter().flatten() {
            cx.emit(|| EventKind::Overshot { model: model.name().to_owned(), overshoot });
        }
        spent
    }
}

fn late() -> Error {
    let text = "the deadline of this call passed while it waited for other calls, whose largest cost takes the rest of the budget; allow more time, or more in the budget";
    Error::stop(text).at(Stage::Limit)
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

fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = format!("the model panicked: {}", panic_text::text_of(panic));
    Error::other(text).at(Stage::Panic)
}

fn no_reply() -> Error {
    let text = "the model's stream ended without a reply; its `LanguageModel::stream` must end with `Delta::Done` or an error";
    Error::other(text).at(Stage::Decoding).retryable(true)
}
