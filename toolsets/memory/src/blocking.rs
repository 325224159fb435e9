//! [`run_blocking`], for work that would block a runtime's thread.

use toolwright_module::{Error, Result};

/// Runs `work` on a thread for blocking work, or on this thread if there is no Tokio runtime.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(Error::other),
        Err(_) => Ok(work()),
    }
}
