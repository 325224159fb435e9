//! The stream of an output that a model is writing.
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde::de::DeserializeOwned;
use toolwright_signature::{Partial, Reading, Repair, Signature};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::hook::chain::Piece;
use crate::model::{Delta, Reply};
use crate::predict_call::PredictCall;
use crate::predictor::Predictor;
use crate::shown_answer::to_show;
use crate::validator::Validators;

/// A stream of [`PredictEvent`]s: an output while the model writes it.
///
/// [`Predict::stream`](crate::Predict::stream) and
/// [`ChainOfThought::stream`](crate::ChainOfThought::stream) return it. Between two events,
/// [`partial`](Self::partial) has the fields so far. The stream ends with
/// [`PredictEvent::Done`] or an error.
///
/// The request is sent at the first poll. Dropping the stream ends the call. Providers report usage
/// only at the end, so a [`Ledger`](crate::budget::Ledger) then keeps its reservation.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Predict, Reply, Signature};
/// # use toolwright_module::predict::PredictEvent;
/// # /// Sum up a text in one sentence.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Summarize { text: String }
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Summary { sentence: String }
/// # impl Signature for Summarize { type Output = Summary; }
/// # let model = Scripted::new(|_| Ok(Reply::text(r#"{"sentence": "It rained."}"#)));
/// # let input = Summarize { text: "Rain, all day.".to_owned() };
/// let summarize = Predict::<Summarize>::new(model)?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let cx = Context::default();
/// let mut stream = summarize.stream(input, &cx);
/// let mut summary = None;
/// while let Some(event) = stream.next().await {
///     match event? {
///         PredictEvent::Text(_) => println!("{:?}", stream.partial().field::<String>("sentence")),
///         PredictEvent::Discard => println!("once more"),
///         PredictEvent::Done(output) => summary = Some(output),
///         _ => {}
///     }
/// }
/// assert_eq!(summary.unwrap().sentence, "It rained.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the request is sent only when the stream is polled"]
pub struct PredictStream<'a, O> {
    cx: &'a Context,
    /// `None` after the end.
    call: Option<PredictCall<'a>>,
    /// `None` before each attempt.
    deltas: Option<BoxStream<'a, Result<Piece>>>,
    /// The index of the call whose arguments are the answer.
    call_index: Option<usize>,
    /// `None` without validators.
    check: Option<Check<'a, O>>,
    checking: Option<Checking<'a, O>>,
    partial: Partial,
    repairs: Vec<Repair>,
    ready: VecDeque<Result<PredictEvent<O>>>,
}

/// The validators with the input of the call. They return the output.
type Check<'a, O> = Box<dyn Fn(O) -> BoxFuture<'a, (O, Result<()>)> + Send + 'a>;

/// An answer that validators are checking.
struct Checking<'a, O> {
    checks: BoxFuture<'a, (O, Result<()>)>,
    reply: Reply,
    answer: Answer,
}

/// What an output was read from.
struct Answer {
    text: String,
    repairs: Vec<Repair>,
    /// The text whose fields are those of the output.
    shown: String,
}

impl Answer {
    fn of<O>(call: &PredictCall<'_>, reading: Reading<O>, text: String) -> (O, Self) {
        let dialect = call.model.capabilities().dialect;
        let shown = to_show(call.contract(), dialect, &text, &reading).into_owned();
        (reading.value, Self { text, repairs: reading.repairs, shown })
    }
}

/// One event of a [`PredictStream`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PredictEvent<O> {
    /// More text of the answer, normally JSON in every [`OutputMode`](crate::predict::OutputMode).
    Text(String),
    /// The text and fields so far are void. The answer starts again.
    ///
    /// The answer did not fit and the model is asked again, or the answer is in another part of the
    /// reply than expected, or a repair changed the text. Then the repaired JSON follows.
    Discard,
    /// The whole output. No event follows.
    Done(O),
}

/// No field is structurally pinned.
impl<O> Unpin for PredictStream<'_, O> {}

impl<'a, O: DeserializeOwned> PredictStream<'a, O> {
    /// `output` returns the part of an answer that the validators check.
    pub(crate) fn new<S: Signature>(
        predictor: &'a Predictor,
        input: S,
        cx: &'a Context,
        validators: &'a Validators<S, S::Output>,
        output: fn(&O) -> &S::Output,
    ) -> Self
    where
        O: Send + Sync + 'a,
    {
        let mut ready = VecDeque::new();
        let call = predictor.begin(&input, cx);
        let call = call.map_err(|error| ready.push_back(Err(error))).ok();
        let (partial, repairs) = (Partial::new(), Vec::new());
        let check = (!validators.is_empty()).then(|| check(input, cx, validators, output));
        let (deltas, call_index, checking) = (None, None, None);
        Self { cx, call, deltas, call_index, check, checking, partial, repairs, ready }
    }

    /// Returns the next event, or `None` after the last.
    ///
    /// It works without a crate of stream helpers. The future may be dropped at any time without
    /// losing an event.
    ///
    /// # Errors
    ///
    /// The errors of [`Module::call`](crate::Module::call). If a stream breaks off, the last raw
    /// reply is the text received so far.
    pub async fn next(&mut self) -> Option<Result<PredictEvent<O>>> {
        poll_fn(|task| Pin::new(&mut *self).poll_next(task)).await
    }
}

impl<O> PredictStream<'_, O> {
    /// Returns the answer so far, as the model wrote it and in the shape that was requested from it.
    /// [`Partial::field`] reads its fields.
    ///
    /// Repairs are made only at the end: until then, `"45"` for a number is a fault here, although
    /// [`PredictEvent::Done`] will have 45. If a repair changes a field, the stream has a
    /// [`PredictEvent::Discard`] and the repaired text before `Done`. Use fields for display, and the
    /// final output for decisions.
    ///
    /// An output that is not an object is under `result`. A
    /// [`ChainOfThought`](crate::ChainOfThought) has its fields under `reasoning` and `output`.
    pub fn partial(&self) -> &Partial {
        &self.partial
    }

    /// Returns the repairs of the answer. Empty before [`PredictEvent::Done`].
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    fn fail(&mut self, error: Error) {
        let Some(mut call) = self.call.take() else { return };
        // The text before the interruption is the raw reply, unless the provider's error has one.
        let error = match error.raw() {
            None if !self.partial.as_str().is_empty() => error.with_raw(self.partial.as_str()),
            _ => error,
        };
        self.ready.push_back(Err(call.failed(error)));
    }
}

impl<O: DeserializeOwned> PredictStream<'_, O> {
    fn take(&mut self, delta: Delta) {
        let Some(call) = &self.call else { return };
        let text = match delta {
            Delta::Text(text) if !call.is_called() => text,
            Delta::Call { index, arguments, .. }
                if call.is_called() && *self.call_index.get_or_insert(index) == index =>
            {
                arguments
            }
            Delta::Done(reply) => return self.finish(&reply),
            _ => return,
        };
        if !text.is_empty() {
            self.ready.push_back(Ok(PredictEvent::Text(text)));
        }
    }

    /// Makes the pieces so far void, because a hook runs the call again.
    fn again(&mut self) {
        self.call_index = None;
        if !self.partial.as_str().is_empty() {
            self.ready.push_back(Ok(PredictEvent::Discard));
        }
    }

    /// Ends the stream with the output or an error, or starts the next attempt.
    fn finish(&mut self, reply: &Reply) {
        (self.deltas, self.call_index) = (None, None);
        let Some(call) = &mut self.call else { return };
        match (call.judge(reply, self.cx), &self.check) {
            (Ok(None), _) => self.ready.push_back(Ok(PredictEvent::Discard)),
            (Ok(Some((reading, text))), check) => {
                let (output, answer) = Answer::of(call, reading, text);
                match check {
                    None => self.done(output, answer),
                    Some(check) => {
                        let checks = check(output);
                        self.checking = Some(Checking { checks, reply: reply.clone(), answer });
                    }
                }
            }
            (Err(error), _) => {
                self.ready.push_back(Err(error));
                self.call = None;
            }
        }
    }

    /// Handles the result of the validators.
    fn checked(&mut self, output: O, result: Result<()>) {
        let Some(Checking { reply, answer, .. }) = self.checking.take() else { return };
        let Err(error) = result else { return self.done(output, answer) };
        let Some(call) = &mut self.call else { return };
        match call.rejected(&reply, answer.text, error) {
            Ok(()) => self.ready.push_back(Ok(PredictEvent::Discard)),
            Err(error) => {
                self.ready.push_back(Err(error));
                self.call = None;
            }
        }
    }

    fn done(&mut self, output: O, answer: Answer) {
        // The answer may be in a part whose deltas were not shown, such as text where a call was
        // requested. Or a repair changed it.
        if self.partial.as_str() != answer.shown {
            if !self.partial.as_str().is_empty() {
                self.ready.push_back(Ok(PredictEvent::Discard));
            }
            self.ready.push_back(Ok(PredictEvent::Text(answer.shown)));
        }
        self.repairs = answer.repairs;
        self.ready.push_back(Ok(PredictEvent::Done(output)));
        self.call = None;
    }
}

fn check<'a, S: Signature, O: Send + Sync + 'a>(
    input: S,
    cx: &'a Context,
    validators: &'a Validators<S, S::Output>,
    output: fn(&O) -> &S::Output,
) -> Check<'a, O> {
    let input = Arc::new(input);
    Box::new(move |answer| {
        let input = Arc::clone(&input);
        Box::pin(async move {
            let result = validators.check(&input, output(&answer), cx).await;
            (answer, result)
        })
    })
}

impl<O: DeserializeOwned> Stream for PredictStream<'_, O> {
    type Item = Result<PredictEvent<O>>;

    fn poll_next(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.ready.pop_front() {
                match &event {
                    Ok(PredictEvent::Text(text)) => this.partial.push(text),
                    Ok(PredictEvent::Discard) => this.partial = Partial::new(),
                    Ok(PredictEvent::Done(_)) | Err(_) => {}
                }
                return Poll::Ready(Some(event));
            }
            if let Some(checking) = &mut this.checking {
                let (output, result) = ready!(checking.checks.as_mut().poll(task));
                this.checked(output, result);
                continue;
            }
            let Some(call) = &this.call else {
                return Poll::Ready(None);
            };
            let deltas =
                this.deltas.get_or_insert_with(|| this.cx.deltas(call.model, call.request()));
            match ready!(deltas.as_mut().poll_next(task)) {
                Some(Ok(Piece::Delta(delta))) => this.take(delta),
                Some(Ok(Piece::Again)) => this.again(),
                Some(Err(error)) => this.fail(error),
                // The last delta was `Done` or an error. Both end this stream too.
                None => this.call = None,
            }
        }
    }
}

impl<O> fmt::Debug for PredictStream<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredictStream").field("partial", &self.partial).finish_non_exhaustive()
    }
}
