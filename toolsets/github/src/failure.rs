//! The failures of a call: the sentence for the model, and [`CallError`] for code.

use std::time::Duration;

use jiff::Timestamp;
use toolwright_http::Retry;
use toolwright_module::Error;
use toolwright_module::error::Stage;

/// The beginnings of a tool's error sentences.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// GitHub refused the request.
    pub(crate) failed: &'static str,
    /// The request was not sent, or its response did not arrive.
    pub(crate) doing: &'static str,
    /// The response cannot be read.
    pub(crate) parsing: &'static str,
}

/// The reason why a call failed, without a tool's prefixes.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument that the model can correct.
    Argument(String),
    /// A whole sentence. The model cannot correct the call.
    Refused(&'static str),
    /// A status that is not a success.
    Status { status: u16, message: Option<String>, body: String },
    /// The rate limit is reached.
    Limited { pause: Pause, body: String },
    /// A redirect that is not followed, and the host that it leads to.
    Redirected { host: Option<String> },
    /// Too many redirects.
    RedirectLoop,
    /// A web page instead of data.
    Page { status: u16, body: String },
    /// The response did not arrive or broke.
    Transport { fault: &'static str, detail: String, retry: Retry },
    /// The response is larger than allowed.
    TooLarge { max: usize },
    /// The response does not have the expected JSON.
    Parse { fault: String, body: String },
}

/// Kind of a failed call, for code. The sentence for the model is that of the error around it.
///
/// [`Error::downcast_ref`](toolwright_module::Error::downcast_ref) finds it.
///
/// ```
/// use toolwright_github::CallError;
/// use toolwright_module::Error;
///
/// fn retry_at(error: &Error) -> Option<jiff::Timestamp> {
///     match error.downcast_ref()? {
///         CallError::RateLimited { until } => *until,
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// GitHub responded with a status that is not a success.
    #[error("GitHub responded with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The rate limit is reached.
    #[error("GitHub's rate limit is reached")]
    RateLimited {
        /// The time of the next allowed request, if GitHub reported it.
        until: Option<Timestamp>,
    },
    /// GitHub sent a redirect that is not followed.
    #[error("GitHub redirected the request to another address")]
    Redirected,
    /// The response is a web page instead of data.
    #[error("the response is a web page with status {status}")]
    Page {
        /// The HTTP status.
        status: u16,
    },
    /// The response did not arrive or broke.
    #[error("no complete response: {fault}")]
    Transport {
        /// The reason.
        fault: &'static str,
    },
    /// The response is larger than allowed.
    #[error("the response is larger than {most} bytes")]
    TooLarge {
        /// Maximum size, in bytes.
        most: usize,
    },
    /// The response does not have the expected JSON.
    #[error("the response cannot be read: {fault}")]
    Undecodable {
        /// The reason.
        fault: String,
    },
}

/// The pause that GitHub asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pause {
    For(Duration),
    Until(Timestamp),
    /// The response does not say.
    Unknown,
}

/// The pause that GitHub's documentation asks for if the response does not say.
const USUAL_PAUSE: Duration = Duration::from_secs(60);

impl Pause {
    /// Returns the time from now.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Self::For(wait) => wait,
            // One second more, because clocks differ.
            Self::Until(end) => {
                let left = end.duration_since(Timestamp::now());
                Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
            }
            Self::Unknown => USUAL_PAUSE,
        }
    }
}

impl Failure {
    /// Returns whether to retry the request.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Limited { pause, .. } => Retry::After(pause.wait()),
            Self::Status { status: 408 | 425 | 500.., .. } | Self::Page { status: 500.., .. } => {
                Retry::Backoff
            }
            Self::Transport { retry, .. } => *retry,
            _ => Retry::Never,
        }
    }

    /// Converts into the error of a tool.
    pub(crate) fn into_error(self, prefixes: &Prefixes) -> Error {
        let Prefixes { failed, doing, parsing } = prefixes;
        let (error, kind) = match self {
            Self::Argument(fault) => {
                return Error::retry(format!("{doing}: {fault}")).at(Stage::Arguments);
            }
            Self::Refused(text) => return Error::refuse(text).at(Stage::Arguments),
            Self::Status { status, message, body } => {
                let quote = message.map(|text| format!(" GitHub says: {text}")).unwrap_or_default();
                let error = status_error(failed, status, &quote).at(Stage::Provider);
                (error.with_raw(body), CallError::Status { status })
            }
            Self::Limited { pause, body } => {
                let (when, until) = match pause {
                    Pause::For(wait) => (
                        format!("try again in {} seconds", wait.as_secs()),
                        Timestamp::now().checked_add(wait).ok(),
                    ),
                    Pause::Until(end) => (format!("try again after {end}"), Some(end)),
                    Pause::Unknown => ("try again in a few minutes".to_owned(), None),
                };
                let text = format!("{failed}: GitHub's rate limit is reached; {when}");
                let error = Error::refuse(text).at(Stage::Limit).retryable(true).with_raw(body);
                (error, CallError::RateLimited { until })
            }
            Self::Redirected { host } => {
                let host = host.map(|host| format!(" ({host})")).unwrap_or_default();
                let text = format!(
                    "{failed}: GitHub redirects this request to another address{host}, which the tools may not request"
                );
                (Error::refuse(text).at(Stage::Provider), CallError::Redirected)
            }
            Self::RedirectLoop => {
                let text = format!("{failed}: GitHub redirects this request too many times");
                (Error::refuse(text).at(Stage::Provider), CallError::Redirected)
            }
            Self::Page { status, body } => {
                let text = format!(
                    "{failed}: the response is a web page instead of data (status {status}); the user should check the base URL and the proxy"
                );
                let error = Error::refuse(text).at(Stage::Provider).retryable(status >= 500);
                (error.with_raw(body), CallError::Page { status })
            }
            Self::Transport { fault, detail, retry: _ } => {
                let error = Error::refuse(format!("{doing}: {fault}; try again later"));
                let error = error.at(Stage::Transport).retryable(true).with_raw(detail);
                (error, CallError::Transport { fault })
            }
            Self::TooLarge { max } => {
                let text = format!(
                    "{doing}: the response is larger than {} MiB; request less, such as with a smaller `limit` or `per_page`",
                    max >> 20
                );
                (Error::retry(text).at(Stage::Limit), CallError::TooLarge { most: max })
            }
            Self::Parse { fault, body } => {
                let error = Error::refuse(format!("{parsing}: {fault}")).at(Stage::Decoding);
                (error.with_raw(body), CallError::Undecodable { fault })
            }
        };
        error.with_source(kind)
    }
}

fn status_error(failed: &str, status: u16, quote: &str) -> Error {
    match status {
        401 => Error::refuse(format!(
            "{failed}: the token is missing, wrong or expired (401); the user has to set a valid one.{quote}"
        )),
        403 => Error::refuse(format!(
            "{failed}: the token does not allow this (403); the user has to set one that does.{quote}"
        )),
        404 => Error::retry(format!(
            "{failed}: it does not exist, or the token cannot read it (404); check the name or number.{quote}"
        )),
        422 => Error::retry(format!(
            "{failed}: GitHub rejected the arguments (422); change them.{quote}"
        )),
        408 | 425 | 500.. => {
            Error::refuse(format!("{failed}: GitHub failed ({status}); try again later.{quote}"))
                .retryable(true)
        }
        _ => Error::refuse(format!("{failed}: GitHub refused the request ({status}).{quote}")),
    }
}
