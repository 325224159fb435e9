//! Errors of modules and tools.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::repaired::Repaired;
use crate::untrusted::fence;
use crate::usage::Usage;

/// The result type of modules.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn StdError + Send + Sync>;

/// The error of a call, with the audience that may read it.
///
/// A tool's error has two readers: the model, which may call again with better arguments, and the
/// user of the program. The texts of [`Error::retry`] and [`Error::refuse`] are for the model. For
/// any other error the model only learns that the tool failed, so that an address or a key in an
/// I/O error does not reach it. [`Error::stop`] ends the run.
///
/// Like `anyhow::Error` this type does not implement [`std::error::Error`], so that
/// `?` works on every error that does:
///
/// ```
/// use toolwright_module::{Error, Result};
/// use toolwright_module::error::Audience;
///
/// fn read(name: &str) -> Result<String> {
///     if name.contains('/') {
///         return Err(Error::retry("name a file of this folder, without slashes"));
///     }
///     Ok(std::fs::read_to_string(name)?)
/// }
///
/// let told = read("a/b").unwrap_err();
/// assert_eq!(told.audience(), Audience::ModelMayRetry);
/// assert_eq!(told.for_model(), "name a file of this folder, without slashes");
///
/// let kept = read("no-such-file").unwrap_err();
/// assert_eq!(kept.audience(), Audience::User);
/// assert_eq!(kept.for_model(), "The tool failed. The reason is not shown to you.");
/// assert!(kept.downcast_ref::<std::io::Error>().is_some());
/// ```
///
/// `{}` is one sentence. `{:#}` adds the causes and the model's raw replies, which may contain a
/// user's data.
pub struct Error(Box<Inner>); // Not a `std::error::Error`: `.map_err(Error::into_std)` makes one.

struct Inner {
    audience: Audience,
    stage: Stage,
    retryable: bool,
    retry_after: Option<Duration>,
    text: Option<String>,
    source: Option<Source>,
    raws: Vec<String>,
    usage: Usage,
    /// Whether the usage was set. Otherwise it is unknown.
    knows_usage: bool,
    context_exceeded: Option<ContextExceeded>,
    /// Whether the model or its provider refused this one request.
    request_refused: bool,
    /// Whether the arguments of the failed call itself did not fit, and not those of a call below
    /// it.
    of_this_calls_arguments: bool,
    /// Whether strangers wrote the text for the model.
    is_untrusted: bool,
    /// The repairs of the arguments, if the call failed after them.
    repaired: Option<Box<Repaired>>,
}

/// What a server says of a conversation that is longer than the model's context.
///
/// [`Error::context_exceeded`] returns it. The same request fails again; a shorter conversation or a
/// model with a larger context may succeed.
///
/// ```
/// use toolwright_module::Error;
/// use toolwright_module::error::ContextExceeded;
///
/// let exceeded = ContextExceeded::new(Some(9000), Some(8192));
/// let error = Error::other("too long").with_context_exceeded(exceeded);
/// assert_eq!(error.context_exceeded(), Some(exceeded));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextExceeded {
    /// Tokens that the request needs: those of the conversation and, if the server adds them, those
    /// of the longest answer that the request allows. Some servers stop counting at their limit, so
    /// that it may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The largest number of tokens that the server takes. Some servers count the answer in it, others
    /// only the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

impl ContextExceeded {
    /// Returns the value with these numbers. `None` is a number that the server does not say.
    #[must_use]
    pub fn new(tokens: Option<u64>, window: Option<u64>) -> Self {
        Self { tokens, window }
    }
}

/// The readers of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// The model reads the text and may call again.
    ModelMayRetry,
    /// The model reads the text and should not repeat the call.
    ModelFinal,
    /// Only the user and the events get the text. The model learns that the tool failed.
    User,
    /// The error ends the run and every run above it.
    Run,
}

/// The stage in which a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// The arguments do not fit the signature.
    Arguments,
    /// The module itself failed.
    Module,
    /// The connection to the provider failed.
    Transport,
    /// The provider rejected the request, or the model refused.
    Provider,
    /// The provider's reply could not be decoded.
    Decoding,
    /// The model's answer does not fit the signature.
    Validation,
    /// A limit was reached: tokens, steps or time.
    Limit,
    /// A call waits for approval.
    Approval,
    /// The call was cancelled.
    Cancelled,
    /// The module, the model or the approver panicked.
    Panic,
    /// The configuration is wrong, such as a module without a model.
    Setup,
    /// The journal of a run could not be read or written. No model sees such an error.
    Journal,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arguments => "arguments",
            Self::Module => "module",
            Self::Transport => "transport",
            Self::Provider => "provider",
            Self::Decoding => "decoding",
            Self::Validation => "validation",
            Self::Limit => "limit",
            Self::Approval => "approval",
            Self::Cancelled => "cancelled",
            Self::Panic => "panic",
            Self::Setup => "setup",
            Self::Journal => "journal",
        })
    }
}

impl Error {
    fn new(audience: Audience, text: Option<String>, source: Option<Source>) -> Self {
        Self(Box::new(Inner {
            audience,
            stage: Stage::Module,
            retryable: false,
            retry_after: None,
            text,
            source,
            raws: Vec::new(),
            usage: Usage::default(),
            knows_usage: false,
            context_exceeded: None,
            request_refused: false,
            of_this_calls_arguments: false,
            is_untrusted: false,
            repaired: None,
        }))
    }

    /// Returns an error whose text the model reads. It may call again.
    ///
    /// The text may be another error. Its causes are not part of the text:
    ///
    /// ```
    /// # use toolwright_module::{Error, Result};
    /// fn seat(number: &str) -> Result<u8> {
    ///     number.parse().map_err(Error::retry)
    /// }
    ///
    /// assert_eq!(seat("first").unwrap_err().for_model(), "invalid digit found in string");
    /// ```
    pub fn retry(text: impl fmt::Display) -> Self {
        Self::new(Audience::ModelMayRetry, Some(text.to_string()), None)
    }

    /// Returns an error whose text the model reads as final: a repeated call would fail too.
    ///
    /// The text may be another error, as for [`Error::retry`].
    pub fn refuse(text: impl fmt::Display) -> Self {
        Self::new(Audience::ModelFinal, Some(text.to_string()), None)
    }

    /// Returns an error that ends the run and every run above it.
    pub fn stop(source: impl Into<Source>) -> Self {
        let mut error = Self::other(source);
        error.0.audience = Audience::Run;
        error
    }

    /// Returns an error for the user from a source that `?` does not convert, such as a text, a
    /// boxed error or one of `anyhow`.
    ///
    /// ```
    /// # use toolwright_module::Error;
    /// let boxed: Box<dyn std::error::Error + Send + Sync> = "no such note".into();
    /// let error = Err::<(), _>(boxed).map_err(Error::other).unwrap_err();
    /// assert_eq!(error.to_string(), "no such note");
    /// ```
    ///
    /// A boxed [`Error`] keeps its fields, as with `?`.
    pub fn other(source: impl Into<Source>) -> Self {
        match source.into().downcast::<Failure>() {
            Ok(failure) => failure.0,
            Err(source) => Self::new(Audience::User, None, Some(source)),
        }
    }

    /// Returns the error of arguments that do not fit. The model reads what is wrong with them.
    pub(crate) fn arguments(source: toolwright_signature::ContractError, arguments: &str) -> Self {
        let text = source.to_string();
        Self::new(Audience::ModelMayRetry, Some(text), Some(Box::new(source)))
            .at(Stage::Arguments)
            .with_raw(arguments)
            .of_this_calls_arguments(true)
    }

    pub(crate) fn of_this_calls_arguments(mut self, yes: bool) -> Self {
        self.0.of_this_calls_arguments = yes;
        self
    }

    pub(crate) fn is_of_this_calls_arguments(&self) -> bool {
        self.0.of_this_calls_arguments
    }

    /// Marks the text for the model as one that strangers wrote. The model then gets it between the
    /// marks of [`fence`](crate::untrusted::fence).
    pub(crate) fn untrusted(mut self) -> Self {
        self.0.is_untrusted = true;
        self
    }

    /// Returns whether the text for the model is one that strangers wrote: it is the error of an
    /// [untrusted](crate::Tool::untrusted) tool.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.0.is_untrusted && self.model_reads_text()
    }

    /// Returns whether the model reads the text, and not only that the tool failed.
    pub(crate) fn model_reads_text(&self) -> bool {
        matches!(self.0.audience, Audience::ModelMayRetry | Audience::ModelFinal)
    }

    /// Sets the repairs of the failed call's own arguments. Repairs from an error that a module
    /// passed up are dropped.
    pub(crate) fn with_repaired(mut self, repaired: Option<Box<Repaired>>) -> Self {
        self.0.repaired = repaired;
        self
    }

    /// Returns the repairs of the failed call's arguments, if there were any.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.0.repaired.as_deref()
    }

    /// Sets the stage that failed. Default: [`Stage::Module`].
    #[must_use]
    pub fn at(mut self, stage: Stage) -> Self {
        self.0.stage = stage;
        self
    }

    /// Sets whether the same call may succeed later, for example after a lost connection. Default:
    /// `false`.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    /// Sets how long to wait before the same call, as the server asked. The call then
    /// [may succeed later](Self::is_retryable).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use toolwright_module::Error;
    /// let error = Error::other("too many requests").with_retry_after(Duration::from_secs(20));
    /// assert!(error.is_retryable());
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(20)));
    /// ```
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self.retryable(true)
    }

    /// Adds a raw reply of the provider or the model, after those added before.
    #[must_use]
    pub fn with_raw(mut self, raw: impl Into<String>) -> Self {
        self.0.raws.push(raw.into());
        self
    }

    /// Sets the cause, for the user. [`downcast_ref`](Self::downcast_ref) finds it and `{:#}` shows
    /// it. The model never sees it.
    ///
    /// ```
    /// # use toolwright_module::Error;
    /// let io = std::io::Error::other("disk full");
    /// let error = Error::refuse("The note could not be kept.").with_source(io);
    /// assert_eq!(error.for_model(), "The note could not be kept.");
    /// assert!(error.downcast_ref::<std::io::Error>().is_some());
    /// assert_eq!(format!("{error:#}"), "The note could not be kept.\ncause: disk full");
    /// ```
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        // An error without a text of its own takes its source's, which is replaced below.
        let text = self.0.text.take().unwrap_or_else(|| self.to_string());
        self.0.text = Some(text);
        self.0.source = Some(source.into());
        self
    }

    /// Adds the replies and the usage of earlier attempts.
    pub(crate) fn after(mut self, mut raws: Vec<String>, usage: Usage) -> Self {
        raws.append(&mut self.0.raws);
        self.0.raws = raws;
        self.0.usage += usage;
        self
    }

    /// Sets the usage of the failed call.
    ///
    /// A model that knows that the call used no tokens sets `Usage::default()`, for example if no
    /// server answered. Without this call the usage is unknown, and a
    /// [`Ledger`](crate::budget::Ledger) keeps its reservation.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.0.usage = usage;
        self.0.knows_usage = true;
        self
    }

    /// Returns the usage of the failed call, if it was set.
    pub(crate) fn known_usage(&self) -> Option<Usage> {
        self.0.knows_usage.then_some(self.0.usage)
    }

    /// Marks the error as one of a conversation that is longer than the model's context. A model sets
    /// it, so that an agent can shorten the conversation.
    #[must_use]
    pub fn with_context_exceeded(mut self, exceeded: ContextExceeded) -> Self {
        self.0.context_exceeded = Some(exceeded);
        self
    }

    /// Returns what the server says of the length, if the conversation is longer than the model's
    /// context.
    ///
    /// All providers read it from the server's error, so that a program need not know the texts of
    /// each server.
    #[must_use]
    pub fn context_exceeded(&self) -> Option<ContextExceeded> {
        self.0.context_exceeded
    }

    /// Marks the error as a refusal of this one request. A model sets it; see
    /// [`is_request_refused`](Self::is_request_refused).
    #[must_use]
    pub fn with_request_refused(mut self) -> Self {
        self.0.request_refused = true;
        self
    }

    /// Returns whether the model or its provider refused this one request for what it contains, such as
    /// a schema that the server does not take or a task that the model rejects. The same request fails
    /// again, and another one may succeed. This includes a conversation that is [longer than the model's
    /// context](Self::context_exceeded).
    ///
    /// An error of the API key, the account, the address or the server is not one: it would hit every
    /// other request, too.
    ///
    /// ```
    /// use toolwright_module::Error;
    /// use toolwright_module::error::Stage;
    ///
    /// let refused = Error::other("the schema is not supported").at(Stage::Provider);
    /// assert!(refused.with_request_refused().is_request_refused());
    /// let broke = Error::other("the account has no credit left").at(Stage::Provider);
    /// assert!(!broke.is_request_refused());
    /// ```
    #[must_use]
    pub fn is_request_refused(&self) -> bool {
        self.0.request_refused || self.0.context_exceeded.is_some()
    }

    /// Returns the readers of the error.
    #[must_use]
    pub fn audience(&self) -> Audience {
        self.0.audience
    }

    /// Returns the stage that failed.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.0.stage
    }

    /// Returns whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// Returns how long to wait before the same call, if a server asked for it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the text that a model may read. It contains no detail meant for the user. The text of an
    /// [untrusted](crate::Tool::untrusted) tool is between marks.
    #[must_use]
    pub fn for_model(&self) -> Cow<'_, str> {
        match &self.0.text {
            Some(text) if self.is_untrusted() => fence(text),
            Some(text) if self.model_reads_text() => Cow::Borrowed(text),
            _ => Cow::Borrowed("The tool failed. The reason is not shown to you."),
        }
    }

    /// Replaces the text that the model reads. It has no effect on errors that it does not read.
    pub(crate) fn with_text_for_model(mut self, text: String) -> Self {
        if self.model_reads_text() {
            self.0.text = Some(text);
        }
        self
    }

    /// Makes an error for the user of one that the model has read.
    pub(crate) fn for_user(mut self) -> Self {
        self.0.audience = Audience::User;
        self
    }

    /// Returns the last raw reply of the provider or the model.
    #[must_use]
    pub fn raw(&self) -> Option<&str> {
        self.0.raws.last().map(String::as_str)
    }

    /// Returns the raw replies of all attempts, oldest first.
    ///
    /// ```
    /// # use toolwright_module::Error;
    /// let error = Error::other("no number").with_raw("a few").with_raw("some");
    /// assert_eq!(error.raws().collect::<Vec<_>>(), ["a few", "some"]);
    /// assert_eq!(error.raw(), Some("some"));
    /// ```
    pub fn raws(&self) -> impl Iterator<Item = &str> {
        self.0.raws.iter().map(String::as_str)
    }

    /// Returns the usage of the failed call, all attempts included.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.usage
    }

    /// Returns the cause of type `E`, if there is one.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let mut cause: Option<&(dyn StdError + 'static)> =
            self.0.source.as_deref().map(|source| source as _);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // `source` of a `Failure` skips the error whose text it shows, so search inside it.
            if let Some(failure) = error.downcast_ref::<Failure>() {
                return failure.0.downcast_ref();
            }
            cause = error.source();
        }
        None
    }

    /// Converts the error to a [`std::error::Error`], for libraries that want one, such as `anyhow`
    /// and `thiserror`. It keeps the causes, and `?` makes the same error of it again.
    ///
    /// ```
    /// use toolwright_module::Error;
    ///
    /// let error = Error::refuse("the shop is closed").into_std();
    /// let error: Box<dyn std::error::Error + Send + Sync> = error.into();
    /// assert_eq!(error.to_string(), "the shop is closed");
    /// ```
    #[must_use]
    pub fn into_std(self) -> Failure {
        Failure(self)
    }
}

/// The errors that `?` converts to an [`Error`]: every [`std::error::Error`].
///
/// The trait exists for the compiler's message. A bound on `std::error::Error` alone would not
/// name [`Error::retry`] to a user who returns a text.
#[diagnostic::on_unimplemented(
    label = "`{Self}` does not implement `std::error::Error`: write `.map_err(Error::retry)?` \
             if a model may read it, or `.map_err(Error::other)?` if only the user may",
    note = "for an option: `.ok_or_else(|| Error::retry(\"what the model should change\"))?`"
)]
pub(crate) trait AnyStdError {
    /// Returns the error for the user, or the [`Error`] inside a [`Failure`].
    fn into_error(self) -> Error;
}

#[diagnostic::do_not_recommend]
impl<E: StdError + Send + Sync + 'static> AnyStdError for E {
    fn into_error(self) -> Error {
        let mut source = Some(self);
        // A `Failure` contains an `Error`, whose fields are kept.
        let ours = (&mut source as &mut dyn Any).downcast_mut::<Option<Failure>>();
        match ours.and_then(Option::take) {
            Some(failure) => failure.0,
            None => Error::new(Audience::User, None, source.map(|source| Box::new(source) as _)),
        }
    }
}

#[allow(private_bounds, reason = "the trait exists only for the message of the compiler")]
impl<E: AnyStdError> From<E> for Error {
    fn from(source: E) -> Self {
        source.into_error()
    }
}

/// The bound of the implementation below, which no type meets.
///
/// A library such as `anyhow` asks for `std::error::Error`. The compiler would only say that
/// [`Error`] does not implement it. With this trait its message names [`Error::into_std`].
#[diagnostic::on_unimplemented(
    label = "`Error` does not implement `std::error::Error`, because `?` makes an `Error` of \
             every type that does: write `.map_err(Error::into_std)?`"
)]
pub(crate) trait CallIntoStd<'a> {}

// The lifetime keeps the compiler from rejecting a bound that is never met. `Error` must not
// implement `std::error::Error`: `From<E> for Error` would then overlap `From<T> for T`.
#[doc(hidden)]
impl StdError for Error where for<'a> Self: CallIntoStd<'a> {}

impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        Box::new(Failure(error))
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        Box::new(Failure(error))
    }
}

impl Inner {
    /// Returns the cause below the text. If the text is the source's own, it starts below the
    /// source, so that a report does not repeat it.
    fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        let source = self.source.as_deref()?;
        let said = self.text.as_ref().is_none_or(|text| *text == source.to_string());
        if said { source.source() } else { Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        match (&inner.text, &inner.source) {
            (Some(text), _) => f.write_str(text)?,
            (None, Some(source)) => write!(f, "{source}")?,
            (None, None) => f.write_str("failed")?,
        }
        if !f.alternate() {
            return Ok(());
        }
        if inner.stage != Stage::Module || inner.retryable {
            write!(f, "\nstage: {}", inner.stage)?;
        }
        if inner.retryable {
            f.write_str(" (may succeed later)")?;
        }
        let mut cause = inner.cause();
        while let Some(error) = cause {
            write!(f, "\ncause: {error}")?;
            cause = error.source();
        }
        for raw in inner.raws.iter().filter(|raw| !raw.is_empty()) {
            write!(f, "\nreply: {raw}")?;
        }
        Ok(())
    }
}

/// The same as `{:#}`, so that `fn main() -> Result<()>` shows the whole error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// An [`Error`] that implements [`std::error::Error`].
pub struct Failure(Error);

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.0.cause()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
