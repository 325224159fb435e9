//! Errors of modules and tools.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::repaired::Repaired;
use crate::usage::Usage;

/// The result of everything that a module does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn StdError + Send + Sync>;

/// Why a call failed, and who may be told.
///
/// A tool's failure has two readers: the model, which may call again with better
/// arguments, and the person who runs the program. [`Error::retry`] and
/// [`Error::refuse`] speak to the model. Everything else stays with the person: the
/// model only learns that the tool failed, so an address or a key in an I/O error
/// does not reach it. [`Error::stop`] ends the run.
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
/// `{}` is one sentence; `{:#}` adds the causes and the model's raw replies, which
/// may hold a user's data.
pub struct Error(Box<Inner>);

struct Inner {
    audience: Audience,
    stage: Stage,
    retryable: bool,
    text: Option<Cow<'static, str>>,
    source: Option<Source>,
    raws: Vec<String>,
    usage: Usage,
    /// Whether somebody said the usage: what nobody said may be anything.
    knows_usage: bool,
    /// Says of the call on its way out, and of no other, that its arguments did not fit.
    of_this_calls_arguments: bool,
    /// What was read of the arguments before the call failed.
    repaired: Option<Box<Repaired>>,
}

/// Who may be told of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// The model reads the text and may call again.
    ModelMayRetry,
    /// The model reads the text as final.
    ModelFinal,
    /// The user and the events only; the model learns that the tool failed.
    User,
    /// The run ends, and every run above it.
    Run,
}

/// Where a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// The arguments do not fit the signature.
    Arguments,
    /// The module's own work.
    Module,
    /// The connection to a model's provider.
    Transport,
    /// The provider said no, or the model refused.
    Provider,
    /// The provider's answer could not be understood.
    Decoding,
    /// The model's answer does not fit the signature.
    Validation,
    /// Something ran out: tokens, steps, time.
    Limit,
    /// A call waits for a person's decision.
    Approval,
    /// The call was cancelled.
    Cancelled,
    /// The module panicked.
    Panic,
    /// Something is put together wrongly, such as a module without a model.
    Setup,
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
        })
    }
}

impl Error {
    fn new(audience: Audience, text: Option<Cow<'static, str>>, source: Option<Source>) -> Self {
        Self(Box::new(Inner {
            audience,
            stage: Stage::Module,
            retryable: false,
            text,
            source,
            raws: Vec::new(),
            usage: Usage::default(),
            knows_usage: false,
            of_this_calls_arguments: false,
            repaired: None,
        }))
    }

    /// The model sees this text and may call again.
    pub fn retry(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Audience::ModelMayRetry, Some(text.into()), None)
    }

    /// The model sees this text as final: the same call will not be answered.
    pub fn refuse(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Audience::ModelFinal, Some(text.into()), None)
    }

    /// The run ends here, and every run above it.
    pub fn stop(source: impl Into<Source>) -> Self {
        let mut error = Self::other(source);
        error.0.audience = Audience::Run;
        error
    }

    /// Any failure that `?` does not convert, such as a text, a boxed error or
    /// `anyhow`'s; the user's to know.
    ///
    /// ```
    /// # use toolwright_module::Error;
    /// let boxed: Box<dyn std::error::Error + Send + Sync> = "no such note".into();
    /// let error = Err::<(), _>(boxed).map_err(Error::other).unwrap_err();
    /// assert_eq!(error.to_string(), "no such note");
    /// ```
    ///
    /// One of ours in a box keeps what it knew, as it does with `?`.
    pub fn other(source: impl Into<Source>) -> Self {
        match source.into().downcast::<Failure>() {
            Ok(failure) => failure.0,
            Err(source) => Self::new(Audience::User, None, Some(source)),
        }
    }

    /// Arguments that do not fit: the model is told what is wrong with them.
    pub(crate) fn arguments(source: toolwright_signature::Error, arguments: &str) -> Self {
        let text = source.to_string();
        Self::new(Audience::ModelMayRetry, Some(text.into()), Some(Box::new(source)))
            .at(Stage::Arguments)
            .with_raw(arguments)
    }

    pub(crate) fn of_this_calls_arguments(mut self, yes: bool) -> Self {
        self.0.of_this_calls_arguments = yes;
        self
    }

    pub(crate) fn is_of_this_calls_arguments(&self) -> bool {
        self.0.of_this_calls_arguments
    }

    /// Of the failed call's own arguments: what an error that a module passes up knew of
    /// others is forgotten.
    pub(crate) fn with_repaired(mut self, repaired: Option<Box<Repaired>>) -> Self {
        self.0.repaired = repaired;
        self
    }

    /// What was read of the arguments of the failed call, if they had to be repaired.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.0.repaired.as_deref()
    }

    /// Says where it failed; [`Stage::Module`] unless said.
    #[must_use]
    pub fn at(mut self, stage: Stage) -> Self {
        self.0.stage = stage;
        self
    }

    /// Says whether the same call may succeed later, as after a lost connection.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    /// Keeps the provider's or the model's reply as it came, after those kept already.
    #[must_use]
    pub fn with_raw(mut self, raw: impl Into<String>) -> Self {
        self.0.raws.push(raw.into());
        self
    }

    /// Keeps what caused it, for the user: found with
    /// [`downcast_ref`](Self::downcast_ref), shown by `{:#}`, never to the model.
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
        // Whoever has no sentence of its own speaks with its source's.
        let text = self.0.text.take().unwrap_or_else(|| self.to_string().into());
        self.0.text = Some(text);
        self.0.source = Some(source.into());
        self
    }

    /// Adds what attempts before this one said and cost.
    pub(crate) fn after(mut self, mut raws: Vec<String>, usage: Usage) -> Self {
        raws.append(&mut self.0.raws);
        self.0.raws = raws;
        self.0.usage += usage;
        self
    }

    /// Keeps what the failed call cost.
    ///
    /// A model that knows that it cost nothing says so with `Usage::default()`, such as
    /// where no server answered: what nobody said is taken for unknown, and a
    /// [`Ledger`](crate::budget::Ledger) then keeps what was reserved.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.0.usage = usage;
        self.0.knows_usage = true;
        self
    }

    /// What the failed call cost, if somebody said so.
    pub(crate) fn known_usage(&self) -> Option<Usage> {
        self.0.knows_usage.then_some(self.0.usage)
    }

    /// Who may be told.
    #[must_use]
    pub fn audience(&self) -> Audience {
        self.0.audience
    }

    /// Where it failed.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.0.stage
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// What a model may read of this; never a detail meant for the user.
    #[must_use]
    pub fn for_model(&self) -> Cow<'_, str> {
        match (self.0.audience, &self.0.text) {
            (Audience::ModelMayRetry | Audience::ModelFinal, Some(text)) => Cow::Borrowed(text),
            _ => Cow::Borrowed("The tool failed. The reason is not shown to you."),
        }
    }

    /// The provider's or the model's reply as it came; the last, if there were several.
    #[must_use]
    pub fn raw(&self) -> Option<&str> {
        self.0.raws.last().map(String::as_str)
    }

    /// All replies as they came, one of each attempt, the oldest first.
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

    /// What the failed call cost, all attempts together.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.usage
    }

    /// The error of type `E` that caused this, if one did.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let mut cause: Option<&(dyn StdError + 'static)> =
            self.0.source.as_deref().map(|source| source as _);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // Its chain leaves out the source that its own sentence is from.
            if let Some(failure) = error.downcast_ref::<Failure>() {
                return failure.0.downcast_ref();
            }
            cause = error.source();
        }
        None
    }

    /// The same error as a [`std::error::Error`], for code that asks for one.
    #[must_use]
    pub fn into_std(self) -> Failure {
        Failure(self)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        let mut source = Some(source);
        // A `Failure` is one of ours on its way back: it keeps what it knew.
        let ours = (&mut source as &mut dyn Any).downcast_mut::<Option<Failure>>();
        match ours.and_then(Option::take) {
            Some(failure) => failure.0,
            None => Self::new(Audience::User, None, source.map(|source| Box::new(source) as _)),
        }
    }
}

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
    /// What led to it, below the sentence: that may be the source's own, and a report would
    /// say it twice.
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

/// As `{:#}`, so that `fn main() -> Result<()>` shows all there is.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// An [`Error`] that implements [`std::error::Error`].
pub struct Failure(Error);

impl Failure {
    /// The error itself.
    #[must_use]
    pub fn into_inner(self) -> Error {
        self.0
    }
}

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
