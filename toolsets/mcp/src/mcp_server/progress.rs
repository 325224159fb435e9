//! What happens in a call, as progress for a client that asked for it.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwright_module::Context;
use toolwright_module::event::{Event, EventKind};

/// How much may wait for a slow client; what comes then is not told.
const WAITING: usize = 64;

/// How long a client may keep an answer back by not taking progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `work` and tells `peer` what happens in it; nothing more once it returns.
pub(crate) async fn told<T, W: Future<Output = T>>(
    cx: Context,
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    cancelled: &CancellationToken,
    work: impl FnOnce(Context) -> W,
) -> T {
    let Some(token) = token else { return work(cx).await };
    let (sender, mut events) = mpsc::channel(WAITING);
    let cx = cx.with_events(move |event: &Event| {
        if let Some(text) = text(&event.kind) {
            // A call is not slowed down by whoever looks on.
            let _ = sender.try_send(text);
        }
    });
    let over = CancellationToken::new();
    let tell = async {
        let mut done = 0.0;
        loop {
            tokio::select! {
                biased;
                // What a call left running may go on, but tells no more.
                () = over.cancelled(), if !events.is_closed() => events.close(),
                text = events.recv() => {
                    let Some(text) = text else { return };
                    done += 1.0;
                    let step = ProgressNotificationParam::new(token.clone(), done);
                    // It is the answer that says whether the client is still there.
                    let _ = peer.notify_progress(step.with_message(text)).await;
                }
            }
        }
    };
    let (mut work, mut tell) = (pin!(work(cx)), pin!(tell));
    let outcome = tokio::select! {
        biased;
        outcome = &mut work => outcome,
        () = &mut tell => return work.await,
    };
    over.cancel();
    if !cancelled.is_cancelled() {
        // All of it before the answer: after that it would be wrong.
        let _ = tokio::time::timeout(PATIENCE, tell).await;
    }
    outcome
}

/// Names and no more: texts, arguments and errors may be for others.
fn text(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Started { agent, .. } => format!("{agent} began"),
        EventKind::ModelReplied { .. } => "the model replied".to_owned(),
        EventKind::ToolStarted { call } => format!("{} runs", call.name),
        EventKind::ToolFinished { call, error: None, .. } => format!("{} is done", call.name),
        EventKind::ToolFinished { call, .. } => format!("{} failed", call.name),
        EventKind::ApprovalAwaited { .. } => "a person is asked".to_owned(),
        EventKind::LimitReached { .. } => "a limit was reached".to_owned(),
        _ => return None,
    })
}
