//! Checks of calls by a second model, before a person is asked.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_module::approval::Decision;
use toolwright_module::budget::Ledger;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Error, Result, ToolCall, runner};

use super::caller::Caller;
use super::waiting::{before_deadlines, kept};
use crate::call_check::{CHECK, CallCheck, CallDecision, CallVerdict};
use crate::perform::{self, Open, Outcome, OutcomeKind, Part, PartKind, Perform};
use crate::run::Run;

/// The name of a check in the path of its events.
const IN_CHECK: &str = "check";

impl Caller<'_> {
    /// Returns the decision of the check, or `None` if a person decides, and how long the check took. An
    /// agent whose check was removed finds the verdicts that are recorded.
    pub(super) async fn check(
        &self,
        run: &Run,
        call: &ToolCall,
        performer: Option<&dyn Perform>,
        deadline: Option<Instant>,
    ) -> Result<(Option<Decision>, Duration)> {
        let made = AtomicBool::default();
        let work = async {
            made.store(true, Ordering::Relaxed);
            let began = Instant::now();
            let Some(check) = &self.agent.check else {
                let text =
                    "the performer has no outcome for a check of a call that it has recorded";
                return Err(Open::Work(Error::stop(text).at(Stage::Journal)));
            };
            let caller = self.of_part(false);
            let verdict = caller.verdict(check, run, call, deadline).await;
            let verdict = verdict.map_err(Open::Work)?;
            let value = serde_json::to_value(&verdict);
            let kind = OutcomeKind::Value(value.map_err(|error| Open::Work(Error::other(error)))?);
            let spent = caller.cx.ledger().map(Ledger::committed).unwrap_or_default();
            Ok(Outcome { kind, spent, elapsed: began.elapsed(), by: None })
        };
        let kind = PartKind::Value { name: format!("{CHECK}{}", call.id) };
        let part = Part { path: self.cx.path(), kind };
        let performed = match performer {
            Some(performer) => self.perform(performer, part, Box::pin(work)).await,
            None => work.await.map_err(Error::from),
        };
        let Outcome { kind: OutcomeKind::Value(verdict), elapsed, .. } =
            self.found(performed, &made)?
        else {
            return Err(perform::another_kind());
        };
        let verdict: CallVerdict = serde_json::from_value(verdict)
            .map_err(|error| Error::stop(error).at(Stage::Decoding))?;
        Ok((verdict.decision(), elapsed))
    }

    /// Asks the check. One that fails, or that takes the rest of the run's time, leaves the decision to a
    /// person.
    async fn verdict(
        &self,
        check: &CallCheck,
        run: &Run,
        call: &ToolCall,
        deadline: Option<Instant>,
    ) -> Result<CallVerdict> {
        // One model call is for the answer of the run.
        let _last = runner::keep_last_call(&self.ledger);
        // Its reply is not one of the run.
        let cx = runner::in_call(&self.cx, &ToolCall::new(&call.id, IN_CHECK, ""));
        let asked = check.check(run.check_of(call), &cx);
        let asked = pin!(self.cx.until_cancelled(kept(&self.cx, "the check of a call", asked)));
        match before_deadlines(deadline, &self.cx, asked).await {
            Some(Ok(verdict)) => return Ok(verdict),
            Some(Err(error)) if self.ends_the_drive(&error) => return Err(error),
            Some(Err(error)) => {
                tracing::warn!(check = check.name(), %error, "the check of a call failed");
            }
            None => tracing::warn!(check = check.name(), "the time of the run ended in a check"),
        }
        let reason = "The check failed.".to_owned();
        Ok(CallVerdict { reason, decision: CallDecision::Ask })
    }

    /// Returns whether an error of a check is about the drive and not about the check.
    fn ends_the_drive(&self, error: &Error) -> bool {
        let is_over = error.stage() == Stage::Cancelled
            || error.stage() == Stage::Limit && self.own_limit(error).is_none();
        is_over || error.audience() == Audience::Run && error.stage() == Stage::Journal
    }
}
