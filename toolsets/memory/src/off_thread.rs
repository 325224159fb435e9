use toolwright_module::{Error, Result};

/// Does `work` where it holds up no other task: on a thread for work that blocks, or
/// here, where there is no runtime that could be held up.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(Error::other),
        Err(_) => Ok(work()),
    }
}
