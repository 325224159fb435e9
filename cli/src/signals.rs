use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::sync::watch;
use toolwright_module::{Cancellation, Context};

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
        // The handler is there when this returns. In a task it may come too late: on a busy machine, a
        // press ended the program.
        if let Ok(mut presses) = presses() {
            tokio::spawn(async move {
                while presses.recv().await.is_some() && !sender.is_closed() {
                    sender.send_modify(|count| *count += 1);
                }
            });
        }
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

#[cfg(unix)]
fn presses() -> io::Result<tokio::signal::unix::Signal> {
    use tokio::signal::unix::{SignalKind, signal};

    signal(SignalKind::interrupt())
}

#[cfg(windows)]
fn presses() -> io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}

/// Time that work has to end after Ctrl-C.
const END_TIME: Duration = Duration::from_secs(2);

/// Does work in a context that Ctrl-C cancels, and returns its result. After Ctrl-C the work has a
/// moment, for example to cancel a call at its server and to close that server; a second press ends
/// it at once. The result is `None` then.
pub(crate) async fn until_ctrl_c<T>(work: impl AsyncFnOnce(&Context) -> T) -> Option<T> {
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let mut work = std::pin::pin!(work(&cx));
    let interrupts = Interrupts::listen();
    tokio::select! {
        done = &mut work => return Some(done),
        () = interrupts.next() => {}
    }
    cancellation.cancel();
    tokio::select! {
        _ = &mut work => {}
        () = interrupts.next() => {}
        () = tokio::time::sleep(END_TIME) => {}
    }
    None
}

/// Waits for a signal that asks this program to end: SIGTERM, or SIGHUP when its terminal closes.
///
/// A program that handles the signal can close the servers that it started. Ctrl-C is not included,
/// because it may end only a task.
pub(crate) async fn terminated() {
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
