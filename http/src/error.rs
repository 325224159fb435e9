//! The crate's error: its kind, its text without secrets, and whether a retry may help.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use reqwest::Url;

use crate::endpoint::{Endpoint, shown_without};
use crate::redact::Redactor;
use crate::retry::{Retry, is_retryable_status};

/// A result with this crate's error as the default error type.
pub(crate) type Result<T, E = HttpError> = std::result::Result<T, E>;

/// The cause of an error.
type Source = Box<dyn StdError + Send + Sync>;

/// Maximum length of a cause that was rewritten because it contained a secret, in bytes.
const MAX_CAUSE: usize = 1000;

/// Error of a request that failed, or of an endpoint that cannot be used.
///
/// It has the size of a pointer and contains no secret of the endpoint. The error of a provider or
/// toolset carries it, and adds only what HTTP does not know:
///
/// | kind | usual stage | [`retry`](Self::retry) |
/// |---|---|---|
/// | `Url`, `Header`, `Client`, `Request` | setup | never |
/// | `Connect`, `Transport` | transport | after a pause |
/// | `Silent` | transport | never: a retry may take as long again |
/// | `Truncated` | transport | only with [`begun_answers`](crate::RetryPolicy::begun_answers) |
/// | `Status` | provider | 408, 409, 425, 429 and 5xx, after `retry-after` or a pause |
/// | `Encoding` | decoding | never |
/// | `TooSlow`, `TooLarge` | limit | never |
///
/// ```
/// use toolwright_http::{Endpoint, ErrorKind, Retry, UrlFault};
///
/// let error = Endpoint::new("ftp://example.com").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Url(UrlFault::Scheme)));
/// assert_eq!(error.retry(), Retry::Never);
/// let text = "the base URL cannot be used: it does not begin with http:// or https://";
/// assert_eq!(error.to_string(), text);
/// ```
pub struct HttpError(Box<Parts>);

struct Parts {
    kind: ErrorKind,
    source: Option<Source>,
}

/// Kind of an [`HttpError`], with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL cannot be used.
    Url(UrlFault),
    /// A value contains a character that is not allowed in an HTTP header.
    Header {
        /// The name of the value, as the caller gave it. The value is not shown.
        name: String,
    },
    /// The HTTP client cannot be created.
    Client,
    /// The request cannot be serialized.
    Request,
    /// There is no connection to a server.
    Connect {
        /// The server's URL, as [`shown_url`](crate::shown_url) has it.
        server: String,
    },
    /// The connection broke before the response began.
    Transport,
    /// The connection broke within the response.
    Truncated,
    /// The server sent no byte for longer than [`HttpLimits::silence`](crate::HttpLimits::silence).
    Silent {
        /// The allowed silence.
        after: Duration,
    },
    /// The [`Deadline`](crate::Deadline) of the call passed.
    TooSlow {
        /// The time that the call was allowed to take.
        after: Duration,
    },
    /// The server responded with a status that is not a success.
    Status(Refusal),
    /// The body is compressed or is not UTF-8.
    Encoding {
        /// The encoding that was found, such as "compressed with gzip".
        what: Cow<'static, str>,
    },
    /// The server sent more bytes than allowed.
    TooLarge {
        /// The part that is too large, such as "one reply".
        what: &'static str,
        /// Maximum size, in bytes.
        max: usize,
    },
}

/// Reason why a URL cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlFault {
    /// It is not a URL.
    NotAUrl,
    /// Its scheme is not http or https.
    Scheme,
    /// It contains a user name or a password.
    Credentials,
    /// It contains a query or a fragment.
    Query,
    /// It is plain http to another machine, and the request has a secret.
    Plain,
    /// It is not within the endpoint's base URL.
    Outside,
}

impl UrlFault {
    /// Returns the reason and the fix.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotAUrl => {
                "it is not a URL; write it with its scheme and host, such as https://example.com"
            }
            Self::Scheme => "it does not begin with http:// or https://",
            Self::Credentials => {
                "it contains a user name or a password; remove them and set the key as a header"
            }
            Self::Query => "it contains `?` or `#`; remove that character and the text after it",
            Self::Plain => {
                "it is plain http to another machine, so others on the network could read the key; use https, or call `with_plain_http` before the key is set if nobody else can read that network"
            }
            Self::Outside => "a request would go to a URL outside of it",
        }
    }
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A server's response with a status that is not a success.
///
/// The endpoint's secrets are redacted in its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The standard phrase for the status, if there is one.
    pub reason: Option<&'static str>,
    /// The server's id of the request, which its support asks for: the first of the headers
    /// `x-request-id`, `request-id`, `x-github-request-id` and `x-amzn-requestid`, cut to 200 bytes.
    pub request_id: Option<String>,
    /// The pause that the server asks for; see [`retry_after`](crate::retry_after).
    pub retry_after: Option<Duration>,
    /// The target of a redirect, as [`shown_url`](crate::shown_url) has it.
    pub location: Option<String>,
    /// The beginning of the body, up to [`HttpLimits::refusal`](crate::HttpLimits::refusal).
    pub body: String,
}

impl HttpError {
    /// Creates an error of this kind with its cause.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Box::new(Parts { kind, source: Some(source.into()) }))
    }

    /// Returns the kind of the error, with its details.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self.kind() {
            ErrorKind::Status(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns whether the same request may succeed later.
    ///
    /// This includes errors that [`retry`](Self::retry) leaves to the caller, such as
    /// [`ErrorKind::Silent`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Connect { .. }
            | ErrorKind::Transport
            | ErrorKind::Silent { .. }
            | ErrorKind::Truncated => true,
            ErrorKind::Status(refusal) => is_retryable_status(refusal.status),
            _ => false,
        }
    }

    /// Returns what a [`RetryPolicy`](crate::RetryPolicy) may do after this error.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self.kind() {
            ErrorKind::Connect { .. } | ErrorKind::Transport => Retry::Backoff,
            ErrorKind::Truncated => Retry::AnswerBegan,
            ErrorKind::Status(refusal) if self.is_retryable() => {
                refusal.retry_after.map_or(Retry::Backoff, Retry::After)
            }
            _ => Retry::Never,
        }
    }

    /// Converts an error of reqwest, without a secret and with the URL as
    /// [`shown_url`](crate::shown_url) has it. `server` is not known if the response had begun.
    pub(crate) fn from_reqwest(
        mut error: reqwest::Error,
        server: Option<&Endpoint>,
        redactor: &Redactor,
    ) -> Self {
        let kind = match server {
            _ if error.is_builder() => ErrorKind::Request,
            Some(server) if error.is_connect() => {
                let shown = server.shown();
                let server = redactor.redact(shown.trim_end_matches('/')).into_owned();
                ErrorKind::Connect { server }
            }
            Some(_) if !error.is_body() && !error.is_decode() => ErrorKind::Transport,
            _ => ErrorKind::Truncated,
        };
        let shown = error.url().map(|url| Url::parse(&shown_without(url, redactor)));
        match shown {
            Some(Ok(shown)) => error.url_mut().into_iter().for_each(|url| *url = shown.clone()),
            _ => error = error.without_url(),
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

/// Returns the text of an error and of its causes, with a colon between them.
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
            ErrorKind::Url(fault) => write!(f, "the base URL cannot be used: {fault}"),
            ErrorKind::Header { name } => write!(
                f,
                "the value of `{name}` contains a character that is not allowed in an HTTP header; look for a line break in it"
            ),
            ErrorKind::Client => {
                f.write_str("the HTTP client cannot be created; check the system's certificates")
            }
            ErrorKind::Request => f.write_str("the request cannot be serialized"),
            ErrorKind::Connect { server } => write!(
                f,
                "no connection to {server}; check the base URL, the network and that the server runs"
            ),
            ErrorKind::Transport => {
                f.write_str("the connection broke before the server responded; try again")
            }
            ErrorKind::Truncated => {
                f.write_str("the connection broke within the response; try again")
            }
            ErrorKind::Silent { after } => {
                write!(f, "the server sent nothing for {after:?}; allow more time")
            }
            ErrorKind::TooSlow { after } => {
                write!(f, "the reply was not complete after {after:?}; allow more time")
            }
            ErrorKind::Status(Refusal { status, reason, .. }) => {
                write!(f, "the server refused the request ({status}")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))?;
                f.write_str(")")
            }
            ErrorKind::Encoding { what } => write!(
                f,
                "the server's response is {what}, but must be UTF-8 text; change the server or the proxy in front of it"
            ),
            ErrorKind::TooLarge { what, max } => {
                let max = match (max >> 20, max % (1 << 20)) {
                    (mib @ 1.., 0) => format!("{mib} MiB"),
                    _ => format!("{max} bytes"),
                };
                write!(
                    f,
                    "the server sent more than {max} as {what}; ask for a shorter reply, or check the base URL"
                )
            }
        }
    }
}

/// Shows the error, its causes and the body of a refusal.
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
