/// Waits until a system asks this program to end: SIGTERM, or SIGHUP when its terminal goes.
///
/// Whoever waits for it can close the servers that it started; a program that is ended by
/// the signal itself leaves them to find out. Ctrl-C is not among them: it may mean a task.
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
