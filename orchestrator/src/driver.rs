//! The driver of a run on tokio: it calls the model, the tools and the approver, and applies their
//! answers to the run.

mod caller;
mod checking;
mod compacting;
mod performing;
mod waiting;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;
use toolwright_module::budget::{Ledger, LimitKind, Spent};
use toolwright_module::error::Stage;
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::message::ToolResult;
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::{self, ShownAnswer};
use toolwright_module::{Context, Error, Message, Repaired, Result, ToolCall};
use toolwright_signature::{Contract, Reading};

use self::caller::{Caller, WrittenAfterUntrusted, lower_json, not_begun};
use self::waiting::{ONE_YEAR, before_context_deadline, before_deadlines, before_deadlines_begun};

use crate::agent::Core;
use crate::error;
use crate::finished::ToolFailure;
use crate::limits::Limits;
use crate::perform;
use crate::read_result::READ_RESULT;
use crate::run::{Due, Run, edit_of, with_edits};
use crate::state::Decided;
use crate::step::{RunResult, StepResult, StepResultKind};

/// One drive of a run.
pub(crate) struct Driver<'a> {
    caller: Caller<'a>,
    track: Track<'a>,
    pub(crate) failures: Vec<ToolFailure>,
    /// The calls with a lost outcome on which this drive got a decision. Their next attempt was not
    /// begun before.
    decided_now: HashSet<String>,
}

/// The run and the measure of its steps.
struct Track<'a> {
    run: &'a mut Run,
    /// The ledger's total at the last count.
    counted: Spent,
    /// The ledgers of runs below that have no result yet. The parts of these runs are found and
    /// counted again when this run is driven on, so their cost is not charged without a result.
    below: Vec<Ledger>,
    /// The end of the step before.
    started: Instant,
    /// Whether a step is under way whose time counts even if it has no result. A wait for a person does
    /// not count. With a performer the recorded times count, so that each drive takes the same steps.
    is_timed: bool,
}

/// Reads and checks the answer of a run.
pub(crate) trait Judge: Send {
    fn judge<'a>(
        &'a mut self,
        run: &'a Run,
        answer: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Verdict>>;
}

/// The result of reading an answer.
pub(crate) enum Verdict {
    /// The answer was read. In a typed run, also how.
    Taken(Option<Reading<()>>),
    /// The answer cannot be used, for this reason.
    Rejected(String),
}

impl<'a> Driver<'a> {
    pub(crate) fn new(agent: &'a Core, name: &str, run: &'a mut Run, cx: Context) -> Self {
        // The ledger is below the caller's, so models below the tools count in both.
        let (mut limits, spent) = (run.limits().clone(), run.spent());
        let ledger = runner::ledger(cx.ledger(), name, limits.budget, spent);
        let mut cx = cx.with_ledger(ledger.clone()).with_policy(agent.policy);
        run.set_policy(cx.policy());
        if cx.model().is_none() {
            cx = cx.with_model(agent.model.clone());
        }
        run.earlier = perform::performer(&cx).map(|it| Arc::new(it.earlier(&cx.path())));
        if cx.get::<WrittenAfterUntrusted>().is_some() {
            run.note_untrusted_task();
        }
        run.ask_about_begun();
        if let Some(rules) = &agent.compaction {
            run.measure_requests();
            limits.max_result_bytes = run.most_result_bytes(rules);
        }
        let calls_natively = run.calls_natively();
        let is_shown = agent.streaming && run.output().is_some();
        let shown = is_shown.then(|| Arc::new(ShownAnswer::of_tool(Contract::FINISH)));
        let findable = findable(run);
        let (readable, room, is_untrusted) = (None, None, false);
        let caller = Caller {
            agent,
            cx,
            ledger,
            limits,
            calls_natively,
            shown,
            findable,
            readable,
            room,
            is_untrusted,
        };
        let started = Instant::now();
        let below = Vec::new();
        let track = Track { run, counted: spent, below, started, is_timed: false };
        Self { caller, track, failures: Vec::new(), decided_now: HashSet::new() }
    }

    /// Drives the run to its end, or for one step. Returns `None` if it has not ended.
    pub(crate) async fn drive(
        &mut self,
        mut judge: Option<&mut dyn Judge>,
        only_one: bool,
    ) -> Result<Option<RunResult>> {
        let &Limits { max_time, tool_time, .. } = &self.caller.limits;
        let timed = max_time.is_some() || tool_time.is_some();
        if (timed || self.caller.cx.deadline().is_some()) && !runner::has_timer() {
            let text = "a time limit or a deadline needs tokio's timer; build the runtime with `enable_time` or `enable_all`";
            return Err(Error::stop(text).at(Stage::Setup));
        }
        if !self.track.run.decided().is_empty() {
            Box::pin(self.keep_decisions()).await?;
        }
        self.track.started = Instant::now();
        let first = self.track.run.step();
        loop {
            self.report();
            let is_done = || matches!(self.track.run.due(), Due::Done(_));
            if only_one && self.track.run.step() != first && !is_done() {
                return Ok(None);
            }
            let deadline = max_time.map(|time| {
                // A limit too large for `Instant` means no limit.
                let left = time.saturating_sub(self.track.run.elapsed());
                self.track.started.checked_add(left).unwrap_or(self.track.started + ONE_YEAR)
            });
            if self.caller.agent.prepares() && self.track.run.asks_the_model() {
                let (agent, run) = (self.caller.agent, &mut *self.track.run);
                let cx = &self.caller.cx;
                let prepared = catch_unwind(AssertUnwindSafe(|| agent.prepare(run, cx)));
                let prepared = prepared.unwrap_or_else(|panic| {
                    caller::drop_payload(panic);
                    Err(error::RunError::Panicked { what: "the filter or the editor" })
                });
                prepared.map_err(error::RunError::into_module)?;
                self.caller.findable = findable(self.track.run);
            }
            if let Some(rule) = &self.caller.agent.rule {
                let cx = &self.caller.cx;
                let judged = AssertUnwindSafe(|| {
                    self.track.run.require_by(|run, call| rule(run, call, cx));
                });
                catch_unwind(judged).map_err(|panic| {
                    caller::drop_payload(panic);
                    error::RunError::Panicked { what: "the rule for approvals" }.into_module()
                })?;
            }
            let due = self.track.run.due();
            self.track.is_timed = matches!(due, Due::Model | Due::Tools(..))
                && perform::performer(&self.caller.cx).is_none();
            let taken = match due {
                Due::Model => self.ask_compacted(deadline).await,
                Due::Tools(..) => {
                    self.caller.is_untrusted = self.track.run.has_untrusted();
                    // One model call is for the answer, whatever the agents below need.
                    let _last = runner::keep_last_call(&self.caller.ledger);
                    self.call_due(deadline).await
                }
                // Boxed, because it is large and most runs need no approval.
                Due::Approval(calls) => Box::pin(self.decide(calls, deadline)).await,
                Due::Done(result) if result.ending == Ending::Answered => {
                    let Some(judge) = &mut judge else {
                        match self.go_on_after(&result)? {
                            true => continue,
                            false => return Ok(Some(result)),
                        }
                    };
                    let judged = judge.judge(self.track.run, &result.answer, &self.caller.cx);
                    let judged = AssertUnwindSafe(judged).catch_unwind();
                    let judged = async {
                        judged.await.unwrap_or_else(|panic| {
                            caller::drop_payload(panic);
                            let panicked = error::RunError::Panicked { what: "a validator" };
                            Err(panicked.into_module())
                        })
                    };
                    let judged = {
                        let judged = pin!(self.caller.cx.until_cancelled(judged));
                        before_deadlines_begun(deadline, &self.caller.cx, judged).await
                    };
                    match judged {
                        // The next request is not made, so the run ends at its limit.
                        None => {
                            let why = "The time of the run ended before the answer was checked.";
                            let kind = StepResultKind::Rejected(why.to_owned());
                            self.track.apply_clocked(&self.caller, kind)
                        }
                        Some(Ok(Verdict::Taken(reading))) => {
                            let result = match reading {
                                Some(reading) => self.typed_answer(result, &reading),
                                None => result,
                            };
                            match self.go_on_after(&result)? {
                                true => continue,
                                false => return Ok(Some(result)),
                            }
                        }
                        Some(Ok(Verdict::Rejected(why))) => {
                            self.track.apply_clocked(&self.caller, StepResultKind::Rejected(why))
                        }
                        Some(Err(error)) => Err(error),
                    }
                }
                Due::Done(result) => match self.go_on_after(&result)? {
                    true => continue,
                    false => return Ok(Some(result)),
                },
            };
            if let Err(error) = taken {
                self.track.charge_unfinished(&self.caller);
                return Err(error.with_usage(self.track.run.spent().usage));
            }
            self.track.is_timed = false;
        }
    }

    /// Continues the run with the agent's next task, if there is one. A limit of the whole run ends it,
    /// because the next task would reach that limit too.
    fn go_on_after(&mut self, result: &RunResult) -> Result<bool> {
        let Some(next) = &self.caller.agent.next_task else { return Ok(false) };
        if result.limit.is_some_and(|limit| limit != LimitKind::Iterations) {
            return Ok(false);
        }
        let run = &mut *self.track.run;
        let next = catch_unwind(AssertUnwindSafe(|| next(run))).map_err(|panic| {
            caller::drop_payload(panic);
            error::RunError::Panicked { what: "the function for the next task" }.into_module()
        })?;
        let Some(task) = next else { return Ok(false) };
        let (answer, ending) = (result.answer.clone(), result.ending);
        self.caller.cx.emit(|| EventKind::Done { answer, ending });
        run.follow_up(task).map_err(error::RunError::into_module)?;
        Ok(true)
    }

    /// Emits the decisions and the run's own results. The program may have applied them to a stored
    /// run.
    fn report(&mut self) {
        let (run, cx) = (&mut self.track.run, &self.caller.cx);
        if run.decided().is_empty() && run.own_results().is_empty() {
            return;
        }
        for Decided { call, decision, .. } in run.take_decided() {
            cx.emit(|| EventKind::Decided { id: call.id, decision });
        }
        for (call, result) in run.take_own_results() {
            cx.emit(|| EventKind::ToolStarted { call: call.clone() });
            let error = Some(result.text.clone());
            let elapsed = Duration::ZERO;
            cx.emit(|| EventKind::ToolFinished {
                call,
                text: result.text,
                error,
                repairs: Vec::new(),
                elapsed,
            });
        }
    }

    /// Shows the answer of a typed run as it was read, and replaces it by its repaired form.
    fn typed_answer(&mut self, result: RunResult, reading: &Reading<()>) -> RunResult {
        let (run, caller) = (&mut self.track.run, &self.caller);
        let Some(output) = run.output() else { return result };
        let dialect = caller.agent.model.capabilities().dialect;
        if let Some(shown) = &caller.shown {
            shown.end(&caller.cx, (output, dialect), &result.answer, reading);
        }
        let Some(mut repaired) = Repaired::of(reading) else { return result };
        let (name, repairs) = (output.name().to_owned(), repaired.repairs.clone());
        caller.cx.emit(|| EventKind::AnswerRepaired { name, repairs });
        lower_json(&mut repaired.json, |value| output.lower_output_value(dialect, value));
        let answer = repaired.json.clone();
        run.take_repaired_answer(repaired);
        RunResult { answer, ..result }
    }

    /// Asks the model. A conversation that is too long for it is shortened before, or after the provider
    /// has refused it.
    async fn ask_compacted(&mut self, deadline: Option<Instant>) -> Result<()> {
        let earlier = self.track.run.earlier.as_ref();
        let was_compacted = earlier.is_some_and(|earlier| !earlier.compactions.is_empty());
        if self.caller.agent.compaction.is_none() && !was_compacted {
            return self.ask(deadline).await;
        }
        // Boxed, because most runs are not compacted.
        Box::pin(self.compact(None, deadline)).await?;
        // The summary may have taken the rest of a limit.
        if !matches!(self.track.run.due(), Due::Model) {
            return Ok(());
        }
        let error = match self.ask(deadline).await {
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        let Some(refused) = error.context_exceeded() else { return Err(error) };
        if self.caller.agent.compaction.is_none()
            || !Box::pin(self.compact(Some(refused), deadline)).await?
        {
            return Err(error);
        }
        match self.track.run.due() {
            Due::Model => self.ask(deadline).await,
            _ => Ok(()),
        }
    }

    async fn ask(&mut self, deadline: Option<Instant>) -> Result<()> {
        if let Some(performer) = perform::performer(&self.caller.cx).cloned() {
            // Boxed, because most runs have no performer.
            return Box::pin(self.perform_ask(&*performer, deadline)).await;
        }
        // Pinned here, because each future around it would move all of it.
        let asked = pin!(self.caller.ask(self.track.run));
        let asked = before_deadlines(deadline, &self.caller.cx, asked).await;
        let answer = self.caller.model_answer(asked)?;
        self.track.apply_clocked(&self.caller, answer)
    }

    /// Makes the calls of the current step and applies each result when its call has ended, so that
    /// a later failure or cancellation loses none.
    async fn call_due(&mut self, deadline: Option<Instant>) -> Result<()> {
        let Some(said) = self.track.run.last_message() else { return Ok(()) };
        if let Some(limit) = self.forbids_the_calls(&said, deadline) {
            return self.track.apply_clocked(&self.caller, StepResultKind::Exhausted(limit));
        }
        self.caller.room = self.track.run.room_for_texts().map(|room| Arc::new(room.into()));
        let next_two = {
            let mut due = self.track.run.due_calls(&said);
            (due.next(), due.next())
        };
        self.caller.readable = self.readable(&said);
        if let (Some(only), None) = next_two
            && edit_of(self.track.run.decisions(), &only.id).is_none()
            && perform::performer(&self.caller.cx).is_none()
        {
            return self.call_one(only, deadline).await;
        }
        // Boxed, because most replies make one call, as it is in the reply.
        Box::pin(self.call_batch(&said, deadline)).await
    }

    /// Returns the conversation, if a call of the current step reads results.
    fn readable(&self, said: &Message) -> Option<Arc<[Arc<Message>]>> {
        let reads = self.track.run.due_calls(said).any(|call| call.name == READ_RESULT);
        reads.then(|| self.track.run.history().into())
    }

    /// Returns the limit of the run that forbids the calls of the current step.
    fn forbids_the_calls(&self, said: &Message, deadline: Option<Instant>) -> Option<LimitKind> {
        let run = &*self.track.run;
        let Some(earlier) = &run.earlier else { return self.caller.forbids_a_call(deadline) };
        // The current limits do not apply to the steps of earlier drives.
        if run.due_calls(said).any(|call| earlier.calls.contains_key(&call.id)) {
            return None;
        }
        // The recorded time, not the clock: a later drive from the records must take the same steps.
        let max_time = self.caller.limits.max_time;
        if max_time.is_some_and(|time| run.elapsed() >= time) {
            return Some(LimitKind::Time);
        }
        self.caller.forbids_a_call(None)
    }

    /// Makes the calls of the current step, which may be edited by a person, or made by a performer.
    async fn call_batch(&mut self, said: &Message, deadline: Option<Instant>) -> Result<()> {
        let mut calls: Vec<&ToolCall> = self.track.run.due_calls(said).collect();
        let edited;
        let decisions = self.track.run.decisions();
        if calls.iter().any(|call| edit_of(decisions, &call.id).is_some()) {
            edited = with_edits(&calls, decisions);
            calls = edited.iter().collect();
        }
        if let Some(performer) = perform::performer(&self.caller.cx).cloned() {
            return self.perform_calls(&calls, &*performer, deadline).await;
        }
        match calls.as_slice() {
            [only] => self.call_one(only, deadline).await,
            calls => self.call_concurrently(calls, deadline).await,
        }
    }

    async fn call_one(&mut self, call: &ToolCall, deadline: Option<Instant>) -> Result<()> {
        let Self { caller, track, failures, .. } = self;
        track.run.mark_begun();
        let selected = track.run.repairs_of(&call.id).to_vec();
        let (called, is_lost) = caller.call_or_interrupt(call, selected, deadline).await;
        match called {
            Ok((result, error)) => {
                failures.extend(error.map(|error| ToolFailure { call: call.clone(), error }));
                track.apply_clocked(caller, StepResultKind::Tools(vec![result]))
            }
            Err(error) => {
                // After an interruption the outcome is not known, and the mark stays.
                if !is_lost {
                    track.run.unmark_begun();
                }
                match not_begun(&error) {
                    Some(limit) => track.apply_clocked(caller, StepResultKind::Exhausted(limit)),
                    None => Err(error),
                }
            }
        }
    }

    /// Makes calls concurrently, at most `max_parallel` at a time. A failing call does not cancel
    /// the others.
    async fn call_concurrently(
        &mut self,
        calls: &[&ToolCall],
        deadline: Option<Instant>,
    ) -> Result<()> {
        let Self { caller, track, failures, .. } = self;
        let caller = &*caller;
        // A list of futures, because the compiler cannot prove a closure `Send`. They are on this
        // task, not on tasks of their own, so that dropping the run drops them.
        let mut making = Vec::with_capacity(calls.len());
        for (place, call) in calls.iter().enumerate() {
            making.push(async move { (place, caller.call(call, Vec::new(), deadline).await) });
        }
        let under_way = stream::iter(making).buffer_unordered(caller.limits.max_parallel.max(1));
        let mut ended = under_way.ready_chunks(calls.len().max(1));
        let (mut failed, mut forbidden, mut left) = (None, None, calls.len());
        loop {
            let next = pin!(caller.cx.until_cancelled(async { Ok(ended.next().await) }));
            let Some(ready) = before_context_deadline(&caller.cx, next).await? else { break };
            let mut results = Vec::with_capacity(ready.len());
            for (place, called) in ready {
                match (called, calls.get(place)) {
                    (Ok((result, error)), Some(call)) => {
                        let failure = |error| ToolFailure { call: (*call).clone(), error };
                        failures.extend(error.map(failure));
                        results.push(result);
                    }
                    (Err(error), _) => match not_begun(&error) {
                        Some(limit) => forbidden = Some(limit),
                        None => failed = failed.or(Some(error)),
                    },
                    _ => {}
                }
            }
            left -= results.len();
            match results.as_slice() {
                [] => {}
                _ if left == 0 => track.apply_clocked(caller, StepResultKind::Tools(results))?,
                _ => track.apply_some(caller, results)?,
            }
        }
        match (failed, forbidden) {
            (Some(error), _) => Err(error),
            (None, Some(limit)) => track.apply_clocked(caller, StepResultKind::Exhausted(limit)),
            (None, None) => Ok(()),
        }
    }
}

/// Returns the names of the tools that the model may find, if a filter chose them.
fn findable(run: &Run) -> Option<Arc<BTreeSet<String>>> {
    run.offered_names().map(|names| Arc::new(names.iter().cloned().collect()))
}

impl Track<'_> {
    /// Applies the result of a step that ended now. The clock says how long it took.
    fn apply_clocked(&mut self, caller: &Caller<'_>, kind: StepResultKind) -> Result<()> {
        let (elapsed, spent) = (self.lap(), self.spent(caller));
        self.apply_with(kind, elapsed, spent)
    }

    /// Applies the result of a step that took `elapsed` according to its outcomes, which may be those
    /// of an earlier drive.
    fn apply_recorded(
        &mut self,
        caller: &Caller<'_>,
        kind: StepResultKind,
        elapsed: Duration,
    ) -> Result<()> {
        self.lap();
        let spent = self.spent(caller);
        self.apply_with(kind, elapsed, spent)
    }

    /// Applies results of calls while others of their batch are under way. The reservations of
    /// these do not count yet.
    fn apply_some(&mut self, caller: &Caller<'_>, results: Vec<ToolResult>) -> Result<()> {
        let (elapsed, spent) = (self.lap(), self.spent_of(caller.ledger.spent()));
        self.apply_with(StepResultKind::Tools(results), elapsed, spent)
    }

    /// Returns the time since the end of the step before, and starts the next one.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.started, now)
    }

    fn apply_with(&mut self, kind: StepResultKind, elapsed: Duration, spent: Spent) -> Result<()> {
        let (step, spent) = (self.run.step(), Some(spent));
        self.run
            .apply(StepResult { step, kind, elapsed, spent })
            .map_err(error::RunError::into_module)
    }

    /// Returns the cost since the last call of this method. Calls that were dropped count in full,
    /// because their cost is unknown.
    fn spent(&mut self, caller: &Caller<'_>) -> Spent {
        self.spent_of(caller.ledger.committed())
    }

    fn spent_of(&mut self, total: Spent) -> Spent {
        let spent = total - self.counted;
        self.counted += spent;
        spent
    }

    /// Leaves out the cost of runs below that have no result.
    fn leave_out_below(&mut self) {
        for ledger in self.below.drain(..) {
            self.counted += ledger.committed();
        }
    }

    /// Charges the run with the cost and the time of a step that has no answer.
    fn charge_unfinished(&mut self, caller: &Caller<'_>) {
        if std::mem::take(&mut self.is_timed) {
            let elapsed = self.lap();
            self.run.add_elapsed(elapsed);
        }
        self.leave_out_below();
        let spent = self.spent(caller);
        self.run.charge(spent);
    }
}

/// If the drive is dropped during a step, the cost so far is charged.
impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if self.track.run.has_untrusted() {
            self.caller.cx.note_untrusted();
        }
        self.track.charge_unfinished(&self.caller);
    }
}
