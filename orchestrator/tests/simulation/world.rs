//! The shared state of a simulated run: its events, its costs, and the failed checks.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use toolwright_module::approval::Decision;
use toolwright_module::budget::{LimitKind, Price, Spent};
use toolwright_module::event::{Event, EventKind, InCall};
use toolwright_module::model::Usage;
use toolwright_module::{Cancellation, Contract, Message, Request};
use toolwright_orchestrator::Limits;

use super::chance::Chance;
use super::checks;

/// The resolution of tokio's timers is a millisecond.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// More model calls than any run needs.
const MOST_QUESTIONS: u64 = 5_000;

#[derive(Default)]
pub(crate) struct World(Mutex<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    /// The seed of all answers.
    seed: u64,
    /// Whether nothing interrupts the run: no lost connections, stops or wrong decisions.
    calm: bool,
    trace: Option<String>,
    wrong: Vec<String>,
    pub(crate) cancellation: Cancellation,
    /// Cancels at the event with this number.
    pub(crate) cancel_at_event: Option<usize>,
    pub(crate) cancelled_at: Option<tokio::time::Instant>,
    /// Whether this drive or an earlier one was cancelled.
    pub(crate) was_cancelled: bool,
    /// Whether a model call failed.
    pub(crate) has_failed: bool,
    pub(crate) events: Vec<Event>,
    tried: HashMap<String, u32>,
    working: usize,
    /// The running calls below each agent: whether each is a read.
    running: HashMap<String, Vec<bool>>,
    pub(crate) questions: u64,
    pub(crate) spent: Spent,
    /// The reported cost of model calls with incomplete usage, and their largest possible cost.
    pub(crate) unknown: (Spent, Spent),
    /// The cost of models beyond their reservations, and the number of times that tokens were beyond.
    pub(crate) beyond: Spent,
    pub(crate) overshoots: u64,
    pub(crate) reported_overshoots: u64,
    conversations: HashMap<String, Conversation>,
    printer: checks::Printer,
    /// The requests of the top agent.
    pub(crate) requests: Vec<String>,
    pub(crate) decided: HashMap<String, Decision>,
    /// The arguments of the calls with decisions.
    pub(crate) decided_on: HashMap<String, String>,
    pub(crate) executed: u64,
    /// Number of outputs that panic when they are dropped.
    pub(crate) bombs: usize,
    /// The calls of this drive that a tool has started.
    pub(crate) calls: Vec<Vec<InCall>>,
    /// Time that people took to decide for the top agent.
    pub(crate) waited: Duration,
}

struct Conversation {
    messages: Vec<Arc<Message>>,
    first: usize,
    tools: Arc<[Arc<Contract>]>,
}

impl World {
    /// Resets the state for another run of the same participants.
    pub(crate) fn begins_anew(&self, seed: u64, calm: bool, trace: bool) {
        *self.inner() = Inner { seed, calm, trace: trace.then(String::new), ..Inner::default() };
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.inner().calm
    }

    pub(crate) fn chance(&self, text: &str) -> Chance {
        Chance::of(self.inner().seed, text)
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("WRONG: {what}"));
        self.inner().wrong.push(what);
    }

    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let mut inner = self.inner();
        if let Some(trace) = &mut inner.trace {
            let mut what = what();
            if what.len() > 2_000 {
                what.truncate(what.floor_char_boundary(2_000));
                what.push('…');
            }
            let _ = writeln!(trace, "{what}");
        }
    }

    pub(crate) fn take(&self) -> (Vec<String>, String) {
        let mut inner = self.inner();
        (std::mem::take(&mut inner.wrong), inner.trace.clone().unwrap_or_default())
    }

    /// Returns whether an interruption happens: only the first time, and not in a calm run.
    pub(crate) fn interrupts(&self, key: &str) -> bool {
        let mut inner = self.inner();
        if inner.calm {
            return false;
        }
        let tried = inner.tried.entry(key.to_owned()).or_default();
        *tried += 1;
        *tried == 1
    }

    /// Prepares for a drive.
    pub(crate) fn drives(&self, cancel_at_event: Option<usize>) -> Cancellation {
        let mut inner = self.inner();
        inner.cancellation = Cancellation::default();
        inner.cancelled_at = None;
        inner.cancel_at_event = cancel_at_event;
        inner.events.clear();
        inner.calls.clear();
        inner.waited = Duration::ZERO;
        inner.cancellation.clone()
    }

    pub(crate) fn cancel(&self) {
        let mut inner = self.inner();
        if inner.cancelled_at.is_none() {
            inner.cancelled_at = Some(tokio::time::Instant::now());
            inner.was_cancelled = true;
        }
        let cancellation = inner.cancellation.clone();
        drop(inner);
        self.note(|| "CANCEL".to_owned());
        cancellation.cancel();
    }

    pub(crate) fn heard(&self, event: &Event) {
        self.note(|| checks::line(event));
        let mut inner = self.inner();
        if let EventKind::Overshot { overshoot, .. } = &event.kind {
            inner.reported_overshoots += u64::from(overshoot.limit != LimitKind::Money);
        }
        // This event depends on the load of the machine.
        if !matches!(event.kind, EventKind::ToolBlocked { .. }) {
            inner.events.push(event.clone());
        }
        let cancels = inner.cancel_at_event == Some(inner.events.len());
        drop(inner);
        if cancels {
            self.cancel();
        }
    }

    pub(crate) fn works(self: &Arc<Self>) -> Working {
        self.inner().working += 1;
        Working(Arc::clone(self))
    }

    pub(crate) fn is_at_rest(&self) {
        let working = self.inner().working;
        self.check(working == 0, || format!("{working} works are still under way"));
        let running: usize = self.inner().running.values().map(Vec::len).sum();
        self.check(running == 0, || format!("{running} calls are still under way"));
    }

    /// Records the start of a tool's work.
    pub(crate) fn begins(
        self: &Arc<Self>,
        path: &[InCall],
        reads: bool,
        awaits: bool,
        arguments: &str,
        limits: &Limits,
    ) -> Call {
        let (own, above) = path.split_last().map_or(("", &[][..]), |(own, above)| (&own.id, above));
        let (key, above) = (checks::key(path), checks::key(above));
        self.note(|| format!("  {key} works on {arguments}"));
        let mut inner = self.inner();
        inner.executed += 1;
        inner.calls.push(path.to_vec());
        let beside = inner.running.entry(above.clone()).or_default();
        beside.push(reads);
        let (count, all_read) = (beside.len(), beside.iter().all(|reads| *reads));
        let decided = inner.decided.get(&key).cloned();
        let decided_on = inner.decided_on.get(&key).cloned();
        drop(inner);
        let most = limits.max_parallel.max(1);
        self.check(count <= most, || format!("{count} calls at once, {most} are allowed"));
        self.check(count == 1 || all_read, || format!("`{key}` is not alone and not all read"));
        if awaits {
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            let fits = match &decided {
                Some(Decision::Approve | Decision::CallAgain) => {
                    decided_on.is_some_and(|text| read(&text) == read(arguments))
                }
                Some(Decision::Edit { arguments: edited }) => read(edited) == read(arguments),
                _ => false,
            };
            self.check(fits, || format!("{own} was decided as {decided:?}, and {arguments} done"));
        }
        Call {
            working: self.works(),
            above,
            reads,
            until: limits.tool_time.map(|time| tokio::time::Instant::now() + time + TICK),
        }
    }

    /// Checks a request to a model.
    pub(crate) fn asked(&self, agent: &str, top: bool, request: &Request) {
        let mut inner = self.inner();
        inner.questions += 1;
        let (questions, cancelled) = (inner.questions, inner.cancellation.is_cancelled());
        drop(inner);
        if questions > MOST_QUESTIONS {
            // A panic, because the run might never end.
            self.wrong("the run asks and asks");
            panic!("no end");
        }
        self.check(!cancelled, || "a model is asked after the run was cancelled".to_owned());
        if let Err(what) = checks::pairs(&request.messages, true) {
            self.wrong(format!("{agent} is asked with {what}"));
        }
        self.check(checks::is_last_word_kept(request), || "a last word with tools".to_owned());
        let first = request.messages.iter().position(|said| matches!(**said, Message::User { .. }));
        let first = first.unwrap_or(0);
        let key = format!("{agent} {}", checks::message(&request.messages[first]));
        if top {
            let mut inner = self.inner();
            let text = inner.printer.print(request);
            inner.requests.push(text);
        }
        let mut inner = self.inner();
        let now = Conversation {
            messages: request.messages.clone(),
            first: first + 1,
            tools: Arc::clone(&request.tools),
        };
        let Some(before) = inner.conversations.insert(key, now) else { return };
        drop(inner);
        let grew = request.messages.starts_with(&before.messages);
        // An agent below another starts again if its call is repeated.
        let anew = !top
            && request.messages.len() == before.first
            && before.messages.starts_with(&request.messages);
        self.check(grew || anew, || format!("the prompt of {agent} changed in its middle"));
        self.check(before.tools == request.tools, || format!("the tools of {agent} changed"));
    }

    /// Records the reply or error of a model, with its cost.
    pub(crate) fn reported(&self, usage: Usage, most: Usage, price: Option<&Price>) {
        let money = |usage| price.map(|price| price.of(usage)).unwrap_or_default();
        let mut spent = Spent::model_call(usage);
        spent.money = money(usage);
        spent.unpriced_calls = u64::from(price.is_none() && usage != Usage::default());
        let mut reserved = Spent::model_call(most);
        reserved.money = money(most);
        let mut inner = self.inner();
        if usage.incomplete {
            inner.unknown.0 += spent;
            inner.unknown.1 += reserved;
            inner.unknown.1 += spent - reserved;
        } else {
            inner.spent += spent;
        }
        inner.overshoots += u64::from(usage.input_tokens > most.input_tokens)
            + u64::from(usage.output_tokens > most.output_tokens);
        inner.beyond += spent - reserved;
    }
}

/// Work in progress, until it is dropped.
pub(crate) struct Working(Arc<World>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.inner().working -= 1;
    }
}

/// A call in progress.
pub(crate) struct Call {
    working: Working,
    above: String,
    reads: bool,
    until: Option<tokio::time::Instant>,
}

impl Drop for Call {
    fn drop(&mut self) {
        let world = Arc::clone(&self.working.0);
        let mut inner = world.inner();
        if let Some(beside) = inner.running.get_mut(&self.above) {
            let place = beside.iter().position(|reads| *reads == self.reads);
            place.map(|place| beside.swap_remove(place));
        }
        drop(inner);
        let late = self.until.is_some_and(|until| tokio::time::Instant::now() > until);
        world.check(!late, || "a call took longer than `tool_time`".to_owned());
    }
}
