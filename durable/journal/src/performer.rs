//! The performer of a journaled run.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex};

use toolwright_module::approval::Approval;
use toolwright_module::event::InCall;
use toolwright_module::message::ToolResult;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Effect, ToolCall};
use toolwright_orchestrator::perform::{
    Earlier, Outcome, OutcomeKind, Part, PartKind, Perform, Performed, Record, Replay, Work,
};

use crate::error::{JournalError, Result};
use crate::record::{Kind, Waiting};
use crate::writer::{SharedWriter, Writer, locked};

/// Performs the parts of a run over its records.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Inner>);

struct Inner {
    id: String,
    replay: Replay<SharedWriter>,
    writer: Arc<Writer>,
    max_result_bytes: u64,
    /// The keys of recorded parts that the run has not come to yet, by the path of their run.
    ahead: Mutex<HashMap<String, BTreeSet<String>>>,
    /// The keys of decisions that are known to be waited for.
    waiting: Mutex<BTreeSet<String>>,
}

impl Recorder {
    pub(crate) fn new(
        id: &str,
        records: Vec<Record>,
        waiting: BTreeSet<String>,
        writer: Arc<Writer>,
        max_result_bytes: u64,
    ) -> Self {
        let mut ahead = HashMap::<String, BTreeSet<String>>::new();
        for record in &records {
            match record {
                Record::Begun { key, .. } | Record::Ended { key, .. } => {
                    ahead.entry(path_of(key)).or_default().insert(key.clone());
                }
                // The call is open, so nothing is lost with it.
                Record::Failed { key, .. } => {
                    if let Some(keys) = ahead.get_mut(&path_of(key)) {
                        keys.remove(key);
                    }
                }
                _ => {}
            }
        }
        let replay = Replay::new(records, SharedWriter(Arc::clone(&writer)));
        let (ahead, waiting) = (Mutex::new(ahead), Mutex::new(waiting));
        let id = id.to_owned();
        Self(Arc::new(Inner { id, replay, writer, max_result_bytes, ahead, waiting }))
    }

    /// Returns an error if the run at this path has left out a recorded part.
    pub(crate) fn check_complete(&self, path: &[InCall]) -> Result<()> {
        self.0.check_complete(path)
    }
}

impl Inner {
    fn check_complete(&self, path: &[InCall]) -> Result<()> {
        let ahead = locked(&self.ahead);
        match ahead.get(&path_text(path)).and_then(BTreeSet::first) {
            Some(key) => Err(JournalError::OtherAgent { id: self.id.clone(), key: key.clone() }),
            None => Ok(()),
        }
    }

    /// Does the work of a call, and keeps no result that is too large.
    async fn limited(&self, call: ToolCall, work: Work<'_>) -> Performed {
        let mut outcome = work.await?;
        let size = size(&outcome.kind)?;
        if size > self.max_result_bytes {
            let text = format!(
                "The call was made, but its result of {size} bytes was dropped: this run keeps at most {} bytes of a result. Do not repeat a call that changes something. Ask for less, for example for a part of it.",
                self.max_result_bytes,
            );
            let result = ToolResult::failed(&call, text.clone());
            outcome.kind = OutcomeKind::Called { result, error: Some(text) };
        }
        Ok(outcome)
    }

    /// Asks for a decision, after the journal has the question: the answer may come days later, and
    /// from another process.
    async fn asked(&self, waiting: Waiting, work: Work<'_>) -> Performed {
        let key = waiting.key.clone();
        if !locked(&self.waiting).contains(&key) {
            self.writer.append(Kind::Waiting(waiting)).await?;
            locked(&self.waiting).insert(key);
        }
        work.await
    }
}

impl Perform for Recorder {
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
        let (inner, key) = (&*self.0, part.key());
        if let Some(keys) = locked(&inner.ahead).get_mut(&path_text(&part.path)) {
            keys.remove(&key);
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
                let waiting = Waiting { key, identity: part.identity(), approval };
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

/// Returns the path of a part as text. It is the start of the key.
fn path_text(path: &[InCall]) -> String {
    let names: Vec<&str> = path.iter().flat_map(|call| [&*call.tool, &*call.id]).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

/// Returns the path in a key. A key has the names of the path, two for each call, and then two or
/// three texts for the part itself.
fn path_of(key: &str) -> String {
    let names: Vec<String> = serde_json::from_str(key).unwrap_or_default();
    let own = 2 + names.len() % 2;
    let path = names.get(..names.len().saturating_sub(own)).unwrap_or_default();
    serde_json::to_string(path).unwrap_or_default()
}

/// Returns the length of an outcome as JSON.
fn size(kind: &OutcomeKind) -> Result<u64, serde_json::Error> {
    struct Counts(u64);

    impl io::Write for Counts {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counts = Counts(0);
    serde_json::to_writer(&mut counts, kind)?;
    Ok(counts.0)
}

/// Returns the record of a person's decision.
pub(crate) fn decided(
    waiting: &Waiting,
    decision: toolwright_module::approval::Decision,
) -> Record {
    let outcome = Outcome::new(OutcomeKind::Decided(decision));
    Record::Ended { key: waiting.key.clone(), identity: waiting.identity, outcome }
}
