use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use async_openai::error::OpenAIError;
use serde::de::Error as _;
use serde_json::Value;
use toolwright_module::{Stage, Usage};

use crate::endpoint::Endpoint;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The most of a server's answer that an error keeps, in bytes.
const MOST_RAW: usize = 64 * 1024;
/// The most of what a server says in a sentence.
const MOST_SAID: usize = 1000;
/// How much more is looked at: a key across the end of what is kept has to be known for
/// one.
const MARGIN: usize = 16 * 1024;
/// The most of a refusal that is read.
pub(crate) const MOST_READ: usize = MOST_RAW + MARGIN;

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
/// use toolwright_openai::{Error, OpenAi};
///
/// # async fn ask() -> Result<(), Error> {
/// let model = OpenAi::from_env("gpt-5-mini")?;
/// if let Err(error) = model.generate(&Request::new([Message::user("Hi!")])).await {
///     if let Some(Error::Status { status: 429, retry_after, .. }) = error.downcast_ref() {
///         println!("asked too often; again in {retry_after:?}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
        what: &'static str,
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
        /// What reqwest says.
        source: reqwest::Error,
    },

    /// A contract has no form in the model's dialect.
    #[error(transparent)]
    Lowering(#[from] toolwright_signature::Error),

    /// The request could not be written.
    #[error("the request cannot be written")]
    Request {
        /// What async-openai says.
        source: OpenAIError,
    },

    /// There is no server.
    #[error("no server answers; check the base URL, the network and that the server runs")]
    Connect {
        /// What reqwest says.
        source: reqwest::Error,
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

impl Error {
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
                matches!(status, 408 | 409 | 429 | 500..=599) && !no_credit(code.as_deref())
            }
            Self::Reported { code, .. } => code.as_deref().is_some_and(passes),
            _ => false,
        }
    }

    /// What the server sent, as far as it is known.
    fn raw(&self) -> Option<&str> {
        match self {
            Self::Status { body: raw, .. }
            | Self::Reported { raw, .. }
            | Self::Decoding { raw, .. }
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
            Self::Decoding { .. } | Self::Empty { .. } => Stage::Decoding,
            Self::TooLarge { .. } => Stage::Limit,
            _ => Stage::Setup,
        }
    }

    /// The module layer's form; `?` would lose all but the text.
    pub(crate) fn into_module(self) -> toolwright_module::Error {
        let usage = match &self {
            Self::Reported { usage, .. } | Self::Empty { usage } => {
                // A server that reports none leaves it open.
                Some(*usage).filter(|usage| *usage != Usage::default())
            }
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

    /// What async-openai failed with; `silence` is how long the server may be silent.
    pub(crate) fn from_client(error: OpenAIError, silence: Duration) -> Self {
        match error {
            // Ours, from below, on its way back up.
            OpenAIError::Boxed(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(source) => Self::Transport { source },
            },
            OpenAIError::Reqwest(error) => Self::from_reqwest(error, silence),
            OpenAIError::JSONDeserialize(source, raw) if source.is_eof() => {
                Self::Truncated { raw, source: Some(Box::new(source)) }
            }
            OpenAIError::JSONDeserialize(source, raw) => Self::Decoding { source, raw },
            OpenAIError::StreamError(error) => Self::Transport { source: error },
            source => Self::Request { source },
        }
    }

    pub(crate) fn from_reqwest(error: reqwest::Error, silence: Duration) -> Self {
        if let Some(error) = too_large(&error) {
            error
        } else if error.is_connect() {
            Self::Connect { source: error }
        } else if error.is_timeout() {
            Self::Timeout { after: silence }
        } else if error.is_body() || error.is_decode() {
            // The head was there; what failed is reading the rest.
            Self::Truncated { raw: String::new(), source: Some(Box::new(error)) }
        } else if error.is_builder() {
            let source = OpenAIError::Reqwest(error);
            Self::Request { source }
        } else {
            let source = Box::new(error);
            Self::Transport { source }
        }
    }

    /// The same as it may leave this crate: without the key, and no longer than what a
    /// person reads.
    pub(crate) fn told(mut self, endpoint: &Endpoint) -> Self {
        let clean = |text: &mut String, most| {
            let seen = shortened(std::mem::take(text), most + MARGIN);
            *text = shortened(endpoint.without_key(seen), most);
        };
        let clean_cause = |error: &(dyn StdError + 'static)| {
            let said = in_full(error);
            let mut text = said.clone();
            clean(&mut text, MOST_SAID);
            Some(text).filter(|text| *text != said)
        };
        let word =
            |text: &mut Option<String>| text.iter_mut().for_each(|text| clean(text, MOST_SAID));
        match &mut self {
            Self::Status { request_id, code, message, body, .. } => {
                word(request_id);
                word(code);
                clean(message, MOST_SAID);
                clean(body, MOST_RAW);
            }
            Self::Reported { code, message, raw, .. } => {
                word(code);
                clean(message, MOST_SAID);
                clean(raw, MOST_RAW);
            }
            Self::Decoding { raw, source } => {
                clean(raw, MOST_RAW);
                // serde repeats the value that does not fit.
                if let Some(text) = clean_cause(source) {
                    *source = serde_json::Error::custom(text);
                }
            }
            Self::Truncated { raw, source } => {
                clean(raw, MOST_RAW);
                if let Some(source) = source
                    && let Some(text) = clean_cause(&**source)
                {
                    *source = text.into();
                }
            }
            Self::Transport { source } => {
                if let Some(text) = clean_cause(&**source) {
                    *source = text.into();
                }
            }
            Self::Request { source } => {
                if let Some(text) = clean_cause(source) {
                    *source = OpenAIError::InvalidArgument(text);
                }
            }
            _ => {}
        }
        match self {
            // What it may hold is the address.
            Self::Connect { source } if clean_cause(&source).is_some() => {
                Self::Connect { source: source.without_url() }
            }
            error => error,
        }
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

/// So that ours travels through async-openai and comes out whole.
impl From<Error> for OpenAIError {
    fn from(error: Error) -> Self {
        Self::Boxed(Box::new(error))
    }
}

/// What a server says about a failure, in one of the many forms there are.
pub(crate) struct Said {
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

impl Said {
    /// OpenAI's `{"error": {"message", "type", "code"}}`, the same without its
    /// wrapper, `{"error": "text"}` and `{"detail": "text"}`.
    pub(crate) fn of(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text = |value: &Value| match value {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let field = |name| error.get(name).and_then(text);
        // A number only repeats the status, unless there is no word.
        let number = || error.get("code").filter(|code| code.is_number());
        Self {
            code: field("code")
                .or_else(|| field("type"))
                .or_else(|| number().map(Value::to_string)),
            message: field("message").or_else(|| field("detail")).or_else(|| text(error)),
        }
    }
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

/// The first of it, cut between characters.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
    }
    text
}

/// What an error and its causes say.
fn in_full(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Ours, from inside of a body that was bounded.
fn too_large(error: &reqwest::Error) -> Option<Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(Error::TooLarge { what, most }) = error.downcast_ref() {
            return Some(Error::TooLarge { what, most: *most });
        }
        cause = error.source();
    }
    None
}

/// As `{:#}` with the causes, so that `fn main() -> Result<(), Box<dyn Error>>` shows
/// what to do.
impl fmt::Debug for Error {
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

fn cut_off(
    raw: &str,
    _: &Option<Box<dyn StdError + Send + Sync>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("the server's reply was cut off on the way; try again")?;
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
