//! [`Calls`], which runs calls within the limits of the server: rate, concurrency, queue, timeout.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Error, Result};

use crate::until;

/// Maximum number of calls in the queue.
const MAX_QUEUED: usize = 1024;

/// Time for a cancelled call to clean up before it is dropped.
const GRACE: Duration = Duration::from_secs(2);

/// The limits of an [`McpServer`](crate::McpServer), for all its clients together.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Timeout of a call, including the time in the queue. Default: 5 minutes.
    ///
    /// After the timeout the client gets an error, the call's context is cancelled, and its
    /// future is dropped. [`Duration::MAX`] means no timeout. Work that blocks its thread cannot
    /// be stopped: run it with `spawn_blocking`.
    pub tool_time: Duration,
    /// Maximum number of concurrent calls. Default: 64. The minimum is 1.
    ///
    /// Up to 1024 further calls wait in a queue. If the queue is full, a call fails with a text
    /// that asks to retry later.
    pub max_parallel: usize,
    /// Maximum number of calls per period. Default: 1000 in 10 seconds.
    ///
    /// A call above the limit fails with a text that says how long to wait. A period of zero
    /// means no limit.
    pub max_rate: (u32, Duration),
    /// Maximum size of a result in bytes, texts and images together. Default: 4 MiB.
    ///
    /// Images and files that have no room beside the texts are left out, and a text says so. If the
    /// texts are larger, the client gets an error that asks to request less.
    pub max_result_bytes: usize,
    /// Maximum size of a request in bytes. Default: 4 MiB.
    ///
    /// The response to a larger request is the status 413 over HTTP, and the error -32600 over
    /// standard input. Such a request is not held in memory as a whole.
    pub max_message_bytes: usize,
    /// Time after which an idle HTTP session ends. Default: 5 minutes.
    ///
    /// A session with an open stream or a running call is not idle. After the end of its session, a
    /// client gets the status 404 and starts another session. [`Duration::MAX`] means no limit; the
    /// number of sessions is limited to 1024, and a further one ends the one that was idle for
    /// longest.
    pub session_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            tool_time: Duration::from_secs(300),
            max_parallel: 64,
            max_rate: (1000, Duration::from_secs(10)),
            max_result_bytes: 4 * 1024 * 1024,
            max_message_bytes: 4 * 1024 * 1024,
            session_time: Duration::from_secs(300),
        }
    }
}

/// The calls of a server.
pub(crate) struct Calls {
    pub(crate) limits: ServerLimits,
    running: Semaphore,
    waiting: Semaphore,
    rate: Mutex<RateLimit>,
    tracker: TaskTracker,
}

impl Calls {
    pub(crate) fn new(limits: ServerLimits) -> Self {
        let parallel = limits.max_parallel.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            limits,
            running: Semaphore::new(parallel),
            waiting: Semaphore::new(MAX_QUEUED),
            rate: Mutex::new(RateLimit::new(limits.max_rate, Instant::now())),
            tracker: TaskTracker::new(),
        }
    }

    /// Runs the work of a call within the limits, until it ends, is cancelled or times out.
    pub(crate) async fn run<T, W: Future<Output = Result<T>>>(
        &self,
        name: &str,
        cx: Context,
        cancelled: &CancellationToken,
        work: impl FnOnce(Context) -> W,
    ) -> Result<T> {
        if self.tracker.is_closed() {
            return Err(Error::refuse("The server is shutting down.").at(Stage::Limit));
        }
        let _running = self.tracker.token();
        self.check_rate()?;
        let cancel = CancelOnDrop(Cancellation::default());
        let cx = cx.with_cancellation(cancel.0.clone());
        let cx = match Instant::now().checked_add(self.limits.tool_time) {
            Some(deadline) => cx.with_deadline(deadline),
            None => cx,
        };
        let deadline = cx.deadline();
        let work = async {
            // A call that is cancelled in the queue does not start.
            let _permit = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(was_cancelled()),
                permit = self.permit() => permit?,
            };
            work(cx).await
        };
        let mut work = pin!(work);
        tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = cancelled.cancelled() => {
                cancel.0.cancel();
                let rest = tokio::time::timeout(GRACE, work).await;
                rest.unwrap_or_else(|_| Err(was_cancelled()))
            }
            () = until(deadline) => {
                let text = format!(
                    "`{name}` did not end in time. Ask for less, or call again later.",
                );
                Err(Error::retry(text).at(Stage::Limit).retryable(true))
            }
        }
    }

    fn check_rate(&self) -> Result<()> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.take(Instant::now()).map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil();
            let text = format!("Too many calls: wait {seconds} s, then call again.");
            Error::retry(text).at(Stage::Limit).retryable(true)
        })
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        if let Ok(permit) = self.running.try_acquire() {
            return Ok(permit);
        }
        let busy = || Error::retry("The server is busy: call again later.").at(Stage::Limit);
        let _waiting = self.waiting.try_acquire().map_err(|_| busy().retryable(true))?;
        self.running.acquire().await.map_err(|_| busy())
    }

    /// Rejects new calls, and waits for the running ones up to `grace`.
    pub(crate) async fn end(&self, grace: Duration) {
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::warn!(calls = self.tracker.len(), "calls were cancelled by the shutdown");
        }
    }
}

fn was_cancelled() -> Error {
    Error::stop("the call was cancelled").at(Stage::Cancelled)
}

/// Cancels the call's context when it is dropped, for tasks that the call started.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A token bucket: `calls` is its capacity, and it fills up in the period `per`.
struct RateLimit {
    calls: f64,
    per: Duration,
    left: f64,
    updated: Instant,
}

impl RateLimit {
    fn new((calls, per): (u32, Duration), now: Instant) -> Self {
        let calls = f64::from(calls.max(1));
        Self { calls, per, left: calls, updated: now }
    }

    /// Takes one token, or returns the time until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.per.is_zero() {
            return Ok(());
        }
        let per_second = self.calls / self.per.as_secs_f64();
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.left = (self.left + passed * per_second).min(self.calls);
        self.updated = now;
        if self.left < 1.0 {
            let wait = (1.0 - self.left) / per_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limit_allows_a_burst_and_refills_with_time() {
        let start = Instant::now();
        let mut rate = RateLimit::new((2, Duration::from_secs(10)), start);
        assert_eq!(rate.take(start), Ok(()));
        assert_eq!(rate.take(start), Ok(()));
        assert_eq!(rate.take(start), Err(Duration::from_secs(5)));
        assert_eq!(rate.take(start + Duration::from_secs(4)), Err(Duration::from_secs(1)));
        assert_eq!(rate.take(start + Duration::from_secs(5)), Ok(()));
        // After an hour there are no more tokens than the capacity.
        let later = start + Duration::from_secs(3600);
        assert_eq!([(); 3].map(|()| rate.take(later).is_ok()), [true, true, false]);
    }
}
