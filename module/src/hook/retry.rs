use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::{AskNext, CallNext, Hook};
use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Audience, Error, Result};
use crate::model::{Reply, Request};
use crate::tool::ToolOutput;

/// A hook that repeats calls that failed with a retryable error.
///
/// It repeats model calls, and tool calls with [`Effect::Read`] or [`Effect::Idempotent`], if
/// [`Error::is_retryable`] says that the same call may succeed later. It waits between two runs,
/// each time about twice as long, and at least as long as the server asked
/// ([`Error::retry_after`]). It does not wait beyond the context's deadline, and a cancellation ends
/// the wait.
///
/// Providers may retry a request themselves. This hook repeats what failed after that.
///
/// The wait needs a tokio runtime with its timer enabled, as `#[tokio::main]` has.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
///
/// use toolwright_module::hook::Retry;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Error, Message, Reply, Request};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let calls = AtomicU32::new(0);
/// let model = Scripted::new(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
///     0 => Err(Error::other("overloaded").retryable(true)),
///     _ => Ok(Reply::text("Hello.")),
/// });
/// let retry = Retry { retries: 2, wait: Duration::from_millis(1), ..Retry::default() };
/// let cx = Context::default().with_hook(retry);
/// let reply = cx.ask(&model, Request::new([Message::user("Hi!")]), false).await?;
/// assert_eq!(reply.to_text(), "Hello.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Retry {
    /// Maximum number of times that a call is repeated. Default: 2.
    pub retries: u32,
    /// Longest wait before the first retry. Each retry doubles it. Default: 500 ms.
    ///
    /// The actual wait is a random part of it, at least half. Calls that failed together are then
    /// not repeated together.
    pub wait: Duration,
    /// Longest wait before any retry. Default: 30 s. A call whose server asks for a longer wait is
    /// not repeated.
    pub max_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        let (wait, max_wait) = (Duration::from_millis(500), Duration::from_secs(30));
        Self { retries: 2, wait, max_wait }
    }
}

impl Retry {
    async fn repeat<T, F>(&self, cx: &Context, run: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut retries = 0;
        loop {
            let error = match run().await {
                Err(error) if retries < self.retries && may_succeed(&error) => error,
                ended => return ended,
            };
            let asked = error.retry_after().unwrap_or_default();
            let wait = self.jittered(retries).max(asked);
            if asked > self.max_wait {
                return Err(error);
            }
            // The deadline would end the call during the wait.
            let over = |deadline| Instant::now().checked_add(wait).is_none_or(|at| at >= deadline);
            if cx.deadline().is_some_and(over) {
                return Err(error);
            }
            let pause = tokio::time::sleep(wait);
            cx.until_cancelled(pause.map(Ok)).await?;
            retries += 1;
        }
    }

    fn jittered(&self, retries: u32) -> Duration {
        let factor = 2_u32.saturating_pow(retries);
        let wait = self.wait.saturating_mul(factor).min(self.max_wait);
        // Different in each process and at each time.
        let random = RandomState::new().hash_one(Instant::now()) as u32;
        wait / 2 + (wait / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

fn may_succeed(error: &Error) -> bool {
    error.is_retryable() && error.audience() != Audience::Run
}

impl Hook for Retry {
    fn name(&self) -> &str {
        "retry"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.repeat(next.cx(), || next.run(request.clone())).await
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        if next.effect > Effect::Idempotent {
            return next.run(arguments).await;
        }
        self.repeat(next.cx(), || next.run(arguments.clone())).await
    }
}
