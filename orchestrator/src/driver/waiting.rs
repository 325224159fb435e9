//! Waits with a deadline.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::Instant;
use toolwright_module::error::Stage;
use toolwright_module::{Context, Error, Result};

use super::caller::drop_payload;
use crate::error::RunError;

/// One year: later than any useful deadline, and small enough to add to any `Instant`.
pub(super) const ONE_YEAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Waits for the work until `deadline`. Returns `None` if the deadline passed first.
pub(super) async fn before_deadline<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(deadline) = deadline else {
        return Some(work.await);
    };
    // `timeout_at` polls the work before the timer. Without this check, a model that is always
    // ready would never time out.
    if Instant::now() >= deadline {
        return None;
    }
    before_deadline_begun(Some(deadline), work).await
}

/// Like [`before_deadline`], for work that has begun: it is polled at least once.
pub(super) async fn before_deadline_begun<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(deadline) = deadline else {
        return Some(work.await);
    };
    let now = Instant::now();
    // tokio adds to the deadline, so it must not be near the end of the clock.
    let deadline = deadline.min(now + ONE_YEAR);
    // Boxed, because a timer is large and most waits have none.
    Box::pin(tokio::time::timeout_at(deadline, work)).await.ok()
}

/// Waits for the work until the context's deadline.
pub(super) async fn before_context_deadline<T>(
    cx: &Context,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    before_deadline(cx.deadline().map(Instant::from), work)
        .await
        .unwrap_or_else(|| Err(Error::other(DeadlinePassed).at(Stage::Limit)))
}

/// Waits for a reply until a deadline of the run and that of the context. Returns `None` if the
/// deadline of the run passed first.
pub(super) async fn before_deadlines<T>(
    deadline: Option<Instant>,
    cx: &Context,
    asked: Pin<&mut impl Future<Output = Result<T>>>,
) -> Option<Result<T>> {
    if deadline.is_none() && cx.deadline().is_none() {
        return Some(asked.await);
    }
    // Boxed, because most runs have no deadline.
    Box::pin(before_deadline(deadline, before_context_deadline(cx, asked))).await
}

/// Like [`before_deadlines`], for work that has begun: it is polled at least once.
pub(super) async fn before_deadlines_begun<T>(
    deadline: Option<Instant>,
    cx: &Context,
    work: Pin<&mut impl Future<Output = Result<T>>>,
) -> Option<Result<T>> {
    let of_context = cx.deadline().map(Instant::from);
    let first = deadline.into_iter().chain(of_context).min();
    match before_deadline_begun(first, work).await {
        None if first == of_context => Some(Err(Error::other(DeadlinePassed).at(Stage::Limit))),
        done => done,
    }
}

/// Time that a performer has beyond the deadline. The work itself ends at the deadline, so
/// this is for what ended right before and has to be kept.
const TO_KEEP: Duration = Duration::from_secs(1);

/// Waits for the work of a performer, which is foreign code: until shortly after the context's
/// deadline, and with its panics as errors.
pub(super) async fn kept<T>(
    cx: &Context,
    what: &'static str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let deadline = cx.deadline().map(|deadline| Instant::from(deadline).max(Instant::now()));
    let deadline = deadline.map(|deadline| deadline.checked_add(TO_KEEP).unwrap_or(deadline));
    let work = AssertUnwindSafe(work).catch_unwind();
    match before_deadline(deadline, work).await {
        Some(Ok(kept)) => kept,
        Some(Err(panic)) => {
            drop_payload(panic);
            Err(RunError::Panicked { what }.into_module())
        }
        None => Err(Error::other(DeadlinePassed).at(Stage::Limit)),
    }
}

/// The error of a passed deadline of the context. An agent below an agent has the same deadline, so
/// the error then ends the run and not only the call.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of this call has passed; allow it more time")]
pub(super) struct DeadlinePassed;
