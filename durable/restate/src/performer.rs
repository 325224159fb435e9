//! The performer of a run. It sends each part to the loop that has Restate's context.
//!
//! A performer has to be `'static`, because it travels in the context of agents below the agent, and
//! Restate's context is borrowed. So the work stays in the future of the drive, and only the
//! permission to begin and the outcome are sent.

use std::mem;
use std::sync::Arc;

use futures_util::future::{Either, join_all, select};
use tokio::sync::{Notify, mpsc, oneshot};
use toolwright_module::Message;
use toolwright_module::message::{Part as MessagePart, Source};
use toolwright_module::model::BoxFuture;
use toolwright_orchestrator::perform::{
    Open, Outcome, OutcomeKind, Part, PartKind, Perform, Performed, Work,
};

/// Maximum size of the images, documents and audio of a result, in bytes. Restate refuses messages of
/// more than 32 MiB by default, and in a message the bytes are in base64, which is a third longer.
const MAX_PART_BYTES: usize = 16 << 20;

/// Maximum size of the whole text of a result as JSON, in bytes. It is in the same message as the parts.
const MAX_WHOLE_BYTES: usize = 8 << 20;

/// A part that waits for its step.
pub(crate) struct Request {
    pub(crate) part: Part,
    /// Lets the work begin.
    pub(crate) go: Arc<Notify>,
    /// The end of the work.
    pub(crate) done: oneshot::Receiver<Performed>,
    /// The outcome, when it is in Restate's journal.
    pub(crate) answer: oneshot::Sender<Performed>,
}

/// Parts that may be done at the same time.
pub(crate) struct Batch {
    pub(crate) requests: Vec<Request>,
    /// How many of them.
    pub(crate) most: usize,
}

pub(crate) struct Performer {
    batches: mpsc::UnboundedSender<Batch>,
    max_result_bytes: u64,
}

/// The handler has ended, so the part cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the drive of this run has ended; await everything that a tool starts with its context, and give each drive a context of its own"
)]
struct Ended;

impl Performer {
    pub(crate) fn new(max_result_bytes: u64) -> (Self, mpsc::UnboundedReceiver<Batch>) {
        let (batches, receiver) = mpsc::unbounded_channel();
        (Self { batches, max_result_bytes }, receiver)
    }

    /// Returns the request of a part, and the future that does its work.
    fn request<'a>(&'a self, part: Part, work: Work<'a>) -> (Request, BoxFuture<'a, Performed>) {
        let go = Arc::new(Notify::new());
        let ((done, done_receiver), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        let request = Request { part: part.clone(), go: go.clone(), done: done_receiver, answer };
        let performed = async move {
            // The answer without permission is that of an earlier attempt.
            let answered = {
                let going = std::pin::pin!(go.notified());
                match select(answered, going).await {
                    Either::Left((answer, _)) => {
                        return answer.unwrap_or_else(|_| Err(Ended.into()));
                    }
                    Either::Right(((), answered)) => answered,
                }
            };
            let performed = self.limited(&part, work).await;
            // After a cancellation, the receiver is gone.
            let _ = done.send(performed);
            answered.await.unwrap_or_else(|_| Err(Ended.into()))
        };
        (request, Box::pin(performed))
    }

    /// Does the work, and keeps no result of a call that is too large.
    async fn limited(&self, part: &Part, work: Work<'_>) -> Performed {
        let outcome = work.await?;
        match &part.kind {
            PartKind::Call { call, .. } => {
                let outcome = outcome.with_most_bytes(call, self.max_result_bytes)?;
                let mut outcome = outcome.with_most_whole_bytes(MAX_WHOLE_BYTES);
                bound_parts(&mut outcome);
                Ok(outcome)
            }
            PartKind::Compact { .. } => {
                let mut outcome = outcome;
                bound_sent(&mut outcome);
                Ok(outcome)
            }
            _ => Ok(outcome),
        }
    }

    fn send(&self, requests: Vec<Request>, most: usize) -> Result<(), Open> {
        self.batches.send(Batch { requests, most }).map_err(|_| Ended.into())
    }
}

/// Leaves out the images, documents and audio of a result that are too large for a message. The text
/// says so.
fn bound_parts(outcome: &mut Outcome) {
    let OutcomeKind::Called { result, .. } = &mut outcome.kind else { return };
    let all = result.parts.len();
    // The numbers in the text, such as `[image 2]`, count from the first one.
    let missing = leave_out(&mut result.parts, &mut Some(MAX_PART_BYTES));
    if missing > 0 {
        result.text.push_str(&format!(
            "\n[{missing} of {all} images or files are left out: this run keeps at most {MAX_PART_BYTES} bytes of them; ask for smaller ones]"
        ));
    }
}

/// Leaves out images, documents and audio of what is sent after a compaction, if they are too large for
/// a message. The last ones stay. The texts say so.
fn bound_sent(outcome: &mut Outcome) {
    let OutcomeKind::Compacted { sent, .. } = &mut outcome.kind else { return };
    let mut room = Some(MAX_PART_BYTES);
    for message in sent.iter_mut().rev() {
        let parts = match &**message {
            Message::User { parts } => parts,
            Message::Tool(result) => &result.parts,
            _ => continue,
        };
        let size = parts.iter().map(size).fold(0, usize::saturating_add);
        if let Some(left) = room.and_then(|left| left.checked_sub(size)) {
            room = Some(left);
            continue;
        }
        let note = |missing: usize| {
            format!(
                "[{missing} images or files are left out: the conversation was shortened, and this run sends at most {MAX_PART_BYTES} bytes of them]"
            )
        };
        match Arc::make_mut(message) {
            Message::User { parts } => {
                // What the user wrote stays.
                let is_text = |part: &MessagePart| matches!(part, MessagePart::Text(_));
                let (texts, mut others) = mem::take(parts).into_iter().partition(is_text);
                let missing = leave_out(&mut others, &mut room);
                *parts = texts;
                parts.append(&mut others);
                if missing > 0 {
                    parts.push(MessagePart::Text(note(missing)));
                }
            }
            Message::Tool(result) => match leave_out(&mut result.parts, &mut room) {
                0 => {}
                missing => result.text = format!("{}\n{}", result.text, note(missing)),
            },
            _ => {}
        }
    }
}

/// Keeps the first parts that fit. Returns the number of the others.
fn leave_out(parts: &mut Vec<MessagePart>, room: &mut Option<usize>) -> usize {
    let all = parts.len();
    parts.retain(|part| {
        let left = room.and_then(|left| left.checked_sub(size(part)));
        *room = left;
        left.is_some()
    });
    all - parts.len()
}

fn size(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text(text) => text.len(),
        part => part.source().map_or(0, Source::size),
    }
}

impl Perform for Performer {
    fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
        // It is made of parts, which are steps themselves. A step cannot contain steps.
        if matches!(part.kind, PartKind::Run { .. }) {
            return work;
        }
        let (request, performed) = self.request(part, work);
        match self.send(vec![request], 1) {
            Ok(()) => performed,
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn perform_all<'a>(
        &'a self,
        parts: Vec<(Part, Work<'a>)>,
        most: usize,
    ) -> BoxFuture<'a, Vec<Performed>> {
        let (mut requests, mut performed) = (Vec::new(), Vec::with_capacity(parts.len()));
        for (part, work) in parts {
            if matches!(part.kind, PartKind::Run { .. }) {
                performed.push(work);
                continue;
            }
            let (request, part) = self.request(part, work);
            requests.push(request);
            performed.push(part);
        }
        // If nobody receives the requests, each part reports that.
        let _ = self.send(requests, most.max(1));
        Box::pin(join_all(performed))
    }

    fn side_by_side(&self) -> bool {
        false
    }
}
