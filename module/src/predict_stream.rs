use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_signature::{Field, Partial, Repair};

use crate::context::Context;
use crate::conversation::Conversation;
use crate::error::{Error, Result};
use crate::model::{Delta, Reply};
use crate::question::Question;

/// An output that is still being written.
///
/// A stream of [`PredictEvent`]s, made by [`Predict::stream`](crate::Predict::stream)
/// and [`ChainOfThought::stream`](crate::ChainOfThought::stream). Between two of them
/// [`field`](Self::field) tells what is known of the output. It ends with
/// [`PredictEvent::Done`] or an error. Nothing is asked before it is polled, and
/// dropping it ends the call; what that cost no provider says before the end, so a
/// [`Ledger`](crate::budget::Ledger) keeps what was reserved for it.
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
///         PredictEvent::Text(_) => println!("{:?}", stream.field::<String>("sentence")),
///         PredictEvent::Discard => println!("once more"),
///         PredictEvent::Done(output) => summary = Some(output),
///         _ => {}
///     }
/// }
/// assert_eq!(summary.unwrap().sentence, "It rained.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is asked before the stream is polled"]
pub struct PredictStream<'a, O> {
    cx: &'a Context,
    /// `None` once it is over.
    conversation: Option<Conversation<'a>>,
    /// `None` before each attempt.
    deltas: Option<BoxStream<'a, Result<Delta>>>,
    /// Which of the reply's calls is the one that is shown.
    call: Option<usize>,
    partial: Partial,
    repairs: Vec<Repair>,
    ready: VecDeque<Result<PredictEvent<O>>>,
}

/// A step of an output that is being written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PredictEvent<O> {
    /// More of the answer, as the model writes it: JSON as a rule, whatever the
    /// [`OutputMode`](crate::predict::OutputMode).
    Text(String),
    /// Forget all text and all fields so far: the answer begins anew.
    ///
    /// It did not fit and the model is asked again; or the model turned out to answer
    /// elsewhere in its reply than it began to.
    Discard,
    /// The whole output; nothing follows.
    Done(O),
}

/// Nothing in it is pinned where it is.
impl<O> Unpin for PredictStream<'_, O> {}

impl<'a, O: DeserializeOwned> PredictStream<'a, O> {
    pub(crate) fn new(question: &'a Question, input: &impl Serialize, cx: &'a Context) -> Self {
        let mut ready = VecDeque::new();
        let conversation = question.begin(input, cx);
        let conversation = conversation.map_err(|error| ready.push_back(Err(error))).ok();
        let (partial, repairs) = (Partial::new(), Vec::new());
        Self { cx, conversation, deltas: None, call: None, partial, repairs, ready }
    }

    /// The next event; `None` after the last.
    ///
    /// For programs without a crate of stream helpers; it may be dropped at any time
    /// without losing an event.
    ///
    /// # Errors
    ///
    /// As [`Module::call`](crate::Module::call) of the module that made it. With
    /// what was received so far as the last raw reply, where a stream breaks off.
    pub async fn next(&mut self) -> Option<Result<PredictEvent<O>>> {
        poll_fn(|task| Pin::new(&mut *self).poll_next(task)).await
    }
}

impl<O> PredictStream<'_, O> {
    /// The answer as far as the events told it, in the shape that the model was asked
    /// for: see [`Partial`].
    pub fn partial(&self) -> &Partial {
        &self.partial
    }

    /// A field of the answer, as far as the events told it and as the model wrote it.
    ///
    /// Nothing is put right here: `"45"` for a number is a fault, although
    /// [`PredictEvent::Done`] will hold 45. Show fields, and go by what comes at the end.
    ///
    /// An output that is no object is under `result`; a
    /// [`ChainOfThought`](crate::ChainOfThought) has its fields under `reasoning` and
    /// `output`: [`Partial::field`].
    pub fn field<T: DeserializeOwned>(&self, path: &str) -> Field<T> {
        self.partial.field(path)
    }

    /// What was repaired in the answer; empty before [`PredictEvent::Done`] is given.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    fn fail(&mut self, error: Error) {
        let Some(mut conversation) = self.conversation.take() else { return };
        // What came before the line broke is the reply, unless the provider kept more.
        let error = match error.raw() {
            None if !self.partial.as_str().is_empty() => error.with_raw(self.partial.as_str()),
            _ => error,
        };
        self.ready.push_back(Err(conversation.failed(error)));
    }
}

impl<O: DeserializeOwned> PredictStream<'_, O> {
    fn take(&mut self, delta: Delta) {
        let Some(conversation) = &self.conversation else { return };
        let text = match delta {
            Delta::Text(text) if !conversation.is_called() => text,
            Delta::Call { index, arguments, .. }
                if conversation.is_called() && *self.call.get_or_insert(index) == index =>
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

    /// The reply is complete: the output, or the next attempt.
    fn finish(&mut self, reply: &Reply) {
        (self.deltas, self.call) = (None, None);
        let Some(conversation) = &mut self.conversation else { return };
        match conversation.judge(reply, self.cx) {
            Ok(None) => self.ready.push_back(Ok(PredictEvent::Discard)),
            Ok(Some((reading, text))) => {
                // A reply may be read from a place whose deltas were not shown, such as
                // text where a call was asked for.
                if self.partial.as_str() != text {
                    if !self.partial.as_str().is_empty() {
                        self.ready.push_back(Ok(PredictEvent::Discard));
                    }
                    self.ready.push_back(Ok(PredictEvent::Text(text)));
                }
                self.repairs = reading.repairs;
                self.ready.push_back(Ok(PredictEvent::Done(reading.value)));
                self.conversation = None;
            }
            Err(error) => {
                self.ready.push_back(Err(error));
                self.conversation = None;
            }
        }
    }
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
            let Some(conversation) = &this.conversation else {
                return Poll::Ready(None);
            };
            let deltas = this
                .deltas
                .get_or_insert_with(|| this.cx.deltas(conversation.model, conversation.request()));
            match ready!(deltas.as_mut().poll_next(task)) {
                Some(Ok(delta)) => this.take(delta),
                Some(Err(error)) => this.fail(error),
                // The last delta was `Done` or an error, which end this too.
                None => this.conversation = None,
            }
        }
    }
}

impl<O> fmt::Debug for PredictStream<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredictStream").field("partial", &self.partial).finish_non_exhaustive()
    }
}
