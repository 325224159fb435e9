//! The journal: drives of runs, each over its file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_module::__files::{self, Link};
use toolwright_module::Context;
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Change, Finished, RunState, Task, ToolSet};

use crate::error::{JournalError, Result};
use crate::file::{self, RunFile};
use crate::home::{ChangeListener, Drive, Entry, Fresh, MAX_RESULT_BYTES, Stored};
use crate::name;
use crate::parts;
use crate::record::Line;
use crate::writer::{Listener, Writer, run_blocking};

/// The file whose lock keeps a file from being opened while it is deleted.
const LOCK: &str = "lock";

/// How often and with which pauses the lock of the folder is tried. It is held while one file is
/// opened or deleted.
const FOLDER_LOCK_TRIES: u32 = 2_000;
const FOLDER_LOCK_PAUSE: Duration = Duration::from_millis(5);

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
    max_result_bytes: u64,
    listener: Option<Listener>,
    change_listener: Option<ChangeListener>,
}

impl Journal {
    /// Opens the journal in a folder. A folder that does not exist is created for this user only,
    /// because a journal contains prompts and results.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let failed = |error| JournalError::io(folder, error);
        if !folder.is_dir() {
            let mut builder = DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.recursive(true).create(folder).map_err(failed)?;
            if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
                file::sync_folder(above).map_err(failed)?;
            }
        }
        let folder = folder.canonicalize().map_err(failed)?;
        let journal = Self {
            folder: folder.into(),
            max_result_bytes: MAX_RESULT_BYTES,
            listener: None,
            change_listener: None,
        };
        journal.folder_lock()?;
        Ok(journal)
    }

    /// Sets the maximum length of the result of a call, in bytes of JSON. Default: 1 MiB.
    ///
    /// A longer result is not recorded. The model gets an error that says so. Images, documents and
    /// sounds do not count. They are stored beside the records, and their limit is that of the run,
    /// [`Limits::max_part_bytes`](toolwright_orchestrator::Limits::max_part_bytes).
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # let folder = tempfile::tempdir()?;
    /// let journal = Journal::open(folder.path())?.with_max_result_bytes(64 * 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: u64) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Sets a listener that gets each record of a part, with the id of the run, when it is on disk
    /// and before the run goes on. It replaces an earlier one.
    ///
    /// The listener runs on the task of the drive, so it should be quick. Parts that were recorded
    /// by an earlier drive are not repeated.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicUsize, Ordering};
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let count = Arc::new(AtomicUsize::new(0));
    /// let counts = Arc::clone(&count);
    /// let journal = Journal::open(folder.path())?
    ///     .with_listener(move |_id, _record| drop(counts.fetch_add(1, Ordering::Relaxed)));
    /// journal.drive(&agent, "greeting", "Say hello.", &Context::default()).await?;
    /// assert_eq!(count.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_listener(
        mut self,
        listener: impl Fn(&str, &Record) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets a listener that gets each difference between the agent that began a run and the agent
    /// that drives it now, with the id of the run. It replaces an earlier one.
    ///
    /// It is called at the start of each such drive, before anything else happens in it. `tracing`
    /// gets the differences too.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let journal = Journal::open(folder.path())?
    ///     .with_change_listener(|id, change| println!("{id}: {change}"));
    /// # let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), [])?;
    /// journal.drive(&agent, "greeting", "Say hello.", &Context::default()).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_change_listener(
        mut self,
        listener: impl Fn(&str, &Change) + Send + Sync + 'static,
    ) -> Self {
        self.change_listener = Some(Arc::new(listener));
        self
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
    /// For a [`ReAct`](toolwright_orchestrator::ReAct), give its agent and a task of its input.
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
        let fresh = Fresh::new(agent, task);
        async move {
            match self.begin(id, fresh?, cx).await? {
                Begun::Finished(finished) => Ok(finished),
                Begun::Open(drive, _closes) => drive.run(agent).await,
            }
        }
    }

    /// Opens the file of the run, or creates it, and reads what is there.
    async fn begin<O: DeserializeOwned + Send + 'static>(
        &self,
        id: &str,
        fresh: Fresh,
        cx: &Context,
    ) -> toolwright_module::Result<Begun<O>> {
        let metadata = cx.metadata().cloned().unwrap_or_default();
        let (journal, text) = (self.clone(), id.to_owned());
        let found = run_blocking(id, move || journal.find_or_start(&text, &fresh, metadata)).await;
        let mut found = found.and_then(|found| found).map_err(JournalError::into_module)?;
        if found.torn > 0 {
            let (run, bytes) = (id, found.torn);
            tracing::warn!(run, bytes, "cut off a record that was not written to its end");
        }
        if let Some(finished) = found.stored.take_finished() {
            let finished = serde_json::from_value(finished);
            let failed =
                |source| JournalError::OtherOutput { id: id.to_owned(), source }.into_module();
            return Ok(Begun::Finished(finished.map_err(failed)?));
        }
        let writer = Arc::new(Writer::new(id, found.file, self.listener.clone()));
        let closes = Closes(Arc::clone(&writer));
        let drive = Drive::new(id, found.state, found.stored, writer, self.max_result_bytes, cx)
            .with_change_listener(self.change_listener.clone());
        Ok(Begun::Open(drive, closes))
    }

    /// Blocks the thread.
    fn find_or_start(
        &self,
        id: &str,
        fresh: &Fresh,
        metadata: BTreeMap<String, String>,
    ) -> Result<Found> {
        let path = self.path(id)?;
        let (mut file, bytes) = {
            let _lock = self.folder_lock()?;
            RunFile::open(&path, id, true)?
        };
        let contents = file::parse(&path, &bytes)?;
        let mut stored = Stored::default();
        let mut parts = parts::Reader::new(&path);
        for &(at, line) in &contents.lines {
            let line = parts.whole(&path, at, line)?;
            let line: Line<Entry<'_>> = serde_json::from_str(&line)
                .map_err(|error| JournalError::damaged(&path, at, error.to_string()))?;
            stored.add(line.record);
        }
        if let Some(other) = stored.started().filter(|started| started.id != id) {
            return Err(name::other(&path, id, &other.id));
        }
        file.continue_after(&contents)?;
        file.cut_parts()?;
        let torn = contents.torn;
        if stored.started().is_none() {
            self.keep_tools(fresh.tools(), &path)?;
            let started = Entry::Started(fresh.started(id, metadata)?);
            file.write(&[file::json(&started, id)?])?;
            stored.add(started);
        }
        // Also for a file that was there: the program that made it may have been killed before this.
        file::sync_folder(&self.folder).map_err(|error| JournalError::io(&self.folder, error))?;
        let state = stored.take_state(id, fresh.signature())?;
        let mut state = state.ok_or_else(|| self.no_such_run(id))?;
        fresh.check_task(id, &state)?;
        if state.tool_set_hash() != fresh.tools().hash() {
            self.keep_tools(fresh.tools(), &path)?;
            if let Some(tools) = self.stored_tools(state.tool_set_hash()) {
                stored.check_open_calls(id, &tools, fresh.tools())?;
                state = state.with_tool_set(tools);
            }
        }
        Ok(Found { file, torn, state, stored })
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
        let path = self.folder.join(LOCK);
        let failed = |error| JournalError::io(&path, error);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = __files::open(&mut options, &path, Link::Refuse);
        // The runs of a folder that must not be written can still be listed.
        let read_only = || __files::open(OpenOptions::new().read(true), &path, Link::Refuse);
        let file = file.or_else(|error| read_only().map_err(|_| failed(error)))?;
        for _ in 0..FOLDER_LOCK_TRIES {
            match lock(&file) {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(FOLDER_LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let text = "another process has locked it for ten seconds; end that process";
        Err(failed(io::Error::new(io::ErrorKind::TimedOut, text)))
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

/// What the file of a run has.
struct Found {
    file: RunFile,
    /// Number of bytes that were cut off.
    torn: u64,
    state: RunState,
    stored: Stored,
}

#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Begun<O> {
    Finished(Finished<O>),
    Open(Drive<Writer>, Closes),
}

/// Ends the writing with the drive, also if the drive is dropped. A tool may have kept the context.
struct Closes(Arc<Writer>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.close();
    }
}
