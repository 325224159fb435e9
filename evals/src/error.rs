//! The errors of an eval as a whole.

use std::io;
use std::path::PathBuf;

use toolwright_journal::JournalError;
use toolwright_module::testing::RecordingError;

pub(crate) type Result<T, E = EvalError> = std::result::Result<T, E>;

/// The error of an eval that cannot be run. What goes wrong in one attempt is in the report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A file cannot be read.
    #[error("cannot read {} ({source}); name a file that exists and that you may read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {} ({source}); name a folder that you may write to", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of cases has another kind than those that are read.
    #[error("cannot tell what {} contains; give it the ending .jsonl, .json, .yaml or .yml", path.display())]
    FileKind {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file of cases has a fault.
    #[error("cannot read the cases in {}, {place}: {reason}", path.display())]
    CaseFile {
        /// Path of the file.
        path: PathBuf,
        /// The place in the file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An expected call has a rule that cannot be read.
    #[error("the expected call of `{tool}` cannot be compared: {reason}")]
    ExpectedCall {
        /// Name of the tool.
        tool: String,
        /// What is wrong with the rule, and the fix.
        reason: String,
    },
    /// Two cases have the same name.
    #[error("two cases have the name `{name}`; give each case a name of its own")]
    Names {
        /// The name.
        name: String,
    },
    /// A case has no name.
    #[error("a case has no name; give each case a name of its own")]
    NoName,
    /// The eval has nothing to do.
    #[error("the eval `{name}` has no {what}; add some with `{method}`")]
    Empty {
        /// The name of the eval.
        name: String,
        /// What is missing.
        what: &'static str,
        /// The method that adds it.
        method: &'static str,
    },
    /// Two graders have the same name.
    #[error("two graders have the name `{name}`; give each grader a name of its own")]
    Graders {
        /// The name.
        name: String,
    },
    /// The recording of a case cannot be read or written.
    #[error(
        "the recording of the case `{case}` cannot be used: {source}; to record the cases, set {RECORD}=1 and run the eval with a real model"
    )]
    Recording {
        /// The name of the case.
        case: String,
        /// The cause.
        source: RecordingError,
    },
    /// A case has no recording.
    #[error("there is no recording of it in {}; to record the cases, set {RECORD}=1 and run the eval with a real model", folder.display())]
    NoRecording {
        /// Path of the folder with the recordings.
        folder: PathBuf,
    },
    /// Another eval uses the folder.
    #[error("another eval uses the folder {}; wait for it, or name another folder", path.display())]
    InUse {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The folder of the eval has the results of another eval.
    #[error("the folder {} has results of another eval: {reason}; name another folder, or delete this one", path.display())]
    OtherEval {
        /// Path of the folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// The runs of the eval cannot be stored.
    #[error("the runs of the eval cannot be stored: {0}")]
    Journal(#[from] JournalError),
    /// The run of an attempt cannot be stored.
    #[error("the run of the case `{case}` cannot be stored: {reason}")]
    Run {
        /// The name of the case.
        case: String,
        /// The cause.
        reason: String,
    },
    /// A stored run does not fit the eval.
    #[error("the run `{id}` cannot be graded: {reason}")]
    StoredRun {
        /// The id of the run.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A report cannot be read.
    #[error("{} is not a report of an eval: {source}", path.display())]
    Report {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

/// Name of the environment variable that lets evals record.
pub(crate) const RECORD: &str = "TOOLWRIGHT_RECORD";
