//! Progress notifications: the events of a call, for clients that asked for them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwright_module::Context;
use toolwright_module::event::{Event, EventKind};

/// Maximum number of queued notifications. If a client is slower, further ones are dropped.
const MAX_QUEUED: usize = 64;

/// Timeout for sending the remaining notifications before the response.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `work` and sends its events to `peer`. After it returns, no more events are sent.
pub(crate) async fn with_progress<T, W: Future<Output = T>>(
    cx: Context,
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    cancelled: &CancellationToken,
    work: impl FnOnce(Context) -> W,
) -> T {
    let Some(token) = token else { return work(cx).await };
    let (sender, mut events) = mpsc::channel(MAX_QUEUED);
    let cx = cx.with_events(move |event: &Event| {
        if let Some(text) = text(&event.kind) {
            // If the queue is full, the event is dropped, so that the call is not delayed.
            let _ = sender.try_send(text);
        }
    });
    let ended = CancellationToken::new();
    let notify = async {
        let mut done = 0.0;
        loop {
            tokio::select! {
                biased;
                // Tasks that the call started may go on, but their events are not sent.
                () = ended.cancelled(), if !events.is_closed() => events.close(),
                text = events.recv() => {
                    let Some(text) = text else { return };
                    done += 1.0;
                    let step = ProgressNotificationParam::new(token.clone(), done);
                    // An error means that the client has disconnected, which the response notices.
                    let _ = peer.notify_progress(step.with_message(text)).await;
                }
            }
        }
    };
    let (mut work, mut notify) = (pin!(work(cx)), pin!(notify));
    let outcome = tokio::select! {
        biased;
        outcome = &mut work => outcome,
        () = &mut notify => return work.await,
    };
    ended.cancel();
    if !cancelled.is_cancelled() {
        // The protocol does not allow notifications after the response.
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, notify).await;
    }
    outcome
}

/// Returns the text of an event. It contains names only, because texts, arguments and errors may
/// be confidential.
fn text(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Started { agent, .. } => format!("{agent} started"),
        EventKind::ModelReplied { .. } => "the model replied".to_owned(),
        EventKind::ToolStarted { call } => format!("{} started", call.name),
        EventKind::ToolFinished { call, error: None, .. } => format!("{} finished", call.name),
        EventKind::ToolFinished { call, .. } => format!("{} failed", call.name),
        EventKind::ApprovalAwaited { .. } => "waiting for approval".to_owned(),
        EventKind::Compacted { .. } => "the conversation was shortened".to_owned(),
        EventKind::LimitReached { .. } => "a limit was reached".to_owned(),
        _ => return None,
    })
}
