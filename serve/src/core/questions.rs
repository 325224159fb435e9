//! Questions to people, and runs that people stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolwright_journal::RunSummary;
use toolwright_module::approval::{Approval, Decision, WrongDecision};
use toolwright_signature::has_lost_half;

use super::{Core, MOST_WAIT, escaped};
use crate::caller::Caller;
use crate::error::{Result, ServeError};
use crate::page::{self, Mark};
use crate::protocol::Answered;
use crate::recorded::OpenQuestion;
use crate::update::Question;
use crate::watched::Watched;

impl Core {
    /// Answers a question of a run.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        caller: &Caller,
        run: &str,
        answered: Answered,
    ) -> Result<Arc<Watched>> {
        self.check_owner(caller, run)?;
        self.decide_in(caller, run, answered).await
    }

    pub(super) async fn decide_in(
        self: &Arc<Self>,
        caller: &Caller,
        run: &str,
        answered: Answered,
    ) -> Result<Arc<Watched>> {
        let Answered { question, decision } = answered;
        let watched = self.watch(run).await?;
        let until = Instant::now() + MOST_WAIT;
        loop {
            let open = watched
                .state()
                .reader
                .open
                .values()
                .find(|open| open.question.question == question)
                .cloned();
            let Some(OpenQuestion { waiting, .. }) = open else {
                return Err(ServeError::NotOpen { question });
            };
            check(&waiting.approval, &decision)?;
            let decision = decision.clone();
            let result = self.home.decide_as(&caller.user, run, &waiting.approval, decision).await;
            match result {
                Ok(()) => break,
                // The drive that asked has not ended yet, or another call of the run is being decided.
                Err(error) if error.is_locked() && Instant::now() < until => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(error @ ServeError::Decision { .. }) => return Err(error),
                Err(error) => {
                    self.refresh(&[Arc::clone(&watched)]).await?;
                    let is_open = watched
                        .state()
                        .reader
                        .open
                        .values()
                        .any(|open| open.question.question == question);
                    return Err(if is_open { error } else { ServeError::NotOpen { question } });
                }
            }
        }
        self.refresh(&[Arc::clone(&watched)]).await?;
        if watched.state().reader.open.is_empty() {
            self.go_on(run).await?;
        }
        Ok(watched)
    }

    /// Returns a page of the open questions of a user. The questions of a run are on one page.
    pub(crate) async fn questions(
        self: &Arc<Self>,
        caller: &Caller,
        after: Option<Mark>,
    ) -> Result<(Vec<Question>, Option<Mark>)> {
        let mut runs = self.home.waiting(&caller.user, &of_user(caller)).await?;
        runs.retain(|(mark, _)| after.as_ref().is_none_or(|after| mark > after));
        runs.sort_unstable();
        let (mut questions, mut last) = (Vec::new(), None);
        for (mark, run) in runs {
            if questions.len() >= page::MOST {
                return Ok((questions, last));
            }
            if let Some(watched) = self.if_there(&run).await? {
                let state = watched.state();
                questions.extend(state.reader.open.values().map(|open| open.question.clone()));
            }
            last = Some(mark);
        }
        Ok((questions, None))
    }

    /// Returns a page of the conversations of a user, each with its runs.
    pub(crate) async fn conversations(
        &self,
        caller: &Caller,
        after: Option<Mark>,
    ) -> Result<(Vec<Vec<RunSummary>>, Option<Mark>)> {
        self.home.conversations(&caller.user, &of_user(caller), after).await
    }

    /// Ends a run for good.
    pub(crate) async fn stop(self: &Arc<Self>, caller: &Caller, run: &str) -> Result<Arc<Watched>> {
        self.check_owner(caller, run)?;
        let watched = self.watch(run).await?;
        let keeps = watched.keeps_live();
        let unfinished = watched.state().unfinished_reply();
        if self.home.is_shared() {
            // First, so that no worker takes the run when its drive has ended.
            self.home.cancel(run, unfinished.clone()).await?;
        }
        let here = self.here().get(run).cloned();
        if let Some(here) = here {
            here.cancellation.cancel();
            let mut over = here.is_over.subscribe();
            let _ = tokio::time::timeout(MOST_WAIT, over.wait_for(|over| *over)).await;
        }
        if !self.home.is_shared() {
            self.home.cancel(run, unfinished).await?;
        }
        self.refresh(&[Arc::clone(&watched)]).await?;
        drop(keeps);
        Ok(watched)
    }

    /// Checks that a run is one of the caller. The runs of others are not there.
    pub(super) fn check_owner(&self, caller: &Caller, run: &str) -> Result<()> {
        match run.strip_prefix(&escaped(&caller.user)).is_some_and(|rest| rest.starts_with(':')) {
            true => Ok(()),
            false => Err(ServeError::NoSuchRun { id: run.to_owned() }),
        }
    }
}

/// Returns the beginning of the ids of the runs of a user.
fn of_user(caller: &Caller) -> String {
    format!("{}:", escaped(&caller.user))
}

/// Checks that a decision suits its question, in the words of clients.
fn check(asked: &Approval, decision: &Decision) -> Result<()> {
    let reason = match asked.check(decision) {
        Err(WrongDecision::Irreversible) => {
            "the call may have taken effect and is irreversible; decide `call_again`, `happened` or `deny`"
        }
        Err(WrongDecision::NotMade) => {
            "the call was not made, so it has no result; decide `approve`, `edit` or `deny`"
        }
        // With another character in its place, the call would be another one.
        _ if matches!(decision, Decision::Edit { arguments } if has_lost_half(arguments)) => {
            "a text in the arguments was cut inside a character; send it whole"
        }
        // The home checks the arguments.
        _ => return Ok(()),
    };
    Err(ServeError::Decision { reason: reason.to_owned() })
}
