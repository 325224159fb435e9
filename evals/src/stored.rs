//! Attempts made of stored runs.

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use toolwright_journal::home;
use toolwright_module::budget::Spent;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::{OutcomeKind, PartIdKind, Record};
use toolwright_signature::Contract;

use crate::attempt::{Attempt, MadeCall};
use crate::case::{Case, CaseValue};
use crate::error::{EvalError, Result};

/// A stored run of any home, to be graded.
///
/// Every home of runs has the methods `entries` and `tools` that this takes.
#[derive(Debug, Clone)]
pub struct StoredRun {
    id: String,
    entries: Vec<(SystemTime, Record)>,
    tools: Option<ToolSet>,
}

impl StoredRun {
    /// Returns a run with its records and the tools that it began with.
    pub fn new(
        id: impl Into<String>,
        entries: Vec<(SystemTime, Record)>,
        tools: Option<ToolSet>,
    ) -> Self {
        Self { id: id.into(), entries, tools }
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the text of the task.
    ///
    /// # Errors
    ///
    /// [`EvalError::StoredRun`]: the run has no beginning.
    pub fn task(&self) -> Result<String> {
        match self.entries.first() {
            Some((_, Record::Started(started))) => Ok(started.task().task),
            _ => Err(self.fault("its first record is no beginning")),
        }
    }

    fn fault(&self, reason: impl Into<String>) -> EvalError {
        EvalError::StoredRun { id: self.id.clone(), reason: reason.into() }
    }

    /// Returns the attempt that the run is. An unfinished run has an error in place of an output.
    pub(crate) fn attempt<I: CaseValue, O: CaseValue + DeserializeOwned>(
        &self,
        case: Case<I, O>,
    ) -> Result<Attempt<I, O>> {
        let mut attempt = Attempt::empty(case);
        let records: Vec<Record> = self.entries.iter().map(|(_, record)| record.clone()).collect();
        let finished = home::finished::<O>(&self.id, &records)
            .map_err(|error| self.fault(error.to_string()))?;
        let mut calls: Vec<(Vec<String>, MadeCall)> = Vec::new();
        let mut spent = Spent::default();
        for record in &records {
            match record {
                Record::Ended { part, outcome, .. } => {
                    spent += outcome.spent;
                    let key = |id: &str| -> Vec<String> {
                        part.path
                            .iter()
                            .map(|around| around.id.as_str())
                            .chain([id])
                            .map(str::to_owned)
                            .collect()
                    };
                    match (&outcome.kind, &part.kind) {
                        (OutcomeKind::Reply(reply), _) => {
                            if part.path.is_empty() {
                                attempt.rounds += 1;
                            }
                            for reply_part in &reply.parts {
                                let ReplyPart::Call(call) = reply_part else { continue };
                                let mut made = MadeCall::of(call);
                                made.within =
                                    part.path.iter().map(|around| around.tool.clone()).collect();
                                // A call counts as failed until its result is there.
                                made.failed = true;
                                // The stored tools are those of the run itself.
                                let tools = self.tools.as_ref().filter(|_| part.path.is_empty());
                                let contract = tools.and_then(|tools| tools.contract(&made.tool));
                                made.contract = contract.cloned().map(Arc::new);
                                calls.push((key(&call.id), made));
                            }
                        }
                        (OutcomeKind::Called { result, .. }, _) => {
                            let key = key(&result.id);
                            if let Some((_, made)) =
                                calls.iter_mut().rfind(|(known, _)| *known == key)
                            {
                                made.result.clone_from(&result.text);
                                made.failed = result.failed;
                                if let Some(tools) = &self.tools {
                                    made.effect = tools.effect(&made.tool);
                                }
                            }
                        }
                        (OutcomeKind::Decided(_), PartIdKind::Decide { call, .. }) => {
                            let key = key(call);
                            if let Some((_, made)) =
                                calls.iter_mut().rfind(|(known, _)| *known == key)
                            {
                                made.asked = true;
                            }
                        }
                        _ => {}
                    }
                }
                Record::Stopped { error, .. } => attempt.error = Some(error.clone()),
                Record::Finished { ending, .. } => attempt.ending = Some(*ending),
                _ => {}
            }
        }
        // The end of a typed run has the form of a call, and never a result.
        let is_end = |call: &MadeCall| {
            call.tool == Contract::FINISH && call.failed && call.result.is_empty()
        };
        let calls = calls.into_iter().map(|(_, call)| call);
        attempt.calls = calls.filter(|call| !is_end(call)).collect();
        attempt.set_cost(spent);
        match finished {
            Some(finished) => {
                attempt.set_cost(finished.spent);
                attempt.output = Some(finished.answer);
                attempt.error = None;
            }
            None => {
                attempt.error.get_or_insert_with(|| "the run has not finished".to_owned());
            }
        }
        if let (Some((first, _)), Some((last, _))) = (self.entries.first(), self.entries.last()) {
            attempt.seconds = last.duration_since(*first).unwrap_or_default().as_secs_f64();
        }
        Ok(attempt)
    }
}
