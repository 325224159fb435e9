//! The stored form of a run, and its consistency check.
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::Settings;
use toolwright_module::{Effect, Message, ToolCall};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::compaction::Compacted;
use crate::error::{Result, RunError};
use crate::limits::Limits;
use crate::pairing;
use crate::repaired_call::RepairedCall;
use crate::repeated_mistakes::Mistakes;
use crate::run::{Edited, Measured, Offer};
use crate::step::RunResult;
use crate::tool_choosing::Choosing;
use crate::tool_set::ToolSet;

/// The version of [`RunState`].
pub(crate) const VERSION: u32 = 1;

/// The stored form of a run: everything but the tools.
///
/// Of the tools it has only a hash. A [`ToolSet`] holds their contracts, so that a run that is
/// resumed after a deploy can be compared with the tools of that day.
///
/// # Who may write to the store
///
/// A call that waits for approval is made only if the stored run has a decision that allows exactly
/// this call: its id, its tool and its arguments. If the stored phase says otherwise, the run asks
/// again. If the approval policy was removed from the stored run, the policy of the agent that
/// drives the run still applies.
///
/// The decisions themselves are not signed. **Everyone who can write to the store can forge a
/// decision, a result, a limit or a message.** Give write access only to the program that drives
/// the runs: not to the model, not to its tools, and not to the people who request approval. If
/// others need write access, sign the stored runs and check the signature before you resume one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    #[serde(deserialize_with = "known_version")]
    pub(crate) version: u32,
    pub(crate) step: u64,
    pub(crate) phase: Phase,
    pub(crate) messages: Vec<Arc<Message>>,
    /// The place of the current task in the messages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) task_at: usize,
    /// The number of tasks of this run before the current one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) earlier_tasks: u64,
    /// The hash of the tool set.
    pub(crate) tools: Arc<str>,
    /// The contracts of the stored tools, if the program has them.
    #[serde(skip)]
    pub(crate) tool_set: Option<Arc<ToolSet>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Arc<Contract>>,
    /// The settings of the model calls. Default: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<Arc<Settings>>,
    pub(crate) limits: Limits,
    #[serde(default, skip_serializing_if = "ApprovalPolicy::is_default")]
    pub(crate) approval: ApprovalPolicy,
    #[serde(default, skip_serializing_if = "Choosing::is_default")]
    pub(crate) choosing: Choosing,
    pub(crate) iterations: u32,
    /// The number of requests to the model.
    #[serde(default)]
    pub(crate) asked: u64,
    /// How often a limit forbade the next request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) exhausted: u32,
    pub(crate) spent: Spent,
    pub(crate) elapsed: Duration,
    pub(crate) tools_used: Vec<String>,
    /// The number of tools that were used before this round.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) used_before: usize,
    #[serde(default, skip_serializing_if = "Mistakes::is_empty")]
    pub(crate) mistakes: Mistakes,
    /// Decisions on calls, by the ids of the calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) decisions: BTreeMap<String, DecidedCall>,
    /// The decisions that the driver has not reported yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided: Vec<Decided>,
    /// Why open calls wait for a person, by the ids of the calls, if there is more to say than that the
    /// tool always waits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reasons: BTreeMap<String, String>,
    /// How often the outcome of a call was lost, by the ids of the calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lost: BTreeMap<String, u32>,
    /// The run's own results for calls that no tool gets, until the driver has reported them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own_results: Vec<(ToolCall, ToolResult)>,
    /// The calls whose arguments had to be repaired, as the model wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) repaired: Vec<RepairedCall>,
    /// The calls so far of each tool with a limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) calls: BTreeMap<String, u64>,
    /// The tools that the model was shown. Empty if it was always shown all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) offers: Vec<Offer>,
    /// The names of deferred tools that the model has found, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<String>,
    /// The edit of the conversation as it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<Edited>,
    /// The summary that stands for messages that are not sent any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    /// The texts that compactions keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept: Vec<String>,
    /// The compactions of the conversation as it is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) compactions: Vec<Compacted>,
    /// The length of the last request, if it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    /// The window that the model's provider named when it refused a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<u64>,
}

/// The state of a run: the thing that it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The model's next reply.
    Model,
    /// The model's last reply, without tools. Either the model has finished with its tools, or this
    /// limit was reached.
    LastWord { limit: Option<LimitKind> },
    /// Decisions of a person on those calls of the last reply whose ids are in `awaits`. `results`
    /// is as below. `unknown` is the id of a call among them that was begun and whose outcome is
    /// not known.
    Approval {
        results: Vec<Option<ToolResult>>,
        awaits: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<String>,
    },
    /// The results of the last reply's calls, in order. `None` for a call without a result. `begun`
    /// is the effect of the next call, if that call was begun and changes something.
    Tools {
        results: Vec<Option<ToolResult>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begun: Option<Effect>,
    },
    /// Nothing. The run is done with this result.
    Done(RunResult),
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// The decision on one call, as a run stores it.
///
/// It applies to this call only. Another tool or other arguments under the same id need a decision
/// of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecidedCall {
    /// The step of the decision.
    pub step: u64,
    /// Name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// Decision of the person.
    pub decision: Decision,
}

/// A decision as it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decided {
    pub(crate) call: ToolCall,
    pub(crate) decision: Decision,
    /// The attempt whose outcome was lost, if the question was whether to make the call again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unknown: Option<u32>,
}

impl DecidedCall {
    /// Returns whether this decision allows the call that another one is about.
    pub(crate) fn allows_same(&self, other: &Self) -> bool {
        self.allows(&ToolCall::new("", &other.tool, &other.arguments))
    }

    /// Returns whether the decision denies this call.
    pub(crate) fn denies(&self, call: &ToolCall) -> bool {
        matches!(self.decision, Decision::Deny { .. })
            && self.tool == call.name
            && self.arguments == call.arguments
    }

    /// Returns whether the decision allows this call.
    pub(crate) fn allows(&self, call: &ToolCall) -> bool {
        let made = matches!(
            self.decision,
            Decision::Approve | Decision::CallAgain | Decision::Edit { .. }
        );
        made && self.tool == call.name && self.arguments == call.arguments
    }
}

impl RunState {
    /// Returns the conversation, for example to start another run with it
    /// ([`Task::with_history`](crate::Task::with_history)).
    ///
    /// Each call has a result. For a call that is still open, it says that the call was not made,
    /// or that its effect is not known.
    #[must_use]
    pub fn history(&self) -> Vec<Arc<Message>> {
        let results = self.results_of_the_last_reply(None).into_iter().map(Message::Tool);
        self.messages.iter().cloned().chain(results.map(Arc::new)).collect()
    }

    /// Returns a result for each call of the last reply that has none in the conversation. `begun`
    /// are the ids of the open calls that may have begun, if they are known.
    pub(crate) fn results_of_the_last_reply(&self, begun: Option<&[String]>) -> Vec<ToolResult> {
        let results = |known: &[Option<ToolResult>], open: &dyn Fn(&ToolCall) -> ToolResult| {
            let all = self.last_calls().zip(known);
            all.map(|(call, known)| known.clone().unwrap_or_else(|| open(call))).collect()
        };
        let not_made =
            |call: &ToolCall| ToolResult::failed(call, "The call was not made: the user went on.");
        match &self.phase {
            // The call that ended a typed run.
            Phase::Done(_) => self.last_calls().map(pairing::accepted).collect(),
            Phase::Tools { results: known, begun: mark } => {
                let first = || self.open_calls().next().map(|(call, _)| &call.id);
                results(known, &|call| {
                    let may_have_begun = match (begun, mark) {
                        (Some(begun), _) => begun.contains(&call.id),
                        // A call that changes something is made alone.
                        (None, Some(_)) => first() == Some(&call.id),
                        (None, None) => true,
                    };
                    if may_have_begun { pairing::interrupted_result(call) } else { not_made(call) }
                })
            }
            Phase::Approval { results: known, unknown, .. } => {
                results(known, &|call| match unknown {
                    Some(id) if *id == call.id => pairing::interrupted_result(call),
                    _ => not_made(call),
                })
            }
            Phase::Model | Phase::LastWord { .. } => Vec::new(),
        }
    }

    /// Returns the calls of the last message, if it is the model's.
    pub(crate) fn last_calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        let parts = match self.messages.last().map(|last| &**last) {
            Some(Message::Assistant { parts }) => parts.as_slice(),
            _ => &[],
        };
        pairing::calls_of(parts)
    }

    /// Returns the hash of the tools that the run was stored with.
    #[must_use]
    pub fn tool_set_hash(&self) -> &str {
        &self.tools
    }

    /// Returns the name of the output of a typed run.
    #[must_use]
    pub fn output_name(&self) -> Option<&str> {
        self.output.as_deref().map(Contract::name)
    }

    /// Returns how the model chooses tools.
    #[must_use]
    pub fn choosing(&self) -> Choosing {
        self.choosing
    }

    /// Sets the tools that the run was stored with. They are not stored with it.
    ///
    /// If the current tools differ, a resume then reports how.
    #[must_use]
    pub fn with_tool_set(mut self, tools: impl Into<Arc<ToolSet>>) -> Self {
        self.tool_set = Some(tools.into());
        self
    }

    /// Renames a tool: its open calls, their decisions, and what the run has noted under the name.
    /// The conversation keeps the old name in finished calls. If the run knows the new name, too, the
    /// smaller limit holds, and the calls of both names count.
    #[must_use]
    pub fn with_renamed(mut self, old: &str, new: &str) -> Self {
        if self.approval.tools.contains(old) {
            self.approval.tools.insert(new.to_owned());
        }
        if let Some(most) = self.limits.tools.remove(old) {
            let known = self.limits.tools.entry(new.to_owned()).or_insert(most);
            *known = most.min(*known);
        }
        if let Some(made) = self.calls.remove(old) {
            let known = self.calls.entry(new.to_owned()).or_default();
            *known = known.saturating_add(made);
        }
        let offered = self.offers.iter_mut().filter_map(|offer| offer.tools.as_mut()).flatten();
        let found = self.found.iter_mut();
        let names = offered.chain(found).filter(|name| *name == old);
        names.for_each(|name| new.clone_into(name));
        self.with_open_calls(|call| {
            if call.name == old {
                new.clone_into(&mut call.name);
            }
        })
    }

    /// Changes the calls that have no result yet, for tools that changed since the run was stored.
    /// Their ids do not change.
    ///
    /// A person's decision applies to a renamed call too. A call with changed arguments needs a new
    /// one.
    #[must_use]
    pub fn with_open_calls(mut self, mut change: impl FnMut(&mut ToolCall)) -> Self {
        let (Phase::Tools { results, .. } | Phase::Approval { results, .. }) = &self.phase else {
            return self;
        };
        let Some(last) = self.messages.last_mut() else { return self };
        let Message::Assistant { parts } = Arc::make_mut(last) else { return self };
        let calls = parts.iter_mut().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        });
        for (call, _) in calls.zip(results).filter(|(_, result)| result.is_none()) {
            let was = call.clone();
            change(call);
            call.id.clone_from(&was.id);
            if let Some(decided) = self.decisions.get_mut(&was.id)
                && decided.tool == was.name
            {
                decided.tool.clone_from(&call.name);
            }
        }
        self
    }

    /// Returns the calls that have no result and are not done, with the arguments that a person
    /// decided on.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = (&ToolCall, &str)> {
        let results = match &self.phase {
            Phase::Tools { results, .. } | Phase::Approval { results, .. } => results.as_slice(),
            _ => &[],
        };
        let open = self.last_calls().zip(results).filter(|(_, result)| result.is_none());
        open.map(|(call, _)| {
            let edited = self.decisions.get(&call.id).filter(|decided| decided.allows(call));
            let arguments = match edited.map(|decided| &decided.decision) {
                Some(Decision::Edit { arguments }) => arguments,
                _ => &call.arguments,
            };
            (call, arguments.as_str())
        })
    }

    /// Checks that every call has exactly one result right after it. A truncated or edited file
    /// must not become a run that waits forever, or one that providers reject.
    pub(crate) fn check(&self) -> Result<()> {
        let corrupt = |what| Err(RunError::Corrupt { what });
        if self.messages.is_empty() {
            return corrupt("there is no message");
        }
        let open = match pairing::open_calls(&self.messages) {
            Ok(open) => open,
            Err(what) => return corrupt(what),
        };
        if let Some(what) = self.sent.as_ref().and_then(|edited| edited.fault(&self.messages)) {
            return corrupt(what);
        }
        let waits_for_no_call = |awaits: &[String]| {
            let ids: HashSet<&str> = open.iter().map(|call| call.id.as_str()).collect();
            awaits.is_empty() || awaits.iter().any(|id| !ids.contains(id.as_str()))
        };
        let fits = match &self.phase {
            Phase::Approval { awaits, .. } if waits_for_no_call(awaits) => false,
            Phase::Approval { awaits, unknown: Some(id), .. } if !awaits.contains(id) => false,
            // Without an open call, the run would wait forever.
            Phase::Tools { results, .. } | Phase::Approval { results, .. }
                if results.iter().all(Option::is_some) =>
            {
                false
            }
            Phase::Approval { results, awaits, .. }
                if results.iter().flatten().any(|result| awaits.contains(&result.id)) =>
            {
                false
            }
            Phase::Tools { results, .. } | Phase::Approval { results, .. } => {
                results.len() == open.len()
                    && results.iter().zip(open).all(|(result, call)| {
                        result.as_ref().is_none_or(|result| result.id == call.id)
                    })
            }
            // The calls that ended a typed run have no result: one, or several equal ones.
            Phase::Done(_) => {
                self.output.is_some() && open.iter().all(|call| call.name == Contract::FINISH)
                    || open.is_empty()
            }
            Phase::Model | Phase::LastWord { .. } => open.is_empty(),
        };
        if fits { Ok(()) } else { corrupt("the last reply and its results do not match") }
    }
}

/// Reads the version, which is the first field. A later one may have other fields.
fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u64::deserialize(deserializer)? {
        found if found == u64::from(VERSION) => Ok(VERSION),
        found => Err(D::Error::custom(RunError::Version { found, known: VERSION })),
    }
}
