/// Waits for a signal that asks this program to end: SIGTERM, or SIGHUP when its terminal closes.
///
/// A program that handles the signal can close the servers that it started. Ctrl-C is not included,
/// because it may end only a task.
pub async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let heard = |kind| async move {
            match signal(kind) {
                Ok(mut signal) => signal.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = heard(SignalKind::terminate()) => {}
            _ = heard(SignalKind::hangup()) => {}
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}
