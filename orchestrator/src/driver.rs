//! The driver of a run on tokio: it calls the model, the tools and the approver, and applies their
//! answers to the run.

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

/// Duration of a single poll from which a tool counts as blocking its thread.
const BLOCKING_THRESHOLD: Duration = Duration::from_millis(100);

/// One drive of a run: the agent, the run, and the context for its calls.
pub(crate) struct Driver<'a> {
    agent: &'a ToolOrchestrator,
    run: &'a mut Run,
    /// The ledger's total at the last count.
    counted: Spent,
    /// The caller's context, with the run's ledger.
    cx: Context,
    ledger: Ledger,
    pub(crate) failures: Vec<ToolFailure>,
}

/// A function that reads the answer of a run.
pub(crate) type Judge<'a> = &'a mut (dyn FnMut(&str) -> Verdict + Send);

/// The result of reading an answer.
pub(crate) enum Verdict {
    /// The answer was read, with these repairs if there were any.
    Taken(Option<Repaired>),
    /// The answer cannot be used, for this reason.
    Rejected(String),
}

/// The result of a call and, if it failed, its error as text. An `Err` ends the run.
type Called = Result<(ToolResult, Option<String>)>;

impl<'a> Driver<'a> {
    pub(crate) fn new(
        agent: &'a ToolOrchestrator,
        name: &str,
        run: &'a mut Run,
        cx: Context,
    ) -> Self {
        // The ledger is below the caller's, so models below the tools count in both.
        let (budget, spent) = (run.limits().budget, run.spent());
        let ledger = driver::ledger(cx.ledger(), name, budget, spent);
        let mut cx = cx.with_ledger(ledger.clone()).with_policy(agent.policy());
        run.set_policy(cx.policy());
        if cx.model().is_none() {
            cx = cx.with_model(agent.model().clone());
        }
        Self { agent, run, counted: spent, cx, ledger, failures: Vec::new() }
    }

    pub(crate) async fn drive(&mut self, judge: Judge<'_>) -> Result<RunResult> {
        let &Limits { max_time, tool_time, .. } = self.run.limits();
        let timed = max_time.is_some() || tool_time.is_some();
        if (timed || self.cx.deadline().is_some()) && !has_timer() {
            let text = "a time limit or a deadline needs tokio's timer; build the runtime with `enable_time` or `enable_all`";
            return Err(Error::stop(text).at(Stage::Setup));
        }
        let mut started = Instant::now();
        loop {
            // The decisions may have been applied by the program, to a stored run.
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
                // A limit too large for `Instant` means no limit.
                let left = time.saturating_sub(self.run.elapsed());
                started.checked_add(left).unwrap_or(started + ONE_YEAR)
            });
            let (answer, waits) = match self.run.due() {
                Due::Model => {
                    // Pinned here, because each future around it would move all of it.
                    let asked = pin!(self.ask());
                    let asked = pin!(before_context_deadline(&self.cx, asked));
                    (self.model_answer(before_deadline(deadline, asked).await), false)
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
                // Boxed, because it is large and most runs need no approval.
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

    /// Replaces the answer of a typed run by its repaired form.
    fn repaired_answer(&mut self, result: RunResult, mut repaired: Repaired) -> RunResult {
        let name = self.run.output().map_or_else(String::new, |output| output.name().to_owned());
        let repairs = repaired.repairs.clone();
        self.cx.emit(|| EventKind::AnswerRepaired { name, repairs });
        if let Some(output) = self.run.output() {
            let dialect = self.agent.model().capabilities().dialect;
            lower_json(&mut repaired.json, |value| output.lower_output_value(dialect, value));
        }
        let answer = repaired.json.clone();
        self.run.take_repaired_answer(repaired);
        RunResult { answer, ..result }
    }

    /// Returns the cost since the last call of this method. Calls that were dropped count in full,
    /// because their cost is unknown.
    fn spent(&mut self) -> Spent {
        let committed = self.ledger.committed();
        committed.since(std::mem::replace(&mut self.counted, committed))
    }

    /// Charges the run with the cost of a step that has no answer.
    fn count(&mut self) {
        let spent = self.spent();
        self.run.charge(spent);
    }

    /// Not an `async fn`, which would store the request twice.
    fn ask(&self) -> impl Future<Output = Result<Reply>> {
        let request = self.run.request();
        // The pieces of a JSON selection are of no use to a reader.
        let streams = self.agent.streams() && request.output.is_none();
        self.cx.ask(&**self.agent.model(), request, streams)
    }

    fn model_answer(&self, asked: Option<Result<Reply>>) -> Result<StepResultKind> {
        match asked {
            None => Ok(StepResultKind::Exhausted(LimitKind::Time)),
            Some(Ok(reply)) => Ok(StepResultKind::Model(reply)),
            // The run's own limit is an ending of the run, not an error for its caller.
            Some(Err(error)) => match self.own_limit(&error) {
                Some(limit) => Ok(StepResultKind::Exhausted(limit)),
                None => Err(error),
            },
        }
    }

    /// Returns the exhausted limit if it is this run's own, and not one of a ledger above.
    fn own_limit(&self, error: &Error) -> Option<LimitKind> {
        let exhausted = error.downcast_ref::<Exhausted>()?;
        driver::is_exhausted_by(&self.ledger, exhausted).then_some(exhausted.limit)
    }

    /// Returns whether a tool's error ends the run.
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
        // One after another, because the same person decides on all.
        for call in calls {
            let id = call.id.clone();
            let effect = self.agent.tool(&call.name).map_or(Effect::Write, |tool| tool.effect());
            let asked = Approval::new(self.cx.path(), call, effect);
            let decides = async { driver::approve(&self.cx, asked).await.transpose() };
            let Some(decision) = before_context_deadline(&self.cx, decides).await? else {
                continue;
            };
            decisions.push((id, decision));
        }
        Ok(StepResultKind::Decisions(decisions))
    }

    /// Makes the calls and returns the results in their order. Waits for all of them: a failing
    /// call does not cancel the others.
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
                // Boxed, because most replies make one call.
                let called = Box::pin(self.call_concurrently(calls, deadline)).await;
                calls.iter().zip(called).try_for_each(|(call, called)| take(call, called))?;
            }
            Ok((results, failures))
        });
        let called = pin!(self.cx.until_cancelled(called));
        before_context_deadline(&self.cx, called).await
    }

    /// Makes the calls concurrently, at most `max_parallel` at a time.
    async fn call_concurrently(
        &self,
        calls: &[&ToolCall],
        deadline: Option<Instant>,
    ) -> Vec<Called> {
        // A list of futures, because the compiler cannot prove a closure `Send`. They are on this
        // task, not on tasks of their own, so that dropping the run drops them.
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
        // In the order in which they end, so that a slow call does not delay the start of others.
        let under_way = stream::iter(numbered).buffer_unordered(most);
        let mut ended: Vec<(usize, Called)> = under_way.collect().await;
        ended.sort_unstable_by_key(|(place, _)| *place);
        ended.into_iter().map(|(_, called)| called).collect()
    }

    /// Makes one call. An error ends the run.
    async fn call(&self, call: &ToolCall, started: Instant, deadline: Option<Instant>) -> Called {
        let span = telemetry::execute_tool(call, &self.cx);
        self.cx.emit(|| EventKind::ToolStarted { call: call.clone() });
        // The tool's call catches its own panics. This one catches later panics, for example of an
        // output when it is dropped. Boxed, because agents below agents would otherwise use too
        // much of the stack.
        let made = AssertUnwindSafe(Box::pin(self.make(call, started, deadline)));
        let made = made.catch_unwind().instrument(span.clone()).await;
        let (mut result, error) = made.unwrap_or_else(|panic| {
            drop_payload(panic);
            let error = Error::other("the tool panicked after its call").at(Stage::Panic);
            (ToolResult::failed(call, error.for_model()), Some(error))
        });
        // Cut now, so that long results are not held until the last call ends.
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
        self.emit_finished(call, &result.text, text.as_deref(), repairs, started);
        match error {
            Some(error) if self.ends_the_run(&error) => Err(error),
            error => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(error))) {
                    drop_payload(panic);
                }
                Ok((result, text))
            }
        }
    }

    fn emit_finished(
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
            // The run itself answers calls of unknown tools, so the run belongs to another agent.
            let error = Error::stop(format!(
                "the run calls `{}`, which is not a tool of this agent; drive it with the agent that started it",
                call.name,
            ));
            return ToolResult::of(call, Err(error.at(Stage::Setup)));
        };
        let reserved = match self.ledger.reserve(Spent::tool_call()) {
            Ok(reserved) => reserved,
            Err(exhausted) => return self.limited(call, driver::exhausted(&self.cx, exhausted)),
        };
        let cx = driver::in_call(&self.cx, call);
        let late = self.run.limits().tool_time.and_then(|time| started.checked_add(time));
        let end = deadline.into_iter().chain(late).min();
        let work = pin!(tool.call(&call.arguments, &cx));
        let (outcome, elapsed) = watched(end, work).await;
        reserved.settle(Spent::tool_call());
        if elapsed >= BLOCKING_THRESHOLD {
            tracing::warn!(tool = call.name, ?elapsed, "a tool blocked its thread");
            self.cx.emit(|| EventKind::ToolBlocked { call: call.clone(), elapsed });
        }
        let (mut result, error) = match outcome {
            Some(Err(error)) if self.own_limit(&error).is_some() => {
                let (mut result, error) = self.limited(call, error);
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
            lower_json(&mut repaired.json, lower);
        }
        (result, error)
    }

    /// Returns the repairs of a call that ran and has no output.
    fn repaired(&self, tool: &Tool, call: &ToolCall) -> Option<Box<Repaired>> {
        let policy = tool.policy().min(self.cx.policy());
        let reading = tool.contract().read_with::<IgnoredAny>(&call.arguments, policy).ok()?;
        Repaired::of(&reading).map(Box::new)
    }

    /// Returns the result of a call that a limit of the run prevented.
    fn limited(&self, call: &ToolCall, error: Error) -> (ToolResult, Option<Error>) {
        let text = match self.own_limit(&error) {
            Some(limit) => format!("The call could not go on: the run has too few {limit} left."),
            None => error.for_model().into_owned(),
        };
        (ToolResult::failed(call, text), Some(error))
    }
}

/// Formats an error with its causes. The error is foreign code, so its formatting may panic.
fn shown(error: &Error) -> String {
    catch_unwind(AssertUnwindSafe(|| format!("{error:#}"))).unwrap_or_else(|panic| {
        drop_payload(panic);
        format!(
            "the tool failed, and its error panicked when it was shown\nstage: {}",
            error.stage()
        )
    })
}

/// Drops the payload of a panic, which may panic again.
fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Returns whether tokio's timer is available. There is no way to ask, so this tries to use it.
fn has_timer() -> bool {
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

/// If the drive is dropped during a step, the cost so far is charged.
impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.count();
    }
}

/// One year: later than any useful deadline, and small enough to add to any `Instant`.
const ONE_YEAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Runs the work until a deadline. Also returns the duration of its longest poll.
async fn watched<T>(
    deadline: Option<Instant>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> (Option<T>, Duration) {
    let mut longest = Duration::ZERO;
    let watched = poll_fn(|cx| {
        // Real time, because the clock of the runtime may be paused.
        let began = std::time::Instant::now();
        let polled = work.as_mut().poll(cx);
        longest = longest.max(began.elapsed());
        polled
    });
    let outcome = before_deadline(deadline, watched).await;
    (outcome, longest)
}

/// Lowers JSON to the shape that the model was asked for, if it can be lowered.
fn lower_json(
    json: &mut String,
    lower: impl FnOnce(&Value) -> Result<Value, toolwright_signature::ContractError>,
) {
    // A `Value` would change a number with more than 64 bits.
    let long = json.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit());
    if long.map(<[u8]>::len).max() > Some(16) {
        return;
    }
    let value = serde_json::from_str::<Value>(json).ok();
    if let Some(lowered) = value.and_then(|value| lower(&value).ok()) {
        *json = lowered.to_string();
    }
}

/// Waits for the work until `deadline`. Returns `None` if the deadline passed first.
async fn before_deadline<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    let Some(deadline) = deadline else {
        return Some(work.await);
    };
    // `timeout_at` polls the work before the timer. Without this check, a model that is always
    // ready would never time out.
    let now = Instant::now();
    if now >= deadline {
        return None;
    }
    // tokio adds to the deadline, so it must not be near the end of the clock.
    let deadline = deadline.min(now + ONE_YEAR);
    // Boxed, because a timer is large and most waits have none.
    Box::pin(tokio::time::timeout_at(deadline, work)).await.ok()
}

/// Waits for the work until the context's deadline.
async fn before_context_deadline<T>(
    cx: &Context,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    before_deadline(cx.deadline().map(Instant::from), work)
        .await
        .unwrap_or_else(|| Err(Error::other(DeadlinePassed).at(Stage::Limit)))
}

/// The error of a passed deadline of the context. An agent below an agent has the same deadline, so
/// the error then ends the run and not only the call.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of this call has passed; allow it more time")]
struct DeadlinePassed;
