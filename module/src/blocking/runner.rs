use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Runtimes of one's own, on the threads that ask: those that no call uses now.
///
/// Each call has one to itself, so that none waits for what another one's handler does.
#[derive(Debug, Default)]
pub(crate) struct Runner(Mutex<Vec<Runtime>>);

impl Runner {
    /// Waits until `work` is done.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        if Handle::try_current().is_ok() {
            return Err(Error::from(InsideRuntime).at(Stage::Setup));
        }
        let idle = self.idle().pop();
        let runtime = match idle {
            Some(runtime) => runtime,
            None => Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|source| Error::other(source).at(Stage::Setup))?,
        };
        let done = runtime.block_on(work);
        self.idle().push(runtime);
        Ok(done)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Runtime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Dropped by itself a runtime waits for its threads, and panics where it may not.
        for runtime in self.idle().drain(..) {
            runtime.shutdown_background();
        }
    }
}
