//! Waiting within the limits: for the allowed silence, and not past the deadline.

use tokio::time::{Instant, timeout_at};

use crate::error::{ErrorKind, HttpError, Result};
use crate::limits::{Deadline, HttpLimits};

/// Awaits `work`, but no longer than the allowed silence and the deadline.
pub(crate) async fn in_time<T>(
    work: impl Future<Output = T>,
    limits: &HttpLimits,
    deadline: Deadline,
) -> Result<T> {
    // `timeout_at` polls the work first and never looks at its timer while bytes are ready.
    if deadline.has_passed() {
        return Err(too_slow(deadline));
    }
    let silence = Instant::now().checked_add(limits.silence);
    let (end, is_deadline) = match (silence, deadline.instant()) {
        (Some(silence), Some(end)) if end <= silence => (end, true),
        (Some(silence), _) => (silence, false),
        (None, Some(end)) => (end, true),
        (None, None) => return Ok(work.await),
    };
    timeout_at(end, work).await.map_err(|_| match is_deadline {
        true => too_slow(deadline),
        false => ErrorKind::Silent { after: limits.silence }.into(),
    })
}

fn too_slow(deadline: Deadline) -> HttpError {
    ErrorKind::TooSlow { after: deadline.allowed().unwrap_or_default() }.into()
}
