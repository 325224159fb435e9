use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::redact::Redactor;
use crate::retry::{Retry, is_retryable_status};

/// The result of everything in this crate that can fail.
pub(crate) type Result<T, E = HttpError> = std::result::Result<T, E>;

/// The cause of an error.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// Maximum length of a cause that had to be rewritten without a secret.
const MAX_CAUSE: usize = 1000;

/// A request that failed, or an endpoint that cannot be used.
///
/// It is small and holds no secret of its endpoint. A provider or toolset converts it into
/// its own error, in its own words, by [`kind`](Self::kind):
///
/// | kind | usual stage | [`retry`](Self::retry) |
/// |---|---|---|
/// | `Url`, `Header`, `Client`, `Request` | setup | never |
/// | `Connect`, `Transport` | transport | after a pause |
/// | `Silent` | transport | never: a retry may take as long again |
/// | `Truncated` | transport | only if an answer that began may be asked for again |
/// | `Status` | provider | 408, 409, 429 and 5xx, after `retry-after` or a pause |
/// | `Encoding` | decoding | never |
/// | `TooSlow`, `TooLarge` | limit | never |
///
/// ```
/// use toolwright_http::{Endpoint, ErrorKind, Retry, UrlFault};
///
/// let error = Endpoint::new("ftp://example.com").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Url(UrlFault::Scheme)));
/// assert_eq!(error.retry(), Retry::Never);
/// assert_eq!(error.to_string(), "the URL cannot be used: it does not begin with http:// or https://");
/// ```
pub struct HttpError(Box<Parts>);

struct Parts {
    kind: ErrorKind,
    source: Option<Source>,
}

/// The kind of an [`HttpError`], with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL cannot be used.
    Url(UrlFault),
    /// A value holds a character that no HTTP header can carry.
    Header {
        /// The name of the value.
        name: String,
    },
    /// The HTTP client cannot be set up.
    Client,
    /// The request cannot be written.
    Request,
    /// No server answers.
    Connect,
    /// The connection broke before the answer began.
    Transport,
    /// The connection broke within the answer.
    Truncated,
    /// The server was silent for too long.
    Silent {
        /// How long it may be silent.
        after: Duration,
    },
    /// The call's deadline passed.
    TooSlow {
        /// How long the call was allowed to take.
        after: Duration,
    },
    /// The server refused the request.
    Status(Refusal),
    /// The body is compressed or is not UTF-8.
    Encoding {
        /// What it is instead.
        what: Cow<'static, str>,
    },
    /// The server sent more than allowed.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Maximum size, in bytes.
        max: usize,
    },
}

/// What is wrong with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlFault {
    /// It is not a URL.
    NotAUrl,
    /// It is a URL of another scheme than http and https.
    Scheme,
    /// It holds a user name or a password.
    Credentials,
    /// It holds a query or a fragment.
    Query,
    /// It is plain http beyond this machine, and a secret goes with it.
    Plain,
    /// It leads to another place than the endpoint's.
    Outside,
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUrl => "it is not a URL; write it whole, such as https://example.com/v1",
            Self::Scheme => "it does not begin with http:// or https://",
            Self::Credentials => {
                "it holds a user name or a password; remove them and set a header instead"
            }
            Self::Query => "it holds `?` or `#`; end it before them",
            Self::Plain => {
                "it is plain http beyond this machine, where the network could read the secret; use https"
            }
            Self::Outside => "it leads out of the endpoint's base URL; use a path below it",
        })
    }
}

/// A server's answer with a status that is not a success.
///
/// Its texts hold no secret of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The standard phrase for the status, if there is one.
    pub reason: Option<&'static str>,
    /// The server's name for the request, for its support.
    pub request_id: Option<String>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// Where a redirect leads, without user name, password, query and fragment.
    pub location: Option<String>,
    /// The beginning of the body.
    pub body: String,
}

impl HttpError {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Source>) -> Self {
        Self(Box::new(Parts { kind, source: Some(source.into()) }))
    }

    /// The kind of the error, with its details.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The kind and the cause, for a conversion.
    #[must_use]
    pub fn into_parts(self) -> (ErrorKind, Option<Box<dyn StdError + Send + Sync>>) {
        (self.0.kind, self.0.source)
    }

    /// The HTTP status, if the server refused the request.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The server's name for the request that it refused.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.refusal()?.request_id.as_deref()
    }

    /// How long the server asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self.kind() {
            ErrorKind::Status(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same request may succeed later.
    ///
    /// It is also true for errors that [`retry`](Self::retry) leaves to the caller, such
    /// as a silence.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Connect
            | ErrorKind::Transport
            | ErrorKind::Silent { .. }
            | ErrorKind::Truncated => true,
            ErrorKind::Status(refusal) => is_retryable_status(refusal.status),
            _ => false,
        }
    }

    /// What a [`RetryPolicy`](crate::RetryPolicy) may do after this error.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self.kind() {
            ErrorKind::Connect | ErrorKind::Transport => Retry::Backoff,
            ErrorKind::Truncated => Retry::AnswerBegan,
            ErrorKind::Status(refusal) if self.is_retryable() => {
                refusal.retry_after.map_or(Retry::Backoff, Retry::After)
            }
            _ => Retry::Never,
        }
    }

    /// The error for one of reqwest's, without a secret and without a query.
    pub(crate) fn from_reqwest(
        mut error: reqwest::Error,
        began: bool,
        redactor: &Redactor,
    ) -> Self {
        let kind = if error.is_builder() {
            ErrorKind::Request
        } else if error.is_connect() {
            ErrorKind::Connect
        } else if began || error.is_body() || error.is_decode() {
            ErrorKind::Truncated
        } else {
            ErrorKind::Transport
        };
        if let Some(url) = error.url_mut() {
            url.set_query(None);
        }
        let text = with_causes(&error);
        match redactor.finds_secret(&text) {
            true => Self::new(kind, redactor.redact_start(&text, MAX_CAUSE)),
            false => Self::new(kind, error),
        }
    }
}

impl From<ErrorKind> for HttpError {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Parts { kind, source: None }))
    }
}

/// The text of an error and of its causes, with a colon between them.
///
/// ```
/// let error = "x".parse::<u8>().unwrap_err();
/// assert_eq!(toolwright_http::with_causes(&error), "invalid digit found in string");
/// ```
#[must_use]
pub fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ErrorKind::Url(fault) => write!(f, "the URL cannot be used: {fault}"),
            ErrorKind::Header { name } => write!(
                f,
                "`{name}` holds a character that no HTTP header can carry; look for a line break in it"
            ),
            ErrorKind::Client => {
                f.write_str("the HTTP client cannot be set up; check the system's certificates")
            }
            ErrorKind::Request => f.write_str("the request cannot be written"),
            ErrorKind::Connect => f.write_str(
                "no server answers; check the URL, the network and that the server runs",
            ),
            ErrorKind::Transport => {
                f.write_str("the connection broke before the server answered; try again")
            }
            ErrorKind::Truncated => {
                f.write_str("the connection broke within the answer; try again")
            }
            ErrorKind::Silent { after } => {
                write!(f, "the server was silent for {after:?}; allow more, or try again")
            }
            ErrorKind::TooSlow { after } => {
                write!(f, "the answer was not whole after {after:?}; allow more")
            }
            ErrorKind::Status(Refusal { status, reason, .. }) => {
                write!(f, "the server refused the request ({status}")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))?;
                f.write_str(")")
            }
            ErrorKind::Encoding { what } => write!(
                f,
                "the answer is {what}, and UTF-8 text is needed; turn that off at the server or at the proxy before it"
            ),
            ErrorKind::TooLarge { what, max } => {
                write!(f, "the server sent more than {max} bytes as {what}")
            }
        }
    }
}

/// The error and its causes, and the body of a refusal.
impl fmt::Debug for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))?;
        match self.refusal() {
            Some(refusal) if !refusal.body.is_empty() => write!(f, "\nbody: {}", refusal.body),
            _ => Ok(()),
        }
    }
}

impl StdError for HttpError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
