use std::collections::{HashMap, VecDeque};
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{CallNext, Hook};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::tool::ToolOutput;

/// A number of calls in a time, for [`limit_calls`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// Maximum number of calls.
    pub calls: u64,
    /// The time in which they are counted. It ends now, so it moves with the clock.
    pub time: Duration,
}

/// A store that counts the calls of [`limit_calls`]. [`CallCounts`] is one in memory. Processes that
/// count together need one in a database.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not count calls",
    note = "use `toolwright_module::hook::CallCounts`, or write `impl CallStore for {Self}`"
)]
pub trait CallStore: Send + Sync + 'static {
    /// Counts a call of this key, unless the limit is reached. Returns whether it was counted. Both must be
    /// one atomic step, because calls are made side by side.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached. The call is not made then.
    fn take(&self, key: &str, limit: CallLimit) -> impl Future<Output = Result<bool>> + Send;

    /// Takes back the newest call of this key, because its tool was not called.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    fn give_back(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
}

impl<S: CallStore> CallStore for Arc<S> {
    fn take(&self, key: &str, limit: CallLimit) -> impl Future<Output = Result<bool>> + Send {
        (**self).take(key, limit)
    }

    fn give_back(&self, key: &str) -> impl Future<Output = Result<()>> + Send {
        (**self).give_back(key)
    }
}

/// Counts of calls in memory, for the programs of one process. Share one in an [`Arc`].
#[derive(Debug, Default)]
pub struct CallCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The times of the calls of each key, with the time after which they do not count.
    keys: HashMap<String, (VecDeque<Instant>, Duration)>,
    /// The number of keys from which those without calls are removed.
    most: usize,
}

impl Counts {
    fn take(&mut self, key: &str, limit: CallLimit, now: Instant) -> bool {
        if self.keys.len() >= self.most {
            self.keys.retain(|_, (calls, time)| {
                calls.back().is_some_and(|last| now.duration_since(*last) < *time)
            });
            self.most = 1024.max(2 * self.keys.len());
        }
        let (calls, time) = self.keys.entry(key.to_owned()).or_default();
        *time = limit.time;
        while calls.front().is_some_and(|first| now.duration_since(*first) >= limit.time) {
            calls.pop_front();
        }
        let is_free = (calls.len() as u64) < limit.calls;
        if is_free {
            calls.push_back(now);
        }
        is_free
    }
}

impl CallStore for CallCounts {
    fn take(&self, key: &str, limit: CallLimit) -> impl Future<Output = Result<bool>> + Send {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ready(Ok(counts.take(key, limit, Instant::now())))
    }

    fn give_back(&self, key: &str) -> impl Future<Output = Result<()>> + Send {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((calls, _)) = counts.keys.get_mut(key) {
            calls.pop_back();
        }
        ready(Ok(()))
    }
}

/// Returns a hook that limits how often tools are called, also across runs: for example, each user may
/// send five mails a day.
///
/// `key` gets the name of the tool and the context, and returns what is counted. `None` for a call that is
/// not limited. Calls with the same key count together. The model reads that a call was refused.
///
/// A call counts when its tool is called. A call that is found in a journal, one whose arguments do not
/// fit, and one that waits for a person do not count. Add the hook after those that refuse calls, so
/// that it is inside of them.
///
/// For a limit of one run, use the limits of the agent. For the tokens and the money of a user, keep one
/// [`Ledger`](crate::budget::Ledger) for each user, and give each context a child of it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use toolwright_module::Context;
/// use toolwright_module::hook::{CallCounts, CallLimit, limit_calls};
///
/// // One for the whole program.
/// let counts = Arc::new(CallCounts::default());
///
/// let limit = CallLimit { calls: 5, time: Duration::from_secs(24 * 60 * 60) };
/// let cx = Context::default().with_run("run-1", [("user", "kate")]).with_hook(limit_calls(
///     limit,
///     Arc::clone(&counts),
///     |tool, cx| {
///         let user = cx.metadata().and_then(|data| data.get("user")).map_or("", |user| user);
///         (tool == "send_mail").then(|| format!("send_mail {user}"))
///     },
/// ));
/// # drop(cx);
/// ```
pub fn limit_calls<F>(limit: CallLimit, store: impl CallStore, key: F) -> impl Hook
where
    F: Fn(&str, &Context) -> Option<String> + Send + Sync + 'static,
{
    LimitCalls { limit, store, key }
}

struct LimitCalls<S, F> {
    limit: CallLimit,
    store: S,
    key: F,
}

impl<S, F> Hook for LimitCalls<S, F>
where
    S: CallStore,
    F: Fn(&str, &Context) -> Option<String> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "limit_calls"
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        let name = next.contract.name();
        let Some(key) = (self.key)(name, next.cx()) else { return next.run(arguments).await };
        if !self.store.take(&key, self.limit).await? {
            let CallLimit { calls, time } = self.limit;
            return Err(Error::refuse(format!(
                "This call was not made: `{name}` may be called {calls} times in {time:?}, and was. Do without it."
            )));
        }
        let output = next.run(arguments).await;
        if output.as_ref().is_err_and(Error::is_of_this_calls_arguments) {
            self.store.give_back(&key).await?;
        }
        output
    }
}
