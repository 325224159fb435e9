use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result, Stage};

/// A blocking runner was started on a thread that runs async code.
///
/// It would stop everything else on that thread, and the runtime it may be waiting for. A
/// thread of tokio's `spawn_blocking` belongs to a runtime too, one of `std::thread` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a blocking group cannot run inside an async runtime; use `toolwright_module::ToolGroup` there and await it, or give this one a plain thread (`std::thread`)"
)]
#[non_exhaustive]
pub struct InsideRuntime;

/// A runtime of one's own, made by the first call.
///
/// What is called runs on the thread that asks; tasks, timers and sockets on a thread of the
/// runtime. So no call waits for what another one's handler does, and what a call leaves
/// behind, such as a pool of connections, is served between calls too.
#[derive(Debug, Default)]
pub(crate) struct Runner(OnceLock<Runtime>);

impl Runner {
    /// Waits until `work` is done.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        if Handle::try_current().is_ok() {
            return Err(Error::from(InsideRuntime).at(Stage::Setup));
        }
        Ok(self.runtime()?.block_on(work))
    }

    fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.0.get() {
            return Ok(runtime);
        }
        let made = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let made = made.map_err(|source| Error::other(source).at(Stage::Setup))?;
        Ok(self.0.get_or_init(|| made))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Dropped by itself a runtime waits for its threads, and panics where it may not.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
