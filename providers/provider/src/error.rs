//! The error of a provider: its texts, when to retry, and the conversion from HTTP errors and to
//! [`Error`](toolwright_module::Error).

pub(crate) mod server_error;
mod too_long;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, IgnoredAny};
use serde_json::Value;
use toolwright_http::{
    Endpoint, ErrorKind, HttpError, Redactor, Refusal, Retry, UrlFault, is_retryable_status,
    with_causes,
};
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::model::{UnsupportedSetting, Usage};
use toolwright_signature::ContractError;

use self::server_error::{ServerError, is_of_account, no_credit, passes, retry_info};
use crate::ending::is_same;
use crate::lenient::is_set;

/// A result with the providers' error as the default error type.
pub(crate) type Result<T, E = ProviderError> = std::result::Result<T, E>;

/// Maximum size of a server's response that an error keeps, in bytes.
const MAX_RAW: usize = 64 * 1024;
/// Maximum length of a server's error message, in bytes.
const MAX_MESSAGE: usize = 1000;

/// Error of a request to a model, or of a model's settings. All providers have this one, so that a
/// program can change its provider without changing how it handles errors.
///
/// `{}` is one sentence with the fault and the fix. `{:#}` adds the evidence: the request's id
/// and the server's response, which may contain a user's data. `{:?}` adds the causes. No form
/// contains the API key.
///
/// The methods of a model return [`Error`](toolwright_module::Error), which contains this error:
///
/// ```
/// use toolwright_provider::ProviderError;
///
/// fn pause(error: &toolwright_module::Error) -> Option<std::time::Duration> {
///     match error.downcast_ref() {
///         Some(ProviderError::Status { status: 429, retry_after, .. }) => *retry_after,
///         _ => None,
///     }
/// }
/// ```
#[non_exhaustive]
pub enum ProviderError {
    /// The key is missing or blank.
    MissingKey {
        /// The environment variable for the key.
        variable: &'static str,
    },

    /// A service cannot be used: it is not in the list of services, a variable is missing, or a part
    /// of its address is not valid.
    Service {
        /// The name of the service.
        name: String,
        /// The reason and the fix.
        fault: String,
    },

    /// The base URL or a header cannot be used, there is no connection, or a limit is reached.
    ///
    /// [`ErrorKind::Status`] is [`Status`](Self::Status), and [`ErrorKind::Truncated`] is
    /// [`Truncated`](Self::Truncated).
    Http {
        /// The error. Its [`kind`](HttpError::kind) distinguishes the cases.
        error: HttpError,
        /// The reply's parts as JSON, the first 64 KiB. Empty before the reply began.
        raw: String,
        /// The pause that the server asked for in the headers, if the reply broke off.
        retry_after: Option<Duration>,
    },

    /// The API does not have a setting of the request or the model.
    Setting(UnsupportedSetting),

    /// A contract cannot be lowered to the model's dialect.
    Lowering(ContractError),

    /// The request cannot be serialized, such as one with a kind of part that the API does not take.
    Request {
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The server refused the request: its status is not a success.
    Status {
        /// The HTTP status.
        status: u16,
        /// The server's id of the request, which its support asks for.
        request_id: Option<String>,
        /// The server's error code, such as `context_length_exceeded`.
        code: Option<String>,
        /// The server's error message, the first 1000 bytes.
        message: String,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
        /// The body, the first 64 KiB.
        body: String,
    },

    /// The server reported an error within a reply that began with a success.
    Reported {
        /// The server's error code.
        code: Option<Box<str>>,
        /// The server's error message, the first 1000 bytes.
        message: Box<str>,
        /// The pause that the server asks for, in the headers or in the error.
        retry_after: Option<Duration>,
        /// The error as JSON, the first 64 KiB.
        raw: Box<str>,
        /// The usage, for which the server may charge.
        usage: Box<Usage>,
    },

    /// The server's response is not a reply of the API.
    Decoding {
        /// The error of the deserializer.
        source: serde_json::Error,
        /// The body or the event, the first 64 KiB.
        raw: String,
    },

    /// The reply was cut off.
    Truncated {
        /// The received part, the first 64 KiB: the reply's parts as JSON, or the body.
        raw: String,
        /// The cause, if it is known.
        source: Option<Box<dyn StdError + Send + Sync>>,
        /// The pause that the server asks for in the headers. A decoder sets `None`.
        retry_after: Option<Duration>,
    },

    /// The server did not finish the reply.
    Unfinished {
        /// The server's status of the reply, such as `in_progress`.
        status: String,
        /// The reply's parts as JSON, the first 64 KiB.
        raw: String,
        /// The usage, for which the server may charge.
        usage: Box<Usage>,
        /// The pause that the server asks for in the headers. A decoder sets `None`.
        retry_after: Option<Duration>,
    },

    /// The reply has a call that is contradictory or incomplete.
    Unclear {
        /// The fault.
        fault: &'static str,
        /// The reply's parts as JSON, the first 64 KiB.
        raw: String,
        /// The usage, for which the server may charge.
        usage: Usage,
    },

    /// The reply has no content.
    Empty {
        /// The usage, for which the server may charge.
        usage: Usage,
        /// The pause that the server asks for in the headers. A decoder sets `None`.
        retry_after: Option<Duration>,
    },
}

impl ProviderError {
    /// The fault of a reply with calls that its server has made. Another try would make them again.
    const MADE_BY_SERVER: &'static str = "it has a call and its result, so the server makes calls itself, and each would be made twice";

    /// The error of a reply with a call and its result: the server makes calls itself.
    #[must_use]
    pub fn made_by_server(raw: String, usage: Usage) -> Self {
        Self::Unclear { fault: Self::MADE_BY_SERVER, raw, usage }
    }

    /// Returns the error for a request that cannot be serialized or that the API would refuse.
    pub fn unsent(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Request { source: why.into() }
    }

    /// Returns the error for a reply that was cut off, with the received part.
    pub fn truncated(raw: impl Into<String>) -> Self {
        Self::Truncated { raw: raw.into(), source: None, retry_after: None }
    }

    /// Converts an error object inside a reply that began with a success.
    #[must_use]
    pub fn reported(error: &Value, usage: Usage) -> Self {
        let ServerError { code, message } = ServerError::of(error);
        let message = message.unwrap_or_else(|| "no reason given".to_owned()).into();
        let (retry_after, raw) = (retry_info(error), error.to_string().into());
        let (code, usage) = (code.map(Into::into), Box::new(usage));
        Self::Reported { message, code, retry_after, raw, usage }
    }

    /// Converts a body with an error in any form. Returns `None` if it has neither a message nor the
    /// usual field `error`.
    #[must_use]
    pub fn bare_error(body: &Value, usage: Usage) -> Option<Self> {
        let ServerError { code, message } = ServerError::of(body);
        if message.is_none()
            && let Some(error) = body.get("error").filter(|error| is_set(error))
        {
            return Some(Self::reported(error, usage));
        }
        let (retry_after, raw) = (retry_info(body), body.to_string().into());
        let (code, usage) = (code.map(Into::into), Box::new(usage));
        Some(Self::Reported { message: message?.into(), code, retry_after, raw, usage })
    }

    /// Converts an error of the deserializer.
    pub(crate) fn from_json(source: serde_json::Error, body: &[u8]) -> Self {
        let raw = String::from_utf8_lossy(body).into_owned();
        match source.is_eof() {
            true => Self::Truncated { raw, source: Some(Box::new(source)), retry_after: None },
            false => Self::Decoding { source, raw },
        }
    }

    /// Replaces the error for a whole body that does not fit the API with the server's own
    /// error, if the body contains one.
    pub(crate) fn or_error_in(self, body: &[u8]) -> Self {
        match self {
            Self::Empty { .. } | Self::Decoding { .. } => {
                // A text is an error, unless it is a reply that somebody has put into a text.
                let is_reply = |value: &Value| {
                    let text = value.as_str().filter(|text| text.trim_start().starts_with('{'));
                    text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
                };
                let value = serde_json::from_slice(body).ok().filter(|value| !is_reply(value));
                value.and_then(|value| Self::bare_error(&value, Usage::unknown())).unwrap_or(self)
            }
            error => error,
        }
    }

    /// Converts a response whose status is not a success.
    fn refused(refusal: &Refusal) -> Self {
        let Refusal { status, reason, request_id, retry_after, location, body, .. } = refusal;
        let json = serde_json::from_str::<Value>(body).unwrap_or_default();
        let ServerError { code, message } = ServerError::of(&json);
        // The body may be a page of a proxy, which has no error message.
        let mut message = message.unwrap_or_else(|| reason.unwrap_or("no reason given").to_owned());
        if let Some(address) = location {
            // If the target is the same API, the error shows its base URL.
            let paths = ["/chat/completions", "/responses", "/messages"];
            let base = paths.iter().find_map(|path| address.strip_suffix(path));
            message += &format!(" to {}", base.unwrap_or(address));
        }
        Self::Status {
            status: *status,
            request_id: request_id.clone(),
            code,
            message,
            retry_after: retry_after.or_else(|| retry_info(&json)),
            body: body.clone(),
        }
    }

    /// Returns whether the same request may succeed later.
    ///
    /// This includes errors after which a [`Connection`](super::Connection) does not retry, such as
    /// [`ErrorKind::Silent`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            _ if self.context_exceeded().is_some() => false,
            Self::Http { error, .. } => error.is_retryable(),
            Self::Truncated { .. } | Self::Empty { .. } => true,
            Self::Status { status, code, .. } => {
                is_retryable_status(*status) && !no_credit(code.as_deref())
            }
            Self::Reported { code, .. } => code.as_deref().is_some_and(passes),
            // Other replies are in work in the background, or somebody cancelled them.
            Self::Unfinished { status, .. } => {
                matches!(status.as_str(), "error" | "failed" | "abort" | "aborted")
            }
            _ => false,
        }
    }

    /// Returns what the server says of the length of the conversation, if it is longer than the model's
    /// context.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_module::model::Usage;
    /// use toolwright_provider::ProviderError;
    ///
    /// let error = json!({"message": "prompt is too long: 210000 tokens > 200000 maximum"});
    /// let exceeded = ProviderError::reported(&error, Usage::unknown()).context_exceeded().unwrap();
    /// assert_eq!((exceeded.tokens, exceeded.window), (Some(210_000), Some(200_000)));
    /// ```
    #[must_use]
    pub fn context_exceeded(&self) -> Option<ContextExceeded> {
        match self {
            Self::Status { status, code, message, body, .. } => {
                too_long::context_exceeded(Some(*status), code.as_deref(), message, body)
            }
            Self::Reported { code, message, raw, .. } => {
                // Some servers send the status as the code.
                let status = code.as_deref().and_then(|code| code.parse().ok());
                too_long::context_exceeded(status, code.as_deref(), message, raw)
            }
            _ => None,
        }
    }

    /// Returns whether the server refused this request for what it contains; see
    /// [`Error::is_request_refused`](toolwright_module::Error::is_request_refused).
    fn is_request_refused(&self) -> bool {
        match self {
            _ if self.context_exceeded().is_some() => true,
            Self::Status { status, code, message, .. } => {
                refuses_request(*status, code.as_deref(), message)
            }
            // Without a code, nothing says that the server has not failed.
            Self::Reported { code: Some(code), message, .. } => {
                let status = code.parse().unwrap_or(400);
                refuses_request(status, Some(code), message)
            }
            _ => false,
        }
    }

    /// Returns whether to retry the request after this error.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Http { error, .. } => error.retry(),
            Self::Truncated { .. } => Retry::AnswerBegan,
            Self::Empty { .. } => Retry::Never,
            _ if !self.is_retryable() => Retry::Never,
            Self::Unfinished { raw, .. } if !raw.is_empty() => Retry::AnswerBegan,
            // The caller's budget may have room for only one reply.
            _ if self.costs_tokens() => Retry::AnswerBegan,
            // `Connection` asks only if nothing of the answer was shown.
            _ => self.retry_after().map_or(Retry::Backoff, Retry::After),
        }
    }

    /// Returns the pause that the server asks for.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. }
            | Self::Http { retry_after, .. }
            | Self::Truncated { retry_after, .. }
            | Self::Reported { retry_after, .. }
            | Self::Unfinished { retry_after, .. }
            | Self::Empty { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Adds the pause in the headers of a response that began with a success.
    pub(crate) fn with_pause(mut self, pause: Option<Duration>) -> Self {
        match &mut self {
            Self::Http { retry_after, .. }
            | Self::Truncated { retry_after, .. }
            | Self::Reported { retry_after, .. }
            | Self::Unfinished { retry_after, .. }
            | Self::Empty { retry_after, .. } => *retry_after = pause.or(*retry_after),
            _ => {}
        }
        self
    }

    /// Returns the usage that the server counted for a reply that failed.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.counted().filter(|usage| !usage.incomplete)
    }

    /// Returns whether the server counted tokens for a reply that failed, even if not all of them.
    fn costs_tokens(&self) -> bool {
        self.counted().is_some_and(|usage| usage.input_tokens > 0 || usage.output_tokens > 0)
    }

    fn counted(&self) -> Option<Usage> {
        match self {
            Self::Reported { usage, .. } | Self::Unfinished { usage, .. } => Some(**usage),
            Self::Empty { usage, .. } | Self::Unclear { usage, .. } => Some(*usage),
            _ => None,
        }
    }

    /// Returns the received part of the response.
    fn raw(&self) -> Option<&str> {
        let raw: &str = match self {
            Self::Reported { raw, .. } => raw,
            Self::Status { body: raw, .. }
            | Self::Http { raw, .. }
            | Self::Decoding { raw, .. }
            | Self::Unfinished { raw, .. }
            | Self::Unclear { raw, .. }
            | Self::Truncated { raw, .. } => raw,
            _ => "",
        };
        Some(raw).filter(|raw| !raw.is_empty())
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Http { error, .. } => match error.kind() {
                ErrorKind::Connect { .. } | ErrorKind::Transport | ErrorKind::Silent { .. } => {
                    Stage::Transport
                }
                ErrorKind::Encoding { .. } => Stage::Decoding,
                ErrorKind::TooLarge { .. } | ErrorKind::TooSlow { .. } => Stage::Limit,
                _ => Stage::Setup,
            },
            Self::Truncated { .. } => Stage::Transport,
            Self::Status { .. } | Self::Reported { .. } => Stage::Provider,
            Self::Decoding { .. }
            | Self::Empty { .. }
            | Self::Unclear { .. }
            | Self::Unfinished { .. } => Stage::Decoding,
            _ => Stage::Setup,
        }
    }

    /// Converts into the error for the caller of a model, with stage, usage, pause and the received part.
    ///
    /// For a provider without a [`Connection`](super::Connection). It removes no secrets;
    /// [`Connection::reply`](super::Connection::reply) does.
    #[must_use]
    pub fn into_error(self) -> toolwright_module::Error {
        let usage = match &self {
            // The request was not sent, so the usage is zero.
            Self::Http { error, .. } if matches!(error.kind(), ErrorKind::Connect { .. }) => {
                Some(Usage::default())
            }
            // If the server does not report usage, the caller estimates it.
            error => error.usage(),
        };
        let (stage, retryable) = (self.stage(), self.is_retryable());
        let wait = self.retry_after().filter(|_| retryable);
        let raw = self.raw().map(str::to_owned);
        let (exceeded, is_refused) = (self.context_exceeded(), self.is_request_refused());
        let mut error = toolwright_module::Error::other(self).at(stage).retryable(retryable);
        if let Some(wait) = wait {
            error = error.with_retry_after(wait);
        }
        if let Some(usage) = usage {
            error = error.with_usage(usage);
        }
        if let Some(exceeded) = exceeded {
            error = error.with_context_exceeded(exceeded);
        }
        if is_refused {
            error = error.with_request_refused();
        }
        match raw {
            Some(raw) => error.with_raw(raw),
            None => error,
        }
    }

    /// Removes the secrets of the endpoint from the error, and cuts its texts.
    pub(crate) fn redacted(mut self, endpoint: &Endpoint) -> Self {
        let redactor = endpoint.redactor();
        let clean = |text: &mut String, max| *text = redactor.redact_start(text, max);
        let clean_word = |text: &mut Option<String>| {
            text.iter_mut().for_each(|text| clean(text, MAX_MESSAGE));
        };
        match &mut self {
            Self::Status { status, request_id, code, message, body, .. } => {
                clean_word(request_id);
                clean_word(code);
                clean(message, MAX_MESSAGE);
                if !endpoint.has_secret() && asks_for_key(*status, message) {
                    *message +=
                        "; the request had no key: give one with `with_key`, or use `from_env`";
                }
                clean(body, MAX_RAW);
                if matches!(status, 404 | 405) {
                    *message += &format!("; the base URL is {}", endpoint.shown());
                    if endpoint.as_url().path() == "/" {
                        *message += ", without a path such as /v1";
                    }
                }
            }
            Self::Reported { code, message, raw, .. } => {
                *code = code.take().map(|code| redactor.redact_start(&code, MAX_MESSAGE).into());
                *message = redactor.redact_start(message, MAX_MESSAGE).into();
                *raw = redactor.redact_start(raw, MAX_RAW).into();
            }
            Self::Decoding { raw, source } => {
                clean(raw, MAX_RAW);
                // An error of serde contains the value that does not fit.
                if let Some(text) = clean_cause(source, redactor) {
                    *source = serde_json::Error::custom(text);
                }
            }
            Self::Unfinished { status, raw, .. } => {
                clean(status, MAX_MESSAGE);
                clean(raw, MAX_RAW);
            }
            // `toolwright-http` redacts its own error.
            Self::Http { raw, .. } | Self::Unclear { raw, .. } | Self::Truncated { raw, .. } => {
                clean(raw, MAX_RAW);
            }
            _ => {}
        }
        if let Self::Truncated { source: Some(source), .. } | Self::Request { source } = &mut self
            && let Some(text) = clean_cause(&**source, redactor)
        {
            *source = text.into();
        }
        self
    }
}

/// Returns whether the server may have refused the request because it had no key.
fn asks_for_key(status: u16, message: &str) -> bool {
    let message = message.to_lowercase();
    // Not `token`, which is also the unit of a text's length.
    let names = ["api key", "api_key", "apikey", "api-key", "bearer", "access token", "auth token"];
    let words = ["authentication", "authorization", "unauthorized", "credential"];
    match status {
        401 | 403 => true,
        400 => names.iter().chain(&words).any(|name| message.contains(name)),
        _ => false,
    }
}

/// Returns whether a server refused one request, and not the key, the account or every request.
fn refuses_request(status: u16, code: Option<&str>, message: &str) -> bool {
    match status {
        // Groq has this status for a request that is larger than the limit per minute, with the code of
        // a limit that passes.
        413 => true,
        400 | 411..=428 | 430..=499 => {
            !no_credit(code)
                && !code.is_some_and(|code| passes(code) || is_of_account(code))
                && !asks_for_key(status, message)
        }
        _ => false,
    }
}

/// Returns the redacted and cut text of an error and its causes, if that changes the text.
fn clean_cause(error: &(dyn StdError + 'static), redactor: &Redactor) -> Option<String> {
    let text = with_causes(error);
    Some(redactor.redact_start(&text, MAX_MESSAGE)).filter(|redacted| *redacted != text)
}

impl From<HttpError> for ProviderError {
    fn from(error: HttpError) -> Self {
        match error.kind() {
            ErrorKind::Status(refusal) => Self::refused(refusal),
            ErrorKind::Truncated => {
                let (raw, source) = (String::new(), Some(error.into()));
                Self::Truncated { raw, source, retry_after: None }
            }
            _ => Self::Http { error, raw: String::new(), retry_after: None },
        }
    }
}

impl From<UnsupportedSetting> for ProviderError {
    fn from(setting: UnsupportedSetting) -> Self {
        Self::Setting(setting)
    }
}

impl From<ContractError> for ProviderError {
    fn from(error: ContractError) -> Self {
        Self::Lowering(error)
    }
}

impl StdError for ProviderError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // Its text is that of this error.
            Self::Http { error, .. } => error.source(),
            Self::Setting(error) => error.source(),
            Self::Lowering(error) => error.source(),
            Self::Request { source } | Self::Truncated { source: Some(source), .. } => {
                Some(&**source)
            }
            Self::Decoding { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey { variable } => write!(
                f,
                "there is no API key: set {variable}, or use `at` without `with_key` for a server that needs none"
            ),
            Self::Service { name, fault } => {
                write!(f, "the service `{name}` cannot be used: {fault}")
            }
            Self::Http { error, .. } => {
                // The methods of a model.
                let method = match error.kind() {
                    ErrorKind::Url(UrlFault::Credentials) => " with `with_key`",
                    ErrorKind::Silent { .. } => " with `with_timeout`",
                    ErrorKind::TooSlow { .. } => " with `with_max_time`",
                    _ => "",
                };
                write!(f, "{error}{method}")
            }
            Self::Setting(error) => error.fmt(f),
            Self::Lowering(error) => error.fmt(f),
            Self::Request { source } => write!(f, "the request cannot be sent: {source}"),
            Self::Status { status, code, message, retry_after, .. } => {
                let (what, advice) = match self.context_exceeded() {
                    Some(_) => TOO_LONG,
                    None => status_texts(*status, code.as_deref(), message),
                };
                write!(f, "{what} ({status}: {message}); {advice}")?;
                // A wait of less than a second does not matter to a person.
                match retry_after.filter(|wait| wait.as_secs() > 0) {
                    Some(wait) => write!(f, ", after {wait:?} or later"),
                    None => Ok(()),
                }
            }
            Self::Reported { message, .. } if self.context_exceeded().is_some() => {
                let (what, advice) = TOO_LONG;
                write!(f, "{what} ({message}); {advice}")
            }
            Self::Reported { code, message, .. } if too_many_bytes(None, code.as_deref()) => {
                let (what, advice) = TOO_MANY_BYTES;
                write!(f, "{what} ({message}); {advice}")
            }
            Self::Reported { message, .. } => {
                write!(f, "the server reported an error in its reply: {message}")
            }
            Self::Decoding { .. } => f.write_str(
                "the server's response is not a reply of the API; check that the base URL is that of the provider's API",
            ),
            Self::Truncated { .. } => f.write_str("the server's reply was cut off; try again"),
            Self::Unfinished { status, .. } => {
                let advice = match status.as_str() {
                    "queued" | "in_progress" | "cancelled" | "canceled" => {
                        "try again, and turn off background replies"
                    }
                    _ => "try again",
                };
                write!(f, "the server did not finish the reply (status {status:?}); {advice}")
            }
            Self::Unclear { fault, .. } if *fault == Self::MADE_BY_SERVER => {
                write!(f, "the server's reply is unclear: {fault}; turn the server's own tools off")
            }
            Self::Unclear { fault, .. } => write!(
                f,
                "the server's reply is unclear: {fault}; try again, or use another model or server"
            ),
            Self::Empty { .. } => {
                f.write_str("the server's reply is empty; try again or use another model")
            }
        }?;
        match self {
            Self::Status { request_id, code, body, .. } if f.alternate() => {
                for (name, value) in [("request", request_id), ("code", code)] {
                    value.iter().try_for_each(|value| write!(f, "\n{name}: {value}"))?;
                }
                write!(f, "\nbody: {body}")
            }
            _ => match self.raw().filter(|_| f.alternate()) {
                Some(raw) => write!(f, "\nreply: {raw}"),
                None => Ok(()),
            },
        }
    }
}

/// Shows the text of `{:#}` and the causes, so that `fn main() -> Result<(), ProviderError>`
/// prints the fix.
impl fmt::Debug for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "\ncause: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// What a conversation that is too long means and what to do.
const TOO_LONG: (&str, &str) = (
    "the conversation is longer than the model's context",
    "give a shorter task, let the agent shorten the conversation with `Agent::with_compaction`, or use a model with a larger context",
);

/// What a request with too many bytes means and what to do.
const TOO_MANY_BYTES: (&str, &str) = (
    "the request has more bytes than the server takes",
    "send fewer or smaller images and documents, or shorter texts, or raise the limit of the server or of the proxy before it",
);

/// Returns whether an error is about the bytes of the request.
fn too_many_bytes(status: Option<u16>, code: Option<&str>) -> bool {
    match code {
        // Anthropic's code. Some servers send the status as the code.
        Some(code) if code == "413" || is_same(code, "request_too_large") => true,
        // Groq has this status for a request that is larger than the limit per minute.
        _ => status == Some(413) && !code.is_some_and(passes),
    }
}

/// Returns what a status means and what to do.
fn status_texts(status: u16, code: Option<&str>, message: &str) -> (&'static str, &'static str) {
    match status {
        300..=399 => ("the server redirects the request", "use that address as the base URL"),
        401 if message.contains("`with_key`") => {
            ("the server requires an API key", "check which one")
        }
        401 => ("the server refused the API key", "check the key"),
        400 | 402 | 403 | 429 if status == 402 || no_credit(code) => {
            ("the account has no credit left", "check its plan and billing")
        }
        403 => ("the server refused access", "check what the API key may do"),
        404 | 405 => (
            "the server does not have the model or the address",
            "check the model's name and the base URL",
        ),
        400 | 413 if too_many_bytes(Some(status), code) => TOO_MANY_BYTES,
        429 => ("the rate limit is reached", "send fewer requests"),
        408 | 409 | 425 | 500..=599 => ("the server failed", "try again later"),
        600.. => (
            "the server sent an unknown status",
            "check that the base URL is that of the provider's API",
        ),
        _ => ("the server refused the request", "change the request as the message says"),
    }
}
