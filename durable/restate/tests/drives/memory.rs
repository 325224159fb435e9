//! A workflow in memory: its journal, its state, and the promises.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{Either, pending, select};
use restate_sdk::prelude::*;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use toolwright_module::Context;
use toolwright_module::approval::Decision;
use toolwright_orchestrator::{Agent, Finished, Task};

use crate::drive::Drive;
use crate::engine::{Engine, Step};
use crate::record::{Answer, Chunk, Question, Stored, WAITING, chunk_key};
use crate::restate::Restate;

/// What a workflow has.
#[derive(Default)]
pub(crate) struct Workflow {
    pub(crate) entries: Mutex<Vec<Entry>>,
    pub(crate) state: Mutex<BTreeMap<String, Value>>,
    pub(crate) promises: Mutex<BTreeMap<String, Answer>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Run {
        name: String,
        result: Option<Value>,
    },
    Promise {
        name: String,
    },
    Set {
        key: String,
        value: Value,
    },
    Clear {
        key: String,
    },
    /// The entry before was cancelled.
    Cancelled,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum End<O = String> {
    Finished(Box<Finished<O>>),
    /// The handler returned an error. It has this form for the debugger.
    Error(String),
    /// The process was killed.
    Killed,
    /// The workflow waits for a promise.
    Suspended,
}

/// When an attempt does not go its way. The numbers count moments: two for each step that is made,
/// before its record and after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fate {
    pub(crate) killed_at: Option<usize>,
    pub(crate) cancelled_at: Option<usize>,
}

struct Attempt<'a, O> {
    workflow: &'a Workflow,
    fate: Fate,
    at: AtomicUsize,
    moments: AtomicUsize,
    stopped: Notify,
    end: Mutex<Option<End<O>>>,
}

impl Workflow {
    /// Plays the handler once.
    pub(crate) async fn attempt<O: Serialize + Send + Sync + 'static>(
        &self,
        restate: &Restate,
        agent: &Agent<O>,
        task: impl Into<Task>,
        cx: &Context,
        fate: Fate,
    ) -> End<O> {
        let attempt = Attempt {
            workflow: self,
            fate,
            at: AtomicUsize::new(0),
            moments: AtomicUsize::new(0),
            stopped: Notify::new(),
            end: Mutex::default(),
        };
        let mut run = agent.start(task).unwrap();
        let (drive, cx, batches) = Drive::new(restate, &attempt, "run-1", cx);
        let driven = Box::pin(drive.until_end(agent.drive(&mut run, &cx), batches));
        match select(driven, Box::pin(attempt.stopped.notified())).await {
            Either::Left((Ok(finished), _)) => {
                attempt.check_replayed();
                End::Finished(Box::new(finished))
            }
            Either::Left((Err(error), _)) => End::Error(format!("{error:?}")),
            Either::Right(_) => attempt.end.lock().unwrap().take().unwrap(),
        }
    }

    /// Plays the handler until it has an end of its own.
    pub(crate) async fn finished(&self, agent: &Agent, cx: &Context) -> Finished {
        match self.attempt(&Restate::default(), agent, "Tidy up.", cx, Fate::default()).await {
            End::Finished(finished) => *finished,
            end => panic!("{end:?}"),
        }
    }

    /// The names of the steps.
    pub(crate) fn steps(&self) -> Vec<String> {
        let name = |entry: &Entry| match entry {
            Entry::Run { name, .. } => Some(name.clone()),
            _ => None,
        };
        self.entries.lock().unwrap().iter().filter_map(name).collect()
    }

    /// The events in the state.
    pub(crate) fn events(&self) -> Vec<Value> {
        let (state, mut events) = (self.state.lock().unwrap(), Vec::new());
        for number in 0.. {
            let Some(chunk) = state.get(&chunk_key(number)) else { break };
            let chunk: Chunk = serde_json::from_value(chunk.clone()).unwrap();
            events.extend(chunk.events);
        }
        events
    }

    pub(crate) fn waiting(&self) -> Vec<Question> {
        let state = self.state.lock().unwrap();
        let waiting = state.get(WAITING).cloned();
        waiting.map(|value| serde_json::from_value(value).unwrap()).unwrap_or_default()
    }

    pub(crate) fn decide(&self, decision: Decision) {
        self.decide_on(|_| {}, decision);
    }

    /// Decides on the question after a change of what the person sees.
    pub(crate) fn decide_on(&self, change: impl FnOnce(&mut Question), decision: Decision) {
        let mut question = self.waiting().remove(0);
        change(&mut question);
        let Question { promise, approval, .. } = question;
        let answer = Answer { approval, decision };
        assert!(self.promises.lock().unwrap().insert(promise, answer).is_none());
    }
}

impl<O> Attempt<'_, O> {
    /// Returns the next entry, or adds it.
    fn entry(&self, fresh: Entry) -> (usize, Entry, bool) {
        let at = self.at.fetch_add(1, Ordering::SeqCst);
        let mut entries = self.workflow.entries.lock().unwrap();
        match entries.get(at) {
            Some(found) => (at, found.clone(), false),
            None => {
                entries.push(fresh.clone());
                (at, fresh, true)
            }
        }
    }

    fn is_cancelled(&self) -> Option<TerminalError> {
        let at = self.at.load(Ordering::SeqCst);
        let entries = self.workflow.entries.lock().unwrap();
        (entries.get(at) == Some(&Entry::Cancelled)).then(|| {
            self.at.fetch_add(1, Ordering::SeqCst);
            TerminalError::new_with_code(409, "cancelled")
        })
    }

    /// Counts a moment. Returns whether the workflow is cancelled in it.
    async fn moment(&self) -> bool {
        let moment = self.moments.fetch_add(1, Ordering::SeqCst);
        if self.fate.killed_at == Some(moment) {
            self.stop(End::Killed).await;
        }
        self.fate.cancelled_at == Some(moment)
    }

    async fn stop(&self, end: End<O>) {
        *self.end.lock().unwrap() = Some(end);
        self.stopped.notify_one();
        pending::<()>().await;
    }

    /// Restate fails an attempt that leaves out commands of its journal.
    fn check_replayed(&self) {
        let (at, entries) = (self.at.load(Ordering::SeqCst), self.workflow.entries.lock().unwrap());
        assert_eq!(at, entries.len(), "the replay left out commands");
    }

    fn cancel(&self, at: usize) -> TerminalError {
        let mut entries = self.workflow.entries.lock().unwrap();
        assert_eq!(entries.len(), at + 1);
        entries.push(Entry::Cancelled);
        self.at.fetch_add(1, Ordering::SeqCst);
        TerminalError::new_with_code(409, "cancelled")
    }
}

impl<O: Send> Engine for Attempt<'_, O> {
    async fn run(&self, name: &str, step: Step) -> Result<Stored, TerminalError> {
        let (at, found, _) = self.entry(Entry::Run { name: name.to_owned(), result: None });
        let Entry::Run { name: recorded, result } = found else {
            panic!("{name} is {found:?} in the journal")
        };
        assert_eq!(recorded, name, "another step than before");
        if let Some(cancelled) = self.is_cancelled() {
            return Err(cancelled);
        }
        if let Some(result) = result {
            return Ok(serde_json::from_value(result).unwrap());
        }
        assert_eq!(at + 1, self.workflow.entries.lock().unwrap().len(), "{name} has no result");
        let done = step.await;
        if self.moment().await {
            return Err(self.cancel(at));
        }
        let stored = match done {
            Ok(stored) => serde_json::to_value(stored).unwrap(),
            Err(error) => {
                self.stop(End::Error(format!("{error:?}"))).await;
                Value::Null
            }
        };
        let entry = Entry::Run { name: recorded, result: Some(stored.clone()) };
        self.workflow.entries.lock().unwrap()[at] = entry;
        self.moment().await;
        Ok(serde_json::from_value(stored).unwrap())
    }

    async fn decision(&self, name: &str) -> Result<Answer, TerminalError> {
        let entry = Entry::Promise { name: name.to_owned() };
        let (at, found, _) = self.entry(entry.clone());
        assert_eq!(found, entry);
        if let Some(cancelled) = self.is_cancelled() {
            return Err(cancelled);
        }
        if self.moment().await {
            return Err(self.cancel(at));
        }
        let decision = self.workflow.promises.lock().unwrap().get(name).cloned();
        if decision.is_none() {
            self.stop(End::Suspended).await;
        }
        Ok(decision.unwrap())
    }

    fn set(&self, key: &str, value: impl Serialize + Send + 'static) {
        let value = serde_json::to_value(value).unwrap();
        let entry = Entry::Set { key: key.to_owned(), value: value.clone() };
        let (_, found, _) = self.entry(entry.clone());
        assert_eq!(found, entry, "another state than before");
        self.workflow.state.lock().unwrap().insert(key.to_owned(), value);
    }

    fn clear(&self, key: &str) {
        let entry = Entry::Clear { key: key.to_owned() };
        let (_, found, _) = self.entry(entry.clone());
        assert_eq!(found, entry);
        self.workflow.state.lock().unwrap().remove(key);
    }
}

pub(crate) fn workflow() -> Arc<Workflow> {
    Arc::default()
}
