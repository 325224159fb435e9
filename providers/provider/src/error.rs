//! The error of a provider: its texts, when to retry, and the conversion from HTTP errors and to
//! [`Error`](toolwright_module::Error).

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::NamelessCall;
use crate::lenient::is_set;
use crate::retry_info::retry_info;
use serde::de::Error as _;
use serde_json::{Value, json};
use toolwright_http::{
    Endpoint, ErrorKind, Redactor, Refusal, Retry, UrlFault, is_retryable_status, with_causes,
};
use toolwright_module::error::Stage;
use toolwright_module::model::{UnsupportedSetting, Usage};

/// A result with the providers' error as the default error type.
pub(crate) type Result<T, E = ProviderError> = std::result::Result<T, E>;

/// The cause of an error.
type Source = Box<dyn StdError + Send + Sync>;

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
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The key is missing or blank.
    #[error(
        "there is no API key: set {variable}, or use `at` without `with_key` for a server that needs none"
    )]
    MissingKey {
        /// The environment variable for the key.
        variable: &'static str,
    },

    /// A service of a list cannot be used: it is not in the list, or a variable is missing.
    #[error("the service `{name}` cannot be used: {fault}")]
    Service {
        /// The name of the service.
        name: String,
        /// The reason and the fix.
        fault: String,
    },

    /// The base URL cannot be used. The error does not show it, because people put keys into
    /// URLs.
    #[error("the base URL cannot be used: {fault}")]
    BaseUrl {
        /// The reason and the fix.
        fault: &'static str,
    },

    /// A text has a character that is not allowed in an HTTP header.
    #[error(
        "{what} contains a character that is not allowed in an HTTP header; look for a line break in it"
    )]
    Header {
        /// The name of the text. The text is not shown.
        what: String,
    },

    /// The API does not have a setting of the request or the model.
    #[error(transparent)]
    Setting(#[from] UnsupportedSetting),

    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created; check the system's certificates")]
    Client {
        /// The error of reqwest.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// A contract cannot be lowered to the model's dialect.
    #[error(transparent)]
    Lowering(#[from] toolwright_signature::ContractError),

    /// The request cannot be serialized, such as one with a kind of part that the API does not take.
    #[error("the request cannot be sent: {source}")]
    Request {
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// There is no connection to a server.
    #[error("no connection to {server}; check the base URL, the network and that the server runs")]
    Connect {
        /// The base URL, or "the server" if it is not known.
        server: String,
        /// The error of reqwest.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The connection broke before a reply began.
    #[error("the connection broke before the server responded; try again")]
    Transport {
        /// The error of reqwest.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The server sent no byte for longer than [`with_timeout`](super::Connection::with_timeout)
    /// allows.
    #[error("the server sent nothing for {after:?}; allow more time with `with_timeout`")]
    Timeout {
        /// The allowed silence.
        after: Duration,
    },

    /// The server refused the request: its status is not a success.
    #[error(fmt = refused)]
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
    #[error(fmt = reported)]
    Reported {
        /// The server's error code.
        code: Option<String>,
        /// The server's error message, the first 1000 bytes.
        message: String,
        /// The error as JSON, the first 64 KiB.
        raw: Box<str>,
        /// The usage, for which the server may charge.
        usage: Usage,
    },

    /// The server's response is not a reply of the API.
    #[error(fmt = not_understood)]
    Decoding {
        /// The error of the deserializer.
        source: serde_json::Error,
        /// The body or the event, the first 64 KiB.
        raw: String,
    },

    /// The reply was cut off.
    #[error(fmt = cut_off)]
    Truncated {
        /// The received part, the first 64 KiB: the reply's parts as JSON, or the body.
        raw: String,
        /// The cause, if it is known.
        source: Option<Box<dyn StdError + Send + Sync>>,
    },

    /// The server did not finish the reply.
    #[error(fmt = unfinished)]
    Unfinished {
        /// The server's status of the reply, such as `in_progress`.
        status: String,
        /// The reply's parts as JSON, the first 64 KiB.
        raw: String,
        /// The usage, for which the server may charge.
        usage: Usage,
    },

    /// The reply has a call that is contradictory or incomplete.
    #[error(fmt = unclear)]
    Unclear {
        /// The fault.
        fault: &'static str,
        /// The reply's parts as JSON, the first 64 KiB.
        raw: String,
        /// The usage, for which the server may charge.
        usage: Usage,
    },

    /// The answer took longer than [`with_max_time`](super::Connection::with_max_time) allows.
    #[error(fmt = too_slow)]
    TooSlow {
        /// The allowed time.
        after: Duration,
        /// The reply's parts as JSON, the first 64 KiB.
        raw: String,
    },

    /// The response is compressed or is not UTF-8.
    #[error(
        "the server's response is {what}, but must be UTF-8 text; change the server or the proxy in front of it"
    )]
    Encoding {
        /// The encoding that was found.
        what: String,
    },

    /// The server sent more bytes than allowed.
    #[error(
        "the server sent more than {} MiB as {what}; ask for a shorter reply, or check the base URL",
        most >> 20
    )]
    TooLarge {
        /// The part that is too large, such as "one reply".
        what: &'static str,
        /// Maximum size, in bytes.
        most: usize,
    },

    /// The reply has no content.
    #[error("the server's reply is empty; try again or use another model")]
    Empty {
        /// The usage, for which the server may charge.
        usage: Usage,
    },
}

impl ProviderError {
    /// Returns the conversion for a reply with a call without a name, which used this many tokens.
    pub fn nameless(usage: Usage) -> impl FnOnce(NamelessCall) -> Self {
        move |call| Self::Unclear { fault: "a call has no name", raw: call.raw, usage }
    }

    /// Returns whether the same request may succeed later.
    ///
    /// This includes errors after which a [`Connection`](super::Connection) does not retry, such as
    /// [`Timeout`](Self::Timeout).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Transport { .. }
            | Self::Timeout { .. }
            | Self::Truncated { .. }
            | Self::Empty { .. } => true,
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

    /// Returns whether to retry the request after this error.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Connect { .. } | Self::Transport { .. } => Retry::Backoff,
            Self::Truncated { .. } => Retry::AnswerBegan,
            Self::Unfinished { raw, .. } if self.is_retryable() => match raw.is_empty() {
                true => Retry::Backoff,
                false => Retry::AnswerBegan,
            },
            Self::Status { retry_after, .. } if self.is_retryable() => {
                retry_after.map_or(Retry::Backoff, Retry::After)
            }
            // `Connection` asks only if nothing of the answer was shown.
            Self::Reported { raw, .. } if self.is_retryable() => {
                let asked = serde_json::from_str(raw).ok().and_then(|error: Value| {
                    retry_info(&error).or_else(|| retry_info(&json!({"error": error})))
                });
                asked.map_or(Retry::Backoff, Retry::After)
            }
            _ => Retry::Never,
        }
    }

    /// Returns the usage that the server counted for a reply that failed.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Self::Reported { usage, .. }
            | Self::Empty { usage }
            | Self::Unclear { usage, .. }
            | Self::Unfinished { usage, .. } => Some(*usage),
            _ => None,
        }
    }

    /// Returns the place of that usage.
    pub(crate) fn usage_mut(&mut self) -> Option<&mut Usage> {
        match self {
            Self::Reported { usage, .. }
            | Self::Empty { usage }
            | Self::Unclear { usage, .. }
            | Self::Unfinished { usage, .. } => Some(usage),
            _ => None,
        }
    }

    /// Names the text at fault in an error about a header.
    #[must_use]
    pub fn about(self, text: &str) -> Self {
        match self {
            Self::Header { .. } => Self::Header { what: text.to_owned() },
            error => error,
        }
    }

    /// Returns the received part of the response.
    fn raw(&self) -> Option<&str> {
        let raw: &str = match self {
            Self::Reported { raw, .. } => raw,
            Self::Status { body: raw, .. }
            | Self::Decoding { raw, .. }
            | Self::Unfinished { raw, .. }
            | Self::Unclear { raw, .. }
            | Self::TooSlow { raw, .. }
            | Self::Truncated { raw, .. } => raw,
            _ => "",
        };
        Some(raw).filter(|raw| !raw.is_empty())
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Connect { .. }
            | Self::Transport { .. }
            | Self::Timeout { .. }
            | Self::Truncated { .. } => Stage::Transport,
            Self::Status { .. } | Self::Reported { .. } => Stage::Provider,
            Self::Decoding { .. }
            | Self::Empty { .. }
            | Self::Encoding { .. }
            | Self::Unclear { .. }
            | Self::Unfinished { .. } => Stage::Decoding,
            Self::TooLarge { .. } | Self::TooSlow { .. } => Stage::Limit,
            _ => Stage::Setup,
        }
    }

    /// Converts into the error for the caller of a model, with stage, usage, pause and the received part.
    ///
    /// For a provider without a [`Connection`](super::Connection). It removes no secrets;
    /// [`Connection::public`](super::Connection::public) does.
    #[must_use]
    pub fn into_error(self) -> toolwright_module::Error {
        let usage = match &self {
            // If the server does not report usage, the caller estimates it.
            // The request was not sent, so the usage is zero.
            Self::Connect { .. } => Some(Usage::default()),
            error => error.usage().filter(|usage| !usage.incomplete),
        };
        let (stage, retryable) = (self.stage(), self.is_retryable());
        let wait = match &self {
            Self::Status { retry_after, .. } => retry_after.filter(|_| retryable),
            _ => None,
        };
        let raw = self.raw().map(str::to_owned);
        let mut error = toolwright_module::Error::other(self).at(stage).retryable(retryable);
        if let Some(wait) = wait {
            error = error.with_retry_after(wait);
        }
        if let Some(usage) = usage {
            error = error.with_usage(usage);
        }
        match raw {
            Some(raw) => error.with_raw(raw),
            None => error,
        }
    }

    /// Replaces the error for a whole body that does not fit the API with the server's own
    /// error, if the body contains one.
    pub(crate) fn or_error_in(self, body: &[u8]) -> Self {
        let value = || serde_json::from_slice::<Value>(body).ok();
        match self {
            Self::Empty { .. } | Self::Decoding { .. } => {
                value().and_then(|value| Self::bare_error(&value, Usage::unknown())).unwrap_or(self)
            }
            error => error,
        }
    }

    /// Converts a body with an error message but without the usual field `error`.
    #[must_use]
    pub fn bare_error(body: &Value, usage: Usage) -> Option<Self> {
        let ErrorBody { code, message } = ErrorBody::of(body);
        let raw = body.to_string();
        Some(Self::Reported { message: message?, code, raw: raw.into(), usage })
    }

    /// Converts an error of the deserializer.
    #[must_use]
    pub fn from_json(source: serde_json::Error, body: &[u8]) -> Self {
        let raw = String::from_utf8_lossy(body).into_owned();
        if source.is_eof() {
            return Self::Truncated { raw, source: Some(Box::new(source)) };
        }
        Self::Decoding { source, raw }
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
                    *message += &format!("; the base URL is {}", endpoint.base_url());
                    if endpoint.as_url().path() == "/" {
                        *message += ", without a path such as /v1";
                    }
                }
            }
            Self::Connect { server, .. } => endpoint.base_url().clone_into(server),
            Self::Reported { code, message, raw, .. } => {
                clean_word(code);
                clean(message, MAX_MESSAGE);
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
            Self::TooSlow { raw, .. } | Self::Unclear { raw, .. } => clean(raw, MAX_RAW),
            Self::Truncated { raw, source } => {
                clean(raw, MAX_RAW);
                if let Some(source) = source
                    && let Some(text) = clean_cause(&**source, redactor)
                {
                    *source = text.into();
                }
            }
            Self::Request { source } => {
                if let Some(text) = clean_cause(&**source, redactor) {
                    *source = text.into();
                }
            }
            // The others come from toolwright-http, which redacts them.
            _ => {}
        }
        self
    }

    /// Converts a response whose status is not a success.
    fn refused(refusal: Refusal) -> Self {
        let Refusal { status, reason, request_id, retry_after, location, body, .. } = refusal;
        let json = serde_json::from_str::<Value>(&body).ok();
        let retry_after = retry_after.or_else(|| retry_info(json.as_ref()?));
        let error = json.as_ref().map(ErrorBody::of);
        let (code, message) = error.map_or((None, None), |error| (error.code, error.message));
        // The body may be a page of a proxy, which has no error message.
        let mut message = message.unwrap_or_else(|| reason.unwrap_or("no reason given").to_owned());
        if let Some(address) = location {
            // If the target is the same API, the error shows its base URL.
            let paths = ["/chat/completions", "/responses", "/messages"];
            let base = paths.iter().find_map(|path| address.strip_suffix(path));
            message += &format!(" to {}", base.unwrap_or(&address));
        }
        Self::Status { status, request_id, code, message, retry_after, body }
    }

    /// Converts an error object inside a reply that began with a success.
    #[must_use]
    pub fn reported(error: &Value, usage: Usage) -> Self {
        let body = ErrorBody::of(error);
        Self::Reported {
            message: body.message.unwrap_or_else(|| "no reason given".to_owned()),
            code: body.code,
            raw: error.to_string().into(),
            usage,
        }
    }
}

/// The error code and message of a server, in any of the known forms.
struct ErrorBody {
    code: Option<String>,
    message: Option<String>,
}

impl ErrorBody {
    /// Reads OpenAI's `{"error": {"message", "type", "code"}}`, the same without its wrapper, in
    /// a list or as `errors`, `{"error": "text"}`, and `{"detail": …}` with a text or with
    /// the list of faults of FastAPI.
    fn of(body: &Value) -> Self {
        let mut error = body;
        // Some servers wrap the error more than once.
        for _ in 0..4 {
            let names = ["error", "errors", "detail", "base_resp"];
            let inner = names.into_iter().find_map(|name| error.get(name));
            // MiniMax has `base_resp` in every reply, with a zero if there is no error.
            let inner = inner.filter(|inner| inner["status_code"] != 0);
            error = match (inner.filter(|inner| is_set(inner)), error) {
                (Some(inner), _) if inner.is_object() || inner.is_array() => inner,
                (None, Value::Array(list)) if list.len() == 1 => &list[0],
                _ => break,
            };
        }
        let field = |name| error.get(name).and_then(text);
        // A number usually repeats the status, so a word is preferred.
        let number = || {
            let named = ["code", "status", "status_code", "error_code"].into_iter();
            named.filter_map(|name| error.get(name)).find(|code| code.is_number())
        };
        // The account's state decides, whatever number is beside it.
        let no_credit = field("type").filter(|kind| no_credit(Some(kind)));
        Self {
            code: no_credit
                .or_else(|| field("code"))
                .or_else(|| field("type"))
                .or_else(|| field("status"))
                .or_else(|| number().map(Value::to_string)),
            message: message_of(error),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the message of an error, from any of its known fields.
fn message_of(error: &Value) -> Option<String> {
    if let Value::Array(several) = error {
        let several: Vec<_> = several.iter().filter_map(message_of).collect();
        return Some(several.join("; ")).filter(|text| !text.is_empty());
    }
    let field = |name| error.get(name).and_then(text);
    let named = [
        "message",
        "msg",
        "detail",
        "error",
        "errors",
        "error_description",
        "error_msg",
        "status_msg",
        "reason",
    ];
    let message = named.into_iter().find_map(field).or_else(|| text(error))?;
    // FastAPI adds the path of the faulty field.
    let Some(Value::Array(path)) = error.get("loc") else { return Some(message) };
    let path = path.iter().map(|step| text(step).unwrap_or_else(|| step.to_string()));
    Some(format!("{}: {message}", path.collect::<Vec<_>>().join(".")))
}

/// Returns whether the account has no credit, so that a retry does not help.
fn no_credit(code: Option<&str>) -> bool {
    // The last one is Zhipu's.
    let words = [
        "insufficient_quota",
        "exceeded_current_quota_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_balance",
        "arrearage",
        "1113",
    ];
    code.is_some_and(|code| words.iter().any(|word| code.eq_ignore_ascii_case(word)))
}

/// Returns whether an error with this code may pass without a change: a status, or a server's word
/// for one.
fn passes(code: &str) -> bool {
    if let Ok(status) = code.parse() {
        return is_retryable_status(status);
    }
    let code = code.to_ascii_lowercase();
    // Bedrock's and DashScope's words go on after it.
    if code.starts_with("throttling") {
        return true;
    }
    matches!(
        &*code,
        "server_error"
            | "api_error"
            | "internal"
            | "internal_error"
            | "internal_server_error"
            | "bad_gateway"
            | "gateway_timeout"
            | "overloaded"
            | "overloaded_error"
            | "engine_overloaded_error"
            | "server_overloaded"
            | "service_unavailable"
            | "service_unavailable_error"
            | "unavailable"
            | "unavailable_error"
            | "rate_limit"
            | "rate_limit_error"
            | "rate_limit_exceeded"
            | "rate_limit_reached_error"
            | "resource_exhausted"
            | "too_many_requests"
            | "deadline_exceeded"
            | "request_timeout"
            | "timeout"
            | "timeout_error"
    )
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

/// Returns the redacted and cut text of an error and its causes, if that changes the text.
fn clean_cause(error: &(dyn StdError + 'static), redactor: &Redactor) -> Option<String> {
    let text = with_causes(error);
    Some(redactor.redact_start(&text, MAX_MESSAGE)).filter(|redacted| *redacted != text)
}

/// Converts an HTTP error, with texts that name the methods of a model.
impl From<toolwright_http::HttpError> for ProviderError {
    fn from(error: toolwright_http::HttpError) -> Self {
        let text = error.to_string();
        let (kind, source) = error.into_parts();
        let known = source.is_some();
        let source = source.unwrap_or_else(|| text.into());
        match kind {
            ErrorKind::Url(fault) => Self::BaseUrl { fault: url_fault(fault) },
            ErrorKind::Header { name } => Self::Header { what: name },
            ErrorKind::Client => Self::Client { source },
            ErrorKind::Connect => Self::Connect { server: "the server".to_owned(), source },
            ErrorKind::Transport => Self::Transport { source },
            ErrorKind::Truncated => {
                Self::Truncated { raw: String::new(), source: known.then_some(source) }
            }
            ErrorKind::Silent { after } => Self::Timeout { after },
            ErrorKind::TooSlow { after } => Self::TooSlow { after, raw: String::new() },
            ErrorKind::Status(refusal) => Self::refused(refusal),
            ErrorKind::Encoding { what } => Self::Encoding { what: what.into_owned() },
            ErrorKind::TooLarge { what, max } => Self::TooLarge { what, most: max },
            // This includes kinds that a newer version of toolwright-http adds.
            _ => Self::Request { source },
        }
    }
}

fn url_fault(fault: UrlFault) -> &'static str {
    match fault {
        UrlFault::NotAUrl => "it is not a URL; use one like http://127.0.0.1:8080/v1",
        UrlFault::Scheme => "it does not begin with http:// or https://",
        UrlFault::Credentials => {
            "it contains a user name or a password; remove them and set the key with `with_key`"
        }
        UrlFault::Query => "it contains `?` or `#`; remove that character and the text after it",
        UrlFault::Plain => {
            "it is plain http to another machine, so others on the network could read the API key; use https, or call `with_plain_http` before the key is set if nobody else can read that network"
        }
        _ => "a request would go to a URL outside of it",
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

fn reported(
    _: &Option<String>,
    message: &str,
    raw: &str,
    _: &Usage,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "the server reported an error in its reply: {message}")?;
    evidence(raw, f)
}

fn not_understood(_: &serde_json::Error, raw: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(
        "the server's response is not a reply of the API; check that the base URL is that of the provider's API",
    )?;
    evidence(raw, f)
}

fn cut_off(raw: &str, _: &Option<Source>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the server's reply was cut off; try again")?;
    evidence(raw, f)
}

fn unfinished(status: &str, raw: &str, _: &Usage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let advice = match status {
        "queued" | "in_progress" | "cancelled" | "canceled" => {
            "try again, and turn off background replies"
        }
        _ => "try again",
    };
    write!(f, "the server did not finish the reply (status {status:?}); {advice}")?;
    evidence(raw, f)
}

fn unclear(fault: &str, raw: &str, _: &Usage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the server's reply is unclear: {fault}; try again, or use another model or server")?;
    evidence(raw, f)
}

fn too_slow(after: &Duration, raw: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the reply was not complete after {after:?}; allow more time with `with_max_time`")?;
    evidence(raw, f)
}

fn evidence(raw: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if f.alternate() && !raw.is_empty() {
        write!(f, "\nreply: {raw}")?;
    }
    Ok(())
}

fn refused(
    status: &u16,
    request_id: &Option<String>,
    code: &Option<String>,
    message: &str,
    retry_after: &Option<Duration>,
    body: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let code = code.as_deref();
    let (what, advice) = match *status {
        300..=399 => ("the server redirects the request", "use that address as the base URL"),
        401 if message.contains("`with_key`") => {
            ("the server requires an API key", "check which one")
        }
        401 => ("the server refused the API key", "check the key"),
        402 => ("the account has no credit left", "check its plan and billing"),
        400 | 403 | 429 if no_credit(code) => {
            ("the account has no credit left", "check its plan and billing")
        }
        403 => ("the server refused access", "check what the API key may do"),
        404 | 405 => (
            "the server does not have the model or the address",
            "check the model's name and the base URL",
        ),
        413 => too_long(),
        429 => ("the rate limit is reached", "send fewer requests"),
        408 | 409 | 500..=599 => ("the server failed", "try again later"),
        600.. => (
            "the server sent an unknown status",
            "check that the base URL is that of the provider's API",
        ),
        _ if matches!(code, Some("context_length_exceeded" | "exceed_context_size_error")) => {
            too_long()
        }
        400 if message.starts_with("prompt is too long") => too_long(),
        _ => ("the server refused the request", "change the request as the message says"),
    };
    write!(f, "{what} ({status}: {message}); {advice}")?;
    // A wait of less than a second does not matter to a person.
    if let Some(wait) = retry_after.filter(|wait| wait.as_secs() > 0) {
        write!(f, ", after {wait:?} or later")?;
    }
    if f.alternate() {
        if let Some(id) = request_id {
            write!(f, "\nrequest: {id}")?;
        }
        if let Some(code) = code {
            write!(f, "\ncode: {code}")?;
        }
        write!(f, "\nbody: {body}")?;
    }
    Ok(())
}

fn too_long() -> (&'static str, &'static str) {
    (
        "the conversation is longer than the model's context",
        "shorten it, or use a model with a larger context",
    )
}
