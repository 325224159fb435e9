//! What is recorded of a run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::Message;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::Spent;
use toolwright_module::event::Ending;
use toolwright_module::message::{CallIds, Part as MessagePart, ReplyPart};
use toolwright_orchestrator::perform::{
    Outcome, OutcomeKind, Part, PartId, PartIdKind, PartKind, Record,
};
use toolwright_orchestrator::{RunState, Task};

use crate::error::JournalError;

/// One line of the file: a record and its time.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line<K> {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) record: K,
}

/// A record of a run. It is stored as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "most records are of the large kind")]
pub enum Entry<'a> {
    /// The first record.
    Started(Started),
    /// A part of the run was begun or has ended.
    Part(Cow<'a, Record>),
    /// A call waits for a decision.
    Waiting(Waiting),
    /// The run has its result.
    Finished(Ended),
    /// The run has ended without a result.
    Failed(Failed),
}

/// The first record of a run.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Started {
    /// Run id.
    pub id: String,
    /// The metadata of the first drive.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The name of the signature of a typed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The [`RunState`](toolwright_orchestrator::RunState) before the first step.
    pub run: Value,
}

impl Started {
    /// Returns the task, with the conversation before it and without the instructions.
    ///
    /// # Errors
    ///
    /// The state of the run cannot be read.
    pub fn task(&self) -> Result<Task, serde_json::Error> {
        let mut said = RunState::deserialize(&self.run)?.history();
        said.retain(|message| !matches!(**message, Message::System { .. }));
        Ok(said.into())
    }

    /// Returns the first words of the task on one line, for a list. It is `None` if the state of the
    /// run cannot be read.
    #[must_use]
    pub fn first_words(&self) -> Option<String> {
        self.task().ok().map(|task| first_words(&task))
    }
}

/// Maximum number of characters of a task in a list.
const LONGEST_TASK: usize = 200;

/// Returns the first words of a task on one line.
fn first_words(task: &Task) -> String {
    let mut texts = vec![task.task.as_str()];
    if let Some(Message::User { parts }) = task.history().last().map(|message| &**message) {
        texts.extend(parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            _ => None,
        }));
    }
    let mut words = String::new();
    for word in texts.into_iter().flat_map(str::split_whitespace) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if let Some((end, _)) = words.char_indices().nth(LONGEST_TASK) {
            words.truncate(end);
            words.push('…');
            break;
        }
    }
    words
}

/// A call that waits for a decision.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The id of the decision.
    #[serde(rename = "key")]
    pub part: PartId,
    /// Its [`Part::identity`](toolwright_orchestrator::perform::Part::identity).
    pub identity: u64,
    /// What the person decides on.
    pub approval: Approval,
}

impl Waiting {
    pub(crate) fn new(part: PartId, identity: u64, approval: Approval) -> Self {
        Self { part, identity, approval }
    }

    /// Checks that the person is asked about the call that the decision is for. The part and the
    /// identity are those of the decision, and the approval is what the person sees.
    pub(crate) fn check(&self, id: &str) -> Result<(), JournalError> {
        let Approval { path, call, effect, unknown, .. } = &self.approval;
        // The approval does not have the number of the attempt.
        let lost = match self.part.kind {
            PartIdKind::Decide { unknown, .. } => unknown,
            _ => None,
        };
        let kind = PartKind::Decide { call: call.clone(), effect: *effect, unknown: lost };
        let part = Part::new(path.clone(), kind);
        if part.id() != self.part || lost.is_some() != *unknown {
            return Err(self.damaged(id, "its key is that of another call"));
        }
        if part.identity() != self.identity {
            return Err(self.damaged(id, "it shows another tool or other arguments"));
        }
        Ok(())
    }

    /// Checks that the call is the one in the model's reply, if this is one of the records.
    pub(crate) fn check_reply<'a>(
        &self,
        id: &str,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), JournalError> {
        let asked = &self.approval.call;
        for record in records {
            let Record::Ended { part, outcome, .. } = record else { continue };
            let OutcomeKind::Reply(reply) = &outcome.kind else { continue };
            let PartIdKind::Ask { nth, .. } = part.kind else { continue };
            if part.path != self.approval.path {
                continue;
            }
            for (place, part) in reply.parts.iter().enumerate() {
                let ReplyPart::Call(call) = part else { continue };
                if call.id != asked.id && CallIds::made_for(&asked.id) != Some((nth, place)) {
                    continue;
                }
                // The name may be repaired. Then it is at the end of what the model wrote.
                return match call.arguments == asked.arguments && call.name.ends_with(&asked.name) {
                    true => Ok(()),
                    false => Err(self.damaged(id, "the model asked for another call")),
                };
            }
        }
        // A call that was selected in a text. Its identity was checked.
        Ok(())
    }

    /// Returns the error if this is not the question about the call of `asked`. A deploy may have
    /// changed the effect of its tool.
    pub(crate) fn check_asked(&self, id: &str, asked: &Approval) -> Result<(), JournalError> {
        let Approval { path, call, unknown, .. } = &self.approval;
        match (path, call, unknown) == (&asked.path, &asked.call, &asked.unknown) {
            true => Ok(()),
            false => Err(self.damaged(id, "the run makes another call")),
        }
    }

    fn damaged(&self, id: &str, reason: &'static str) -> JournalError {
        let (id, call) = (id.to_owned(), self.approval.call.id.clone());
        JournalError::Question { id, call, reason }
    }

    /// Returns the record of a person's decision. `person` is the name, if it is known.
    #[must_use]
    pub fn decided(&self, decision: Decision, person: Option<&str>) -> Record {
        let mut outcome = Outcome::new(OutcomeKind::Decided(decision));
        outcome.by = person.map(ToOwned::to_owned);
        Record::Ended { part: self.part.clone(), identity: self.identity, outcome }
    }
}

/// The result of a run.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// How the run ended.
    pub ending: Ending,
    /// The [`Finished`](toolwright_orchestrator::Finished) run.
    pub finished: Value,
}

/// The end of a run without a result, or of a drive with an error.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// Text of the error, with its causes.
    pub error: String,
    /// Whether only the drive ended. The next drive goes on where the run is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
    /// The [`Finished`](toolwright_orchestrator::Finished) run, if the run has ended. Its answer is
    /// not a result, and its conversation has the texts with which the run answered calls that no
    /// tool got.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub finished: Value,
}

/// A line of which only the kind of the record and its part are read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outline {
    Started(Started),
    Part(PartOutline),
    Waiting(Waiting),
    Finished(EndingOutline),
    Failed(FailedOutline),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartOutline {
    Begun(IgnoredAny),
    Failed(IgnoredAny),
    Ended(EndedOutline),
}

#[derive(Deserialize)]
pub(crate) struct EndedOutline {
    #[serde(rename = "key")]
    pub(crate) part: PartId,
    #[serde(default)]
    pub(crate) outcome: OutcomeOutline,
}

#[derive(Default, Deserialize)]
pub(crate) struct OutcomeOutline {
    #[serde(default)]
    pub(crate) spent: Spent,
    /// The person who decided.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct FailedOutline {
    pub(crate) error: String,
    #[serde(default)]
    pub(crate) is_open: bool,
}

#[derive(Deserialize)]
pub(crate) struct EndingOutline {
    pub(crate) ending: Ending,
}

/// Returns the present time for a line.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of a line.
pub(crate) fn time(at: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at)).unwrap_or(SystemTime::UNIX_EPOCH)
}
