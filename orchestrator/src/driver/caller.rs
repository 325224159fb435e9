//! The calls of a drive: the model, the tools and the approver, with their limits and panics.
//!
//! # The life of a tool call
//!
//! 1. The run checks the call when it takes the reply: the tool, the calls per reply, the calls of one
//!    tool. A call that fails a check gets its result at once.
//! 2. A person decides, if the call needs approval.
//! 3. The run's time and its budget are checked. A call that they forbid is not made.
//! 4. The call is begun: the run marks it, or the performer records it. Only calls that change
//!    something are marked. If such a call is interrupted from here on, its outcome is unknown.
//! 5. The time is checked again, and the ledger reserves one tool call. If the run's limits forbid it,
//!    the mark is removed.
//! 6. `tool_time` runs, the span is opened, and [`EventKind::ToolStarted`] is emitted.
//! 7. The hooks run, the outermost first, and within them the arguments are read and the tool is
//!    called.
//! 8. The reservation is settled, the result is cut to its limits, and
//!    [`EventKind::ToolFinished`] is emitted.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::FutureExt;
use serde_json::Value;
use tokio::time::Instant;
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Exhausted, Ledger, LimitKind, Reservation, Spent};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::ToolResult;
use toolwright_module::runner::{self, Arguments, ShownAnswer};
use toolwright_module::{Context, Effect, Error, Message, Repaired, Reply, Result, Tool, ToolCall};
use toolwright_signature::Repair;
use tracing::Instrument;

use super::waiting::{DeadlinePassed, before_context_deadline, before_deadline_begun, kept};
use crate::agent::Core;
use crate::find_tools::{FIND_TOOLS, Findable};
use crate::limits::Limits;
use crate::perform::{self, Outcome, Part, PartKind, Perform, Work};
use crate::read_result::{READ_RESULT, Readable};
use crate::run::Run;
use crate::step::StepResultKind;
use crate::telemetry::{self, Measured, Meter};
use crate::unfinished::AwaitsApproval;

/// Duration of a single poll from which a tool counts as blocking its thread.
const BLOCKING_THRESHOLD: Duration = Duration::from_millis(100);

/// The parts of a drive that calls need. They do not borrow the run, which changes while calls are
/// under way.
#[derive(Clone)]
pub(super) struct Caller<'a> {
    pub(super) agent: &'a Core,
    /// The caller's context, with the run's ledger or one below it.
    pub(super) cx: Context,
    /// The run's ledger.
    pub(super) ledger: Ledger,
    pub(super) limits: Limits,
    pub(super) calls_natively: bool,
    /// The names of the tools that `find_tools` may find. `None` for all.
    pub(super) findable: Option<Arc<BTreeSet<String>>>,
    /// The conversation, if a call of `read_result` is due.
    pub(super) readable: Option<Arc<[Arc<Message>]>>,
    /// How many bytes of whole texts the run can still keep. `None` if nothing reads them. Calls that
    /// run side by side share it.
    pub(super) room: Option<Arc<AtomicUsize>>,
    /// Whether the model had got text of strangers when it wrote the calls of its last reply.
    pub(super) is_untrusted: bool,
    /// The answer as the events have shown it. `None` if the run does not stream a typed answer.
    pub(super) shown: Option<Arc<ShownAnswer>>,
}

/// A mark in the context of a call that the model wrote after it got text of strangers. Strangers may
/// have written the tasks of agents below it.
pub(super) struct WrittenAfterUntrusted;

/// The result of a call and, if it failed, its error as text. An `Err` ends the run, unless it is
/// [`NotBegun`].
pub(super) type Called = Result<(ToolResult, Option<String>)>;

/// The error of a call that did not begin, because the run had reached this limit.
#[derive(Debug, thiserror::Error)]
#[error("the call was not made: the run has reached its limit of {0}")]
struct NotBegun(LimitKind);

/// Returns the limit of the run that forbade a call before it began.
pub(super) fn not_begun(error: &Error) -> Option<LimitKind> {
    error.downcast_ref::<NotBegun>().map(|NotBegun(limit)| *limit)
}

impl Caller<'_> {
    /// Returns the caller for a part, with a ledger that counts its cost. A call that is not a run
    /// is performed as a whole.
    pub(super) fn of_part(&self, is_run: bool) -> Self {
        let cx = self.cx.clone().with_ledger(self.ledger.child());
        let cx = if is_run { cx } else { perform::without_performer(cx) };
        Self { cx, ..self.clone() }
    }

    /// Performs a part.
    pub(super) async fn perform(
        &self,
        performer: &dyn Perform,
        part: Part,
        work: Work<'_>,
    ) -> Result<Outcome> {
        let performed = async { Ok(performer.perform(part, work).await?) };
        kept(&self.cx, "the performer", performed).await
    }

    /// Returns the part of a person's decision.
    pub(super) fn decision(
        &self,
        call: ToolCall,
        unknown: Option<u32>,
        reason: Option<&str>,
        is_checked: bool,
    ) -> Part {
        let tool = self.agent.tool(&call.name);
        let effect = tool.map_or(Effect::Write, Tool::effect);
        let contract = tool.map(|tool| Arc::clone(tool.contract()));
        let reason = reason.map(str::to_owned);
        let kind = PartKind::Decide { call, effect, unknown, contract, reason, is_checked };
        Part { path: self.cx.path(), kind }
    }

    /// Returns the outcome of a part. The cost of an outcome that was found is entered in the
    /// ledger of the run, and not in those above it.
    pub(super) fn found(&self, performed: Result<Outcome>, made: &AtomicBool) -> Result<Outcome> {
        let outcome = performed?;
        if !made.load(Ordering::Relaxed) {
            runner::record_again(&self.ledger, outcome.spent);
        }
        Ok(outcome)
    }

    /// Asks the model. The request is made now, so that the future does not borrow the run.
    pub(super) fn ask(&self, run: &Run) -> impl Future<Output = Result<Reply>> + use<'_> {
        let request = run.request();
        // The pieces of a JSON selection are of no use to a reader.
        let streams = self.agent.streaming && request.output.is_none();
        let answer = self.shown.as_deref();
        runner::ask(&self.cx, &self.agent.hooks, &*self.agent.model, request, streams, answer)
    }

    pub(super) fn model_answer(&self, asked: Option<Result<Reply>>) -> Result<StepResultKind> {
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
    pub(super) fn own_limit(&self, error: &Error) -> Option<LimitKind> {
        let exhausted = error.downcast_ref::<Exhausted>()?;
        runner::is_exhausted_by(&self.ledger, exhausted).then_some(exhausted.limit)
    }

    /// Returns whether a tool's error ends the run.
    fn ends_the_run(&self, error: &Error) -> bool {
        let too_late = error.downcast_ref::<DeadlinePassed>().is_some()
            && has_passed(self.cx.deadline().map(Instant::from));
        too_late || (error.audience() == Audience::Run && self.own_limit(error).is_none())
    }

    /// Asks the approver about one of `calls`. Without an approver, the error names all of them, with
    /// the `reasons` why they wait. `unknown` is the number of earlier questions, if the outcome of the call is unknown.
    pub(super) async fn approve(
        &self,
        call: &ToolCall,
        calls: &[ToolCall],
        reasons: &BTreeMap<String, String>,
        unknown: Option<u32>,
    ) -> Result<Decision> {
        let reason = reasons.get(&call.id).map(String::as_str);
        let asked = self.decision(call.clone(), unknown, reason, false).approval();
        let decides = async {
            match asked {
                Some(asked) => runner::approve(&self.cx, asked).await.transpose(),
                None => Ok(None),
            }
        };
        match before_context_deadline(&self.cx, decides).await? {
            Some(decision) => Ok(decision),
            None => {
                let tools: Vec<String> = self.cx.path().into_iter().map(|call| call.tool).collect();
                let path = tools.join(" > ");
                let awaits = AwaitsApproval {
                    path,
                    calls: calls.to_vec(),
                    reasons: reasons.clone(),
                    unknown: unknown.is_some(),
                };
                Err(Error::stop(awaits).at(Stage::Approval))
            }
        }
    }

    /// Returns the limit of the run that forbids a call now, if there is one.
    pub(super) fn forbids_a_call(&self, deadline: Option<Instant>) -> Option<LimitKind> {
        if has_passed(deadline) {
            return Some(LimitKind::Time);
        }
        let refused = match self.ledger.reserve(Spent::tool_call()) {
            Ok(reserved) => {
                reserved.settle(Spent::default());
                return None;
            }
            Err(refused) => refused,
        };
        runner::is_exhausted_by(&self.ledger, &refused).then_some(refused.limit)
    }

    /// Begins a call: it counts from now on.
    ///
    /// # Errors
    ///
    /// [`NotBegun`] if the run has reached a limit, and the error of a ledger above.
    fn begin(&self, deadline: Option<Instant>) -> Result<Reservation> {
        if has_passed(deadline) {
            return Err(Error::other(NotBegun(LimitKind::Time)).at(Stage::Limit));
        }
        let ledger = self.cx.ledger().unwrap_or(&self.ledger);
        ledger.reserve(Spent::tool_call()).map_err(|refused| {
            if runner::is_exhausted_by(&self.ledger, &refused) {
                return Error::other(NotBegun(refused.limit)).at(Stage::Limit);
            }
            runner::exhausted(&self.cx, refused)
        })
    }

    /// Makes one call until the run is cancelled or the context's deadline passes. Also returns whether
    /// that interrupted a call that had begun, so that its outcome is not known.
    pub(super) async fn call_or_interrupt(
        &self,
        call: &ToolCall,
        selected: Vec<Repair>,
        deadline: Option<Instant>,
    ) -> (Called, bool) {
        let has_begun = AtomicBool::new(false);
        let called = async {
            has_begun.store(true, Ordering::Relaxed);
            self.call(call, selected, deadline).await
        };
        let called = pin!(self.cx.until_cancelled(called));
        let called = before_context_deadline(&self.cx, called).await;
        let is_lost = called.as_ref().is_err_and(is_interruption);
        (called, is_lost && has_begun.load(Ordering::Relaxed))
    }

    /// Makes one call. An error ends the run, unless it is [`NotBegun`].
    pub(super) async fn call(
        &self,
        call: &ToolCall,
        selected: Vec<Repair>,
        deadline: Option<Instant>,
    ) -> Called {
        let (started, reserved) = (Instant::now(), self.begin(deadline)?);
        let tool = self.agent.tool(&call.name);
        let span = telemetry::execute_tool(call, tool, &self.cx);
        let meter = Meter::start(Measured::Tool(tool.map(Tool::name)));
        self.cx.emit(|| EventKind::ToolStarted { call: call.clone() });
        // The tool's call catches its own panics. This one catches later panics, for example of
        // an output when it is dropped. Boxed, because agents below agents would otherwise use
        // too much of the stack.
        let made = AssertUnwindSafe(Box::pin(self.make(call, started, deadline)));
        let made = made.catch_unwind().instrument(span.clone()).await;
        reserved.settle(Spent::tool_call());
        let (mut result, error) = made.unwrap_or_else(|panic| {
            drop_payload(panic);
            let error = Error::other("the tool panicked after its call").at(Stage::Panic);
            (ToolResult::failed(call, error.for_model()), Some(error))
        });
        // Cut now, so that long results are not held until the last call ends.
        self.bound(&mut result);
        if runner::captures_content(&self.cx) {
            span.record("gen_ai.tool.call.result", result.text.as_str());
        }
        let text = error.as_ref().map(|error| self.limits.cut_error(shown(error)));
        if let Some(error) = &error {
            runner::mark_failed(&span, &self.cx, error);
        }
        let mut repairs = selected;
        if let Some(repaired) = &result.repaired {
            repairs.extend_from_slice(&repaired.repairs);
        }
        telemetry::repaired(&span, &repairs, &self.cx);
        meter.end(error.as_ref().map(Error::stage), None);
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

    /// Cuts a result. What is kept of it takes up room.
    fn bound(&self, result: &mut ToolResult) {
        let left = self.room.as_ref().map(|room| room.load(Ordering::Relaxed));
        self.limits.bound(result, left);
        if let (Some(room), Some(left), Some(whole)) = (&self.room, left, &result.whole) {
            // A performer may poll calls on several threads. Then the run itself cuts what is too much.
            room.store(left.saturating_sub(whole.len()), Ordering::Relaxed);
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
                "the call `{}` is of `{}`, which is not a tool of this agent; give the agent a tool of this name (`Tool::named`), or drive the run with the agent that began it",
                call.id, call.name,
            ));
            return ToolResult::of(call, Err(error.at(Stage::Setup)));
        };
        let mut cx = runner::in_call(&self.cx, call);
        if let Some(names) = self.findable.as_ref().filter(|_| tool.name() == FIND_TOOLS) {
            cx = cx.with(Findable(Arc::clone(names)));
        }
        if let Some(said) = self.readable.as_ref().filter(|_| tool.name() == READ_RESULT) {
            cx = cx.with(Readable { said: Arc::clone(said), most: self.limits.max_result_bytes });
        }
        if self.is_untrusted {
            cx = cx.with(WrittenAfterUntrusted);
        }
        let late = self.limits.tool_time.and_then(|time| started.checked_add(time));
        let end = deadline.into_iter().chain(late).min();
        let work = pin!(runner::call(tool, &self.agent.hooks, &call.arguments, &cx));
        let (outcome, elapsed) = watched(end, work).await;
        // Calls that are given up keep their reservations, so others that waited for these are
        // refused at the same time. The reason is the time.
        let outcome = outcome.filter(|outcome| {
            let refused = |error: &Error| error.downcast_ref::<Exhausted>().is_some();
            !(has_passed(deadline) && outcome.as_ref().is_err_and(refused))
        });
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
            && self.calls_natively
        {
            let dialect = self.agent.model.capabilities().dialect;
            let lower = |value: &Value| tool.contract().lower_value(dialect, value);
            lower_json(&mut repaired.json, lower);
        }
        (result, error)
    }

    /// Returns the repairs of a call that ran and has no output.
    fn repaired(&self, tool: &Tool, call: &ToolCall) -> Option<Box<Repaired>> {
        let (contract, policy) = (tool.contract(), tool.policy().min(self.cx.policy()));
        Arguments { contract, text: &call.arguments, policy, keeps_value: false }.repaired()
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

/// Returns whether there is a deadline and it has passed.
pub(super) fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Returns whether an error ended a call from outside, so that its outcome is not known.
fn is_interruption(error: &Error) -> bool {
    error.stage() == Stage::Cancelled || error.downcast_ref::<DeadlinePassed>().is_some()
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
pub(super) fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

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
    let outcome = before_deadline_begun(deadline, watched).await;
    (outcome, longest)
}

/// Lowers JSON to the shape that the model was asked for, if it can be lowered.
pub(super) fn lower_json(
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
