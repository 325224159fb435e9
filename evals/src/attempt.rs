//! What an agent or module did with a case.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::budget::{Cost, Money, Spent};
use toolwright_module::event::{Ending, Event, EventKind};
use toolwright_module::hook::{CallNext, Hook};
use toolwright_module::message::ToolCall;
use toolwright_module::{Contract, Effect, Result, Signature, ToolOutput};

use crate::case::{Case, CaseValue};
use crate::grade::Grade;

/// What an agent or module did with a case. It is the input of a grader.
///
/// It is a signature with the output [`Grade`], so every module with this signature is a grader: code, a
/// language model, or a tool of another program.
///
/// ```
/// use toolwright_evals::{Attempt, Grade};
/// use toolwright_module::from_fn;
///
/// let short = from_fn(async |attempt: Attempt| {
///     let answer = attempt.output.unwrap_or_default();
///     Ok(Grade::from(answer.chars().count() <= 200))
/// });
/// # drop(short);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(bound = "I: CaseValue, O: CaseValue")]
#[non_exhaustive]
pub struct Attempt<I = String, O = String> {
    /// The case.
    pub case: Case<I, O>,
    /// The output. `None` if the agent or module failed.
    #[serde(default)]
    pub output: Option<O>,
    /// The error of an agent or module that failed.
    #[serde(default)]
    pub error: Option<String>,
    /// The tool calls, in the order in which they began.
    #[serde(default)]
    pub calls: Vec<MadeCall>,
    /// The ending of the agent's run, such as `answered` or `refused`. `None` for a module that is not an
    /// agent, and for a run without an end.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub ending: Option<Ending>,
    /// Number of replies of the agent's model, without those of agents below it.
    #[serde(default)]
    pub rounds: u64,
    /// Number of tokens that models read and wrote.
    #[serde(default)]
    pub tokens: u64,
    /// Cost of the model calls in US dollars, as far as it is known. `None` if nothing is known.
    #[serde(default)]
    pub dollars: Option<f64>,
    /// Whether the cost is known as a whole.
    #[serde(default)]
    pub cost_is_known: bool,
    /// Duration in seconds. A replayed attempt has that of the replay.
    #[serde(default)]
    pub seconds: f64,
}

/// A tool call of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MadeCall {
    /// The tools around the call, outermost first: the call was made by an agent below the one that is
    /// graded. Empty for a call of the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// Name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them. A text that is not JSON is a string.
    pub arguments: Value,
    /// The text that the model got.
    #[serde(default)]
    pub result: String,
    /// Whether the call failed, was refused or could not be made.
    #[serde(default)]
    pub failed: bool,
    /// The effect of the call. `None` if it did not reach its tool, such as a denied one, or if the effect
    /// is not known.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub effect: Option<Effect>,
    /// Whether a person decided on the call.
    #[serde(default)]
    pub asked: bool,
    /// The contract of the tool, by which its arguments are compared. It is not stored.
    #[serde(skip)]
    pub contract: Option<Arc<Contract>>,
}

impl PartialEq for MadeCall {
    fn eq(&self, other: &Self) -> bool {
        (
            &self.within,
            &self.tool,
            &self.arguments,
            &self.result,
            self.failed,
            self.effect,
            self.asked,
        ) == (
            &other.within,
            &other.tool,
            &other.arguments,
            &other.result,
            other.failed,
            other.effect,
            other.asked,
        )
    }
}

impl<I: CaseValue, O: CaseValue> Signature for Attempt<I, O> {
    type Output = Grade;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("grade_attempt")
    }

    fn description() -> Cow<'static, str> {
        Cow::Borrowed("Grade what an agent did with a case.")
    }
}

impl<I, O> Attempt<I, O> {
    /// Returns an attempt without calls, for a test of a grader.
    pub fn new(case: Case<I, O>, output: impl Into<O>) -> Self {
        Self { output: Some(output.into()), ..Self::empty(case) }
    }

    pub(crate) fn empty(case: Case<I, O>) -> Self {
        Self {
            case,
            output: None,
            error: None,
            calls: Vec::new(),
            ending: None,
            rounds: 0,
            tokens: 0,
            dollars: None,
            cost_is_known: false,
            seconds: 0.0,
        }
    }

    /// Returns the calls of the agent itself, without those of agents below it.
    pub fn own_calls(&self) -> impl Iterator<Item = &MadeCall> {
        self.calls.iter().filter(|call| call.within.is_empty())
    }

    pub(crate) fn set_cost(&mut self, spent: Spent) {
        self.tokens = tokens(&spent);
        (self.dollars, self.cost_is_known) = dollars(&spent);
    }
}

impl MadeCall {
    /// Returns a call of a tool with these arguments, for a test of a grader.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            within: Vec::new(),
            tool: tool.into(),
            arguments,
            result: String::new(),
            failed: false,
            effect: None,
            asked: false,
            contract: None,
        }
    }

    pub(crate) fn of(call: &ToolCall) -> Self {
        let text = &call.arguments;
        let arguments = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        Self::new(call.name.clone(), arguments)
    }
}

/// What the events and tool calls of an attempt say.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    calls: Vec<(CallKey, MadeCall)>,
    asked: HashSet<CallKey>,
    /// The calls that reached their tools, with the effects.
    reached: HashMap<CallKey, Effect>,
    /// The contracts, by the names of the tools around the call and of its own.
    contracts: HashMap<Vec<String>, Arc<Contract>>,
    ending: Option<Ending>,
    rounds: u64,
    limits: Vec<String>,
}

/// The path of a call, with its own id at the end.
type CallKey = Vec<String>;

impl Seen {
    fn noted<T>(&self, note: impl FnOnce(&mut Noted) -> T) -> T {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes an event.
    pub(crate) fn event(&self, event: &Event) {
        let key = |id: &String| -> CallKey {
            event.path.iter().map(|around| &around.id).chain([id]).cloned().collect()
        };
        let made = |call: &ToolCall| MadeCall {
            within: event.path.iter().map(|around| around.tool.clone()).collect(),
            ..MadeCall::of(call)
        };
        match &event.kind {
            EventKind::ToolStarted { call } => self.noted(|noted| {
                noted.calls.push((key(&call.id), made(call)));
            }),
            EventKind::ToolFinished { call, text, error, .. } => self.noted(|noted| {
                let key = key(&call.id);
                let at = noted.calls.iter().rposition(|(known, _)| *known == key);
                // A call that could not be made did not start.
                let at = at.unwrap_or_else(|| {
                    noted.calls.push((key, made(call)));
                    noted.calls.len() - 1
                });
                let (_, call) = &mut noted.calls[at];
                call.result.clone_from(text);
                call.failed = error.is_some();
            }),
            EventKind::Decided { id, .. } => {
                self.noted(|noted| noted.asked.insert(key(id)));
            }
            EventKind::ModelReplied { .. } if event.path.is_empty() => {
                self.noted(|noted| noted.rounds += 1);
            }
            EventKind::LimitReached { reason, .. } => {
                self.noted(|noted| noted.limits.push(reason.clone()));
            }
            EventKind::Done { ending, .. } if event.path.is_empty() => {
                self.noted(|noted| noted.ending = Some(*ending));
            }
            _ => {}
        }
    }

    /// Returns why a limit of this owner was reached, if it was.
    pub(crate) fn limit_of(&self, owner: &str) -> Option<String> {
        let start = format!("`{owner}` has ");
        self.noted(|noted| noted.limits.iter().find(|reason| reason.starts_with(&start)).cloned())
    }

    /// Adds what was noted to an attempt.
    pub(crate) fn add_to<I, O>(&self, attempt: &mut Attempt<I, O>) {
        self.noted(|noted| {
            let Noted { asked, reached, contracts, .. } = noted;
            let complete = |(key, mut call): (CallKey, MadeCall)| {
                let tools = call.within.iter().chain([&call.tool]).cloned().collect::<Vec<_>>();
                call.contract = contracts.get(&tools).cloned();
                call.effect = reached.get(&key).copied();
                call.asked = asked.contains(&key);
                call
            };
            attempt.calls = std::mem::take(&mut noted.calls).into_iter().map(complete).collect();
            attempt.ending = noted.ending;
            attempt.rounds = noted.rounds;
        });
    }
}

/// Notes the effect of each call that reaches its tool, and the contract.
pub(crate) struct NoteTools(pub(crate) Arc<Seen>);

impl Hook for NoteTools {
    fn name(&self) -> &str {
        "eval"
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        let path = next.cx().path();
        self.0.noted(|noted| {
            let tools = path.iter().map(|call| call.tool.clone()).collect();
            noted.contracts.entry(tools).or_insert_with(|| Arc::new(next.contract.clone()));
            noted.reached.insert(path.into_iter().map(|call| call.id).collect(), next.effect);
        });
        next.run(arguments).await
    }
}

pub(crate) fn tokens(spent: &Spent) -> u64 {
    spent.usage.input_tokens + spent.usage.output_tokens
}

/// Returns a cost in US dollars, as far as it is known, and whether it is known as a whole.
pub(crate) fn dollars(spent: &Spent) -> (Option<f64>, bool) {
    let dollars = |money: Money| Some(money.micros as f64 / 1e6);
    match spent.cost() {
        Cost::Known(money) => (dollars(money), true),
        Cost::AtLeast(money) => (dollars(money), false),
        Cost::Unknown => (None, false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two agents whose models give the same id to their calls.
    #[test]
    fn a_decision_about_a_call_is_not_one_about_a_call_of_another_agent_with_its_id() {
        let seen = Seen::default();
        let call = |tool: &str| json!({"id": "1", "name": tool, "arguments": "{}"});
        let below = json!([{"tool": "librarian", "id": "9"}]);
        for event in [
            json!({"event": "tool_started", "call": call("delete")}),
            json!({"path": below, "event": "decided", "id": "1", "decision": "approve"}),
            json!({"path": below, "event": "tool_started", "call": call("delete")}),
        ] {
            seen.event(&serde_json::from_value(event).unwrap());
        }
        let mut attempt = Attempt::<String, String>::empty(Case::new("one", "Go."));
        seen.add_to(&mut attempt);
        let asked: Vec<_> = attempt.calls.iter().map(|call| call.asked).collect();
        assert_eq!(asked, [false, true]);
        // Neither call reached its tool.
        assert!(attempt.calls.iter().all(|call| call.effect.is_none()));
    }
}
