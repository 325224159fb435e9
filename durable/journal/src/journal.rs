//! The journal: drives of runs, each over its file.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_module::__files::{self, Link};
use toolwright_module::Context;
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Finished, Task, ToolSet};

use crate::earlier;
use crate::error::{JournalError, Result};
use crate::file::{self, Contents, Line, RunFile, lock_within};
use crate::home::{Drive, Histories};
use crate::name;
use crate::options::Options;
use crate::parts;
use crate::writer::{Writer, run_blocking};

/// The file whose lock keeps a file from being opened while it is deleted.
const LOCK: &str = "lock";

/// Maximum time to wait for the lock of a folder or a budget. It is held while one file is opened,
/// deleted or replaced.
const LOCK_TIME: Duration = Duration::from_secs(10);

/// The extension of the files with the tools of runs.
const TOOLS: &str = "tools";

/// The extension of a file that gets another name when it is complete.
pub(crate) const TEMPORARY: &str = "new";

/// A folder with the runs of a program. Each run is a file, and each part of the run is on disk
/// before the run goes on.
///
/// Clones are the same journal. Several processes may use one folder on a local disk; a run is
/// driven by one of them at a time.
///
/// ```
/// use toolwright_journal::Journal;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Reply};
/// use toolwright_orchestrator::Agent;
///
/// # let folder = tempfile::tempdir()?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let journal = Journal::open(folder.path())?;
/// let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), [])?;
/// let cx = Context::default().with_run("greeting", [("tenant", "acme")]);
/// let finished = journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
/// assert_eq!(finished.answer, "Hello.");
///
/// // The same again, perhaps in another process: the answer is there, and no model is asked.
/// let agent = Agent::new(Scripted::replies([]), [])?;
/// let again = journal.drive(&agent, "greeting", "Say hello.", &Context::default()).await?;
/// assert_eq!(again, finished);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Journal {
    folder: Arc<Path>,
    options: Options,
}

impl Journal {
    /// Opens the journal in a folder. A folder that does not exist is created for this user only,
    /// because a journal contains prompts and results.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = open_folder(folder.as_ref())?;
        let journal = Self { folder: folder.into(), options: Options::default() };
        journal.folder_lock()?;
        Ok(journal)
    }

    /// Sets the options. Default: [`Options::default`].
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a run, or continues it where it was. If the run has finished, its result is returned.
    ///
    /// The run has this id in its context; the metadata come from
    /// [`Context::with_run`](toolwright_module::Context::with_run) of the first drive. The run keeps
    /// the instructions and the approval policy of its first drive. The limits are those of `agent`.
    ///
    /// The id may be any text of up to 4,096 bytes. If the returned future is dropped, the run stays where it is.
    ///
    /// # Errors
    ///
    /// - [`Stage::Journal`](toolwright_module::error::Stage::Journal) with a [`JournalError`] as its
    ///   cause. No model sees such an error.
    /// - [`Stage::Approval`](toolwright_module::error::Stage::Approval) with
    ///   [`AwaitsApproval`](toolwright_orchestrator::AwaitsApproval) as its cause: a call waits for a
    ///   person, and there is no approver. Give the decision to [`decide`](Self::decide) and drive the
    ///   run again.
    /// - The other errors of [`Agent::drive`]. After most of them the run can be driven
    ///   again.
    ///
    /// [`Stage::Journal`]: toolwright_module::error::Stage::Journal
    /// [`Stage::Approval`]: toolwright_module::error::Stage::Approval
    pub fn drive<'a, O>(
        &'a self,
        agent: &'a Agent<O>,
        id: &'a str,
        task: impl Into<Task>,
        cx: &'a Context,
    ) -> impl Future<Output = toolwright_module::Result<Finished<O>>> + Send + 'a
    where
        O: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let drive = Drive::new(agent, id, task, cx);
        async move {
            let (drive, closes) = self.begin(id, drive?.with_recorded_errors()).await?;
            match drive.finished().map_err(JournalError::into_module)? {
                Some(finished) => Ok(finished),
                None => drive.run(agent, Arc::clone(&closes.0), &self.options).await,
            }
        }
    }

    /// Opens the file of the run, or creates it, and reads what is there.
    async fn begin(&self, id: &str, drive: Drive) -> toolwright_module::Result<(Drive, Closes)> {
        let (journal, text) = (self.clone(), id.to_owned());
        let found = run_blocking(id, move || journal.find_or_start(&text, drive)).await;
        let (file, torn, drive) =
            found.and_then(|found| found).map_err(JournalError::into_module)?;
        if torn > 0 {
            let (run, bytes) = (id, torn);
            tracing::warn!(run, bytes, "cut off a record that was not written to its end");
        }
        Ok((drive, Closes(Arc::new(Writer::new(id, file)))))
    }

    /// Returns the file, the number of bytes that were cut off, and the drive with the records of the
    /// file. Blocks the thread.
    fn find_or_start(&self, id: &str, mut drive: Drive) -> Result<(RunFile, u64, Drive)> {
        let path = self.path(id)?;
        let lock = self.folder_lock()?;
        let (mut file, bytes) = RunFile::open(&path, id, true)?;
        let contents = file::parse(&path, &bytes)?;
        let records = read(&path, &contents)?;
        let mut records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
        file.continue_after(&contents)?;
        file.cut_parts()?;
        if records.is_empty() {
            self.keep_tools(drive.tools(), &path)?;
            let started = earlier::leave_out(self, drive.started()?, drive.earlier_run());
            file.write(&[file::json(Record::Started(started), id)?])?;
        } else {
            if let Some(Record::Started(started)) = records.first_mut() {
                *started = earlier::whole(self, &mut Histories::default(), started.clone())?;
            }
            drive.set_records(records)?;
        }
        // Until here, nothing was deleted from which the run goes on.
        drop(lock);
        // Also for a file that was there: the program that made it may have been killed before this.
        file::sync_folder(&self.folder).map_err(|error| JournalError::io(&self.folder, error))?;
        if let Some(earlier) = drive.earlier_tools().and_then(|hash| self.stored_tools(hash)) {
            drive.check_tools(earlier)?;
        }
        Ok((file, contents.torn, drive))
    }

    /// Returns the file of a run.
    pub(crate) fn path(&self, id: &str) -> Result<PathBuf> {
        match id {
            "" => Err(JournalError::NoId),
            id => Ok(self.folder.join(name::of_run(id))),
        }
    }

    /// Returns a shared lock of the folder, which ends with the file.
    pub(crate) fn folder_lock(&self) -> Result<File> {
        self.locked(File::try_lock_shared)
    }

    /// Returns the lock of the folder for this process alone.
    pub(crate) fn folder_lock_alone(&self) -> Result<File> {
        self.locked(File::try_lock)
    }

    fn locked(&self, lock: fn(&File) -> Result<(), TryLockError>) -> Result<File> {
        lock_file(&self.folder.join(LOCK), lock)
    }

    /// Keeps the tools of a run, once for all runs that have them. The caller has the lock of the
    /// run.
    fn keep_tools(&self, tools: &ToolSet, run: &Path) -> Result<()> {
        let path = self.tools_path(tools.hash());
        // A link or a pipe of this name is replaced.
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        let json = file::json(tools, tools.hash())?;
        // Drives of other runs may do the same, each with a file of its own.
        let temporary = run.with_extension(TEMPORARY);
        RunFile::create(&temporary)?.write(&[json])?;
        match fs::rename(&temporary, &path) {
            Ok(()) => Ok(()),
            // The run goes on without a comparison.
            Err(error) if path.is_dir() => {
                let path = path.display();
                tracing::warn!(%path, %error, "a folder is where the tools of runs should be; delete it");
                fs::remove_file(&temporary).map_err(|error| JournalError::io(&temporary, error))
            }
            Err(error) => Err(JournalError::io(&path, error)),
        }
    }

    /// Returns the tools with a hash. If they cannot be read, the run goes on without a comparison.
    pub(crate) fn stored_tools(&self, hash: &str) -> Option<ToolSet> {
        let path = self.tools_path(hash);
        let read = || -> Result<ToolSet, Box<dyn std::error::Error>> {
            let bytes = file::read(&path)?.ok_or("there is no such file")?;
            let contents = file::parse(&path, &bytes)?;
            let (_, json) = contents.lines.first().ok_or("the file is empty")?;
            Ok(serde_json::from_str::<Line<ToolSet>>(json)?.record)
        };
        read()
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "cannot compare the tools of a run"))
            .ok()
    }

    fn tools_path(&self, hash: &str) -> PathBuf {
        self.folder.join(name::of_run(hash)).with_extension(TOOLS)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Journal").field(&self.folder).finish()
    }
}

/// Creates a folder for this user only, if it does not exist. Returns its whole path.
pub(crate) fn open_folder(folder: &Path) -> Result<PathBuf> {
    let failed = |error| JournalError::io(folder, error);
    // The error of the system would only say that something is there.
    __files::check_folder(folder).map_err(failed)?;
    if !folder.is_dir() {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
        if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
            file::sync_folder(above).map_err(failed)?;
        }
    }
    folder.canonicalize().map_err(failed)
}

/// Locks a file that is there for its lock only. The lock ends with the returned file.
pub(crate) fn lock_file(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<File> {
    let failed = |error| JournalError::io(path, error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = __files::open(&mut options, path, Link::Refuse);
    // The runs of a folder that must not be written can still be listed.
    let read_only = || __files::open(OpenOptions::new().read(true), path, Link::Refuse);
    let file = file.or_else(|error| read_only().map_err(|_| failed(error)))?;
    match lock_within(LOCK_TIME, &file, lock) {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let text = "another process has locked it for ten seconds; end that process";
            Err(failed(io::Error::new(io::ErrorKind::TimedOut, text)))
        }
    }
}

/// Reads the records of a file with their times. The start may be without what an earlier run has.
pub(crate) fn read(path: &Path, contents: &Contents<'_>) -> Result<Vec<(SystemTime, Record)>> {
    let mut parts = parts::Reader::new(path);
    let mut records = Vec::with_capacity(contents.lines.len());
    for &(at, line) in &contents.lines {
        let line = parts.whole(path, at, line)?;
        let line = file::record(path, at, &line)?;
        if let Record::Started(started) = &line.record {
            name::check(path, &started.id)?;
        }
        records.push((file::time(line.at), line.record));
    }
    Ok(records)
}

/// Ends the writing with the drive, also if the drive is dropped. A tool may have kept the context.
struct Closes(Arc<Writer>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.close();
    }
}
