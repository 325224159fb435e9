//! The check of a run's open calls when the agent has changed since the run began.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use toolwright_module::ToolCall;
use toolwright_module::approval::Decision;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::{OutcomeKind, PartIdKind, Record};

use crate::error::{JournalError, Result};

/// Checks that the agent has the tool of each open call, and that the tool can read the arguments.
/// Calls of inner agents are not checked. `was` are the tools of the first drive, `is` those of the
/// agent.
///
/// A call that had started and may have changed something is not checked: a person decides on it.
pub(crate) fn check_open_calls(
    id: &str,
    records: &[Record],
    was: &ToolSet,
    is: &ToolSet,
) -> Result<()> {
    for (call, arguments) in open_calls(records) {
        // If the old tool could not read the arguments either, the model made a mistake, which it
        // can correct.
        let Some(before) = was.contract(&call.name) else { continue };
        if before.read::<IgnoredAny>(arguments).is_err() {
            continue;
        }
        let reason = match is.contract(&call.name) {
            Some(now) => match now.read::<IgnoredAny>(arguments) {
                Ok(_) => continue,
                Err(fault) => format!("the tool has changed since: {fault}"),
            },
            None => {
                let names: Vec<String> = is.names().map(|name| format!("`{name}`")).collect();
                match names.as_slice() {
                    [] => "the agent has no tools now".to_owned(),
                    names => format!(
                        "the agent no longer has this tool; its tools are {}",
                        names.join(", ")
                    ),
                }
            }
        };
        let (id, tool) = (id.to_owned(), call.name.clone());
        return Err(JournalError::OpenCall { id, call: call.id.clone(), tool, reason });
    }
    Ok(())
}

/// Returns the calls of the last reply that have no result and did not start, each with the
/// arguments that the run would use.
fn open_calls(records: &[Record]) -> Vec<(&ToolCall, &str)> {
    let (mut last, mut closed) = (None, BTreeSet::<&str>::new());
    let mut edits = Vec::new();
    for record in records {
        let (part, kind) = match record {
            Record::Ended { part, outcome, .. } => (part, Some(&outcome.kind)),
            Record::Begun { part, .. } | Record::Failed { part, .. } => (part, None),
            _ => continue,
        };
        // These parts belong to inner agents.
        if !part.path.is_empty() {
            continue;
        }
        match &part.kind {
            PartIdKind::Ask { nth, .. } => {
                if let Some(OutcomeKind::Reply(reply)) = kind
                    && last.is_none_or(|(other, _)| *nth >= other)
                {
                    last = Some((*nth, reply));
                }
            }
            PartIdKind::Call { call, .. } if matches!(record, Record::Failed { .. }) => {
                closed.remove(call.as_str());
            }
            PartIdKind::Call { call, .. } | PartIdKind::Run { call } => drop(closed.insert(call)),
            PartIdKind::Decide { call, .. } => match kind {
                Some(OutcomeKind::Decided(Decision::Edit { arguments })) => {
                    edits.push((call, arguments));
                }
                Some(OutcomeKind::Decided(Decision::Approve | Decision::CallAgain)) => {}
                _ => drop(closed.insert(call)),
            },
            _ => {}
        }
    }
    let parts = last.map_or(&[][..], |(_, reply)| &reply.parts);
    let calls = parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    });
    // A call without an id gets one of the run, which is not in the reply.
    let open = calls.filter(|call| !call.id.is_empty() && !closed.contains(&*call.id));
    let edit = |call: &ToolCall| edits.iter().rev().find(|(id, _)| **id == call.id);
    open.map(|call| {
        (call, edit(call).map_or(call.arguments.as_str(), |(_, arguments)| arguments.as_str()))
    })
    .collect()
}
