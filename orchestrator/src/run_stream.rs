//! A run as a stream of events.
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use toolwright_module::event::Event;
use toolwright_module::{Context, Result, runner};

use crate::finished::Finished;

/// A stream of a run's events; see [`Agent::stream`](crate::Agent::stream).
///
/// It ends with [`Progress::Finished`] or an error. The run makes progress only while the stream is
/// polled. Dropping the stream ends the run.
pub struct RunStream<O = String> {
    events: Events,
    run: Option<BoxFuture<'static, Result<Finished<O>>>>,
    finished: Option<Result<Finished<O>>>,
}

/// The future is in a box, and nothing else is pinned.
impl<O> Unpin for RunStream<O> {}

type Events = Arc<Mutex<VecDeque<Event>>>;

/// An item of a [`RunStream`]. It serializes as JSON, for example for a browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Progress<O = String> {
    /// An event of the run.
    Event(Event),
    /// The result of the run. No item follows.
    Finished(Finished<O>),
}

impl<O> RunStream<O> {
    pub(crate) fn new<F>(cx: Context, run: impl FnOnce(Context) -> F) -> Self
    where
        F: Future<Output = Result<Finished<O>>> + Send + 'static,
    {
        let events = Events::default();
        let heard = Arc::clone(&events);
        let cx = runner::in_stream(cx);
        let cx = cx.with_events(move |event| lock(&heard).push_back(event.clone()));
        Self { events, run: Some(Box::pin(run(cx))), finished: None }
    }
}

fn lock(events: &Mutex<VecDeque<Event>>) -> std::sync::MutexGuard<'_, VecDeque<Event>> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<O> Stream for RunStream<O> {
    type Item = Result<Progress<O>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            // Events come before the result.
            if let Some(event) = lock(&this.events).pop_front() {
                return Poll::Ready(Some(Ok(Progress::Event(event))));
            }
            if let Some(finished) = this.finished.take() {
                return Poll::Ready(Some(finished.map(Progress::Finished)));
            }
            let Some(run) = &mut this.run else { return Poll::Ready(None) };
            match run.as_mut().poll(cx) {
                Poll::Ready(finished) => {
                    this.run = None;
                    this.finished = Some(finished);
                }
                Poll::Pending if lock(&this.events).is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
}

impl<O> fmt::Debug for RunStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("over", &self.run.is_none()).finish_non_exhaustive()
    }
}
