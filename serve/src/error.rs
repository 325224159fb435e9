//! Errors of a service.

use std::time::Duration;

use http::StatusCode;
use toolwright_journal::JournalError;
#[cfg(feature = "postgres")]
use toolwright_postgres::RunsError;

pub(crate) type Result<T, E = ServeError> = std::result::Result<T, E>;

/// An error of a request to a service. The client gets its text and its
/// [status](Self::status); the causes of errors of the server are only logged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The request is not one of its protocol.
    #[error("{reason}")]
    Request {
        /// What is wrong, and what is right.
        reason: String,
    },
    /// The caller is not allowed to do this.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// There is no such run, or it is another user's.
    #[error("there is no run `{id}`; `GET conversations` lists what there is")]
    NoSuchRun {
        /// The id of the run.
        id: String,
    },
    /// The question is not open.
    #[error(
        "the question `{question}` is not open: it was answered, its run has ended, or its call has changed; `GET questions` lists the open questions"
    )]
    NotOpen {
        /// The id of the question.
        question: String,
    },
    /// The decision does not suit the question.
    #[error("{reason}")]
    Decision {
        /// What is wrong, and what is right.
        reason: String,
    },
    /// The conversation has a run that has not ended.
    #[error(
        "the run `{run}` of this conversation has not ended; wait for its end, answer its questions, or stop it with `POST runs/{run}/stop`"
    )]
    Busy {
        /// The id of the run.
        run: String,
    },
    /// The run has ended.
    #[error("the run `{run}` has ended; send a message instead")]
    Over {
        /// The id of the run.
        run: String,
    },
    /// The client has messages of a conversation that the service does not know.
    #[error(
        "the service does not know the {earlier} earlier messages of this conversation: they were deleted, or its runs are kept in memory and it was restarted; start a new conversation"
    )]
    Forgotten {
        /// The number of messages of the user that the client has.
        earlier: usize,
    },
    /// The service ends.
    #[error("the service is being restarted; try again in a few seconds")]
    Closing,
    /// The journal failed.
    #[error("the runs cannot be read or stored now; try again later")]
    Journal(#[source] JournalError),
    /// The database failed.
    #[cfg(feature = "postgres")]
    #[error("the runs cannot be read or stored now; try again later")]
    Postgres(#[source] RunsError),
    /// The agent or the caller's context failed.
    #[error("the service cannot do this now; try again later")]
    Agent(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The agent or the caller's context failed, and
    /// [the client may read why](crate::Serve::with_shown_errors).
    #[error("{error}")]
    Shown {
        /// The error with its causes.
        error: String,
    },
    /// A task of the service panicked.
    #[error("the service cannot do this now; try again later")]
    Panicked,
}

impl ServeError {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Request { .. } => StatusCode::BAD_REQUEST,
            Self::Rejected(rejection) => rejection.status,
            Self::NoSuchRun { .. } => StatusCode::NOT_FOUND,
            Self::NotOpen { .. } | Self::Busy { .. } | Self::Over { .. } => StatusCode::CONFLICT,
            Self::Decision { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Forgotten { .. } => StatusCode::GONE,
            Self::Closing => StatusCode::SERVICE_UNAVAILABLE,
            // Another process of the folder, or a worker, drives the run.
            error if error.is_locked() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns how long the client should wait before it tries again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected(rejection) => rejection.retry_after,
            Self::Closing => Some(Duration::from_secs(3)),
            error if error.is_locked() => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    pub(crate) fn request(reason: impl Into<String>) -> Self {
        Self::Request { reason: reason.into() }
    }
}

impl From<JournalError> for ServeError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Decision { .. } => Self::Decision { reason: error.to_string() },
            error => Self::Journal(error),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<RunsError> for ServeError {
    fn from(error: RunsError) -> Self {
        match error {
            RunsError::Journal(error @ JournalError::Decision { .. }) => error.into(),
            error => Self::Postgres(error),
        }
    }
}

/// The rejection of a caller: an HTTP status and a text for the client.
///
/// ```
/// use std::time::Duration;
/// use toolwright_serve::Rejection;
///
/// let rejection = Rejection::too_many_requests(Duration::from_secs(30));
/// assert_eq!(rejection.to_string(), "too many requests; try again in 30 s");
/// assert_eq!(Rejection::unauthorized("sign in first").status(), 401);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Rejection {
    status: StatusCode,
    text: String,
    retry_after: Option<Duration>,
}

impl Rejection {
    /// Returns a rejection with this status and text. A status that is no error becomes 500.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let is_error = status.is_client_error() || status.is_server_error();
        let status = if is_error { status } else { StatusCode::INTERNAL_SERVER_ERROR };
        Self { status, text: text.into(), retry_after: None }
    }

    /// Returns the rejection of a caller who is not known: 401.
    pub fn unauthorized(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    /// Returns the rejection of a caller who may not do this: 403.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// Returns the rejection of a caller who comes too often: 429 with `retry-after`.
    #[must_use]
    pub fn too_many_requests(wait: Duration) -> Self {
        // A client that comes back in the same second would be refused again.
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        let text = format!("too many requests; try again in {seconds} s");
        let retry_after = Some(Duration::from_secs(seconds));
        Self { status: StatusCode::TOO_MANY_REQUESTS, text, retry_after }
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}
