//! Appending to the file of a run from async code.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::runtime::Handle;
use toolwright_module::model::BoxFuture;
use toolwright_orchestrator::perform::{Open, Record, Store};

use crate::error::{JournalError, Result};
use crate::file::{self, RunFile};

/// Appends records to the file of one run. Records that are there at the same time, of calls that
/// ran side by side, are written at once.
pub(crate) struct Writer {
    id: String,
    shared: Arc<Shared>,
}

struct Shared {
    id: String,
    queue: Mutex<Queue>,
    disk: Mutex<Disk>,
    is_closed: AtomicBool,
}

/// The records that wait to be written.
#[derive(Default)]
struct Queue {
    jsons: Vec<Vec<u8>>,
    /// Number of records that ever were in the queue.
    count: u64,
}

struct Disk {
    /// `None` when the drive has ended.
    file: Option<RunFile>,
    /// Number of records that were taken from the queue.
    taken: u64,
    /// The error that ended the writing, with the number of records before it.
    failed: Option<(u64, Failure)>,
}

/// What is needed to make the same error for each record.
struct Failure {
    path: std::path::PathBuf,
    kind: io::ErrorKind,
    code: Option<i32>,
    text: String,
}

impl Writer {
    pub(crate) fn new(id: &str, file: RunFile) -> Self {
        let shared = Shared {
            id: id.to_owned(),
            queue: Mutex::default(),
            disk: Mutex::new(Disk { file: Some(file), taken: 0, failed: None }),
            is_closed: AtomicBool::new(false),
        };
        Self { id: id.to_owned(), shared: Arc::new(shared) }
    }

    /// Appends a record. It is on disk when the future ends. If the future is dropped, the record is
    /// written all the same.
    async fn write(&self, record: &Record) -> Result<()> {
        let json = file::json(record, &self.id)?;
        if self.shared.is_closed.load(Ordering::SeqCst) {
            return Err(JournalError::Ended { id: self.id.clone() });
        }
        let ticket = {
            let mut queue = locked(&self.shared.queue);
            queue.jsons.push(json);
            queue.count += 1;
            queue.count
        };
        let shared = Arc::clone(&self.shared);
        run_blocking(&self.id, move || shared.flush(ticket)).await?
    }

    /// Ends the writing and the lock of the file. Records that are being written are completed.
    pub(crate) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.shared.release();
    }
}

impl Shared {
    /// Writes everything in the queue, if the record of this ticket is not on disk yet.
    fn flush(&self, ticket: u64) -> Result<()> {
        let flushed = self.write(&mut locked(&self.disk), ticket);
        if self.is_closed.load(Ordering::SeqCst) {
            self.release();
        }
        flushed
    }

    fn write(&self, disk: &mut Disk, ticket: u64) -> Result<()> {
        if disk.taken < ticket && disk.failed.is_none() {
            let (jsons, count) = {
                let mut queue = locked(&self.queue);
                (std::mem::take(&mut queue.jsons), queue.count)
            };
            let Some(file) = &mut disk.file else {
                return Err(JournalError::Ended { id: self.id.clone() });
            };
            if let Err(error) = file.write(&jsons) {
                disk.failed = Some((disk.taken, Failure::of(&error)));
            }
            disk.taken = count;
        }
        match &disk.failed {
            Some((before, failure)) if ticket > *before => Err(failure.error()),
            _ => Ok(()),
        }
    }

    /// Closes the file, unless a record is being written. Its thread closes the file then.
    fn release(&self) {
        let mut disk = match self.disk.try_lock() {
            Ok(disk) => disk,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // Records of a drive that was dropped. The thread that writes them closes the file.
        if disk.failed.is_none() && disk.taken < locked(&self.queue).count {
            return;
        }
        let file = disk.file.take();
        drop(disk);
        drop(file);
    }
}

impl Failure {
    fn of(error: &JournalError) -> Self {
        let (path, source) = match error {
            JournalError::Full { path, source }
            | JournalError::ReadOnly { path, source }
            | JournalError::Io { path, source } => (path.clone(), Some(source)),
            _ => (std::path::PathBuf::new(), None),
        };
        Self {
            path,
            kind: source.map_or(io::ErrorKind::Other, io::Error::kind),
            code: source.and_then(io::Error::raw_os_error),
            text: source.map_or_else(|| error.to_string(), ToString::to_string),
        }
    }

    fn error(&self) -> JournalError {
        let source = match self.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.text.clone()),
        };
        JournalError::io(&self.path, source)
    }
}

impl Store for Writer {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move { Ok(self.write(record).await?) })
    }
}

/// Runs `work` on a thread for blocking work, or on this thread if there is no Tokio runtime.
pub(crate) async fn run_blocking<T: Send + 'static>(
    id: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) => {
            let done = runtime.spawn_blocking(work).await;
            done.map_err(|_| JournalError::Runtime { id: id.to_owned() })
        }
        Err(_) => Ok(work()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
