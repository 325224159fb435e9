//! The stored form of a run, its consistency check, and the conversion of earlier versions.
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::{Message, ToolCall};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::limits::Limits;
use crate::repaired_call::RepairedCall;
use crate::repeated_mistakes::Mistakes;
use crate::step::RunResult;
use crate::tool_choosing::Choosing;
use crate::tools::KnownTool;

/// The version of [`RunState`] that is written. Earlier versions can be read.
pub(crate) const VERSION: u32 = 3;

/// The stored form of a run: everything but the tools.
///
/// The name, effect and fingerprint of each tool are stored, so that a resumed run can check that
/// its tools have not changed.
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
#[serde(remote = "Self")]
pub struct RunState {
    pub(crate) version: u32,
    pub(crate) step: u64,
    pub(crate) phase: Phase,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) tools: Arc<[KnownTool]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Arc<Contract>>,
    pub(crate) limits: Limits,
    #[serde(default, skip_serializing_if = "ApprovalPolicy::is_default")]
    pub(crate) approval: ApprovalPolicy,
    #[serde(default, skip_serializing_if = "Choosing::is_default")]
    pub(crate) choosing: Choosing,
    pub(crate) iterations: u32,
    pub(crate) spent: Spent,
    pub(crate) elapsed: Duration,
    pub(crate) tools_used: Vec<String>,
    #[serde(default, skip_serializing_if = "Mistakes::is_empty")]
    pub(crate) mistakes: Mistakes,
    /// Decisions on calls, by the ids of the calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) decisions: BTreeMap<String, DecidedCall>,
    /// The ids of decisions that the driver has not reported yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided: Vec<String>,
    /// The run's own results for calls that no tool gets, until the driver has reported them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own_results: Vec<(ToolCall, ToolResult)>,
    /// The calls whose arguments had to be repaired, as the model wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) repaired: Vec<RepairedCall>,
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
    /// is as below.
    Approval { results: Vec<Option<ToolResult>>, awaits: Vec<String> },
    /// The results of the last reply's calls, in order. `None` for a call without a result.
    Tools { results: Vec<Option<ToolResult>> },
    /// Nothing. The run is done with this result.
    Done(RunResult),
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
    /// The decision.
    pub decision: Decision,
}

impl DecidedCall {
    /// Returns whether the decision allows this call.
    pub(crate) fn allows(&self, call: &ToolCall) -> bool {
        let made = matches!(self.decision, Decision::Approve | Decision::Edit { .. });
        made && self.tool == call.name && self.arguments == call.arguments
    }
}

impl RunState {
    /// Checks that every call has exactly one result right after it. A truncated or edited file
    /// must not become a run that waits forever, or one that providers reject.
    pub(crate) fn check(&self) -> Result<()> {
        let corrupt = |what| Err(RunError::Corrupt { what });
        if self.messages.is_empty() {
            return corrupt("there is no message");
        }
        let mut seen = HashSet::new();
        let mut open: VecDeque<&ToolCall> = VecDeque::new();
        for message in &self.messages {
            match &**message {
                // In the order of the calls, unless another program wrote the file.
                Message::Tool(result) => match open.iter().position(|call| call.id == result.id) {
                    Some(place) => drop(open.remove(place)),
                    None => return corrupt("a result has no call before it"),
                },
                _ if !open.is_empty() => return corrupt("a call has no result after it"),
                Message::Assistant { parts } => {
                    for part in parts {
                        if let ReplyPart::Call(call) = part {
                            if !seen.insert(call.id.as_str()) {
                                return corrupt("two calls have the same id");
                            }
                            open.push_back(call);
                        }
                    }
                }
                _ => {}
            }
        }
        let waits_for_no_call = |awaits: &[String]| {
            let ids: HashSet<&str> = open.iter().map(|call| call.id.as_str()).collect();
            awaits.is_empty() || awaits.iter().any(|id| !ids.contains(id.as_str()))
        };
        let fits = match &self.phase {
            Phase::Approval { awaits, .. } if waits_for_no_call(awaits) => false,
            Phase::Tools { results } | Phase::Approval { results, .. } => {
                // The run itself answers calls of unknown tools, so none of them waits.
                let known: HashSet<&str> =
                    self.tools.iter().map(|tool| tool.name.as_str()).collect();
                let mut waits = open.iter().zip(results).filter(|(_, result)| result.is_none());
                if waits.any(|(call, _)| !known.contains(call.name.as_str())) {
                    return corrupt("a call waits for a tool that does not exist");
                }
                results.len() == open.len()
                    && results.iter().zip(open).all(|(result, call)| {
                        result.as_ref().is_none_or(|result| result.id == call.id)
                    })
            }
            // The call that ended a typed run has no result.
            Phase::Done(_) => open.len() <= usize::from(self.output.is_some()),
            Phase::Model | Phase::LastWord { .. } => open.is_empty(),
        };
        if fits { Ok(()) } else { corrupt("the last reply and its results do not match") }
    }
}

impl Serialize for RunState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Checks the version first, because a later one may not deserialize.
impl<'de> Deserialize<'de> for RunState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(found) if found > u64::from(VERSION) => {
                let later = RunError::Version { found, known: VERSION };
                return Err(D::Error::custom(later));
            }
            Some(found) => {
                if let Some(state) = value.as_object_mut() {
                    if found < 2 {
                        from_version_1(state);
                    }
                    if found < 3 {
                        from_version_2(state);
                    }
                }
            }
            None => {}
        }
        Self::deserialize(value).map_err(D::Error::custom)
    }
}

/// Converts version 1. It counted tokens only, and its only limit was that of the iterations.
fn from_version_1(state: &mut Map<String, Value>) {
    let said = |message: &&Value| message["role"] == "assistant";
    let asked = state.get("messages").and_then(Value::as_array);
    let asked = asked.map_or(0, |messages| messages.iter().filter(said).count());
    let usage = state.shift_remove("usage").unwrap_or_default();
    let spent = json!({ "model_calls": asked, "tool_calls": 0, "usage": usage });
    state.insert("spent".to_owned(), spent);
    if let Some(phase) = state.get_mut("phase") {
        if *phase == "last_word" {
            *phase = json!({ "last_word": { "limit": LimitKind::Iterations } });
        } else if phase["done"]["ending"] == "limit_reached" {
            phase["done"]["limit"] = json!(LimitKind::Iterations);
        }
    }
}

/// Converts version 2. It stored no decisions, only the phase. A call with arguments that a person
/// changed, and that was not made yet, waits for approval again.
fn from_version_2(state: &mut Map<String, Value>) {
    state.insert("version".to_owned(), VERSION.into());
    state.shift_remove("decided");
    let Some(phase) = state.get_mut("phase") else { return };
    let Some(tools) = phase.get_mut("tools").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(edited)) = tools.shift_remove("edited") else { return };
    let made = |id: &str| {
        let results = tools.get("results").and_then(Value::as_array);
        results.is_some_and(|results| results.iter().any(|result| result["id"] == id))
    };
    let awaits: Vec<String> = edited.into_iter().map(|(id, _)| id).filter(|id| !made(id)).collect();
    if !awaits.is_empty() {
        let results = tools.get("results").cloned();
        *phase = json!({ "approval": { "results": results, "awaits": awaits } });
    }
}
