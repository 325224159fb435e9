//! Compactions of the conversation: the estimate of a request's length, and what they replace.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_module::model::Usage;
use toolwright_module::{Message, Request};

use crate::compaction::{Compacted, Compaction, Room, View, bound, estimated};
use crate::conversation::{Carried, Origin};
use crate::error::{Result, RunError};
use crate::run::{Edited, Run, is_system, parts_of};
use crate::state::RunState;

/// The length of a request: the most tokens that it could have, and those that its provider counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) bound: u64,
    pub(crate) tokens: u64,
}

/// The least length of a result that a small window allows, in bytes.
const LEAST_RESULT: usize = 1000;

/// The least maximum of tokens for the reply with a summary that a small window allows.
const LEAST_SUMMARY_REPLY: u64 = 256;

/// No tokenizer is known that makes fewer tokens of a text.
const LEAST_RATIO: f64 = 0.2;

impl Measured {
    fn ratio(self) -> f64 {
        (self.tokens as f64 / self.bound.max(1) as f64).clamp(LEAST_RATIO, 1.0)
    }
}

impl Run {
    /// Returns the compactions of the conversation, the first one first.
    #[must_use]
    pub fn compactions(&self) -> &[Compacted] {
        &self.state.compactions
    }

    /// Counts the length of each request from now on.
    pub(crate) fn measure_requests(&mut self) {
        self.measures = true;
    }

    /// Notes what the provider counted for the request that is answered now.
    pub(super) fn measure(&mut self, counted: Usage) {
        if !self.measures {
            return;
        }
        let bound = self.most_usage().input_tokens;
        if counted.input_tokens > 0 && !counted.incomplete {
            self.state.measured = Some(Measured { bound, tokens: counted.input_tokens });
        } else if self.state.measured.is_none() {
            // The server took it, so it has fewer tokens than the most that it could have.
            self.state.measured = Some(Measured { bound, tokens: bound / 2 });
        }
    }

    /// Returns the number of compactions before the next request.
    pub(crate) fn compactions_now(&self) -> u32 {
        let now = self.state.asked;
        let made = self.state.compactions.iter().rev().take_while(|made| made.request == now);
        u32::try_from(made.count()).unwrap_or(u32::MAX)
    }

    /// Returns whether an earlier drive made this compaction before the next request.
    pub(crate) fn was_compacted(&self, attempt: u32) -> bool {
        let key = (self.state.asked, attempt);
        self.earlier.as_ref().is_some_and(|earlier| earlier.compactions.contains(&key))
    }

    /// Returns whether an earlier drive got the reply to the next request, or to a later one.
    pub(crate) fn was_asked(&self) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| self.state.asked < earlier.replies)
    }

    /// Returns the estimated number of tokens of the next request.
    pub(crate) fn request_tokens(&self) -> u64 {
        let all = match self.measures {
            true => self.most_usage().input_tokens,
            false => bound(&self.state.sent()).saturating_add(self.contracts_tokens()),
        };
        estimated(all, self.ratio())
    }

    /// Returns the tokens for each byte. Before the provider has counted, a byte is a token.
    fn ratio(&self) -> f64 {
        self.state.measured.map_or(1.0, Measured::ratio)
    }

    /// Returns the number of tokens from which the next request is too long, if that is known.
    pub(crate) fn most_tokens(&self, rules: &Compaction) -> Option<u64> {
        rules.most_tokens(self.state.window, self.max_output_tokens())
    }

    /// Returns the maximum length of one result. It is a small part of a request, because a longer one
    /// would be cut by the next compaction: an eighth, at four bytes a token.
    pub(crate) fn most_result_bytes(&self, rules: &Compaction) -> usize {
        let limit = self.state.limits.max_result_bytes;
        let Some(tokens) = self.most_tokens(rules) else { return limit };
        let most = usize::try_from(tokens / 2).unwrap_or(usize::MAX);
        limit.min(most.max(LEAST_RESULT))
    }

    /// Returns the room of a request after a compaction, if a request of `tokens` was too long. `window`
    /// is what the provider named now, if it did.
    pub(crate) fn room(
        &self,
        rules: &Compaction,
        window: Option<u64>,
        most: u64,
        tokens: u64,
    ) -> Room {
        // The reply with a summary is not limited by the settings of the agent: they may be made for short
        // answers. A server may refuse a request whose longest reply does not fit beside it.
        let window = window.into_iter().chain(self.state.window).chain(rules.window).min();
        let summary_reply = window.map(|window| (window / 4).max(LEAST_SUMMARY_REPLY));
        let summary_reply = summary_reply.filter(|most| *most < Request::MAX_OUTPUT_TOKENS);
        let max_output = summary_reply.unwrap_or(Request::MAX_OUTPUT_TOKENS);
        let with_reply = rules.most_tokens(window, max_output);
        let summary_request = with_reply.map_or(most, |with_reply| with_reply.min(most)) / 4 * 3;
        let contracts = self.contracts_tokens();
        let all = bound(&self.state.sent()).saturating_add(contracts);
        // The provider may have counted more than the estimate.
        let ratio = (tokens as f64 / all.max(1) as f64).max(self.ratio());
        Room { ratio, contracts, target: most / 2, summary_request, summary_reply }
    }

    /// Returns the conversation for a compaction.
    pub(crate) fn view<'a>(&'a self, sent: &'a [Arc<Message>]) -> View<'a> {
        View {
            sent,
            task: self.task(),
            summary: self.state.summary.as_deref(),
            kept: &self.state.kept,
            can_read: self.reads_results(),
        }
    }

    /// Returns what the next task of the conversation has to know.
    pub(crate) fn carried(&self) -> Carried {
        let RunState { sent, found, summary, kept, measured, window, .. } = &self.state;
        Carried {
            sent: sent.clone(),
            found: found.clone(),
            summary: summary.clone(),
            kept: kept.clone(),
            measured: *measured,
            window: *window,
            run: Origin::default(),
        }
    }

    /// Returns the texts that are kept so far.
    pub(crate) fn kept(&self) -> &[String] {
        &self.state.kept
    }

    /// Applies a compaction: `sent` takes the place of all messages so far. The instructions are those
    /// of the run, which may have others than when the compaction was recorded.
    ///
    /// # Errors
    ///
    /// The errors of [`edit_sent`](Self::edit_sent). The run is unchanged then.
    pub(crate) fn take_compaction(
        &mut self,
        sent: Vec<Arc<Message>>,
        made: Compacted,
    ) -> Result<()> {
        let instructions = self.state.messages.first().filter(|first| is_system(first)).cloned();
        let others = sent.into_iter().filter(|message| !is_system(message));
        let edited = Edited::new(self.state.messages.len(), instructions.into_iter().chain(others));
        if let Some(what) = edited.fault(&self.state.messages) {
            return Err(RunError::Edit { what });
        }
        for message in &edited.by {
            self.ids.add(parts_of(message));
        }
        self.state.sent = Some(edited);
        self.show_all();
        self.state.window = made.window.or(self.state.window);
        self.state.kept.extend(made.kept.iter().cloned());
        if made.summary.is_some() {
            self.state.summary.clone_from(&made.summary);
        }
        self.state.compactions.push(made);
        self.count_messages();
        Ok(())
    }

    /// Adds the duration of a compaction, or of a step that has no result.
    pub(crate) fn add_elapsed(&mut self, elapsed: Duration) {
        self.state.elapsed = self.state.elapsed.saturating_add(elapsed);
    }
}
