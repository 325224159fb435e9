use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde_json::Value;
use toolwright_http::{
    Endpoint, ErrorKind, Redactor, Refusal, Retry, UrlFault, is_retryable_status, with_causes,
};
use toolwright_module::error::Stage;
use toolwright_module::model::Usage;

use crate::lenient::is_said;

/// The result of everything in this crate that can fail.
pub(crate) type Result<T, E = OpenAiError> = std::result::Result<T, E>;

/// The cause of an error.
type Source = Box<dyn StdError + Send + Sync>;

/// Maximum size of a server's answer that an error keeps, in bytes.
const MAX_RAW: usize = 64 * 1024;
/// Maximum length of a server's sentence, in bytes.
const MAX_SAID: usize = 1000;

/// What can go wrong between a request and its reply.
///
/// `{}` is one sentence that names the fix; `{:#}` adds the evidence: the request's id
/// and what the server sent, which may hold a user's data. `{:?}` adds the causes. The
/// API key is in none of them.
///
/// A model's methods return [`toolwright_module::Error`]; this is inside it:
///
/// ```no_run
/// # use toolwright_module::{LanguageModel, Message, Request};
/// use toolwright_openai::{OpenAiError, OpenAi};
///
/// # async fn ask() -> Result<(), OpenAiError> {
/// let model = OpenAi::from_env("gpt-5-mini")?;
/// if let Err(error) = model.generate(&Request::new([Message::user("Hi!")])).await {
///     if let Some(OpenAiError::Status { status: 429, retry_after, .. }) = error.downcast_ref() {
///         println!("asked too often; again in {retry_after:?}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenAiError {
    /// There is no key, or a blank one.
    #[error(
        "there is no API key: set {variable}, or use `OpenAi::at` for a server that needs none"
    )]
    MissingKey {
        /// The variable that may hold it.
        variable: &'static str,
    },

    /// The address cannot be one of a server.
    // It is not shown: people put keys into addresses.
    #[error("the base URL cannot be used: {fault}")]
    BaseUrl {
        /// What is wrong with it and what to do.
        fault: &'static str,
    },

    /// A text cannot travel in an HTTP header.
    #[error("{what} holds a character that no HTTP header can carry; look for a line break in it")]
    Header {
        /// Which text.
        what: String,
    },

    /// A name is not one of [`Api`](crate::Api)'s.
    #[error("`{name}` is no API that is known here; choose chat or responses")]
    UnknownApi {
        /// The name.
        name: String,
    },

    /// There is no HTTP client on this machine.
    #[error("the HTTP client cannot be set up; check the system's certificates")]
    Client {
        /// What reqwest reports.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// A contract has no form in the model's dialect.
    #[error(transparent)]
    Lowering(#[from] toolwright_signature::Error),

    /// The request could not be written.
    #[error("the request cannot be written")]
    Request {
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// There is no server.
    #[error("no server answers; check the base URL, the network and that the server runs")]
    Connect {
        /// What reqwest reports.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The connection broke before a reply began.
    #[error("the connection broke before the server answered; try again")]
    Transport {
        /// What was found below.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The server said nothing for too long.
    #[error("the server was silent for {after:?}; allow more with `with_timeout`")]
    Timeout {
        /// How long it may be silent.
        after: Duration,
    },

    /// The server said no.
    #[error(fmt = refused)]
    Status {
        /// The HTTP status.
        status: u16,
        /// The server's name for the request, for its support.
        request_id: Option<String>,
        /// The server's word for what is wrong.
        code: Option<String>,
        /// The server's sentence for it.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// What it sent, the first 64 KiB.
        body: String,
    },

    /// The server began to answer and then said that it failed.
    #[error(fmt = reported)]
    Reported {
        /// The server's word for what is wrong.
        code: Option<String>,
        /// The server's sentence for it.
        message: String,
        /// The error as it came, the first 64 KiB.
        raw: String,
        /// What the call cost nevertheless.
        usage: Usage,
    },

    /// The server's answer is no reply.
    #[error(fmt = not_understood)]
    Decoding {
        /// What does not fit.
        source: serde_json::Error,
        /// What it sent, the first 64 KiB.
        raw: String,
    },

    /// The reply ended before its end.
    #[error(fmt = cut_off)]
    Truncated {
        /// What came so far, the first 64 KiB: the reply's parts as JSON, or the text
        /// itself.
        raw: String,
        /// What broke, if something did.
        source: Option<Box<dyn StdError + Send + Sync>>,
    },

    /// The server did not finish the reply, or gave it up.
    #[error(fmt = unfinished)]
    Unfinished {
        /// The server's word for it, such as `in_progress`.
        status: String,
        /// What came so far, the first 64 KiB.
        raw: String,
        /// What the call cost nevertheless.
        usage: Usage,
    },

    /// The reply says two things of a call, or too little to make it.
    #[error(fmt = unclear)]
    Unclear {
        /// What is wrong with it.
        fault: &'static str,
        /// What came so far, the first 64 KiB.
        raw: String,
        /// What the call cost nevertheless.
        usage: Usage,
    },

    /// The reply took too long in all.
    #[error(fmt = too_slow)]
    TooSlow {
        /// How long one answer may take.
        after: Duration,
        /// What came so far, the first 64 KiB.
        raw: String,
    },

    /// The server's answer is not text in UTF-8.
    #[error(
        "the server's answer is {what}, and UTF-8 text is needed; turn that off at the server or at the proxy before it"
    )]
    Encoding {
        /// What it is instead.
        what: String,
    },

    /// The server sends more than can be meant.
    #[error(
        "the server sent more than {} MiB as {what}; ask for a shorter one, or check the base URL",
        most >> 20
    )]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it may be, in bytes.
        most: usize,
    },

    /// The reply has nothing in it.
    #[error("the server sent a reply without an answer in it; try again or try another model")]
    Empty {
        /// What the call cost nevertheless.
        usage: Usage,
    },
}

impl OpenAiError {
    /// Whether the same request may succeed later.
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
            _ => false,
        }
    }

    /// Whether to try the request again after this error.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Connect { .. } | Self::Transport { .. } => Retry::Backoff,
            Self::Truncated { .. } => Retry::AnswerBegan,
            Self::Status { retry_after, .. } if self.is_retryable() => {
                retry_after.map_or(Retry::Backoff, Retry::After)
            }
            _ => Retry::Never,
        }
    }

    /// What the server sent, as far as it is known.
    fn raw(&self) -> Option<&str> {
        match self {
            Self::Status { body: raw, .. }
            | Self::Reported { raw, .. }
            | Self::Decoding { raw, .. }
            | Self::Unfinished { raw, .. }
            | Self::Unclear { raw, .. }
            | Self::TooSlow { raw, .. }
            | Self::Truncated { raw, .. } => Some(raw).filter(|raw| !raw.is_empty()),
            _ => None,
        }
        .map(String::as_str)
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

    /// The module layer's form; `?` would lose all but the text.
    pub(crate) fn into_module(self) -> toolwright_module::Error {
        let usage = match &self {
            // A server that reports none leaves it open.
            Self::Reported { usage, .. }
            | Self::Empty { usage }
            | Self::Unclear { usage, .. }
            | Self::Unfinished { usage, .. } => Some(*usage).filter(|usage| !usage.incomplete),
            // Nobody was asked.
            Self::Connect { .. } => Some(Usage::default()),
            _ => None,
        };
        let (stage, retryable) = (self.stage(), self.is_retryable());
        let raw = self.raw().map(str::to_owned);
        let mut error = toolwright_module::Error::other(self).at(stage).retryable(retryable);
        if let Some(usage) = usage {
            error = error.with_usage(usage);
        }
        match raw {
            Some(raw) => error.with_raw(raw),
            None => error,
        }
    }

    /// What does not fit the API in a whole body: the server's words, if it is an error.
    pub(crate) fn or_said_in(self, body: &[u8]) -> Self {
        let said = || serde_json::from_slice::<Value>(body).ok();
        match self {
            Self::Empty { .. } | Self::Decoding { .. } => {
                said().and_then(|said| Self::complaint(&said)).unwrap_or(self)
            }
            error => error,
        }
    }

    /// An error without the usual form, if a body has words of one.
    pub(crate) fn complaint(body: &Value) -> Option<Self> {
        let Said { code, message } = Said::of(body);
        let raw = body.to_string();
        Some(Self::Reported { message: message?, code, raw, usage: Usage::unknown() })
    }

    /// What JSON failed to be.
    pub(crate) fn from_json(source: serde_json::Error, body: &[u8]) -> Self {
        let raw = String::from_utf8_lossy(body).into_owned();
        if source.is_eof() {
            return Self::Truncated { raw, source: Some(Box::new(source)) };
        }
        Self::Decoding { source, raw }
    }

    /// The error as it may leave this crate: without the key, and no longer than what a
    /// person reads.
    pub(crate) fn told(mut self, endpoint: &Endpoint) -> Self {
        let redactor = endpoint.redactor();
        let clean = |text: &mut String, max| *text = redactor.redact_start(text, max);
        let clean_word = |text: &mut Option<String>| {
            text.iter_mut().for_each(|text| clean(text, MAX_SAID));
        };
        match &mut self {
            Self::Status { status, request_id, code, message, body, .. } => {
                clean_word(request_id);
                clean_word(code);
                clean(message, MAX_SAID);
                if !endpoint.has_secret() && asks_for_key(*status, message) {
                    *message += "; the request had no key: give one with `OpenAi::with_key`, or set OPENAI_API_KEY and use `OpenAi::from_env`";
                }
                clean(body, MAX_RAW);
            }
            Self::Reported { code, message, raw, .. } => {
                clean_word(code);
                clean(message, MAX_SAID);
                clean(raw, MAX_RAW);
            }
            Self::Decoding { raw, source } => {
                clean(raw, MAX_RAW);
                // serde repeats the value that does not fit.
                if let Some(text) = clean_cause(source, redactor) {
                    *source = serde_json::Error::custom(text);
                }
            }
            Self::Unfinished { status, raw, .. } => {
                clean(status, MAX_SAID);
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
            // The others come from toolwright-http, which shows no secret.
            _ => {}
        }
        self
    }

    /// A status that is not a success, with what the server says about it.
    fn refused(refusal: Refusal) -> Self {
        let Refusal { status, reason, request_id, retry_after, location, body, .. } = refusal;
        let said = serde_json::from_str::<Value>(&body).map(|body| Said::of(&body)).ok();
        let (code, message) = said.map_or((None, None), |said| (said.code, said.message));
        // A proxy's page says nothing that can be quoted.
        let mut message = message.unwrap_or_else(|| reason.unwrap_or("no reason given").to_owned());
        if let Some(address) = location {
            // If it leads to the same API, this is its base URL.
            let paths = ["/chat/completions", "/responses"];
            let base = paths.iter().find_map(|path| address.strip_suffix(path));
            message += &format!(" to {}", base.unwrap_or(&address));
        }
        Self::Status { status, request_id, code, message, retry_after, body }
    }

    /// An error object inside a reply that began well.
    pub(crate) fn reported(error: &Value, usage: Usage) -> Self {
        let said = Said::of(error);
        Self::Reported {
            message: said.message.unwrap_or_else(|| "it does not say why".to_owned()),
            code: said.code,
            raw: error.to_string(),
            usage,
        }
    }
}

/// What a server says about a failure, in one of the many forms there are.
pub(crate) struct Said {
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

impl Said {
    /// OpenAI's `{"error": {"message", "type", "code"}}`, the same without its wrapper, in
    /// a list or as `errors`, `{"error": "text"}`, and `{"detail": …}` with a text or with
    /// what FastAPI finds wrong.
    pub(crate) fn of(body: &Value) -> Self {
        let mut error = body;
        // Some servers wrap it more than once; not without end.
        for _ in 0..4 {
            let inner = ["error", "errors", "detail"].into_iter().find_map(|name| error.get(name));
            error = match (inner.filter(|inner| is_said(inner)), error) {
                (Some(inner), _) if inner.is_object() || inner.is_array() => inner,
                (None, Value::Array(list)) if list.len() == 1 => &list[0],
                _ => break,
            };
        }
        let field = |name| error.get(name).and_then(text);
        // A number only repeats the status, unless there is no word.
        let number = || error.get("code").filter(|code| code.is_number());
        Self {
            code: field("code")
                .or_else(|| field("type"))
                .or_else(|| number().map(Value::to_string)),
            message: words(error),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// What is said in an error, in whatever form.
fn words(error: &Value) -> Option<String> {
    if let Value::Array(several) = error {
        let several: Vec<_> = several.iter().filter_map(words).collect();
        return Some(several.join("; ")).filter(|words| !words.is_empty());
    }
    let field = |name| error.get(name).and_then(text);
    let named = ["message", "msg", "detail", "error", "errors", "error_description", "reason"];
    let words = named.into_iter().find_map(field).or_else(|| text(error))?;
    // FastAPI says where it is.
    let Some(Value::Array(path)) = error.get("loc") else { return Some(words) };
    let path = path.iter().map(|step| text(step).unwrap_or_else(|| step.to_string()));
    Some(format!("{}: {words}", path.collect::<Vec<_>>().join(".")))
}

/// Whether the account has to be topped up: waiting does not help.
fn no_credit(code: Option<&str>) -> bool {
    code == Some("insufficient_quota")
}

/// Whether what this code names goes away by itself.
fn passes(code: &str) -> bool {
    matches!(
        code,
        "server_error"
            | "internal_error"
            | "internal_server_error"
            | "overloaded"
            | "overloaded_error"
            | "rate_limit_error"
            | "rate_limit_exceeded"
            | "timeout"
            | "unavailable_error"
            | "429"
    ) || matches!(code.parse(), Ok(500..=599_u16))
}

/// Whether a refusal of a request without a key may be for that.
fn asks_for_key(status: u16, message: &str) -> bool {
    let message = message.to_lowercase();
    let names = ["api key", "api_key", "apikey", "api-key", "token", "auth", "credential"];
    match status {
        401 => true,
        400 | 403 | 407 => names.iter().any(|name| message.contains(name)),
        _ => false,
    }
}

/// The text of an error and its causes, if it holds a secret or is too long.
fn clean_cause(error: &(dyn StdError + 'static), redactor: &Redactor) -> Option<String> {
    let said = with_causes(error);
    Some(redactor.redact_start(&said, MAX_SAID)).filter(|text| *text != said)
}

/// In this provider's words.
impl From<toolwright_http::HttpError> for OpenAiError {
    fn from(error: toolwright_http::HttpError) -> Self {
        let text = error.to_string();
        let (kind, source) = error.into_parts();
        let known = source.is_some();
        let source = source.unwrap_or_else(|| text.into());
        match kind {
            ErrorKind::Url(fault) => Self::BaseUrl { fault: url_fault(fault) },
            ErrorKind::Header { name } => Self::Header { what: name },
            ErrorKind::Client => Self::Client { source },
            ErrorKind::Connect => Self::Connect { source },
            ErrorKind::Transport => Self::Transport { source },
            ErrorKind::Truncated => {
                Self::Truncated { raw: String::new(), source: known.then_some(source) }
            }
            ErrorKind::Silent { after } => Self::Timeout { after },
            ErrorKind::TooSlow { after } => Self::TooSlow { after, raw: String::new() },
            ErrorKind::Status(refusal) => Self::refused(refusal),
            ErrorKind::Encoding { what } => Self::Encoding { what: what.into_owned() },
            ErrorKind::TooLarge { what, max } => Self::TooLarge { what, most: max },
            // Also a kind that toolwright-http has learned since.
            _ => Self::Request { source },
        }
    }
}

fn url_fault(fault: UrlFault) -> &'static str {
    match fault {
        UrlFault::NotAUrl => "it is not a URL; use one like http://127.0.0.1:8080/v1",
        UrlFault::Scheme => "it does not begin with http:// or https://",
        UrlFault::Credentials => "it holds a name or a password; give the key with `with_key`",
        UrlFault::Query => "it holds `?` or `#`; end it before them",
        UrlFault::Plain => {
            "it is plain http beyond this machine, where anybody on the way could read the API key; use https"
        }
        _ => "it leads out of the server's API",
    }
}

/// As `{:#}` with the causes, so that `fn main() -> Result<(), Box<dyn OpenAiError>>` shows
/// what to do.
impl fmt::Debug for OpenAiError {
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
    write!(f, "the server failed while it answered: {message}")?;
    evidence(raw, f)
}

fn not_understood(_: &serde_json::Error, raw: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(
        "the server's answer cannot be understood; check that the base URL is one of an OpenAI-compatible API",
    )?;
    evidence(raw, f)
}

fn cut_off(raw: &str, _: &Option<Source>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the server's reply was cut off on the way; try again")?;
    evidence(raw, f)
}

fn unfinished(status: &str, raw: &str, _: &Usage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "the server did not finish the reply, whose status is {status:?}; try again, and turn background replies off"
    )?;
    evidence(raw, f)
}

fn unclear(fault: &str, raw: &str, _: &Usage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "the server's reply is unclear: {fault}; try again, and if that does not help, another model or server"
    )?;
    evidence(raw, f)
}

fn too_slow(after: &Duration, raw: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the reply was not whole after {after:?}; allow more with `with_max_time`")?;
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
        300..=399 => ("the server sends elsewhere", "use the address it sends to as the base URL"),
        401 if message.contains("`OpenAi::with_key`") => {
            ("the server wants an API key", "check which one")
        }
        401 => ("the server refused the API key", "check the key"),
        402 => ("the account has no credit left", "check its plan and billing"),
        403 => ("the server refused access", "check what the API key may do"),
        404 | 405 => (
            "the server does not know the model or the address",
            "check the model's name and the base URL",
        ),
        413 => too_long(),
        429 if no_credit(code) => ("the account has no credit left", "check its plan and billing"),
        429 => ("the server is asked too often", "ask less often"),
        408 | 409 | 500..=599 => ("the server failed", "try again later"),
        600.. => (
            "the server answers with a status that means nothing",
            "check that the base URL is one of an OpenAI-compatible API",
        ),
        _ if matches!(code, Some("context_length_exceeded" | "exceed_context_size_error")) => {
            too_long()
        }
        _ => ("the server refused the request", "change what it complains about"),
    };
    write!(f, "{what} ({status}: {message}); {advice}")?;
    // Less than a second is no news to a person.
    if let Some(wait) = retry_after.filter(|wait| wait.as_secs() > 0) {
        write!(f, ", in {wait:?} at the earliest")?;
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
        "the conversation is longer than the model can read",
        "shorten it, or take a model that reads more",
    )
}
