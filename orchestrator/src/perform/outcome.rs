//! [`Outcome`], the end of a part as it is stored.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::approval::Decision;
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::message::ToolResult;
use toolwright_module::{Message, Reply, ToolCall};

use crate::compaction::Compacted;
use crate::limits::shorten_whole;

/// The outcome of a part, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The outcome.
    pub kind: OutcomeKind,
    /// The cost of the part, including everything below it.
    #[serde(default)]
    pub spent: Spent,
    /// Duration of the work. It counts towards [`Limits::max_time`](crate::Limits::max_time), in this
    /// drive and in every later one that finds the outcome.
    ///
    /// If the run's time ended during a call, or before it could begin, this is the time since the
    /// step began: all of the run's time is over then.
    #[serde(default)]
    pub elapsed: Duration,
    /// Name of the person who decided, if the program gave it. It is for people who look at the run,
    /// and nothing follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The kind of an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The model's reply.
    Reply(Reply),
    /// A limit of the run forbade the request or the call, which was not begun. With a larger one,
    /// the request is sent.
    Exhausted {
        /// The kind of limit.
        limit: LimitKind,
        /// The limit. Money is in millionths, time in milliseconds.
        allowed: u64,
    },
    /// The result of a call, and the whole error if it failed.
    Called {
        /// The result for the model.
        result: ToolResult,
        /// The error for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A person's decision.
    Decided(Decision),
    /// The call started, and it is unknown whether it took effect. A performer returns this only for
    /// an attempt that started in an earlier drive.
    Unknown,
    /// A compaction of the conversation.
    Compacted {
        /// The conversation as it is sent from then on, in place of all messages so far.
        sent: Vec<Arc<Message>>,
        /// What it did.
        compacted: Compacted,
    },
    /// A value of a module.
    Value(Value),
}

impl Outcome {
    /// Returns an outcome that took no time and cost nothing.
    #[must_use]
    pub fn new(kind: OutcomeKind) -> Self {
        Self { kind, spent: Spent::default(), elapsed: Duration::ZERO, by: None }
    }

    /// Returns the outcome of a call, for a performer that keeps at most `most` bytes of one.
    ///
    /// Images, documents and audio do not count: their limit is
    /// [`Limits::max_part_bytes`](crate::Limits::max_part_bytes), and the text is never lost because
    /// of them. The [whole text](ToolResult::whole) does not count either: its limit is
    /// [`Limits::max_kept_bytes`](crate::Limits::max_kept_bytes). If the result is too large with its value for programs, the value is dropped. A
    /// result that is still too large is replaced by a failure that tells the model so, before
    /// anything is recorded. Other outcomes are returned unchanged.
    ///
    /// # Errors
    ///
    /// The outcome cannot be written as JSON.
    ///
    /// ```
    /// use toolwright_module::ToolCall;
    /// use toolwright_module::message::ToolResult;
    /// use toolwright_orchestrator::perform::{Outcome, OutcomeKind};
    ///
    /// let call = ToolCall::new("1", "read_file", "{}");
    /// let result = ToolResult::new(&call, "a".repeat(1000));
    /// let outcome = Outcome::new(OutcomeKind::Called { result, error: None });
    /// assert_eq!(outcome.clone().with_most_bytes(&call, 2000)?, outcome);
    /// let OutcomeKind::Called { result, .. } = outcome.with_most_bytes(&call, 500)?.kind else {
    ///     unreachable!("it is a call");
    /// };
    /// assert!(result.failed);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn with_most_bytes(mut self, call: &ToolCall, most: u64) -> serde_json::Result<Self> {
        let mut size = self.size_without_parts()?;
        if size > most
            && let OutcomeKind::Called { result, .. } = &mut self.kind
            && result.value.take().is_some()
        {
            size = self.size_without_parts()?;
        }
        if size > most {
            let text = format!(
                "The call was made, but its result of {size} bytes was dropped: this run keeps at most {most} bytes of a result. Do not repeat a call that changes something. Ask for less, for example for a part of it."
            );
            let result = ToolResult::failed(call, text.clone());
            self.kind = OutcomeKind::Called { result, error: Some(text) };
        }
        Ok(self)
    }

    /// Returns the outcome of a call, for a performer that keeps at most `most` bytes of the
    /// [whole text](ToolResult::whole) of a result, as JSON. A longer one is cut, and `read_result` says
    /// where it ends. Other outcomes are returned unchanged.
    #[must_use]
    pub fn with_most_whole_bytes(mut self, most: usize) -> Self {
        if let OutcomeKind::Called { result, .. } = &mut self.kind {
            shorten_whole(result, most);
        }
        self
    }

    /// Returns the length of the result of a call as JSON, without its images, documents and audio and
    /// its whole text. It is 0 for another outcome.
    fn size_without_parts(&mut self) -> serde_json::Result<u64> {
        let OutcomeKind::Called { result, .. } = &mut self.kind else { return Ok(0) };
        let parts = std::mem::take(&mut result.parts);
        let whole = result.whole.take();
        let mut size = Size(0);
        let written = serde_json::to_writer(&mut size, &self.kind);
        if let OutcomeKind::Called { result, .. } = &mut self.kind {
            result.parts = parts;
            result.whole = whole;
        }
        written.map(|()| size.0)
    }
}

/// The number of bytes that were written.
struct Size(u64);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
