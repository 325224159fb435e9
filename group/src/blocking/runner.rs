use std::sync::OnceLock;
use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

/// The error of a blocking call on a thread that runs async code.
///
/// Such a call would block every other task of that thread, and could wait for itself. Threads of
/// tokio's `spawn_blocking` belong to a runtime too; those of `std::thread` do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a blocking group cannot run inside an async runtime; use `toolwright_group::ToolGroup` there and await it, or give this one a plain thread (`std::thread`)"
)]
#[non_exhaustive]
pub struct InsideRuntime;

/// A current-thread runtime of one's own, made by the first call.
///
/// What is called runs on the thread that asks; tasks, timers and sockets on the runtime's
/// thread. So no call waits for what another one's handler does, and what a call leaves
/// behind, such as a pool of connections, is served between calls too.
#[derive(Debug, Default)]
pub(crate) struct Runner(OnceLock<Running>);

/// The runtime ends, on its own thread, once this is dropped: elsewhere that could panic.
#[derive(Debug)]
struct Running {
    runtime: Handle,
    _until: DropGuard,
}

impl Runner {
    /// Waits until `work` is done.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        if Handle::try_current().is_ok() {
            return Err(Error::from(InsideRuntime).at(Stage::Setup));
        }
        let running = match self.0.get() {
            Some(running) => running,
            None => {
                let made = Running::new();
                let made = made.map_err(|source| Error::other(source).at(Stage::Setup))?;
                self.0.get_or_init(|| made)
            }
        };
        Ok(running.runtime.block_on(work))
    }
}

impl Running {
    fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, end) = (runtime.handle().clone(), CancellationToken::new());
        let until = end.clone().drop_guard();
        let name = "toolwright-blocking".to_owned();
        thread::Builder::new().name(name).spawn(move || runtime.block_on(end.cancelled()))?;
        Ok(Self { runtime: handle, _until: until })
    }
}
