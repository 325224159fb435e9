//! What is recorded of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::event::Ending;
use toolwright_module::message::{CallIds, ReplyPart};
use toolwright_module::{Contract, Message};
use toolwright_signature::ContractError;

use super::{
    After, LeftOut, Outcome, OutcomeKind, Part, PartId, PartIdKind, PartKind, ReplayError,
};
use crate::state::RunState;
use crate::task::Task;

/// A record of a run. A [`Store`](super::Store) keeps the records of a run in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "most records are of the large kind")]
pub enum Record {
    /// The start of the run.
    Started(Started),
    /// A call that must not be repeated by itself was begun.
    Begun {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
    },
    /// A begun call has ended with an error that is not an outcome, such as
    /// [`Error::stop`](toolwright_module::Error::stop) of its tool. It may be made again.
    Failed {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
    },
    /// A part has ended.
    Ended {
        /// The id of the part.
        #[serde(rename = "key")]
        part: PartId,
        /// The [`Part::identity`].
        identity: u64,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A call waits for a person's decision.
    Waiting(Waiting),
    /// The run has its result.
    Finished {
        /// How the run ended.
        ending: Ending,
        /// The [`Finished`](crate::Finished) run, without what its start has.
        finished: Value,
        /// What its start has.
        #[serde(default, skip_serializing_if = "LeftOut::is_nothing")]
        left_out: LeftOut,
    },
    /// A drive has ended with an error.
    Stopped {
        /// The error.
        error: String,
        /// Whether only the drive ended. The next drive goes on where the run is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_open: bool,
        /// The [`Finished`](crate::Finished) run, if the run has ended. Its answer is not a result.
        /// Its conversation has the texts with which the run answered calls that no tool got.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        finished: Value,
        /// Text and reasoning of the reply that the model was writing when a person stopped the run. Its
        /// cost is unknown. `None` if no reply was being written, or nobody kept it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfinished_reply: Option<Vec<ReplyPart>>,
        /// What its start has.
        #[serde(default, skip_serializing_if = "LeftOut::is_nothing")]
        left_out: LeftOut,
    },
}

impl Record {
    /// Returns the part that was begun or has ended.
    #[must_use]
    pub fn part(&self) -> Option<&PartId> {
        match self {
            Self::Begun { part, .. } | Self::Failed { part, .. } | Self::Ended { part, .. } => {
                Some(part)
            }
            _ => None,
        }
    }
}

/// The first record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Started {
    /// The id of the run.
    pub id: String,
    /// The metadata of the first drive.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The earlier run that has the beginning of the conversation, if the run is without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// The run before its first step.
    pub run: RunState,
}

impl Started {
    /// Returns the first record of a run.
    #[must_use]
    pub fn new(id: impl Into<String>, metadata: BTreeMap<String, String>, run: RunState) -> Self {
        Self { id: id.into(), metadata, after: None, run }
    }

    /// Returns the task, with the conversation before it and without the instructions.
    #[must_use]
    pub fn task(&self) -> Task {
        let mut said = self.run.history();
        said.retain(|message| !matches!(**message, Message::System { .. }));
        said.into()
    }
}

/// A call that waits for a person's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The id of the decision.
    #[serde(rename = "key")]
    pub part: PartId,
    /// Its [`Part::identity`].
    pub identity: u64,
    /// What the person decides on.
    pub approval: Approval,
    /// The contract of the call's tool. `None` for a tool that does not exist, and in records of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Arc<Contract>>,
}

impl Waiting {
    /// Returns the question of a part that is a decision.
    pub(super) fn of(part: &Part) -> Option<Self> {
        let approval = part.approval()?;
        let PartKind::Decide { contract, .. } = &part.kind else { return None };
        let contract = contract.clone();
        Some(Self { part: part.id(), identity: part.identity(), approval, contract })
    }

    /// Checks that a person's arguments fit the tool. The person can correct them; the model could not.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`] lists every fault.
    pub fn check_edit(&self, decision: &Decision) -> Result<(), ContractError> {
        match (decision, &self.contract) {
            (Decision::Edit { arguments }, Some(contract)) => {
                contract.read::<Value>(arguments).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the person is asked about the call that the decision is for. The part and the
    /// identity are those of the decision, and the approval is what the person sees.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Question`]
    pub fn check(&self) -> Result<(), ReplayError> {
        let Approval { path, call, effect, unknown, asked_before, .. } = &self.approval;
        let lost = match self.part.kind {
            PartIdKind::Decide { unknown, .. } => unknown,
            _ => None,
        };
        let (call, effect) = (call.clone(), *effect);
        let (contract, reason, is_checked) = (None, None, false);
        let kind = PartKind::Decide { call, effect, unknown: lost, contract, reason, is_checked };
        let part = Part::new(path.clone(), kind);
        // Earlier versions did not write the number.
        let is_other = *asked_before != 0 && lost != Some(*asked_before);
        if part.id() != self.part || lost.is_some() != *unknown || is_other {
            return Err(self.damaged("its key is that of another call"));
        }
        if part.identity() != self.identity {
            return Err(self.damaged("it shows another tool or other arguments"));
        }
        Ok(())
    }

    /// Checks that the model asked for this call in a reply, if the reply is one of the records.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Question`]
    pub fn check_reply<'a>(
        &self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), ReplayError> {
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
                    false => Err(self.damaged("the model asked for another call")),
                };
            }
        }
        // A call that was selected in a text. Its identity was checked.
        Ok(())
    }

    /// Checks that this is the question about the call of `asked`. A deploy may have changed the
    /// effect of its tool.
    pub(super) fn check_asked(&self, asked: &Approval) -> Result<(), ReplayError> {
        let Approval { path, call, unknown, .. } = &self.approval;
        match (path, call, unknown) == (&asked.path, &asked.call, &asked.unknown) {
            true => self.check(),
            false => Err(self.damaged("the run makes another call")),
        }
    }

    fn damaged(&self, reason: &'static str) -> ReplayError {
        ReplayError::Question { call: self.approval.call.id.clone(), reason }
    }

    /// Returns the record of a person's decision. `person` is the name, if it is known.
    #[must_use]
    pub fn decided(&self, decision: Decision, person: Option<&str>) -> Record {
        let mut outcome = Outcome::new(OutcomeKind::Decided(decision));
        outcome.by = person.map(ToOwned::to_owned);
        Record::Ended { part: self.part.clone(), identity: self.identity, outcome }
    }
}
