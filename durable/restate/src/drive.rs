//! The loop beside the driver: it alone touches Restate's context, one step at a time.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use restate_sdk::prelude::*;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use toolwright_module::approval::{Approval, Decision};

use toolwright_module::error::Stage;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::{Cancellation, Context, Error, runner};
use toolwright_orchestrator::perform::{self, Open, Outcome, OutcomeKind, Performed, Record};

use crate::engine::{Engine, Step};
use crate::performer::{Batch, Performer, Request};
use crate::record::{Answer, Body, Chunk, Failed, Question, Stored, WAITING, chunk_key};
use crate::restate::Restate;

/// The largest event, and the largest sum of the events of a step, in bytes of JSON.
const MAX_EVENT: usize = 64 * 1024;
const MAX_EVENTS: usize = 256 * 1024;

/// One attempt to drive a run.
pub(crate) struct Drive<'a, E> {
    restate: &'a Restate,
    engine: &'a E,
    id: &'a str,
    cancellation: Cancellation,
    /// Whether decisions come from outside.
    asks_outside: bool,
    shared: Arc<Shared>,
    /// Number of the next chunk of events.
    chunk: u64,
    /// Whether a step is under way.
    is_busy: bool,
    ended: Option<TerminalError>,
}

/// What the loop shares with steps and with the context of the run.
#[derive(Default)]
struct Shared {
    events: Mutex<Events>,
    decision: Mutex<Option<Decision>>,
}

#[derive(Default)]
struct Events {
    values: Vec<Value>,
    bytes: usize,
    left_out: u64,
}

/// Why there is neither an outcome nor an error of the run.
enum Stop {
    /// The workflow was cancelled.
    Ended(TerminalError),
    /// The attempt has ended. Restate tries again.
    Attempt(HandlerError),
}

impl From<TerminalError> for Stop {
    fn from(error: TerminalError) -> Self {
        Self::Ended(error)
    }
}

type Batches = mpsc::UnboundedReceiver<Batch>;

impl<'a, E: Engine> Drive<'a, E> {
    /// Returns a drive, the context for it, and the parts that the context will send.
    pub(crate) fn new(
        restate: &'a Restate,
        engine: &'a E,
        id: &'a str,
        cx: &Context,
    ) -> (Self, Context, Batches) {
        let (performer, batches) = Performer::new(restate.max_result_bytes);
        let (shared, cancellation) = (Arc::new(Shared::default()), Cancellation::default());
        let asks_outside = !runner::has_approver(cx);
        let metadata = cx.metadata().cloned().unwrap_or_default();
        let listens = Arc::clone(&shared);
        let mut cx = cx
            .clone()
            .with_run(id, metadata)
            .with_cancellation(cancellation.clone())
            .with_events(move |event| locked(&listens.events).add(event));
        if asks_outside {
            let decides = Arc::clone(&shared);
            cx = cx.with_approver(move |_| {
                let decision = locked(&decides.decision).take();
                async move { decision.ok_or_else(|| Error::stop("there is no decision")) }
            });
        }
        let cx = perform::with_performer(&cx, performer);
        let drive = Self {
            restate,
            engine,
            id,
            cancellation,
            asks_outside,
            shared,
            chunk: 0,
            is_busy: false,
            ended: None,
        };
        (drive, cx, batches)
    }

    /// Polls the driver and the loop until the driver ends.
    pub(crate) async fn until_end<T>(
        mut self,
        driving: impl Future<Output = toolwright_module::Result<T>> + Send,
        batches: Batches,
    ) -> HandlerResult<T> {
        let result = {
            let (driving, steps) = (pin!(driving), pin!(self.serve(batches)));
            match select(driving, steps).await {
                Either::Left((result, _)) => result,
                Either::Right((error, _)) => return Err(error),
            }
        };
        let result = match (result, self.ended.take()) {
            (Err(_), Some(ended)) => Err(ended),
            // A cancellation after the last part changes nothing.
            (Ok(finished), _) => Ok(finished),
            (Err(error), None) => {
                // No step may follow a step without a result. If the recorded parts do not fit the
                // agent, the run has not ended: the agent that began it can continue it.
                let is_open = self.is_busy || error.stage() == Stage::Journal;
                if is_open || error.is_retryable() {
                    return Err(error.into_std().into());
                }
                Err(TerminalError::new(format!("{error:#}")))
            }
        };
        self.end().await;
        Ok(result?)
    }

    /// Records the last events.
    async fn end(&mut self) {
        let shared = Arc::clone(&self.shared);
        let step = async move { Ok(stored(0, Body::End, &shared)) };
        // The run keeps its result even if this step is cancelled.
        if let Ok(stored) = self.engine.run("end", Box::pin(step)).await {
            self.keep_events(stored, true);
        }
    }

    async fn serve(&mut self, mut batches: Batches) -> HandlerError {
        while let Some(Batch { requests, most }) = batches.recv().await {
            let starts: Vec<_> = requests.iter().map(|request| request.go.clone()).collect();
            let repeatable: Vec<_> = requests.iter().map(|one| one.part.is_repeatable()).collect();
            let mut settled = Vec::with_capacity(starts.len());
            for (place, request) in requests.into_iter().enumerate() {
                // The step of this part also starts the parts after it. They cannot have recorded
                // outcomes, because outcomes are recorded in order.
                let window = starts.iter().zip(&repeatable).skip(place + 1).take(most - 1);
                let mut starts = vec![starts[place].clone()];
                if repeatable[place] {
                    starts.extend(window.filter(|(_, is)| **is).map(|(start, _)| start.clone()));
                }
                let Request { part, done, answer, .. } = request;
                let part = Pending { name: part.id().to_string(), part, starts, done: slot(done) };
                self.is_busy = true;
                let (performed, record) = match self.ended.clone() {
                    Some(ended) => (Err(cancelled(&ended)), None),
                    None => match self.settle(part).await {
                        Ok(settled) => settled,
                        Err(Stop::Attempt(error)) => return error,
                        Err(Stop::Ended(ended)) => {
                            self.cancellation.cancel();
                            let error = cancelled(&ended);
                            self.ended = Some(ended);
                            (Err(error), None)
                        }
                    },
                };
                settled.push((answer, performed, record));
            }
            self.is_busy = false;
            for (answer, performed, record) in settled {
                if let (Some(record), Some(listener)) = (record, &self.restate.listener) {
                    listener(self.id, &record);
                }
                // The driver may have dropped the receiver.
                let _ = answer.send(performed);
            }
        }
        HandlerError::from(
            "the drive dropped its performer before it ended; this is a bug in toolwright-restate",
        )
    }

    /// Returns the recorded outcome of a part, or runs the part. Also returns the record if it is new
    /// and there is a listener.
    async fn settle(&mut self, pending: Pending) -> Result<(Performed, Option<Record>), Stop> {
        let (part, name, identity) = (&pending.part, &pending.name, pending.part.identity());
        let asks = part.approval().filter(|_| self.asks_outside);
        let mut refused: Option<String> = None;
        for attempt in 0_u64.. {
            if let Some(approval) = &asks
                && !self.ask(approval, &format!("{name} {attempt}"), refused.take()).await?
            {
                let text = "the decision was for another call than the one that waits";
                refused = Some(text.to_owned());
                continue;
            }
            let is_new = part.is_repeatable() || self.begin(name).await?;
            let made = Arc::new(AtomicBool::new(false));
            let step = pending.step(is_new, &made, &self.shared);
            let stored = self.engine.run(name, step).await?;
            let made = made.load(Ordering::Relaxed);
            locked(&self.shared.events).forget(&stored, made);
            if stored.identity != identity {
                let text = format!(
                    "the workflow `{}` does not repeat its recorded steps: its part {name} had another task or other arguments; drive it with the agent that began it",
                    self.id
                );
                return Err(Stop::Attempt(text.into()));
            }
            match self.keep_events(stored, false) {
                Body::Outcome(outcome) => {
                    let record = (made && self.restate.listener.is_some()).then(|| {
                        let (part, outcome) = (part.id(), outcome.clone());
                        Record::Ended { part, identity, outcome }
                    });
                    return Ok((Ok(outcome), record));
                }
                Body::Failed(failed) if failed.is_retryable || is_refused(&failed, &asks) => {
                    // An attempt runs the work once. The next attempt reads this record and continues
                    // after it.
                    if made {
                        return Err(Stop::Attempt(failed.error().into()));
                    }
                    refused = Some(failed.text);
                }
                Body::Failed(failed) => return Ok((Err(Open::Work(failed.error())), None)),
                Body::Begun | Body::End => {
                    let text = format!("the part {name} has a record of another kind");
                    return Err(Stop::Attempt(text.into()));
                }
            }
        }
        Err(Stop::Attempt("a part was tried too often".into()))
    }

    /// Waits for a decision from outside. It may come days later; Restate suspends the workflow.
    /// Returns `false` if the person saw another call: the state can be changed from outside.
    async fn ask(
        &self,
        approval: &Approval,
        promise: &str,
        refused: Option<String>,
    ) -> Result<bool, TerminalError> {
        let question =
            Question { promise: promise.to_owned(), approval: approval.clone(), refused };
        self.engine.set(WAITING, vec![question]);
        let answer = self.engine.decision(promise).await;
        self.engine.clear(WAITING);
        let Answer { approval: shown, decision } = answer?;
        if shown != *approval {
            return Ok(false);
        }
        *locked(&self.shared.decision) = Some(decision);
        Ok(true)
    }

    /// Records that a call begins. Returns `false` if an earlier attempt has recorded it.
    async fn begin(&self, name: &str) -> Result<bool, TerminalError> {
        let is_new = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&is_new);
        let step = async move {
            noted.store(true, Ordering::Relaxed);
            Ok(Stored { identity: 0, body: Body::Begun, events: Vec::new(), left_out: 0 })
        };
        self.engine.run(&format!("begin {name}"), Box::pin(step)).await?;
        Ok(is_new.load(Ordering::Relaxed))
    }

    /// Writes the events of a record to the state. Returns the rest of the record.
    fn keep_events(&mut self, stored: Stored, is_last: bool) -> Body {
        let Stored { body, events, left_out, .. } = stored;
        if !events.is_empty() || left_out > 0 || is_last {
            let number = self.chunk;
            self.engine.set(&chunk_key(number), Chunk { number, events, left_out, is_last });
            self.chunk += 1;
        }
        body
    }
}

/// Returns whether a decision from outside did not suit its call.
fn is_refused(failed: &Failed, asks: &Option<Approval>) -> bool {
    asks.is_some() && failed.stage == Stage::Approval
}

/// A part while it is settled.
struct Pending {
    part: perform::Part,
    /// The name of its step: the id of the part.
    name: String,
    /// The permissions of this part and of those that may begin with it.
    starts: Vec<Arc<Notify>>,
    done: Slot,
}

type Slot = Arc<Mutex<Option<oneshot::Receiver<Performed>>>>;

fn slot(done: oneshot::Receiver<Performed>) -> Slot {
    Arc::new(Mutex::new(Some(done)))
}

impl Pending {
    /// Returns the step that lets the work of the part begin and waits for its end.
    fn step(&self, is_new: bool, made: &Arc<AtomicBool>, shared: &Arc<Shared>) -> Step {
        let (identity, repeatable) = (self.part.identity(), self.part.is_repeatable());
        let (made, shared) = (Arc::clone(made), Arc::clone(shared));
        let (starts, done) = (self.starts.clone(), Arc::clone(&self.done));
        Box::pin(async move {
            made.store(true, Ordering::Relaxed);
            if !is_new {
                // Decided inside the step, so that each replay has the same order of steps.
                let unknown = Body::Outcome(Outcome::new(OutcomeKind::Unknown));
                return Ok(stored(identity, unknown, &shared));
            }
            for start in &starts {
                start.notify_one();
            }
            let done = locked(&done).take();
            let performed = match done {
                Some(done) => done.await.ok(),
                None => None,
            };
            let body = match performed {
                Some(Ok(outcome)) => Body::Outcome(outcome),
                Some(Err(Open::Work(error) | Open::Interrupted(error))) => {
                    if error.is_retryable() && repeatable {
                        return Err(error.into_std().into());
                    }
                    Body::Failed(Failed::new(&error))
                }
                Some(Err(Open::Performer(error))) => return Err(error.into()),
                _ => return Err("the driver gave the part up".into()),
            };
            Ok(stored(identity, body, &shared))
        })
    }
}

/// Returns the record of a step with the events so far. They stay where they are until the record is
/// in the journal, because a cancellation can come first.
fn stored(identity: u64, body: Body, shared: &Shared) -> Stored {
    let events = locked(&shared.events);
    Stored { identity, body, events: events.values.clone(), left_out: events.left_out }
}

fn cancelled(ended: &TerminalError) -> Open {
    Open::Work(Error::stop(ended.message().to_owned()).at(Stage::Cancelled))
}

impl Events {
    /// Removes the events that a record has. A record of an earlier attempt has all of them.
    fn forget(&mut self, stored: &Stored, made: bool) {
        let count = if made { stored.events.len() } else { self.values.len() };
        drop(self.values.drain(..count.min(self.values.len())));
        self.left_out = if made { self.left_out.saturating_sub(stored.left_out) } else { 0 };
        self.bytes = self.values.iter().map(|value| value.to_string().len()).sum();
    }

    fn add(&mut self, event: &Event) {
        // Readers see an event when its part has ended, and then the reply has the text.
        let is_piece = matches!(
            event.kind,
            EventKind::TextDelta { .. }
                | EventKind::ReasoningDelta { .. }
                | EventKind::AnswerDelta { .. }
                | EventKind::CallDelta { .. }
        );
        if is_piece {
            return;
        }
        let value = serde_json::to_value(event).ok();
        let sized = value.map(|value| (value.to_string().len(), value));
        match sized {
            Some((size, value)) if size <= MAX_EVENT && self.bytes + size <= MAX_EVENTS => {
                self.bytes += size;
                self.values.push(value);
            }
            _ => self.left_out += 1,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
