//! Drives a run on tokio.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{self, StreamExt};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;
use toolwright_module::approval::Approval;
use toolwright_module::budget::{Exhausted, Ledger, LimitKind, Spent};
use toolwright_module::driver;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::message::ToolResult;
use toolwright_module::{Context, Effect, Error, Repaired, Reply, Result, Tool, ToolCall};
use toolwright_signature::Repair;
use tracing::Instrument;

use crate::error;
use crate::finished::ToolFailure;
use crate::limits::Limits;
use crate::run::{Due, Run, edit_of, with_edits};
use crate::step::{RunResult, StepResult, StepResultKind};
use crate::telemetry;
use crate::tool_orchestrator::ToolOrchestrator;
use crate::unfinished::AwaitsApproval;

/// How long a tool may keep its thread at a stretch before that is told.
const BLOCKS: Duration = Duration::from_millis(100);

/// One drive of a run: the agent, and what its calls share.
pub(crate) struct Driver<'a> {
    agent: &'a ToolOrchestrator,
    run: &'a mut Run,
    /// What the ledger said when the run was told last.
    counted: Spent,
    /// The caller's context, with the run's ledger.
    cx: Context,
    ledger: Ledger,
    pub(crate) failures: Vec<ToolFailure>,
}

/// Reads an answer.
pub(crate) type Judge<'a> = &'a mut (dyn FnMut(&str) -> Verdict + Send);

/// What becomes of an answer.
pub(crate) enum Verdict {
    /// It is read, perhaps after repairs.
    Taken(Option<Repaired>),
    /// It cannot be used, for this reason.
    Rejected(String),
}

/// What a call came to, and why it failed if it did: an error ends the run.
type Called = Result<(ToolResult, Option<String>)>;

impl<'a> Driver<'a> {
    pub(crate) fn new(
        agent: &'a ToolOrchestrator,
        name: &str,
        run: &'a mut Run,
        cx: Context,
    ) -> Self {
        // Models below the tools count here as well as wherever the caller counts.
        let (budget, spent) = (run.limits().budget, run.spent());
        let ledger = driver::ledger(cx.ledger(), name, budget, spent);
        let mut cx = cx.with_ledger(ledger.clone()).with_policy(agent.policy());
        run.read_by(cx.policy());
        if cx.model().is_none() {
            cx = cx.with_model(agent.model().clone());
        }
        Self { agent, run, counted: spent, cx, ledger, failures: Vec::new() }
    }

    pub(crate) async fn drive(&mut self, judge: Judge<'_>) -> Result<RunResult> {
        let &Limits { max_time, tool_time, .. } = self.run.limits();
        let timed = max_time.is_some() || tool_time.is_some();
        if (timed || self.cx.deadline().is_some()) && !has_timer() {
            let text = "a limit of time or a deadline needs tokio's timer; build the runtime with `enable_time` or `enable_all`";
            return Err(Error::stop(text).at(Stage::Setup));
        }
        let mut started = Instant::now();
        loop {
            // Of answers that somebody else applied, too: a person's, to a stored run.
            for (id, decision) in self.run.take_decided() {
                self.cx.emit(|| EventKind::Decided { id, decision });
            }
            for (call, result) in self.run.take_own_results() {
                self.cx.emit(|| EventKind::ToolStarted { call: call.clone() });
                let error = Some(result.text.clone());
                let elapsed = Duration::ZERO;
                self.cx.emit(|| EventKind::ToolFinished {
                    call,
                    text: result.text,
                    error,
                    repairs: Vec::new(),
                    elapsed,
                });
            }
            let deadline = max_time.map(|time| {
                // A time beyond all clocks is none.
                let left = time.saturating_sub(self.run.elapsed());
                started.checked_add(left).unwrap_or(started + FAR)
            });
            let (answer, waits) = match self.run.due() {
                Due::Model => {
                    // Pinned here, or each wait around it would move all of it.
                    let asked = pin!(self.ask());
                    let asked = pin!(in_time(&self.cx, asked));
                    (self.model_answer(by(deadline, asked).await), false)
                }
                Due::Tools(mut calls, decided) => {
                    let edited;
                    if calls.iter().any(|call| edit_of(decided, &call.id).is_some()) {
                        edited = with_edits(&calls, decided);
                        calls = edited.iter().collect();
                    }
                    let called = self.call_all(&calls, started, deadline).await;
                    let answer = called.map(|(results, failures)| {
                        self.failures.extend(failures);
                        StepResultKind::Tools(results)
                    });
                    (answer, false)
                }
                // Boxed: it is large, and most runs ask nobody.
                Due::Approval(calls) => (Box::pin(self.decisions(calls)).await, true),
                Due::Done(result) if result.ending == Ending::Answered => {
                    match judge(&result.answer) {
                        Verdict::Taken(None) => return Ok(result),
                        Verdict::Taken(Some(repaired)) => {
                            return Ok(self.repaired_answer(result, repaired));
                        }
                        Verdict::Rejected(why) => (Ok(StepResultKind::Rejected(why)), false),
                    }
                }
                Due::Done(result) => return Ok(result),
            };
            let answer = match answer {
                Ok(kind) => StepResult::new(self.run.step(), kind),
                Err(error) => {
                    self.count();
                    return Err(error.with_usage(self.run.spent().usage));
                }
            };
            let spent = self.spent();
            let now = Instant::now();
            let elapsed = if waits { Duration::ZERO } else { now.duration_since(started) };
            started = now;
            let answer = answer.with_elapsed(elapsed).with_spent(spent);
            self.run.apply(answer).map_err(error::RunError::into_module)?;
        }
    }

    /// The answer of a typed run as it was read.
    fn repaired_answer(&mut self, result: RunResult, mut repaired: Repaired) -> RunResult {
        let name = self.run.output().map_or_else(String::new, |output| output.name().to_owned());
        let repairs = repaired.repairs.clone();
        self.cx.emit(|| EventKind::AnswerRepaired { name, repairs });
        if let Some(output) = self.run.output() {
            let dialect = self.agent.model().capabilities().dialect;
            as_asked(&mut repaired.json, |value| output.lower_output_value(dialect, value));
        }
        let answer = repaired.json.clone();
        self.run.take_repaired_answer(repaired);
        RunResult { answer, ..result }
    }

    /// What was spent since this was asked last. What was given up counts in full:
    /// nobody knows what it cost.
    fn spent(&mut self) -> Spent {
        let committed = self.ledger.committed();
        committed.since(std::mem::replace(&mut self.counted, committed))
    }

    /// Counts what the step under way came to, if it comes to no answer.
    fn count(&mut self) {
        let spent = self.spent();
        self.run.charge(spent);
    }

    /// No `async fn`, which would keep the request twice.
    fn ask(&self) -> impl Future<Output = Result<Reply>> {
        let request = self.run.request();
        // A selection while it is written is nothing to read.
        let streams = self.agent.streams() && request.output.is_none();
        self.cx.ask(&**self.agent.model(), request, streams)
    }

    fn model_answer(&self, asked: Option<Result<Reply>>) -> Result<StepResultKind> {
        match asked {
            None => Ok(StepResultKind::Exhausted(LimitKind::Time)),
            Some(Ok(reply)) => Ok(StepResultKind::Model(reply)),
            // The run's own limit ends the run, and not what called it.
            Some(Err(error)) => match self.own_limit(&error) {
                Some(limit) => Ok(StepResultKind::Exhausted(limit)),
                None => Err(error),
            },
        }
    }

    /// What ran out, if it is this run's own and not one above.
    fn own_limit(&self, error: &Error) -> Option<LimitKind> {
        let exhausted = error.downcast_ref::<Exhausted>()?;
        driver::is_exhausted_by(&self.ledger, exhausted).then_some(exhausted.limit)
    }

    /// Whether a tool's error is the run's too.
    fn ends_the_run(&self, error: &Error) -> bool {
        let passed = |deadline| Instant::now() >= Instant::from(deadline);
        let too_late = error.downcast_ref::<DeadlinePassed>().is_some()
            && self.cx.deadline().is_some_and(passed);
        too_late || (error.audience() == Audience::Run && self.own_limit(error).is_none())
    }

    async fn decisions(&self, calls: Vec<ToolCall>) -> Result<StepResultKind> {
        self.cx.emit(|| EventKind::ApprovalAwaited { calls: calls.clone() });
        let mut decisions = Vec::with_capacity(calls.len());
        if !driver::has_approver(&self.cx) {
            let awaits = AwaitsApproval { path: driver::path_text(&self.cx), calls };
            return Err(Error::stop(awaits).at(Stage::Approval));
        }
        // One after another: it is one person who is asked.
        for call in calls {
            let id = call.id.clone();
            let effect = self.agent.tool(&call.name).map_or(Effect::Write, |tool| tool.effect());
            let asked = Approval::new(self.cx.path(), call, effect);
            let decides = async { driver::approve(&self.cx, asked).await.transpose() };
            let Some(decision) = in_time(&self.cx, decides).await? else { continue };
            decisions.push((id, decision));
        }
        Ok(StepResultKind::Decisions(decisions))
    }

    /// Calls them, and gives the results in their order. All have ended when this ends: a
    /// failing call does not cancel the others.
    async fn call_all(
        &self,
        calls: &[&ToolCall],
        started: Instant,
        deadline: Option<Instant>,
    ) -> Result<(Vec<ToolResult>, Vec<ToolFailure>)> {
        let called = pin!(async {
            let (mut results, mut failures) = (Vec::with_capacity(calls.len()), Vec::new());
            let mut take = |call: &ToolCall, called: Called| -> Result<()> {
                let (result, error) = called?;
                results.push(result);
                failures.extend(error.map(|error| ToolFailure { call: call.clone(), error }));
                Ok(())
            };
            if let [only] = calls {
                take(only, self.call(only, started, deadline).await)?;
            } else {
                // Boxed: most replies make one call.
                let called = Box::pin(self.side_by_side(calls, deadline)).await;
                calls.iter().zip(called).try_for_each(|(call, called)| take(call, called))?;
            }
            Ok((results, failures))
        });
        let called = pin!(self.cx.until_cancelled(called));
        in_time(&self.cx, called).await
    }

    /// As many at a time as may be.
    async fn side_by_side(&self, calls: &[&ToolCall], deadline: Option<Instant>) -> Vec<Called> {
        // A list: of a closure the compiler cannot tell that it may be sent. On this
        // task, not on tasks of their own: whoever drops the run drops them.
        let mut making = Vec::with_capacity(calls.len());
        let most = self.run.limits().max_parallel.max(1);
        for call in calls {
            making.push(async move { self.call(call, Instant::now(), deadline).await });
        }
        if calls.len() <= most {
            return join_all(making).await;
        }
        let mut numbered = Vec::with_capacity(calls.len());
        for (place, called) in making.into_iter().enumerate() {
            numbered.push(called.map(move |called| (place, called)));
        }
        // As they end: a slow one at the front keeps nobody from beginning.
        let under_way = stream::iter(numbered).buffer_unordered(most);
        let mut ended: Vec<(usize, Called)> = under_way.collect().await;
        ended.sort_unstable_by_key(|(place, _)| *place);
        ended.into_iter().map(|(_, called)| called).collect()
    }

    /// Calls one; an error ends the run.
    async fn call(&self, call: &ToolCall, started: Instant, deadline: Option<Instant>) -> Called {
        let span = telemetry::execute_tool(call, &self.cx);
        self.cx.emit(|| EventKind::ToolStarted { call: call.clone() });
        // A tool's own panics are contained in its call. This is for what it leaves
        // behind, such as an output that panics when dropped.
        // Boxed, or agents below agents would take too much of the stack.
        let made = AssertUnwindSafe(Box::pin(self.make(call, started, deadline)));
        let made = made.catch_unwind().instrument(span.clone()).await;
        let (mut result, error) = made.unwrap_or_else(|panic| {
            forget(panic);
            let error = Error::other("the tool panicked after its call").at(Stage::Panic);
            (ToolResult::failed(call, error.for_model()), Some(error))
        });
        // Now: many long ones at once would be kept until the last has come.
        self.run.limits().bound(&mut result);
        if driver::captures_content(&self.cx) {
            span.record("gen_ai.tool.call.result", result.text.as_str());
        }
        let text = error.as_ref().map(|error| self.run.limits().cut_error(shown(error)));
        if let Some(error) = &error {
            telemetry::failed(&span, error);
        }
        let repairs = self.run.repairs_of(&call.id);
        let more = result.repaired.as_ref().map_or(&[][..], |repaired| &repaired.repairs);
        let repairs = [repairs, more].concat();
        telemetry::repaired(&span, &repairs, &self.cx);
        self.tell(call, &result.text, text.as_deref(), repairs, started);
        match error {
            Some(error) if self.ends_the_run(&error) => Err(error),
            error => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(error))) {
                    forget(panic);
                }
                Ok((result, text))
            }
        }
    }

    fn tell(
        &self,
        call: &ToolCall,
        text: &str,
        error: Option<&str>,
        repairs: Vec<Repair>,
        started: Instant,
    ) {
        self.cx.emit(|| EventKind::ToolFinished {
            call: call.clone(),
            text: text.to_owned(),
            error: error.map(str::to_owned),
            repairs,
            elapsed: started.elapsed(),
        });
    }

    async fn make(
        &self,
        call: &ToolCall,
        started: Instant,
        deadline: Option<Instant>,
    ) -> (ToolResult, Option<Error>) {
        let Some(tool) = self.agent.tool(&call.name) else {
            // The run answers calls of unknown tools; a driver of other tools got here.
            let error = Error::stop(format!(
                "the run calls `{}`, which is no tool of this orchestrator; drive it with the one that started it",
                call.name,
            ));
            return ToolResult::of(call, Err(error.at(Stage::Setup)));
        };
        let reserved = match self.ledger.reserve(Spent::tool_call()) {
            Ok(reserved) => reserved,
            Err(exhausted) => return self.told(call, driver::exhausted(&self.cx, exhausted)),
        };
        let cx = driver::in_call(&self.cx, call);
        let late = self.run.limits().tool_time.and_then(|time| started.checked_add(time));
        let end = deadline.into_iter().chain(late).min();
        let work = pin!(tool.call(&call.arguments, &cx));
        let (outcome, elapsed) = watched(end, work).await;
        reserved.settle(Spent::tool_call());
        if elapsed >= BLOCKS {
            tracing::warn!(tool = call.name, ?elapsed, "a tool kept its thread");
            self.cx.emit(|| EventKind::ToolBlocked { call: call.clone(), elapsed });
        }
        let (mut result, error) = match outcome {
            Some(Err(error)) if self.own_limit(&error).is_some() => {
                let (mut result, error) = self.told(call, error);
                result.repaired = self.repaired(tool, call);
                (result, error)
            }
            Some(outcome) => ToolResult::of(call, outcome),
            None => {
                let known = if tool.effect() == Effect::Read {
                    ""
                } else {
                    " Whether it took effect is not known."
                };
                let text = format!("The call was given up after {:.1?}.{known}", started.elapsed());
                let (mut result, error) =
                    ToolResult::of(call, Err(Error::retry(text).at(Stage::Limit)));
                result.repaired = self.repaired(tool, call);
                (result, error)
            }
        };
        if let Some(repaired) = &mut result.repaired
            && self.run.calls_natively()
        {
            let dialect = self.agent.model().capabilities().dialect;
            let lower = |value: &Value| tool.contract().lower_value(dialect, value);
            as_asked(&mut repaired.json, lower);
        }
        (result, error)
    }

    /// The repairs of a call that ran and gave no output.
    fn repaired(&self, tool: &Tool, call: &ToolCall) -> Option<Box<Repaired>> {
        let policy = tool.policy().min(self.cx.policy());
        let reading = tool.contract().read_with::<IgnoredAny>(&call.arguments, policy).ok()?;
        Repaired::of(&reading).map(Box::new)
    }

    /// What the model is told where a limit of its own run is in the way of a call.
    fn told(&self, call: &ToolCall, error: Error) -> (ToolResult, Option<Error>) {
        let text = match self.own_limit(&error) {
            Some(limit) => format!("The call could not go on: the run has too few {limit} left."),
            None => error.for_model().into_owned(),
        };
        (ToolResult::failed(call, text), Some(error))
    }
}

/// All of an error, which is somebody else's and may panic when it is shown.
fn shown(error: &Error) -> String {
    catch_unwind(AssertUnwindSafe(|| format!("{error:#}"))).unwrap_or_else(|panic| {
        forget(panic);
        format!(
            "the tool failed, and its error panicked when it was shown\nstage: {}",
            error.stage()
        )
    })
}

/// Lets go of what somebody panicked with, which may panic again when it is dropped.
fn forget(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Whether this runs on tokio and its timer; there is no other way to ask than to try.
fn has_timer() -> bool {
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

/// Whoever drops a drive in the middle of a step has had what it cost so far.
impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.count();
    }
}

/// So far away that it never comes, and near enough for every clock.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Does the work, until a deadline, and says how long it kept its thread at a stretch.
async fn watched<T>(
    deadline: Option<Instant>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> (Option<T>, Duration) {
    let mut longest = Duration::ZERO;
    let watched = poll_fn(|cx| {
        // The thread's own time, whatever the clock of the runtime says.
        let began = std::time::Instant::now();
        let polled = work.as_mut().poll(cx);
        longest = longest.max(began.elapsed());
        polled
    });
    let outcome = by(deadline, watched).await;
    (outcome, longest)
}

/// JSON in the shape that the model was asked for, as far as there is one.
fn as_asked(json: &mut String, lower: impl FnOnce(&Value) -> toolwright_signature::Result<Value>) {
    // A `Value` would change a number of more than 64 bits.
    let long = json.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit());
    if long.map(<[u8]>::len).max() > Some(16) {
        return;
    }
    let value = serde_json::from_str::<Value>(json).ok();
    if let Some(lowered) = value.and_then(|value| lower(&value).ok()) {
        *json = lowered.to_string();
    }
}

/// Waits no longer than until `deadline`; `None` if it came first.
async fn by<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    let Some(deadline) = deadline else {
        return Some(work.await);
    };
    // A timeout lets go first what is ready at once: without this, a model that never
    // waits would never be late.
    let now = Instant::now();
    if now >= deadline {
        return None;
    }
    // Clocks end, and tokio adds to them.
    let deadline = deadline.min(now + FAR);
    // Boxed: a timer is large, and most waits have none.
    Box::pin(tokio::time::timeout_at(deadline, work)).await.ok()
}

/// Waits no longer than the context's deadline.
async fn in_time<T>(cx: &Context, work: impl Future<Output = Result<T>>) -> Result<T> {
    by(cx.deadline().map(Instant::from), work)
        .await
        .unwrap_or_else(|| Err(Error::other(DeadlinePassed).at(Stage::Limit)))
}

/// The context's deadline came first. Of an agent below an agent: both have it, and then
/// it is not the call that failed but the run.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of this call has passed; allow it more time")]
struct DeadlinePassed;
