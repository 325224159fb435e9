//! What the records say about a run before a drive.

use std::collections::{BTreeMap, BTreeSet};

use toolwright_module::event::InCall;

use super::{PartId, PartIdKind};
use crate::call_check::CHECK;

/// What earlier drives of a run did. See [`Perform::earlier`](super::Perform::earlier).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Earlier {
    /// Number of recorded replies of the model.
    pub replies: u64,
    /// For each recorded reply of the model, by its number: the [identity](super::Part::identity) of
    /// its part, which is a hash of the task. A conversation has several tasks.
    pub tasks: BTreeMap<u64, u64>,
    /// The calls that were begun, decided or ended, by id.
    pub calls: BTreeMap<String, EarlierCall>,
    /// The compactions, by the number of the request and the attempt.
    pub compactions: BTreeSet<(u64, u32)>,
}

/// A call of an earlier drive. See [`Earlier::calls`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierCall {
    /// Whether it is a call of an agent, which is made of parts.
    pub is_run: bool,
    /// Whether a person decided on it before it was made.
    pub is_decided: bool,
    /// Whether it was begun or has ended.
    pub is_made: bool,
    /// Whether a [`CallCheck`](crate::CallCheck) judged it.
    pub is_checked: bool,
}

impl EarlierCall {
    /// Returns whether a call was decided or made. One that was only checked still waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_decided || self.is_made
    }
}

impl Earlier {
    /// Adds a part of the run at `path`, or of a run below it. If the part is a reply of the model,
    /// `reply` is its [identity](super::Part::identity).
    pub fn add(&mut self, path: &[InCall], part: &PartId, reply: Option<u64>) {
        let Some(below) = part.path.strip_prefix(path) else { return };
        if let Some(call) = below.first() {
            let call = self.call(&call.id);
            (call.is_run, call.is_made) = (true, true);
            return;
        }
        match &part.kind {
            PartIdKind::Ask { nth, .. } => {
                let Some(task) = reply else { return };
                self.replies = self.replies.max(nth.saturating_add(1));
                self.tasks.insert(*nth, task);
            }
            &PartIdKind::Compact { nth, attempt } => drop(self.compactions.insert((nth, attempt))),
            PartIdKind::Run { call } => {
                let call = self.call(call);
                (call.is_run, call.is_made) = (true, true);
            }
            PartIdKind::Decide { call, unknown: None } => self.call(call).is_decided = true,
            PartIdKind::Value { name } => {
                if let Some(call) = name.strip_prefix(CHECK) {
                    self.call(call).is_checked = true;
                }
            }
            PartIdKind::Call { call, .. } | PartIdKind::Decide { call, .. } => {
                self.call(call).is_made = true;
            }
        }
    }

    fn call(&mut self, id: &str) -> &mut EarlierCall {
        self.calls.entry(id.to_owned()).or_default()
    }
}
