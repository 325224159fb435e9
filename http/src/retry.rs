//! When a request is retried, and after what pause.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::limits::Deadline;

/// Longest pause that a server may ask for. If it asks for a longer one, there is no retry: the caller
/// gets the error.
const MAX_ASKED_PAUSE: Duration = Duration::from_secs(60);

/// Answer to the question whether a failed attempt may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// A retry does not help or would take too long.
    Never,
    /// The request may succeed after a pause.
    Backoff,
    /// The request may succeed after the pause that the server asks for.
    After(Duration),
    /// The response had begun when it broke. The caller may have used a part of it, and the
    /// server may have done its work. There is a retry only with
    /// [`RetryPolicy::begun_answers`].
    AnswerBegan,
}

/// Number of retries and the pauses between them.
///
/// The pause doubles with each retry. It is shortened by a random part of up to a quarter, so
/// that clients that failed together do not retry together. A server's `retry-after` replaces
/// the pause. If the pause would end after the deadline, there is no retry and no pause: the
/// caller gets the server's error.
///
/// ```
/// use std::time::Duration;
/// use toolwright_http::{Deadline, Retry, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let policy = RetryPolicy { retries: 3, ..RetryPolicy::default() };
/// let mut answers = [Err(503), Err(503), Ok("done")].into_iter();
/// let answer = policy
///     .run(
///         Deadline::after(Duration::from_secs(60)),
///         || std::future::ready(answers.next().unwrap()),
///         |status| match status {
///             503 => Retry::After(Duration::from_millis(1)),
///             _ => Retry::Never,
///         },
///     )
///     .await;
/// assert_eq!(answer, Ok("done"));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries. Default: 2.
    pub retries: u32,
    /// Pause before the first retry. Default: 500 milliseconds.
    pub first_pause: Duration,
    /// Longest pause. Default: 8 seconds.
    pub max_pause: Duration,
    /// Whether a request is retried after its response began and broke. Default: `false`.
    ///
    /// Set it only for requests that change nothing and cost nothing, such as a `GET`.
    pub begun_answers: bool,
}

/// Allows two retries, after 0.5 and 1 second, as the clients of OpenAI do.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 2,
            first_pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(8),
            begun_answers: false,
        }
    }
}

impl RetryPolicy {
    /// Returns the pause before the next attempt, or `None` if there must not be one.
    ///
    /// `used` is the number of retries so far.
    #[must_use]
    pub fn pause(&self, retry: Retry, used: u32, deadline: Deadline) -> Option<Duration> {
        let pause = match retry {
            Retry::Never => None,
            Retry::AnswerBegan if !self.begun_answers => None,
            Retry::Backoff | Retry::AnswerBegan => Some(self.backoff(used)),
            Retry::After(asked) => (asked <= MAX_ASKED_PAUSE).then_some(asked),
        };
        let in_time = |pause: &Duration| match (deadline.instant(), *pause) {
            (None, _) => true,
            (Some(end), pause) => Instant::now().checked_add(pause).is_some_and(|at| at < end),
        };
        pause.filter(|_| used < self.retries).filter(in_time)
    }

    /// Runs the attempt until it succeeds or must not be retried.
    ///
    /// `run` checks the deadline before each pause. The attempt has to check it as well, as
    /// [`Client::send`](crate::Client::send) does.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    pub async fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut() -> F,
        retry: impl Fn(&E) -> Retry,
    ) -> Result<T, E> {
        let mut used = 0;
        loop {
            let error = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match self.pause(retry(&error), used, deadline) {
                Some(pause) => sleep(pause).await,
                None => return Err(error),
            }
            used += 1;
        }
    }

    fn backoff(&self, used: u32) -> Duration {
        let pause = self.first_pause.saturating_mul(2_u32.saturating_pow(used));
        let pause = pause.min(self.max_pause);
        // The standard library has no other source of random numbers.
        let random = RandomState::new().build_hasher().finish() % 256;
        pause - pause / 1024 * u32::try_from(random).unwrap_or_default()
    }
}

/// Returns whether a request that got this HTTP status may succeed later.
///
/// These are 408, 409, 429 and 500 to 599, as in the clients of OpenAI and Anthropic, and 425, which
/// says that the server did not act on the request because a proxy sent it too early (RFC 8470).
///
/// ```
/// assert!(toolwright_http::is_retryable_status(503));
/// assert!(!toolwright_http::is_retryable_status(404));
/// ```
#[must_use]
pub fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}
