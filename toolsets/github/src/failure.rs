use std::time::Duration;

use jiff::Timestamp;
use toolwright_http::Retry;
use toolwright_module::Error;
use toolwright_module::error::Stage;

/// How a tool begins its sentences on what went wrong.
#[derive(Debug)]
pub(crate) struct Words {
    /// GitHub said no.
    pub(crate) failed: &'static str,
    /// The request could not be made, or its answer did not arrive.
    pub(crate) doing: &'static str,
    /// The answer is not what it should be.
    pub(crate) parsing: &'static str,
}

/// Why a call failed, before a tool says so in its words.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument that the model can put right.
    Argument(String),
    /// A sentence of its own, which is final.
    Refused(&'static str),
    /// GitHub said no.
    Status { status: u16, said: Option<String>, body: String },
    /// Too many requests.
    Limited { pause: Pause, body: String },
    /// A redirect that is not followed; where it leads, if that can be told.
    Elsewhere { host: Option<String> },
    /// Redirects that lead to redirects.
    Circle,
    /// A web page where data should be.
    Page { status: u16, body: String },
    /// No answer, or not all of it; and whether to ask again at once.
    Transport { fault: &'static str, detail: String, retry: Retry },
    /// An answer that is too large to keep.
    TooLarge { most: usize },
    /// Not what it should be.
    Parse { fault: String, body: String },
}

/// What came of a call that failed, for code; the sentence is its error's.
///
/// Found with [`Error::downcast_ref`](toolwright_module::Error::downcast_ref).
///
/// ```
/// use toolwright_github::CallError;
/// use toolwright_module::Error;
///
/// fn may_ask_again_at(error: &Error) -> Option<jiff::Timestamp> {
///     match error.downcast_ref()? {
///         CallError::RateLimited { until } => *until,
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// GitHub said no.
    #[error("GitHub answered with status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// Too many requests.
    #[error("GitHub's rate limit is used up")]
    RateLimited {
        /// When to ask again, if GitHub said so.
        until: Option<Timestamp>,
    },
    /// A redirect that is not followed.
    #[error("GitHub sent the request on to another place")]
    Redirected,
    /// A web page came where data should be.
    #[error("a web page came with status {status}")]
    Page {
        /// The status.
        status: u16,
    },
    /// No answer, or not all of it.
    #[error("no answer: {fault}")]
    Transport {
        /// What happened.
        fault: &'static str,
    },
    /// An answer that is too large to keep.
    #[error("the answer is larger than {most} bytes")]
    TooLarge {
        /// The most that is kept.
        most: usize,
    },
    /// Not the JSON that it should be.
    #[error("the answer cannot be understood: {fault}")]
    Undecodable {
        /// What is wrong with it.
        fault: String,
    },
}

/// How long GitHub wants to be left alone.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pause {
    For(Duration),
    Until(Timestamp),
    /// It does not say.
    Unknown,
}

/// What GitHub's documentation asks for where its answer says nothing.
const USUAL_PAUSE: Duration = Duration::from_secs(60);

impl Pause {
    /// How long that is from now.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Self::For(wait) => wait,
            // A second more: clocks differ.
            Self::Until(end) => {
                let left = end.duration_since(Timestamp::now());
                Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
            }
            Self::Unknown => USUAL_PAUSE,
        }
    }
}

impl Failure {
    /// The failure as its tool tells it.
    pub(crate) fn told(self, words: &Words) -> Error {
        let kind = self.kind();
        let error = self.sentence(words);
        match kind {
            Some(kind) => error.with_source(kind),
            None => error,
        }
    }

    /// Whether to ask again at once.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Limited { pause, .. } => Retry::After(pause.wait()),
            Self::Status { status: 500.., .. } | Self::Page { status: 500.., .. } => Retry::Backoff,
            Self::Transport { retry, .. } => *retry,
            _ => Retry::Never,
        }
    }

    fn kind(&self) -> Option<CallError> {
        Some(match self {
            Self::Argument(_) | Self::Refused(_) => return None,
            Self::Status { status, .. } => CallError::Status { status: *status },
            Self::Limited { pause, .. } => CallError::RateLimited {
                until: match pause {
                    Pause::For(wait) => Timestamp::now().checked_add(*wait).ok(),
                    Pause::Until(end) => Some(*end),
                    Pause::Unknown => None,
                },
            },
            Self::Elsewhere { .. } | Self::Circle => CallError::Redirected,
            Self::Page { status, .. } => CallError::Page { status: *status },
            Self::Transport { fault, .. } => CallError::Transport { fault },
            Self::TooLarge { most } => CallError::TooLarge { most: *most },
            Self::Parse { fault, .. } => CallError::Undecodable { fault: fault.clone() },
        })
    }

    fn sentence(self, words: &Words) -> Error {
        let Words { failed, doing, parsing } = words;
        match self {
            Self::Argument(fault) => Error::retry(format!("{doing}: {fault}")).at(Stage::Arguments),
            Self::Refused(text) => Error::refuse(text).at(Stage::Arguments),
            Self::Status { status, said, body } => {
                let said = said.map(|said| format!(" GitHub says: {said}")).unwrap_or_default();
                status_error(failed, status, &said).at(Stage::Provider).with_raw(body)
            }
            Self::Limited { pause, body } => {
                let when = match pause {
                    Pause::For(wait) => format!("ask again in {} seconds", wait.as_secs()),
                    Pause::Until(end) => format!("ask again after {end}"),
                    Pause::Unknown => "ask again in some minutes".to_owned(),
                };
                let text = format!("{failed}: GitHub's rate limit is used up; {when}");
                Error::refuse(text).at(Stage::Limit).retryable(true).with_raw(body)
            }
            Self::Elsewhere { host } => {
                let host = host.map(|host| format!(" ({host})")).unwrap_or_default();
                let text = format!(
                    "{failed}: GitHub sends this request on to another place{host}, where these tools do not go"
                );
                Error::refuse(text).at(Stage::Provider)
            }
            Self::Circle => {
                let text = format!("{failed}: GitHub sends this request on again and again");
                Error::refuse(text).at(Stage::Provider)
            }
            Self::Page { status, body } => {
                let text = format!(
                    "{failed}: a web page came instead of data (status {status}); the user should check the base URL and the proxy"
                );
                let again = status >= 500;
                Error::refuse(text).at(Stage::Provider).retryable(again).with_raw(body)
            }
            Self::Transport { fault, detail, retry: _ } => {
                Error::refuse(format!("{doing}: {fault}; try later"))
                    .at(Stage::Transport)
                    .retryable(true)
                    .with_raw(detail)
            }
            Self::TooLarge { most } => {
                let most = most >> 20;
                let text = format!(
                    "{doing}: the answer is larger than {most} MiB; ask for less, as with a smaller `limit` or `per_page`"
                );
                Error::retry(text).at(Stage::Limit)
            }
            Self::Parse { fault, body } => {
                let text = format!("{parsing}: {fault}");
                Error::refuse(text).at(Stage::Decoding).with_raw(body)
            }
        }
    }
}

fn status_error(failed: &str, status: u16, said: &str) -> Error {
    match status {
        401 => Error::refuse(format!(
            "{failed}: the token is missing, wrong or expired (401); the user has to give another.{said}"
        )),
        403 => Error::refuse(format!(
            "{failed}: the token does not allow this (403); the user has to give one that does.{said}"
        )),
        404 => Error::retry(format!(
            "{failed}: there is nothing of that name or number, or the token does not show it (404); check it.{said}"
        )),
        422 => Error::retry(format!(
            "{failed}: the request makes no sense to GitHub (422); change its arguments.{said}"
        )),
        500.. => {
            Error::refuse(format!("{failed}: GitHub has a problem ({status}); try later.{said}"))
                .retryable(true)
        }
        _ => Error::refuse(format!("{failed}: GitHub refuses it ({status}).{said}")),
    }
}
