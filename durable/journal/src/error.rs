//! Errors of the journal.

use std::io;
use std::path::{Path, PathBuf};

use toolwright_module::__files::NotRegular;
use toolwright_module::Error;
use toolwright_module::error::Stage;
use toolwright_orchestrator::perform::ReplayError;

/// The result of an operation on a journal.
pub(crate) type Result<T, E = JournalError> = std::result::Result<T, E>;

/// An error of a journal. No model ever sees it.
///
/// A drive returns it as an [`Error`] of the stage [`Stage::Journal`]. Get it with
/// [`Error::downcast_ref`]. Nothing of the run is lost: fix the cause, and drive the run again.
///
/// ```
/// # use toolwright_journal::Journal;
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Reply};
/// # use toolwright_orchestrator::Agent;
/// use toolwright_journal::JournalError;
///
/// # let folder = tempfile::tempdir()?;
/// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let (journal, cx) = (Journal::open(folder.path())?, Context::default());
/// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
///
/// let error = journal.drive(&agent, "greeting", "Say goodbye.", &cx).await.unwrap_err();
/// let error = error.downcast_ref::<JournalError>();
/// assert!(matches!(error, Some(JournalError::OtherTask { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The disk or the quota is full, or the file may not grow.
    #[error("there is no room for {}: {source}; free some space and drive the run again", path.display())]
    Full {
        /// The file or the folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The folder or the file must not be written.
    #[error("{} cannot be written: {source}; give this program the right to write there", path.display())]
    ReadOnly {
        /// The file or the folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// Something else is where a file of the journal should be: a link, a named pipe, a device or a
    /// folder. It is not opened.
    #[error("{} is {kind}, not a journal file; delete it, or move it out of the folder", path.display())]
    NotAFile {
        /// Path that is not a regular file.
        path: PathBuf,
        /// What is there, such as `a named pipe`.
        kind: &'static str,
    },

    /// A file is larger than this crate writes and reads.
    #[error("{} has {bytes} bytes, but a journal file has at most {most}; if the run is yours, continue its conversation in a new run, and delete this one", path.display())]
    TooLarge {
        /// File of the run.
        path: PathBuf,
        /// Its length, or the length that it would get.
        bytes: u64,
        /// Maximum length, in bytes.
        most: u64,
    },

    /// Another error of the file system.
    #[error("{} failed: {source}", path.display())]
    Io {
        /// The file or the folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A file is not as this crate wrote it: a bit has changed, a record is missing, or something
    /// else wrote to it.
    #[error("{} is damaged at byte {at}: {reason}; restore it from a backup, or delete the run", path.display())]
    Damaged {
        /// Damaged file.
        path: PathBuf,
        /// The start of the first record that cannot be used.
        at: u64,
        /// What is wrong.
        reason: String,
    },

    /// A file has the run of another id: it was renamed or copied.
    #[error("{} contains the run `{found}`, but has the name of the run `{id}`; rename it to `{name}`, or delete it", path.display())]
    OtherName {
        /// File with the wrong name.
        path: PathBuf,
        /// Run id in the name of the file.
        id: String,
        /// Run id in the file.
        found: String,
        /// File name that fits the run.
        name: String,
    },

    /// Another version of this crate wrote the file.
    #[error("{} has the format `{found}`, but this program reads `{known}`; use the program that wrote it", path.display())]
    Version {
        /// File with the other format.
        path: PathBuf,
        /// The format of the file.
        found: String,
        /// The format of this version.
        known: &'static str,
    },

    /// Another drive of the run is in progress, in this process or in another one.
    #[error(
        "another drive of the run `{id}` is in progress, in this process or another one; wait until it has ended"
    )]
    Locked {
        /// The id of the run.
        id: String,
    },

    /// The run was started with another task, or by an agent with another kind of output.
    #[error("the run `{id}` was started with another {what}; give the new task an id of its own")]
    OtherTask {
        /// The id of the run.
        id: String,
        /// What differs.
        what: &'static str,
    },

    /// The records do not fit the run.
    #[error(transparent)]
    Replay(#[from] ReplayError),

    /// The records of a run do not begin with its start.
    #[error(
        "the first record of the run `{id}` does not start it; restore it from a backup, or delete the run"
    )]
    NoStart {
        /// The id of the run.
        id: String,
    },

    /// A run goes on from an earlier run, which has the beginning of its conversation and is not there.
    #[error(
        "the run `{id}` goes on from the run `{earlier}`, whose file is missing; restore it from a backup, or delete the run"
    )]
    NoEarlierRun {
        /// The id of the run.
        id: String,
        /// The id of the earlier run.
        earlier: String,
    },

    /// A call has no result yet, and the agent cannot make it: its tool was removed, or cannot read the
    /// arguments.
    #[error(
        "the run `{id}` cannot continue with this agent: its call `{call}` of `{tool}` is open, and {reason}; give the agent a tool with this name and input (`Tool::named`), finish the run with the previous version of the program, or delete it"
    )]
    OpenCall {
        /// The id of the run.
        id: String,
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// What has changed.
        reason: String,
    },

    /// The run has finished, and its output does not fit the output type of the agent.
    #[error(
        "the run `{id}` has finished, but its output does not fit the output type of the agent: {source}; read it with the previous version of the program, or delete the run and start it again"
    )]
    OtherOutput {
        /// The id of the run.
        id: String,
        /// The difference.
        source: serde_json::Error,
    },

    /// There is no such run.
    #[error("there is no run `{id}` in {}; check the id, `runs` lists all of them", folder.display())]
    NoSuchRun {
        /// Run id.
        id: String,
        /// The folder of the journal.
        folder: PathBuf,
    },

    /// The call does not wait for a decision.
    #[error(
        "the call `{call}` of the run `{id}` does not wait for a decision; see `RunSummary::waiting`"
    )]
    NotWaiting {
        /// The id of the run.
        id: String,
        /// The id of the call.
        call: String,
    },

    /// The run was cancelled or has failed, so that its calls do not wait. If it is driven again, it asks
    /// again.
    #[error("the run `{id}` was cancelled or has failed; drive it again, and then decide")]
    Stopped {
        /// The id of the run.
        id: String,
    },

    /// The call was decided already, perhaps by another person at the same time. A decision from
    /// which nothing followed can be replaced with
    /// [`Journal::replace_decision`](crate::Journal::replace_decision).
    #[error(
        "the call `{call}` of the run `{id}` has been decided already{}; list the waiting calls again",
        by_whom(by.as_deref())
    )]
    Decided {
        /// The id of the run.
        id: String,
        /// The id of the call.
        call: String,
        /// The person who decided, if the name is known.
        by: Option<String>,
    },

    /// The decision cannot be used for this call.
    #[error("the call `{call}` of the run `{id}` {reason}")]
    Decision {
        /// The id of the run.
        id: String,
        /// The id of the call.
        call: String,
        /// Why, and what to decide instead.
        reason: String,
    },

    /// An id is empty.
    #[error("the id of the run is empty; give the run an id")]
    NoId,

    /// An id is too long.
    #[error("the id of a run has at most {most} bytes; this one has {bytes}")]
    LongId {
        /// The length of the id.
        bytes: usize,
        /// Maximum length, in bytes.
        most: usize,
    },

    /// A record has more levels of JSON than can be read back, so it was not written.
    #[error(
        "a record of the run `{id}` has {levels} levels of nested JSON, but at most {most} can be read back; return a value with fewer levels, or return it as text"
    )]
    TooDeep {
        /// The id of the run.
        id: String,
        /// The levels of the record.
        levels: usize,
        /// Maximum number of levels.
        most: usize,
    },

    /// A value of the program cannot be written as JSON or read back.
    #[error("a record of the run `{id}` cannot be converted: {source}")]
    Json {
        /// The id of the run.
        id: String,
        /// The cause.
        source: serde_json::Error,
    },

    /// The drive has ended, so its context cannot record anything more.
    #[error(
        "the drive of the run `{id}` has ended; await everything that a tool starts with its context"
    )]
    Ended {
        /// The id of the run.
        id: String,
    },

    /// A budget cannot be used.
    #[error("the budget of `{owner}` {reason}")]
    Budget {
        /// The user or tenant.
        owner: String,
        /// Why not, and what to do instead.
        reason: String,
    },

    /// The runtime ended before the record was on disk.
    #[error(
        "the runtime shut down while a record of the run `{id}` was being written; drive the run again"
    )]
    Runtime {
        /// The id of the run.
        id: String,
    },
}

impl JournalError {
    /// Returns the error of an operation on a file or a folder.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(&NotRegular { kind }) = inner {
            return Self::NotAFile { path, kind };
        }
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { path, source },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    pub(crate) fn damaged(path: &Path, at: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), at, reason: reason.into() }
    }

    /// Returns the error as one that ends a drive.
    pub(crate) fn into_module(self) -> Error {
        Error::stop(self).at(Stage::Journal)
    }
}

fn by_whom(person: Option<&str>) -> String {
    person.map(|person| format!(" by {person}")).unwrap_or_default()
}
