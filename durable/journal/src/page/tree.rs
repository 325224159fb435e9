//! A run as a tree: agents, their steps, the calls of each step, and the agents below a call.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::event::{Ending, InCall};
use toolwright_module::message::{CallIds, ReplyPart, ToolResult};
use toolwright_module::{Contract, Message, Reply, ToolCall};
use toolwright_orchestrator::perform::{Outcome, OutcomeKind, PartId, PartIdKind, Record};
use toolwright_orchestrator::{Compacted, RepairedCall, RunState, ToolSet};

use crate::home::EXACT_ANSWER;

/// Maximum number of agents inside each other that a page shows. The page of a deeper run would need
/// more memory for calls inside each other than a thread has.
pub(super) const MOST_LEVELS: usize = 16;

/// Maximum time of a part, over a hundred years. A damaged file may have more, and times are added.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// A run as its journal has it.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) instructions: Vec<String>,
    /// Number of messages before the task.
    pub(super) earlier_messages: usize,
    /// Limits at the start of the run, as JSON.
    pub(super) limits: Value,
    pub(super) root: Agent,
    pub(super) ended: Option<RunEnd>,
    /// The errors with which drives of the run ended.
    pub(super) stops: Vec<Stop>,
    /// Cost of all parts.
    pub(super) spent: Spent,
    /// The tools of the first agent.
    pub(super) tools: Option<ToolSet>,
    /// Number of records of agents that are too deep to be shown.
    pub(super) too_deep: usize,
}

/// An error that ended a drive of the run.
pub(super) struct Stop {
    pub(super) at: SystemTime,
    pub(super) error: String,
    /// Whether the run can go on after it.
    pub(super) is_open: bool,
    /// Number of steps before it.
    pub(super) after: usize,
}

/// How a run ended.
pub(super) struct RunEnd {
    pub(super) ending: Ending,
    pub(super) limit: Option<LimitKind>,
    pub(super) reason: Option<String>,
    pub(super) answer: String,
}

/// The run of one agent.
#[derive(Default)]
pub(super) struct Agent {
    pub(super) steps: Vec<Step>,
    /// Values of modules, with their names.
    pub(super) values: Vec<(String, Value)>,
    /// The place of each call, by id.
    places: HashMap<String, (usize, usize)>,
    /// Ids of calls so far.
    ids: CallIds,
}

/// A question to the model, with the calls of its reply.
#[derive(Default)]
pub(super) struct Step {
    pub(super) nth: u64,
    pub(super) at: Option<SystemTime>,
    pub(super) elapsed: Duration,
    pub(super) spent: Spent,
    pub(super) reply: Option<Reply>,
    /// The limits that forbade the question.
    pub(super) exhausted: Vec<(LimitKind, u64)>,
    /// The compactions before the question, with their cost.
    pub(super) compactions: Vec<(Compacted, Spent)>,
    pub(super) calls: Vec<Call>,
}

/// A tool call.
#[derive(Default)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as the model wrote them. `None` if the reply has no such call.
    pub(super) arguments: Option<String>,
    pub(super) asked: Vec<Asked>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) below: Option<Agent>,
    /// The run's own result for a call that no tool got.
    pub(super) own_result: Option<ToolResult>,
    /// The repairs of a call that no tool got, such as the one that ends a typed run.
    pub(super) own_repairs: Vec<String>,
    /// What is known of a call without a result, if the run went on after it.
    unmade: Option<&'static str>,
    /// Whether the call gave the answer of a typed run.
    pub(super) is_answer: bool,
}

/// A question to a person, and the answer.
pub(super) struct Asked {
    part: PartId,
    pub(super) asked: Option<(SystemTime, Approval)>,
    pub(super) decided: Option<(SystemTime, Decision)>,
    /// The name of the person who decided, if it is known.
    pub(super) by: Option<String>,
}

/// One attempt to make a call.
pub(super) struct Attempt {
    part: PartId,
    pub(super) begun: Option<SystemTime>,
    /// The time of an error that ended the run during the call.
    pub(super) failed: Option<SystemTime>,
    pub(super) outcome: Option<(SystemTime, Outcome)>,
}

impl Tree {
    /// Reads the records of a run.
    pub(super) fn of(records: Vec<(SystemTime, Record)>, tools: Option<ToolSet>) -> Self {
        let (mut tree, mut last) = (Self { tools, ..Self::default() }, Value::Null);
        for (at, record) in records {
            match record {
                Record::Started(started) => tree.start(&started.run),
                Record::Waiting(waiting) => {
                    let part = waiting.part;
                    if let Some(call) = tree.call_of(&part, &waiting.approval.call.name) {
                        if call.arguments.is_none() {
                            call.arguments = Some(waiting.approval.call.arguments.clone());
                        }
                        let asked = call.asked(part);
                        asked.asked = asked.asked.take().or(Some((at, waiting.approval)));
                    }
                }
                Record::Finished { ending, finished, .. } => {
                    let mut finished = object(finished);
                    tree.ended = Some(RunEnd::of(ending, &mut finished));
                    last = finished;
                }
                Record::Stopped { error, is_open, finished, .. } => {
                    let after = tree.root.steps.len();
                    tree.stops.push(Stop { at, error, is_open, after });
                    if !finished.is_null() {
                        last = object(finished);
                    }
                }
                record => tree.add(at, record),
            }
        }
        tree.own_results(last["history"].take(), last["repaired"].take());
        tree.root.find_unmade(tree.ended.is_some(), tree.tools.as_ref());
        tree
    }

    fn start(&mut self, state: &RunState) {
        self.limits = serde_json::to_value(state).unwrap_or_default()["limits"].take();
        let history = state.history();
        self.earlier_messages = history.len().saturating_sub(1);
        for message in &history {
            match &**message {
                Message::System { text } => {
                    self.instructions.push(text.clone());
                    self.earlier_messages = self.earlier_messages.saturating_sub(1);
                }
                Message::Assistant { parts } => self.root.ids.add(parts),
                _ => {}
            }
        }
    }

    fn add(&mut self, at: SystemTime, record: Record) {
        let (part, mut outcome) = match record {
            Record::Begun { part, .. } => {
                if let Some(call) = self.call_of(&part, "") {
                    call.attempt(part).begun = Some(at);
                }
                return;
            }
            Record::Failed { part, .. } => {
                if let Some(call) = self.call_of(&part, "") {
                    call.attempt(part).failed = Some(at);
                }
                return;
            }
            Record::Ended { part, outcome, .. } => (part, outcome),
            _ => return,
        };
        outcome.elapsed = outcome.elapsed.min(LONGEST);
        if !matches!(part.kind, PartIdKind::Run { .. }) {
            // The cost and the time of an agent's call are those of its parts.
            self.spent += outcome.spent;
        }
        if part.path.len() > MOST_LEVELS {
            self.too_deep += 1;
            return;
        }
        let by = outcome.by;
        match (&part.kind, outcome.kind) {
            (&PartIdKind::Ask { nth, .. }, kind) => {
                let step = self.root.below(&part.path).step(nth);
                match kind {
                    OutcomeKind::Reply(reply) => {
                        (step.at, step.elapsed) = (Some(at), outcome.elapsed);
                        step.spent = outcome.spent;
                        self.root.below(&part.path).reply(nth, reply);
                    }
                    OutcomeKind::Exhausted { limit, allowed } => {
                        step.at = step.at.or(Some(at));
                        step.exhausted.push((limit, allowed));
                    }
                    _ => {}
                }
            }
            (&PartIdKind::Compact { nth, .. }, OutcomeKind::Compacted { compacted, .. }) => {
                let step = self.root.below(&part.path).step(nth);
                step.compactions.push((compacted, outcome.spent));
            }
            (PartIdKind::Value { name }, OutcomeKind::Value(value)) => {
                self.root.below(&part.path).values.push((name.clone(), value));
            }
            (_, OutcomeKind::Decided(decision)) => {
                if let Some(call) = self.call_of(&part, "") {
                    let asked = call.asked(part);
                    (asked.decided, asked.by) = (Some((at, decision)), by);
                }
            }
            (_, kind) => {
                let name = match &kind {
                    OutcomeKind::Called { result, .. } => result.name.clone(),
                    _ => String::new(),
                };
                if let Some(call) = self.call_of(&part, &name) {
                    let (spent, elapsed) = (outcome.spent, outcome.elapsed);
                    let mut outcome = Outcome::new(kind);
                    (outcome.spent, outcome.elapsed) = (spent, elapsed);
                    call.attempt(part).outcome = Some((at, outcome));
                }
            }
        }
    }

    /// Returns the call of a part, unless it is too deep.
    fn call_of(&mut self, part: &PartId, name: &str) -> Option<&mut Call> {
        if part.path.len() > MOST_LEVELS {
            self.too_deep += 1;
            return None;
        }
        Some(self.root.below(&part.path).call(part.call()?, name))
    }

    /// Gives the calls that no tool got the results that the run gave them.
    fn own_results(&mut self, history: Value, repaired: Value) {
        let history = serde_json::from_value::<Vec<Message>>(history).unwrap_or_default();
        for message in history {
            if let Message::Tool(result) = message
                && let Some(call) = self.root.without_tool(&result.id)
            {
                call.own_result = Some(result);
            }
        }
        let repaired = serde_json::from_value::<Vec<RepairedCall>>(repaired).unwrap_or_default();
        for RepairedCall { call, repairs, .. } in repaired {
            if let Some(call) = self.root.without_tool(&call.id) {
                call.own_repairs = repairs.iter().map(ToString::to_string).collect();
            }
        }
    }
}

impl RunEnd {
    fn of(ending: Ending, finished: &mut Value) -> Self {
        let read = |value: Value| serde_json::from_value(value).ok();
        let answer = match (finished["answer"].take(), finished[EXACT_ANSWER].take()) {
            (Value::String(text), _) | (_, Value::String(text)) => text,
            (other, _) => serde_json::to_string_pretty(&other).unwrap_or_default(),
        };
        Self {
            ending,
            limit: serde_json::from_value(finished["limit"].take()).ok(),
            reason: read(finished["reason"].take()),
            answer,
        }
    }
}

/// Returns an object, for a value of a file that another program may have written.
fn object(value: Value) -> Value {
    if value.is_object() { value } else { Value::Object(Map::new()) }
}

impl Agent {
    /// Returns the agent at this path of calls.
    fn below(&mut self, path: &[InCall]) -> &mut Agent {
        let mut agent = self;
        for InCall { id, tool, .. } in path {
            agent = agent.call(id, tool).below.get_or_insert_default();
        }
        agent
    }

    /// Returns the call with this id, if no tool got it.
    fn without_tool(&mut self, id: &str) -> Option<&mut Call> {
        let &(step, call) = self.places.get(id)?;
        let call = self.steps.get_mut(step)?.calls.get_mut(call)?;
        call.attempts.is_empty().then_some(call)
    }

    fn step(&mut self, nth: u64) -> &mut Step {
        let at = match self.steps.iter().rposition(|step| step.nth == nth) {
            Some(at) => at,
            None => {
                self.steps.push(Step { nth, ..Step::default() });
                self.steps.len() - 1
            }
        };
        &mut self.steps[at]
    }

    /// Adds a reply, with the ids that the run gives to its calls.
    fn reply(&mut self, nth: u64, reply: Reply) {
        let mut named = reply.clone();
        self.ids.complete(&mut named.parts, nth);
        let calls: Vec<Call> = calls_of(&named)
            .map(|call| {
                let (id, name) = (call.id.clone(), call.name.clone());
                Call { id, name, arguments: Some(call.arguments.clone()), ..Call::default() }
            })
            .collect();
        let step = self.step(nth);
        step.reply = Some(reply);
        let before = step.calls.len();
        let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
        step.calls.extend(calls);
        let Some(at) = self.steps.iter().rposition(|step| step.nth == nth) else { return };
        self.places.extend(ids.into_iter().enumerate().map(|(n, id)| (id, (at, before + n))));
    }

    /// Returns the call with this id. A call that no reply has is one that was selected in a text,
    /// or that the run named anew.
    fn call(&mut self, id: &str, name: &str) -> &mut Call {
        let (step, call) = match self.places.get(id) {
            Some(&place) => place,
            None => {
                if self.steps.is_empty() {
                    self.steps.push(Step::default());
                }
                let last = self.steps.len() - 1;
                let calls = &mut self.steps[last].calls;
                calls.push(Call { id: id.to_owned(), ..Call::default() });
                let place = (last, calls.len() - 1);
                self.places.insert(id.to_owned(), place);
                place
            }
        };
        let call = &mut self.steps[step].calls[call];
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call
    }
}

impl Call {
    fn asked(&mut self, part: PartId) -> &mut Asked {
        let at = self.asked.iter().position(|asked| asked.part == part).unwrap_or_else(|| {
            self.asked.push(Asked { part, asked: None, decided: None, by: None });
            self.asked.len() - 1
        });
        &mut self.asked[at]
    }

    fn attempt(&mut self, part: PartId) -> &mut Attempt {
        let at = self.attempts.iter().position(|attempt| attempt.part == part);
        let at = at.unwrap_or_else(|| {
            self.attempts.push(Attempt { part, begun: None, failed: None, outcome: None });
            self.attempts.len() - 1
        });
        &mut self.attempts[at]
    }

    /// Returns the last result: of a tool, or the run's own.
    pub(super) fn result(&self) -> Option<(&ToolResult, Option<&str>)> {
        let called = self.attempts.iter().rev().find_map(|attempt| match &attempt.outcome {
            Some((_, Outcome { kind: OutcomeKind::Called { result, error }, .. })) => {
                Some((result, error.as_deref()))
            }
            _ => None,
        });
        called.or_else(|| Some((self.own_result.as_ref()?, None)))
    }

    /// Returns the reason of the person who denied the call.
    pub(super) fn denied(&self) -> Option<&str> {
        match self.asked.last()?.decided.as_ref()? {
            (_, Decision::Deny { reason }) => Some(reason),
            _ => None,
        }
    }

    /// Returns the text of the failure of the call, for a person. A denied call did not fail.
    pub(super) fn failure(&self) -> Option<&str> {
        if self.denied().is_some() {
            return None;
        }
        match self.result() {
            Some((result, error)) => error.or_else(|| result.failed.then_some(&*result.text)),
            None => self.unmade,
        }
    }

    /// Returns whether no tool got the call.
    pub(super) fn is_unmade(&self) -> bool {
        self.attempts.is_empty() && self.below.is_none() && self.failure().is_some()
    }

    /// Returns whether a person's decision is missing.
    pub(super) fn waits(&self) -> bool {
        self.asked.iter().any(|asked| asked.asked.is_some() && asked.decided.is_none())
            && self.result().is_none()
    }

    /// Returns whether the last attempt has no known outcome.
    pub(super) fn is_lost(&self) -> bool {
        match self.attempts.last() {
            Some(Attempt { outcome: Some((_, outcome)), .. }) => {
                outcome.kind == OutcomeKind::Unknown
            }
            Some(attempt) => attempt.begun.is_some() && attempt.failed.is_none(),
            None => false,
        }
    }

    /// Returns the cost of all attempts, with everything below.
    pub(super) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for (_, outcome) in self.attempts.iter().filter_map(|attempt| attempt.outcome.as_ref()) {
            spent += outcome.spent;
        }
        match &self.below {
            Some(below) if self.result().is_none() => below.spent(),
            _ => spent,
        }
    }

    /// Returns the duration of all attempts.
    pub(super) fn elapsed(&self) -> Duration {
        let outcomes = self.attempts.iter().filter_map(|attempt| attempt.outcome.as_ref());
        outcomes.map(|(_, outcome)| outcome.elapsed).sum()
    }
}

impl Agent {
    /// Notes the calls that have no result although the run went on. `tools` are those of this agent,
    /// if they are known.
    fn find_unmade(&mut self, ended: bool, tools: Option<&ToolSet>) {
        let last = self.steps.len().saturating_sub(1);
        for (at, step) in self.steps.iter_mut().enumerate() {
            for call in &mut step.calls {
                let is_known = call.result().is_some() || !call.attempts.is_empty();
                let is_alone = !is_known && call.below.is_none() && call.asked.is_empty();
                // The call that ends a typed run has no result.
                let is_tool = tools.is_none_or(|tools| tools.contract(&call.name).is_some());
                let why = match call.name == Contract::FINISH {
                    true => {
                        "The run did not accept this call as its answer. The journal does not say why."
                    }
                    false if is_tool => "No tool got this call. The journal does not say why.",
                    false => "There is no tool with this name, so the call was not made.",
                };
                call.unmade = (is_alone && at < last).then_some(why);
                call.is_answer = is_alone && at == last && ended;
                let ended = call.result().is_some();
                if let Some(below) = &mut call.below {
                    below.find_unmade(ended, None);
                }
            }
        }
    }

    /// Returns the time of all steps.
    pub(super) fn elapsed(&self) -> Duration {
        self.steps.iter().map(|step| step.elapsed + step.calls_elapsed()).sum()
    }

    /// Returns the cost of all steps.
    pub(super) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        self.steps.iter().for_each(|step| spent += step.total());
        spent
    }
}

impl Step {
    /// Returns the number that people read, from 1. A damaged file may have any.
    pub(super) fn number(&self) -> u64 {
        self.nth.saturating_add(1)
    }

    /// Returns the cost of the question and of the calls.
    pub(super) fn total(&self) -> Spent {
        let mut spent = self.spent;
        self.compactions.iter().for_each(|(_, cost)| spent += *cost);
        self.calls.iter().for_each(|call| spent += call.spent());
        spent
    }

    /// Returns the duration of the calls: calls side by side count once.
    pub(super) fn calls_elapsed(&self) -> Duration {
        let mut work: Vec<(u64, u64)> = Vec::new();
        for attempt in self.calls.iter().flat_map(|call| &call.attempts) {
            if let Some((at, outcome)) = &attempt.outcome {
                let end = nanos(*at);
                let took = u64::try_from(outcome.elapsed.as_nanos()).unwrap_or(u64::MAX);
                work.push((end.saturating_sub(took), end));
            }
        }
        work.sort_unstable();
        let (mut total, mut until) = (0, 0);
        for (start, end) in work {
            total += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
        Duration::from_nanos(total)
    }
}

/// The calls of a reply.
pub(super) fn calls_of(reply: &Reply) -> impl Iterator<Item = &ToolCall> {
    reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    })
}

fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
