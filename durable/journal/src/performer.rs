//! The performer of a journaled run.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolwright_module::approval::Approval;
use toolwright_module::event::InCall;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Effect, ToolCall};
use toolwright_orchestrator::perform::{
    Append, Earlier, Open, Part, PartId, PartKind, Perform, Performed, Record, Replay, Work,
};

use crate::error::{JournalError, Result};
use crate::home::Place;
use crate::record::{Entry, Waiting};

/// Performs the parts of a run over its records.
pub(crate) struct Recorder<P>(Arc<Inner<P>>);

struct Inner<P> {
    id: String,
    replay: Replay<Parts<P>>,
    place: Arc<P>,
    max_result_bytes: u64,
    /// The recorded parts that the run has not come to yet, by the path of their run.
    ahead: Mutex<HashMap<Vec<InCall>, BTreeSet<PartId>>>,
    /// The questions that are recorded.
    waiting: Mutex<HashMap<PartId, Waiting>>,
}

/// Appends the records of parts to a place.
struct Parts<P>(Arc<P>);

impl<P: Place> Append for Parts<P> {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move { Ok(self.0.append(Entry::Part(Cow::Borrowed(record))).await?) })
    }
}

/// Clones have the same records.
impl<P> Clone for Recorder<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: Place> Recorder<P> {
    pub(crate) fn new(
        id: &str,
        records: Vec<Record>,
        waiting: HashMap<PartId, Waiting>,
        place: Arc<P>,
        max_result_bytes: u64,
    ) -> Self {
        let mut ahead = HashMap::<Vec<InCall>, BTreeSet<PartId>>::new();
        for record in &records {
            match record {
                Record::Begun { part, .. } | Record::Ended { part, .. } => {
                    ahead.entry(part.path.clone()).or_default().insert(part.clone());
                }
                // The call is open, so nothing is lost with it.
                Record::Failed { part, .. } => {
                    if let Some(parts) = ahead.get_mut(&part.path) {
                        parts.remove(part);
                    }
                }
                _ => {}
            }
        }
        let replay = Replay::new(records, Parts(Arc::clone(&place)));
        let (ahead, waiting) = (Mutex::new(ahead), Mutex::new(waiting));
        let id = id.to_owned();
        Self(Arc::new(Inner { id, replay, place, max_result_bytes, ahead, waiting }))
    }

    /// Returns an error if the run at this path has left out a recorded part.
    pub(crate) fn check_complete(&self, path: &[InCall]) -> Result<(), P::Error> {
        self.0.check_complete(path)
    }
}

impl<P: Place> Inner<P> {
    fn check_complete(&self, path: &[InCall]) -> Result<(), P::Error> {
        let ahead = locked(&self.ahead);
        match ahead.get(path).and_then(BTreeSet::first) {
            Some(part) => {
                let (id, part) = (self.id.clone(), part.clone());
                Err(JournalError::OtherAgent { id, part }.into())
            }
            None => Ok(()),
        }
    }

    /// Does the work of a call, and keeps no result that is too large.
    async fn limited(&self, call: ToolCall, work: Work<'_>) -> Performed {
        Ok(work.await?.with_most_bytes(&call, self.max_result_bytes)?)
    }

    /// Asks for a decision, after the journal has the question: the answer may come days later, and
    /// from another process.
    async fn asked(&self, waiting: Waiting, work: Work<'_>) -> Performed {
        if !locked(&self.waiting).contains_key(&waiting.part) {
            self.place.append(Entry::Waiting(waiting.clone())).await?;
            locked(&self.waiting).insert(waiting.part.clone(), waiting);
        }
        work.await
    }
}

impl<P: Place> Perform for Recorder<P> {
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
        let (inner, id) = (&*self.0, part.id());
        if let Some(parts) = locked(&inner.ahead).get_mut(&part.path) {
            parts.remove(&id);
        }
        let work: Work<'a> = match &part.kind {
            PartKind::Ask { .. } => {
                let path = part.path.clone();
                Box::pin(async move {
                    inner.check_complete(&path)?;
                    work.await
                })
            }
            PartKind::Call { call, .. } | PartKind::Run { call } => {
                Box::pin(inner.limited(call.clone(), work))
            }
            PartKind::Decide { call, effect, unknown } => {
                let approval = approval(&part.path, call, *effect, unknown.is_some());
                // A decision holds for the call that the person saw. It is checked also if there is a
                // decision, which is then found without the work.
                let known = locked(&inner.waiting).get(&id).map(|known| {
                    known.check_asked(&inner.id, &approval).and_then(|()| known.check(&inner.id))
                });
                if let Some(Err(error)) = known {
                    return Box::pin(async { Err(P::Error::from(error).into()) });
                }
                let waiting = Waiting::new(id, part.identity(), approval);
                Box::pin(inner.asked(waiting, work))
            }
            _ => work,
        };
        inner.replay.perform(part, work)
    }

    fn earlier(&self, path: &[InCall]) -> Earlier {
        self.0.replay.earlier(path)
    }
}

fn approval(path: &[InCall], call: &ToolCall, effect: Effect, unknown: bool) -> Approval {
    Approval::new(path.to_vec(), call.clone(), effect).with_unknown(unknown)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
