//! The parts of a run under a performer; see [`perform`](crate::perform).

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_module::approval::Decision;
use toolwright_module::budget::Ledger;
use toolwright_module::error::Stage;
use toolwright_module::event::EventKind;
use toolwright_module::{Effect, Error, Result, Tool, ToolCall};

use super::Driver;
use super::caller::{Caller, has_passed, not_begun};
use super::waiting::{before_deadlines, kept};
use crate::call_check::CallCheck;
use crate::finished::ToolFailure;
use crate::perform::{self, Open, Outcome, OutcomeKind, Part, PartKind, Perform, Work};
use crate::run::Run;
use crate::state::Decided;
use crate::step::StepResultKind;
use crate::unfinished::AwaitsApproval;

impl Driver<'_> {
    pub(super) async fn perform_ask(
        &mut self,
        performer: &dyn Perform,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let (nth, task) = (self.track.run.asked(), self.track.run.task_hash());
        let mut elapsed = Duration::ZERO;
        loop {
            let kind = PartKind::Ask { nth, task, attempt: self.track.run.exhausted() };
            let (outcome, is_made) =
                self.caller.perform_request(self.track.run, kind, performer, deadline).await?;
            elapsed = elapsed.saturating_add(outcome.elapsed);
            let kind = match outcome.kind {
                OutcomeKind::Reply(reply) => StepResultKind::Model(reply),
                OutcomeKind::Exhausted { limit, allowed } => {
                    let now = self.caller.limits.allows(limit);
                    if !is_made && now.is_none_or(|now| now > allowed) {
                        self.track.run.pass_exhausted();
                        continue;
                    }
                    StepResultKind::Exhausted(limit)
                }
                _ => return Err(perform::another_kind()),
            };
            return self.track.apply_recorded(&self.caller, kind, elapsed);
        }
    }

    pub(super) async fn perform_calls(
        &mut self,
        calls: &[&ToolCall],
        performer: &dyn Perform,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let made: Vec<AtomicBool> = calls.iter().map(|_| AtomicBool::default()).collect();
        let step_began = self.track.started;
        let mut parts = Vec::with_capacity(calls.len());
        let (mut has_runs, mut below) = (false, Vec::with_capacity(calls.len()));
        for (call, made) in calls.iter().zip(&made) {
            let tool = self.caller.agent.tool(&call.name);
            let is_run = match tool {
                Some(tool) => tool.has_parts(),
                // A tool that is gone. Its call of an earlier drive may have an outcome.
                None => self.track.run.was_run(&call.id),
            };
            has_runs |= is_run;
            let effect = tool.map_or(Effect::Write, Tool::effect);
            let attempt = self.track.run.lost(&call.id);
            let call = *call;
            let kind = match is_run {
                true => PartKind::Run { call: call.clone() },
                false => PartKind::Call { call: call.clone(), effect, attempt },
            };
            let part = Part { path: self.caller.cx.path(), kind };
            let caller = self.caller.of_part(is_run);
            below.push(caller.cx.ledger().filter(|_| is_run).cloned());
            let selected = self.track.run.repairs_of(&call.id).to_vec();
            let work = async move {
                made.store(true, Ordering::Relaxed);
                let began = Instant::now();
                let (called, is_lost) = caller.call_or_interrupt(call, selected, deadline).await;
                let kind = match called {
                    Ok((result, error)) => OutcomeKind::Called { result, error },
                    Err(error) => match not_begun(&error) {
                        Some(limit) => {
                            let allowed = caller.limits.allows(limit).unwrap_or(u64::MAX);
                            OutcomeKind::Exhausted { limit, allowed }
                        }
                        None if is_lost => return Err(Open::Interrupted(error)),
                        None => return Err(Open::Work(error)),
                    },
                };
                let spent = caller.cx.ledger().map(Ledger::committed).unwrap_or_default();
                // A call that ended at the run's deadline took all of the run's time, so that a
                // later drive from the records ends there too.
                let since = if has_passed(deadline) { step_began } else { began };
                Ok(Outcome { kind, spent, elapsed: since.elapsed(), by: None })
            };
            let work: Work<'_> = Box::pin(work);
            parts.push((part, work));
        }
        // Also if the drive is dropped meanwhile.
        self.track.below = below.iter().flatten().cloned().collect();
        let one_by_one = parts.len() == 1 || has_runs && !performer.side_by_side();
        let performed = if one_by_one {
            let mut performed = Vec::with_capacity(parts.len());
            for (part, work) in parts {
                performed.push(self.caller.perform(performer, part, work).await);
                if performed.last().is_some_and(Result::is_err) {
                    break;
                }
            }
            performed
        } else {
            let most = self.caller.limits.max_parallel;
            let performed = async {
                let performed = performer.perform_all(parts, most).await;
                Ok(performed.into_iter().map(|one| one.map_err(Error::from)).collect())
            };
            let performed: Vec<_> = kept(&self.caller.cx, "the performer", performed).await?;
            if performed.len() != calls.len() {
                let text = "`Perform::perform_all` must return one result for each part";
                return Err(Error::stop(text).at(Stage::Journal));
            }
            performed
        };
        let (mut results, mut failed, mut elapsed) = (Vec::new(), None, Duration::ZERO);
        let (mut unknown, mut forbidden) = (false, None);
        for (place, ((call, made), performed)) in calls.iter().zip(&made).zip(performed).enumerate()
        {
            let outcome = match self.caller.found(performed, made) {
                Ok(outcome) => outcome,
                Err(error) => {
                    failed = failed.or(Some(error));
                    continue;
                }
            };
            elapsed = elapsed.max(outcome.elapsed);
            match outcome.kind {
                OutcomeKind::Called { result, error } if result.id == call.id => {
                    let failure = |error| ToolFailure { call: (*call).clone(), error };
                    self.failures.extend(error.map(failure));
                    results.push(result);
                    below.get_mut(place).map(Option::take);
                }
                // Without this, an approver that decides by itself would decide without end.
                OutcomeKind::Unknown if self.decided_now.contains(&call.id) => {
                    let text = format!(
                        "the performer lost the outcome of the call `{}`, which was not begun; return `Unknown` only for an attempt that was begun before",
                        call.id,
                    );
                    failed = failed.or_else(|| Some(Error::stop(text).at(Stage::Journal)));
                }
                OutcomeKind::Unknown => unknown = true,
                OutcomeKind::Exhausted { limit, .. } => forbidden = Some(limit),
                _ => failed = failed.or_else(|| Some(perform::another_kind())),
            }
        }
        self.track.below = below.into_iter().flatten().collect();
        self.track.leave_out_below();
        if !results.is_empty() {
            let kind = StepResultKind::Tools(results);
            self.track.apply_recorded(&self.caller, kind, std::mem::take(&mut elapsed))?;
        }
        if unknown && failed.is_none() {
            self.track.run.ask_about_next();
        }
        if let (Some(limit), None, false) = (forbidden, &failed, unknown) {
            let kind = StepResultKind::Exhausted(limit);
            self.track.apply_recorded(&self.caller, kind, elapsed)?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Gives the performer the decisions that the program applied to the run itself, so that a later
    /// drive from its outcomes finds them.
    pub(super) async fn keep_decisions(&mut self) -> Result<()> {
        let Self { caller, track, .. } = self;
        let Some(performer) = perform::performer(&caller.cx).cloned() else { return Ok(()) };
        for Decided { call, decision, unknown } in track.run.decided() {
            let reason = track.run.reason(&call.id);
            let part = caller.decision(call.clone(), *unknown, reason, false);
            let work = async { Ok(Outcome::new(OutcomeKind::Decided(decision.clone()))) };
            let performed = caller.perform(&*performer, part, Box::pin(work)).await;
            if performed?.kind != OutcomeKind::Decided(decision.clone()) {
                let text = format!(
                    "the journal has another decision on the call `{}` than the run; drive the run without a decision, and the journal's holds",
                    call.id,
                );
                return Err(Error::stop(text).at(Stage::Journal));
            }
        }
        Ok(())
    }

    /// Gets the decisions on calls, one after another, because the same person decides on all. The time of
    /// a person does not count, and that of checks does.
    pub(super) async fn decide(
        &mut self,
        calls: Vec<ToolCall>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let Self { caller, track, decided_now, .. } = self;
        let performer = perform::performer(&caller.cx).cloned();
        let reason =
            |call: &ToolCall| Some((call.id.clone(), track.run.reason(&call.id)?.to_owned()));
        let reasons: BTreeMap<String, String> = calls.iter().filter_map(reason).collect();
        caller
            .cx
            .emit(|| EventKind::ApprovalAwaited { calls: calls.clone(), reasons: reasons.clone() });
        let unknown = track.run.unknown_outcome().map(ToOwned::to_owned);
        let (mut decisions, mut waits) = (Vec::with_capacity(calls.len()), None);
        let time = deadline.map(|deadline| deadline.duration_since(Instant::now()));
        let mut elapsed = Duration::ZERO;
        for call in &calls {
            let is_unknown = unknown.as_deref() == Some(&*call.id);
            let run = &*track.run;
            let unknown = is_unknown.then(|| run.lost(&call.id).saturating_sub(1));
            let reason = run.reason(&call.id);
            let checked = match run.was_checked(&call.id) || caller.agent.check.is_some() {
                true if !is_unknown && run.may_check(&call.id) => {
                    let left = time.map(|time| time.saturating_sub(elapsed));
                    let deadline = left.and_then(|left| Instant::now().checked_add(left));
                    let (checked, took) =
                        caller.check(run, call, performer.as_deref(), deadline).await?;
                    elapsed = elapsed.saturating_add(took);
                    checked
                }
                _ => None,
            };
            let Some(performer) = &performer else {
                let decision = match checked {
                    Some(decision) => decision,
                    None => caller.approve(call, &calls, &reasons, unknown).await?,
                };
                decisions.push((call.id.clone(), decision));
                continue;
            };
            let is_checked = checked.is_some();
            let part = caller.decision(call.clone(), unknown, reason, is_checked);
            let made = AtomicBool::default();
            let work = async {
                made.store(true, Ordering::Relaxed);
                let decision = match checked {
                    Some(decision) => decision,
                    None => {
                        let decision = caller.approve(call, &calls, &reasons, unknown).await;
                        decision.map_err(Open::Work)?
                    }
                };
                let checked = run.check_decision(call, &decision);
                checked.map_err(|error| Open::Work(error.into_module()))?;
                let outcome = Outcome::new(OutcomeKind::Decided(decision));
                let check = caller.agent.check.as_ref().filter(|_| is_checked);
                let by = check.map(CallCheck::name).or_else(|| perform::decider(&caller.cx));
                let by = by.map(ToOwned::to_owned);
                Ok(Outcome { by, ..outcome })
            };
            let performed = match caller.perform(&**performer, part, Box::pin(work)).await {
                // All calls that wait are listed, so that they can be decided in any order.
                Err(error) if performer.side_by_side() && AwaitsApproval::is_in(&error) => {
                    waits = waits.or(Some(error));
                    continue;
                }
                performed => performed?,
            };
            if is_unknown && made.load(Ordering::Relaxed) {
                decided_now.insert(call.id.clone());
            }
            match performed.kind {
                // It was decided elsewhere, and not checked. The run would fail in every drive.
                OutcomeKind::Decided(decision)
                    if !made.load(Ordering::Relaxed)
                        && !track.run.was_made(&call.id)
                        && let Some(fault) = track.run.misfit(call, &decision) =>
                {
                    let reason = format!(
                        "the arguments that the person gave instead do not fit the tool: {fault}"
                    );
                    decisions.push((call.id.clone(), Decision::deny(reason)));
                }
                OutcomeKind::Decided(decision) => decisions.push((call.id.clone(), decision)),
                _ => return Err(perform::another_kind()),
            }
        }
        if let Some(error) = waits {
            return Err(error);
        }
        track.apply_recorded(caller, StepResultKind::Decisions(decisions), elapsed)
    }
}

impl Caller<'_> {
    /// Performs a request to the model. Also returns whether it was sent now.
    async fn perform_request(
        &self,
        run: &Run,
        kind: PartKind,
        performer: &dyn Perform,
        deadline: Option<Instant>,
    ) -> Result<(Outcome, bool)> {
        let made = AtomicBool::default();
        let work = async {
            made.store(true, Ordering::Relaxed);
            let (began, before) = (Instant::now(), self.ledger.committed());
            let asked = pin!(self.ask(run));
            let asked = before_deadlines(deadline, &self.cx, asked).await;
            let answer = self.model_answer(asked);
            let kind = match answer.map_err(Open::Work)? {
                StepResultKind::Model(reply) => OutcomeKind::Reply(reply),
                StepResultKind::Exhausted(limit) => {
                    let allowed = self.limits.allows(limit).unwrap_or(u64::MAX);
                    OutcomeKind::Exhausted { limit, allowed }
                }
                _ => return Err(Open::Work(perform::another_kind())),
            };
            let spent = self.ledger.committed() - before;
            Ok(Outcome { kind, spent, elapsed: began.elapsed(), by: None })
        };
        let part = Part { path: self.cx.path(), kind };
        let performed = self.perform(performer, part, Box::pin(work)).await;
        Ok((self.found(performed, &made)?, made.load(Ordering::Relaxed)))
    }
}
