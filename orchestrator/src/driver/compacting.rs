//! Compactions before a request to the model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::FutureExt;
use tokio::time::Instant;
use toolwright_module::budget::Ledger;
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::{Error, Message, Result, ToolCall, runner};

use super::Driver;
use super::caller::{Caller, drop_payload};
use super::waiting::before_deadlines;
use crate::compaction::{
    Compacted, Compaction, Room, Summarize, Summarizer, Tail, View, pieces, summary_text,
    without_model,
};
use crate::error::RunError;
use crate::limits::cut;
use crate::perform::{self, Open, Outcome, OutcomeKind, Part, PartKind};
use crate::run::Run;

/// The name of a summary in the path of its events, as in the id of its part.
const COMPACT: &str = "compact";

/// Length of the prompt of [`Summarize`] without its input, in bytes.
const SIGNATURE_BYTES: usize = 2000;

/// Length of the part of a conversation that is summarized at once, in bytes, if the window is small.
const LEAST_PIECE: usize = 2000;

/// The number of tokens from which a refused request without a number is taken for the window.
const LEAST_BELIEVED: u64 = 4000;

/// Length to which a summary is cut at least, in bytes.
const SHORT_SUMMARY: usize = 400;

/// The smallest window of a model that an error is believed to name, in tokens.
const LEAST_WINDOW: u64 = 1000;

/// A compaction that has to be made. In `made` is what is known without the summary.
enum Plan {
    /// It needs no summary, and this is sent then.
    Send { sent: Vec<Arc<Message>>, made: Compacted },
    /// Messages before the tail are summarized. Without such messages, the summary of before is cut.
    Summarize { tail: Tail, to_summarize: Vec<Arc<Message>>, room: Room, made: Compacted },
}

impl Driver<'_> {
    /// Shortens the conversation before the next request, if it is too long. `refused` is what the
    /// provider said if it refused the request. Returns whether a new compaction was made.
    pub(super) async fn compact(
        &mut self,
        refused: Option<ContextExceeded>,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        loop {
            let (run, rules) = (&*self.track.run, self.caller.agent.compaction.as_ref());
            let attempt = run.compactions_now();
            let is_recorded = run.was_compacted(attempt);
            let plan = match rules {
                _ if is_recorded => None,
                Some(rules) if refused.is_some() || attempt == 0 && !run.was_asked() => {
                    self.plan(rules, refused)?
                }
                _ => None,
            };
            if plan.is_none() && !is_recorded {
                return Ok(false);
            }
            self.compact_by(plan, attempt, deadline).await?;
            if !is_recorded {
                return Ok(true);
            }
        }
    }

    /// Returns what a compaction would do. `None` if none is needed, or it would not help.
    fn plan(&self, rules: &Compaction, refused: Option<ContextExceeded>) -> Result<Option<Plan>> {
        let planned = || plan(self.track.run, rules, refused);
        let planned = catch_unwind(AssertUnwindSafe(planned));
        planned.map_err(|panic| {
            drop_payload(panic);
            RunError::Panicked { what: "the rule of what is kept in a compaction" }.into_module()
        })
    }

    async fn compact_by(
        &mut self,
        plan: Option<Plan>,
        attempt: u32,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let Self { caller, track, .. } = self;
        let made = AtomicBool::default();
        let sent = track.run.sent().into_owned();
        let part = Part {
            path: caller.cx.path(),
            kind: PartKind::Compact { nth: track.run.asked(), attempt },
        };
        let run = &*track.run;
        let work = async {
            made.store(true, Ordering::Relaxed);
            let began = Instant::now();
            let Some(plan) = plan else {
                let text = "the performer has no outcome for a compaction that it has recorded";
                return Err(Open::Work(Error::stop(text).at(Stage::Journal)));
            };
            let caller = caller.of_part(false);
            let view = run.view(&sent);
            let compacted = caller.compacted(plan, &view, deadline).await;
            let (sent, compacted) = compacted.map_err(Open::Work)?;
            // The run has the whole texts of results.
            let sent = sent.into_iter().map(Message::to_send).collect();
            let spent = caller.cx.ledger().map(Ledger::committed).unwrap_or_default();
            let kind = OutcomeKind::Compacted { sent, compacted };
            Ok(Outcome { kind, spent, elapsed: began.elapsed(), by: None })
        };
        let performed = match perform::performer(&caller.cx).cloned() {
            Some(performer) => caller.perform(&*performer, part, Box::pin(work)).await,
            None => work.await.map_err(Error::from),
        };
        let outcome = caller.found(performed, &made)?;
        let OutcomeKind::Compacted { sent, compacted } = outcome.kind else {
            return Err(perform::another_kind());
        };
        let now = compacted.clone();
        track.run.take_compaction(sent, compacted).map_err(RunError::into_module)?;
        if let Some(rules) = &caller.agent.compaction {
            // The window may be known now.
            caller.limits.max_result_bytes = track.run.most_result_bytes(rules);
        }
        track.lap();
        track.run.add_elapsed(outcome.elapsed);
        let spent = track.spent(caller);
        track.run.charge(spent);
        if made.load(Ordering::Relaxed) {
            let Compacted { tokens_before, tokens_after, cleared, summary, .. } = now;
            let elapsed = outcome.elapsed;
            caller.cx.emit(|| EventKind::Compacted {
                tokens_before,
                tokens_after,
                cleared,
                summary,
                elapsed,
            });
        }
        Ok(())
    }
}

fn plan(run: &Run, rules: &Compaction, refused: Option<ContextExceeded>) -> Option<Plan> {
    let estimated = run.request_tokens();
    let window = refused.as_ref().and_then(|refused| refused.window);
    // Some servers name what is left beside the reply.
    let window = window.filter(|window| *window >= LEAST_WINDOW);
    let tokens = match &refused {
        Some(refused) => {
            // Without numbers, the window is at most what was refused.
            let least = refused.tokens.or(refused.window).unwrap_or_default();
            estimated.max(least)
        }
        None => estimated,
    };
    let most = match &refused {
        Some(_) => run.most_tokens(rules).into_iter().chain([window.unwrap_or(tokens)]).min()?,
        None => run.most_tokens(rules)?,
    };
    // Without a number, only a long request is believed to say where the window ends.
    let is_plausible = tokens >= rules.window.map_or(LEAST_BELIEVED, |window| window / 4);
    let window = window.or((refused.is_some() && is_plausible).then_some(tokens));
    if refused.is_none() {
        // What cannot be made shorter is not tried again in each round.
        let last = run.compactions().last().map_or(0, |made| made.tokens_after);
        if tokens <= most.max(last.saturating_add(most / 4)) {
            return None;
        }
    }
    let (room, sent) = (run.room(rules, window, most, tokens), run.sent());
    let view = run.view(&sent);
    let mut made = Compacted {
        request: run.asked(),
        tokens_before: tokens,
        tokens_after: 0,
        cleared: 0,
        summary: None,
        kept: Vec::new(),
        window,
    };
    if rules.clears_results {
        let cleared = view.cleared(rules);
        let tokens_after = room.tokens(&cleared.messages);
        let is_shorter = cleared.messages[..] != sent[..];
        if is_shorter && tokens_after <= room.target {
            keep(&mut made.kept, run.kept(), cleared.kept);
            made = Compacted { tokens_after, cleared: cleared.results, ..made };
            return Some(Plan::Send { sent: cleared.messages, made });
        }
    }
    let mut tail = view.tail(rules, room);
    let to_summarize = view.to_summarize(&tail);
    // A summary that is too long itself is cut once more.
    let has_long_summary = view.summary.is_some_and(|summary| summary.len() > SHORT_SUMMARY);
    if to_summarize.is_empty() && tail.cut == 0 && !(refused.is_some() && has_long_summary) {
        return None;
    }
    for message in &to_summarize {
        keep(&mut made.kept, run.kept(), rules.kept_of(message));
    }
    keep(&mut made.kept, run.kept(), std::mem::take(&mut tail.kept));
    made.cleared = tail.cut;
    if to_summarize.is_empty() && view.summary.is_none() {
        let sent = view.with_tail(&tail);
        made.tokens_after = room.tokens(&sent);
        return Some(Plan::Send { sent, made });
    }
    Some(Plan::Summarize { tail, to_summarize, room, made })
}

/// Adds the texts that are not kept yet.
fn keep(kept: &mut Vec<String>, before: &[String], more: Vec<String>) {
    for text in more {
        if !before.contains(&text) && !kept.contains(&text) {
            kept.push(text);
        }
    }
}

impl Caller<'_> {
    /// Returns what is sent after a compaction, and its record.
    async fn compacted(
        &self,
        plan: Plan,
        view: &View<'_>,
        deadline: Option<Instant>,
    ) -> Result<(Vec<Arc<Message>>, Compacted)> {
        let (tail, to_summarize, room, mut made) = match plan {
            Plan::Send { sent, made } => return Ok((sent, made)),
            Plan::Summarize { tail, to_summarize, room, made } => (tail, to_summarize, room, made),
        };
        let mut most = room.bytes(room.target / 4).max(SHORT_SUMMARY);
        let summary = match to_summarize.is_empty() {
            true => {
                let summary = view.summary.unwrap_or_default();
                if tail.cut == 0 {
                    most = most.min(summary.len() / 2);
                }
                summary.to_owned()
            }
            false => self.summary_of(&to_summarize, view, room, made.request, deadline).await?,
        };
        let summary = cut(&summary, most).into_owned();
        let text = summary_text(&summary, view.kept.iter().chain(&made.kept), view.can_read);
        let messages = view.summarized(&tail, &text);
        made.tokens_after = room.tokens(&messages);
        made.summary = Some(summary);
        Ok((messages, made))
    }

    /// Returns a summary of messages before the request number `nth`, or without a model what was done,
    /// if the model cannot give one.
    async fn summary_of(
        &self,
        messages: &[Arc<Message>],
        view: &View<'_>,
        room: Room,
        nth: u64,
        deadline: Option<Instant>,
    ) -> Result<String> {
        let agent = self.agent;
        let summarizer = match agent.compaction.as_ref().and_then(|it| it.summarizer.clone()) {
            Some(summarizer) => summarizer,
            None => Summarizer::of_model(Arc::clone(&agent.model), room.summary_reply)?,
        };
        let task = view.task_text();
        // The request has the task, the earlier summary and the signature too.
        let beside = task.len() + view.summary.map_or(0, str::len) + SIGNATURE_BYTES;
        let most = room.bytes(room.summary_request).saturating_sub(beside);
        let mut most = most.max(LEAST_PIECE);
        let room_for_summary = room.bytes(room.target / 4).max(SHORT_SUMMARY);
        // Its replies are not those of the run.
        let cx = runner::in_call(&self.cx, &ToolCall::new(nth.to_string(), COMPACT, ""));
        'again: loop {
            let mut earlier = view.summary.map(ToOwned::to_owned);
            for conversation in pieces(messages, most) {
                let ask = Summarize { task: task.clone(), earlier: earlier.clone(), conversation };
                // One model call is for the answer of the run.
                let _last = runner::keep_last_call(&self.ledger);
                let asked = AssertUnwindSafe(summarizer.summarize(ask, &cx)).catch_unwind();
                let asked = async {
                    asked.await.unwrap_or_else(|panic| {
                        drop_payload(panic);
                        Err(RunError::Panicked { what: "the summarizer" }.into_module())
                    })
                };
                let asked = pin!(self.cx.until_cancelled(asked));
                match before_deadlines(deadline, &self.cx, asked).await {
                    Some(Ok(summary)) if !summary.trim().is_empty() => earlier = Some(summary),
                    // The estimate was wrong.
                    Some(Err(error))
                        if error.context_exceeded().is_some() && most > LEAST_PIECE =>
                    {
                        most = (most / 2).max(LEAST_PIECE);
                        continue 'again;
                    }
                    Some(Err(error)) if !self.goes_on_without_summary(&error) => return Err(error),
                    _ => return Ok(without_model(view.summary, messages, room_for_summary)),
                }
            }
            return Ok(earlier.unwrap_or_default());
        }
    }

    /// Returns whether the run goes on without a summary of the model. It does if the summary itself is
    /// the reason: the model or its server refuses the request for it, the model gives none that is
    /// usable, or a limit of the run forbids it.
    fn goes_on_without_summary(&self, error: &Error) -> bool {
        let is_unusable = matches!(
            error.stage(),
            Stage::Decoding | Stage::Validation | Stage::Module | Stage::Panic
        );
        // An answer that was cut off is at the stage of limits.
        let is_cut_off = error.stage() == Stage::Limit && error.raw().is_some();
        // Any other error, such as one of the key or the account, ends the drive. The next drive tries
        // again, also after an error that may pass.
        !error.is_retryable() && (error.is_request_refused() || is_unusable || is_cut_off)
            || self.own_limit(error).is_some()
    }
}
