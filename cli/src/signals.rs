use std::cell::Cell;

use tokio::sync::watch;

/// The presses of Ctrl-C. It listens from its creation on, so that no press is lost between two tasks.
#[derive(Debug)]
pub(crate) struct Interrupts {
    count: watch::Receiver<u64>,
    seen: Cell<u64>,
}

impl Interrupts {
    /// Begins to listen.
    pub(crate) fn listen() -> Self {
        let (sender, count) = watch::channel(0);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() && !sender.is_closed() {
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { count, seen: Cell::new(0) }
    }

    /// Waits for a press that was not seen yet.
    pub(crate) async fn next(&self) {
        let (mut count, seen) = (self.count.clone(), self.seen.get());
        // Without a handler for the signal, it ends the program.
        if count.wait_for(|count| *count > seen).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.forget();
    }

    /// Forgets all presses so far.
    pub(crate) fn forget(&self) {
        self.seen.set(*self.count.borrow());
    }
}

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
