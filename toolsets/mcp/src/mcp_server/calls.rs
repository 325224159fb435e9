//! How many calls may come, run and wait, and for how long.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Error, Result};

/// How many calls may wait for others to end.
const WAITING: usize = 1024;

/// How long a cancelled call may still work, to leave things in order.
const GRACE: Duration = Duration::from_secs(2);

/// The limits that a server's calls share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) tool_time: Duration,
    pub(crate) max_parallel: usize,
    pub(crate) max_rate: (u32, Duration),
    pub(crate) max_result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tool_time: Duration::from_secs(300),
            max_parallel: 64,
            max_rate: (1000, Duration::from_secs(10)),
            max_result_bytes: 4 * 1024 * 1024,
        }
    }
}

/// The calls of a server.
pub(crate) struct Calls {
    pub(crate) limits: Limits,
    running: Semaphore,
    waiting: Semaphore,
    rate: Mutex<Rate>,
    tracker: TaskTracker,
}

impl Calls {
    pub(crate) fn new(limits: Limits) -> Self {
        let parallel = limits.max_parallel.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            limits,
            running: Semaphore::new(parallel),
            waiting: Semaphore::new(WAITING),
            rate: Mutex::new(Rate::new(limits.max_rate, Instant::now())),
            tracker: TaskTracker::new(),
        }
    }

    /// Runs a call's work: within the limits, until it is cancelled, and whatever it does.
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
        self.come()?;
        let ended = Ended(Cancellation::default());
        let cx = cx.with_cancellation(ended.0.clone());
        let cx = match Instant::now().checked_add(self.limits.tool_time) {
            Some(deadline) => cx.with_deadline(deadline),
            None => cx,
        };
        let deadline = cx.deadline();
        let work = async {
            // A call that is cancelled before it had its turn never begins.
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
                ended.0.cancel();
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

    fn come(&self) -> Result<()> {
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

    /// Takes no more calls, and waits for those that there are.
    pub(crate) async fn end(&self, grace: Duration) {
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::warn!(calls = self.tracker.len(), "calls did not end before the server did");
        }
    }
}

fn was_cancelled() -> Error {
    Error::stop("the call was cancelled").at(Stage::Cancelled)
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Tells whatever a call left behind that it is over, however it ended.
struct Ended(Cancellation);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A bucket that holds as many calls as may come in a period, and fills in one.
struct Rate {
    calls: f64,
    per: Duration,
    left: f64,
    at: Instant,
}

impl Rate {
    fn new((calls, per): (u32, Duration), now: Instant) -> Self {
        let calls = f64::from(calls.max(1));
        Self { calls, per, left: calls, at: now }
    }

    /// Takes one call out, or says how long until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.per.is_zero() {
            return Ok(());
        }
        let a_second = self.calls / self.per.as_secs_f64();
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * a_second).min(self.calls);
        self.at = now;
        if self.left < 1.0 {
            let wait = (1.0 - self.left) / a_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

    use super::*;

    #[test]
    fn a_bucket_gives_what_it_holds_and_fills_with_time() {
        let start = Instant::now();
        let mut rate = Rate::new((2, Duration::from_secs(10)), start);
        assert_eq!(rate.take(start), Ok(()));
        assert_eq!(rate.take(start), Ok(()));
        assert_eq!(rate.take(start), Err(Duration::from_secs(5)));
        assert_eq!(rate.take(start + Duration::from_secs(4)), Err(Duration::from_secs(1)));
        assert_eq!(rate.take(start + Duration::from_secs(5)), Ok(()));
        // An hour gives no more than a bucket.
        let later = start + Duration::from_secs(3600);
        assert_eq!([(); 3].map(|()| rate.take(later).is_ok()), [true, true, false]);
    }
}
