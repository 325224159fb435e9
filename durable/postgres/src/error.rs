//! Errors of runs in a database.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;
use toolwright_journal::JournalError;
use toolwright_module::Error;
use toolwright_module::error::Stage;

/// The result of an operation on runs.
pub(crate) type Result<T, E = RunsError> = std::result::Result<T, E>;

/// An error of runs or budgets in a database. No model ever sees it.
///
/// A drive returns it as an [`Error`] of the stage [`Stage::Journal`]. Get it with
/// [`Error::downcast_ref`]. Nothing of the run is lost: fix the cause, and drive the run again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The database refused a statement, or the connection failed.
    #[error("the database failed: {}", shown(source))]
    Database {
        /// The cause.
        #[from]
        source: tokio_postgres::Error,
    },

    /// No connection to the database was free in time, or none could be made.
    #[error("no connection to the database: {}", shown_cause(&**source))]
    Connection {
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The lease of this worker has expired, so another worker may continue the run. This worker can
    /// record nothing more.
    #[error(
        "this worker has lost the run `{id}`: its lease expired before it was renewed; another worker continues the run"
    )]
    Lost {
        /// The id of the run.
        id: String,
    },

    /// The run was [cancelled](crate::Runs::cancel) while this worker drove it. This worker can record
    /// nothing more.
    #[error("the run `{id}` was cancelled; drive it again to continue it")]
    Cancelled {
        /// The id of the run.
        id: String,
    },

    /// Another worker drives the run, or was killed while it drove the run and its lease has not expired.
    #[error(
        "the worker {worker} drives the run `{id}`; wait until it has finished, or until its lease has expired"
    )]
    Locked {
        /// The id of the run.
        id: String,
        /// The name of the worker.
        worker: String,
    },

    /// There is no such run.
    #[error("there is no run `{id}`; check the id, `runs` lists all of them")]
    NoSuchRun {
        /// Run id.
        id: String,
    },

    /// A text cannot be stored.
    #[error("the {what} of a run {reason}")]
    Text {
        /// What it is.
        what: &'static str,
        /// Why it cannot be stored.
        reason: String,
    },

    /// A budget cannot be used.
    #[error("the budget of `{owner}` {reason}")]
    Budget {
        /// The user or tenant.
        owner: String,
        /// Why not, and what to do instead.
        reason: String,
    },

    /// The tables are those of another version of this crate.
    #[error(
        "the tables in the database have the version {found}, and this program knows {known}; use the program of that version"
    )]
    Version {
        /// The version of the tables.
        found: i32,
        /// The version of this program.
        known: i32,
    },

    /// A record in the database is not as this crate wrote it.
    #[error(
        "the record {nth} of the run `{id}` cannot be read: {source}; restore it from a backup, or delete the run"
    )]
    Damaged {
        /// The id of the run.
        id: String,
        /// The number of the record, from 0.
        nth: i32,
        /// The cause.
        source: serde_json::Error,
    },

    /// An error that runs in every home can have: another task, a call that does not wait.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl RunsError {
    /// Returns the error as one that ends a drive.
    pub(crate) fn into_module(self) -> Error {
        let stage = match self {
            Self::Cancelled { .. } => Stage::Cancelled,
            _ => Stage::Journal,
        };
        Error::stop(self).at(stage)
    }

    /// Returns whether the server refused a statement with this code.
    pub(crate) fn has_code(&self, code: &SqlState) -> bool {
        matches!(self, Self::Database { source } if source.code() == Some(code))
    }

    /// Returns whether the same statement may succeed later: the server restarts, or is full.
    pub(crate) fn is_passing(&self) -> bool {
        let source = match self {
            Self::Connection { source } => source.downcast_ref::<tokio_postgres::Error>(),
            Self::Database { source } => Some(source),
            _ => return false,
        };
        // Without an answer of the server it is the connection.
        let Some(error) = source.and_then(|error| error.as_db_error()) else { return true };
        let code = error.code();
        // A server that is a copy of the one before, until it takes over, is read-only.
        let passing = ["08", "40", "53", "55", "57", "58"];
        passing.iter().any(|class| code.code().starts_with(class))
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION
    }
}

impl From<PoolError> for RunsError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(source) => Self::Connection { source: Box::new(source) },
            source => Self::Connection { source: Box::new(source) },
        }
    }
}

/// Returns the text of an error without the values of its statement.
fn shown(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

fn shown_cause(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    error.downcast_ref().map_or_else(|| error.to_string(), shown)
}
