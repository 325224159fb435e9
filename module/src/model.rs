//! The `LanguageModel` trait, its requests and its replies.

use std::borrow::Cow;
use std::sync::Arc;

pub use futures_core::future::BoxFuture;
pub use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use toolwright_signature::{Contract, Dialect, LoweredRequest, MediaKind, Side};

mod concurrency_limit;
mod fallback;

use crate::error::Result;
use crate::message::{Message, Part, ReplyPart, ToolCall, mark_incomplete};
use crate::runner::shown;
pub use crate::settings::{Effort, Setting, SettingSet, Settings, UnsupportedSetting};
pub use crate::usage::Usage;
pub use concurrency_limit::ConcurrencyLimit;
pub use fallback::Fallback;

/// A language model: it answers a [`Request`] with a [`Reply`].
///
/// Providers implement it, and so do the models in [`testing`](crate::testing). The trait is
/// object-safe: an `Arc<dyn LanguageModel>` is itself an `impl LanguageModel`. Its methods return
/// boxed futures and streams for that reason:
///
/// ```
/// use toolwright_module::{Dialect, LanguageModel, Message, Reply, Request, Result};
/// use toolwright_module::message::Part;
/// use toolwright_module::model::{BoxFuture, Capabilities};
///
/// /// Repeats the last message of the user.
/// struct Echo;
///
/// impl LanguageModel for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::new(Dialect::JsonSchema2020)
///     }
///
///     fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
///         Box::pin(async move {
///             let text = match request.messages.last().map(|message| &**message) {
///                 Some(Message::User { parts }) => match parts.as_slice() {
///                     [Part::Text(text)] => text.clone(),
///                     _ => String::new(),
///                 },
///                 _ => String::new(),
///             };
///             Ok(Reply::text(text).with_model("echo-1"))
///         })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let reply = Echo.generate(&Request::new([Message::user("Hi!")])).await?;
/// assert_eq!(reply.to_text(), "Hi!");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A model may be behind a trait object:
///
/// ```
/// use std::sync::Arc;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{LanguageModel, Message, Reply, Request};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model: Arc<dyn LanguageModel> = Arc::new(Scripted::new(|_| Ok(Reply::text("Hello."))));
/// let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
/// assert_eq!(reply.to_text(), "Hello.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a language model",
    note = "pass a provider's model such as `toolwright_openai::OpenAi`, a test model from `toolwright_module::testing`, or an `Arc` of one"
)]
pub trait LanguageModel: Send + Sync + 'static {
    /// Returns the model's name, for logs, recordings and errors.
    fn name(&self) -> &str;

    /// Returns the name of the provider, for telemetry. It is OpenTelemetry's
    /// `gen_ai.provider.name`, such as `openai`. Default: `unknown`.
    fn provider(&self) -> &str {
        "unknown"
    }

    /// Returns the name of the service that the caller pays for the model, such as `groq`. The built-in
    /// [`Prices`](crate::budget::Prices) have its price under this name. Default: `None`, a server whose
    /// prices are unknown.
    fn service(&self) -> Option<&str> {
        None
    }

    /// Returns the features of this model and its provider.
    fn capabilities(&self) -> Capabilities;

    /// Returns the model's own settings, which apply where a request has none. The model adds them
    /// itself. A [`Ledger`](crate::budget::Ledger) needs their maximum of output tokens. Default:
    /// no settings.
    fn settings(&self) -> Option<&Settings> {
        None
    }

    /// Returns the whole reply.
    ///
    /// # Errors
    ///
    /// The error has a stage, says whether a retry may help, and has the raw reply and the usage as
    /// far as they are known ([`Error::with_usage`](crate::Error::with_usage)). A reply that does
    /// not fit a schema is not an error here.
    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>>;

    /// Returns the reply in pieces. The last item is [`Delta::Done`] or an error.
    ///
    /// The default implementation sends the whole reply in one piece. The stream owns the request,
    /// because it outlives the call of this method.
    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        stream::once(async move { self.generate(&request).await })
            .flat_map(|reply| stream::iter(deltas(reply)))
            .boxed()
    }
}

/// Splits a whole reply into the deltas of a stream.
fn deltas(reply: Result<Reply>) -> Vec<Result<Delta>> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return vec![Err(error)],
    };
    let mut deltas: Vec<_> = pieces(&reply).map(Ok).collect();
    deltas.push(Ok(Delta::Done(Box::new(reply))));
    deltas
}

/// Returns the parts of a reply as deltas, without the last one.
pub(crate) fn pieces(reply: &Reply) -> impl Iterator<Item = Delta> {
    reply.parts.iter().enumerate().filter_map(|(index, part)| match part {
        ReplyPart::Other(_) => None,
        ReplyPart::Text(text) => Some(Delta::Text(text.text.clone())),
        ReplyPart::Reasoning(reasoning) if reasoning.text.is_empty() => None,
        ReplyPart::Reasoning(reasoning) => Some(Delta::Reasoning(reasoning.text.clone())),
        ReplyPart::Call(call) => {
            Some(Delta::Call { index, name: call.name.clone(), arguments: call.arguments.clone() })
        }
    })
}

impl<M: LanguageModel + ?Sized> LanguageModel for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> &str {
        (**self).provider()
    }

    fn service(&self) -> Option<&str> {
        (**self).service()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn settings(&self) -> Option<&Settings> {
        (**self).settings()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        (**self).generate(request)
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        (**self).stream(request)
    }
}

/// The features of a model and its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The JSON Schema dialect that it accepts for tools and outputs.
    pub dialect: Dialect,
    /// Whether a request may have an output schema ([`Request::output`]).
    pub structured_output: bool,
    /// Whether the model can be forced to call a tool ([`ToolChoice::Required`]).
    pub tools: bool,
    /// Whether messages and tool results may have images.
    pub images: bool,
    /// Whether messages and tool results may have documents.
    pub documents: bool,
    /// Whether messages and tool results may have audio.
    pub audio: bool,
    /// The settings that the model supports.
    pub settings: SettingSet,
    /// Further dialects in which requests may be sent, as with a [`Fallback`] to another provider.
    /// [`with_other_dialect`](Self::with_other_dialect) adds one.
    pub other_dialects: OtherDialects,
}

/// Dialects beside the first one of [`Capabilities`]. [`Capabilities::dialects`] lists them.
// Bit `n` is `Dialect::ALL[n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherDialects(u8);

impl Capabilities {
    /// Returns capabilities with this dialect and all features off. Output schemas are then part of
    /// the prompt. The only supported setting is the maximum of output tokens.
    ///
    /// ```
    /// use toolwright_module::Dialect;
    /// use toolwright_module::model::Capabilities;
    ///
    /// let capabilities =
    ///     Capabilities { images: true, tools: true, ..Capabilities::new(Dialect::Gemini) };
    /// assert!(capabilities.images && !capabilities.audio);
    /// ```
    #[must_use]
    pub const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            structured_output: false,
            tools: false,
            images: false,
            documents: false,
            audio: false,
            settings: SettingSet::NONE.with(Setting::MaxOutputTokens),
            other_dialects: OtherDialects(0),
        }
    }

    /// Adds a dialect in which requests may also be sent.
    #[must_use]
    pub fn with_other_dialect(mut self, other: Dialect) -> Self {
        let place = Dialect::ALL.iter().position(|dialect| *dialect == other);
        if let Some(place) = place.filter(|_| other != self.dialect) {
            self.other_dialects.0 |= 1 << place;
        }
        self
    }

    /// Returns every dialect in which a request may be sent. The first is
    /// [`dialect`](Self::dialect).
    ///
    /// Agents and predictors check their schemas in every dialect. A schema that is part of a
    /// prompt has the form of the first one. Reading accepts the forms of all dialects.
    pub fn dialects(self) -> impl Iterator<Item = Dialect> {
        let others = Dialect::ALL.into_iter().enumerate();
        let others = others.filter(move |(place, _)| self.other_dialects.0 & (1 << place) != 0);
        std::iter::once(self.dialect).chain(others.map(|(_, dialect)| dialect))
    }

    /// Checks that the model takes the images, documents and audio in one side of a contract. An
    /// agent checks its tools' outputs with it, and a predictor its input.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`](toolwright_signature::ContractError::Schema) names the field.
    pub fn check_media(
        &self,
        contract: &Contract,
        side: Side,
    ) -> Result<(), toolwright_signature::ContractError> {
        contract.check_media(side, |kind| match kind {
            MediaKind::Image => self.images,
            MediaKind::Document => self.documents,
            MediaKind::Audio => self.audio,
            _ => false,
        })
    }

    /// Returns whether messages may have a part of this kind.
    #[must_use]
    pub fn takes(&self, part: &Part) -> bool {
        match part {
            Part::Text(_) => true,
            Part::Image(_) => self.images,
            Part::Document(_) => self.documents,
            Part::Audio(_) => self.audio,
        }
    }
}

/// One request to a model.
///
/// Messages and tools are shared. A request with one more message copies no text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Request {
    /// The conversation so far.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model may call.
    #[serde(default = "no_tools", skip_serializing_if = "is_empty")]
    pub tools: Arc<[Arc<Contract>]>,
    /// Whether the model may, must or must not call a tool.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The contract whose output the answer has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Contract>>,
    /// The settings of the call. `None` without settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Arc<Settings>>,
}

fn no_tools() -> Arc<[Arc<Contract>]> {
    // The standard library shares the empty slice, so this does not allocate.
    Arc::default()
}

fn is_empty(tools: &Arc<[Arc<Contract>]>) -> bool {
    tools.is_empty()
}

impl Request {
    /// Default of [`max_output_tokens`](Self::max_output_tokens): 4096.
    pub const MAX_OUTPUT_TOKENS: u64 = 4096;

    /// Returns a request without tools. The [whole texts](crate::message::ToolResult::whole) of results
    /// are left out.
    pub fn new(messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        Self {
            messages: messages.into_iter().map(Message::to_send).collect(),
            tools: no_tools(),
            tool_choice: ToolChoice::Auto,
            output: None,
            settings: None,
        }
    }

    /// Sets the tools that the model may call.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Arc<[Arc<Contract>]>>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets whether the model may, must or must not call a tool. Default: [`ToolChoice::Auto`].
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Sets the contract whose output the answer has to be.
    #[must_use]
    pub fn with_output(mut self, output: Arc<Contract>) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets the settings of the call.
    ///
    /// ```
    /// use toolwright_module::model::Settings;
    /// use toolwright_module::{Message, Request};
    ///
    /// let settings = Settings::default().with_max_output_tokens(50);
    /// let request = Request::new([Message::user("Hi!")]).with_settings(settings);
    /// assert_eq!(request.max_output_tokens(), 50);
    /// ```
    #[must_use]
    pub fn with_settings(mut self, settings: impl Into<Arc<Settings>>) -> Self {
        self.settings = Some(settings.into());
        self
    }

    /// Returns the maximum number of tokens that the model may write, including reasoning. It is
    /// [`MAX_OUTPUT_TOKENS`](Self::MAX_OUTPUT_TOKENS) if the settings have none.
    #[must_use]
    pub fn max_output_tokens(&self) -> u64 {
        let set = self.settings.as_ref().and_then(|settings| settings.max_output_tokens);
        set.unwrap_or(Self::MAX_OUTPUT_TOKENS)
    }

    /// Returns the settings of the call over those of a model: the request's own where it has one.
    /// Providers send these.
    #[must_use]
    pub fn settings_over<'a>(&'a self, model: Option<&'a Settings>) -> Option<Cow<'a, Settings>> {
        match (self.settings.as_deref(), model) {
            (Some(near), Some(far)) => Some(Cow::Owned(near.over(far))),
            (Some(only), None) | (None, Some(only)) => Some(Cow::Borrowed(only)),
            (None, None) => None,
        }
    }

    /// Returns the schemas of the tools and the output in one dialect, for provider crates. The
    /// contracts cache them, so a repeated call is cheap.
    ///
    /// # Errors
    ///
    /// The errors of [`LoweredRequest::new`].
    pub fn lower(
        &self,
        dialect: Dialect,
    ) -> Result<LoweredRequest<'_>, toolwright_signature::ContractError> {
        LoweredRequest::new(dialect, &*self.tools, self.output.as_deref())
    }
}

/// Whether the model may, must or must not call a tool.
///
/// Whether it may call several tools at once is a setting ([`Settings::parallel_calls`]).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must not call a tool. The tools stay in the request, so that the provider's prompt cache
    /// stays valid.
    None,
    /// It must call at least one tool.
    Required,
    /// It must call the tool of this name.
    Tool(String),
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The whole reply of a model to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredReply")]
#[non_exhaustive]
pub struct Reply {
    /// Text, reasoning and calls, in the model's order.
    pub parts: Vec<ReplyPart>,
    /// The reason why the model stopped. Set it with [`with_finish`](Self::with_finish), which also
    /// marks the calls.
    pub finish: Finish,
    /// The provider's word for the reason, if it says more than `finish`: why a reply was
    /// [`Refused`](Finish::Refused), such as `SAFETY` or `content_filter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The tokens used.
    pub usage: Usage,
    /// The model's name, as its server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the server cut a character of the text in half, which is U+FFFD in it. Without it,
    /// U+FFFD is the model's own. A call with such a half is [`incomplete`](ToolCall::incomplete).
    #[serde(skip_serializing_if = "crate::usage::is_false")]
    pub has_lost_half: bool,
}

/// The stored form of a reply. Older ones do not mark incomplete calls.
#[derive(Deserialize)]
struct StoredReply {
    parts: Vec<ReplyPart>,
    #[serde(default)]
    finish: Finish,
    reason: Option<String>,
    #[serde(default)]
    usage: Usage,
    model: Option<String>,
    #[serde(default)]
    has_lost_half: bool,
}

impl From<StoredReply> for Reply {
    fn from(stored: StoredReply) -> Self {
        let StoredReply { parts, finish, reason, usage, model, has_lost_half } = stored;
        Self { reason, usage, model, has_lost_half, ..Self::new(parts).with_finish(finish) }
    }
}

impl Reply {
    /// Returns a reply with these parts.
    pub fn new(parts: impl IntoIterator<Item = ReplyPart>) -> Self {
        let parts = parts.into_iter().collect();
        let usage = Usage::default();
        let (finish, reason, model) = (Finish::Stop, None, None);
        Self { parts, finish, reason, usage, model, has_lost_half: false }
    }

    /// Returns a reply with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ReplyPart::text(text)])
    }

    /// Returns a reply with tool calls.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::new(calls.into_iter().map(ReplyPart::Call))
    }

    /// Sets the reason why the model stopped. Default: [`Finish::Stop`].
    ///
    /// With any other reason the calls of the reply are marked as
    /// [`incomplete`](ToolCall::incomplete), so that they are not made.
    ///
    /// ```
    /// use toolwright_module::model::Finish;
    /// use toolwright_module::{Reply, ToolCall};
    ///
    /// let reply = Reply::calls([ToolCall::new("1", "delete_all", "{}")]);
    /// let reply = reply.with_finish(Finish::Length);
    /// assert!(reply.tool_calls().all(|call| call.incomplete));
    /// ```
    #[must_use]
    pub fn with_finish(mut self, finish: Finish) -> Self {
        if !finish.is_complete() {
            mark_incomplete(&mut self.parts);
        }
        self.finish = finish;
        self
    }

    /// Sets the tokens used.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the model's name.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Returns all text parts joined. Empty without text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            ReplyPart::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect()
    }

    /// Returns the tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// The reason why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// The model finished its answer or its tool calls.
    #[default]
    Stop,
    /// The reply reached `max_output_tokens` or the model's own limit. Its last part is cut off.
    Length,
    /// The provider paused a long reply, for example while it runs tools of its own. Send the reply
    /// back as it is, and the model continues.
    Paused,
    /// The model refused, or its provider filtered the answer. The text is the refusal.
    Refused,
    /// A reason that this version does not know, in the provider's word. The reply may be
    /// incomplete, so agents and predictors do not use its text as an answer.
    Other(String),
}

impl Finish {
    /// Returns whether the reason means that the whole reply is there. Only then its tool calls are
    /// made and its text is an answer.
    ///
    /// Valid JSON does not show that a call is complete: an API returns `{}` or the fields so far for
    /// a call that it cut off.
    ///
    /// ```
    /// use toolwright_module::model::Finish;
    ///
    /// assert!(Finish::Stop.is_complete());
    /// assert!(!Finish::Length.is_complete());
    /// assert!(!Finish::Other("network_error".to_owned()).is_complete());
    /// ```
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self == Self::Stop
    }

    /// Returns the text for a model whose calls were not made because its reply ended in this way.
    /// `None` if the reply is complete.
    ///
    /// ```
    /// use toolwright_module::model::Finish;
    ///
    /// assert_eq!(
    ///     Finish::Length.why_not_made().unwrap(),
    ///     "The call was cut off at the maximum length of a reply, so it was not made. Call again with shorter arguments."
    /// );
    /// assert_eq!(Finish::Stop.why_not_made(), None);
    /// ```
    #[must_use]
    pub fn why_not_made(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Self::Stop => return None,
            Self::Length => {
                "The call was cut off at the maximum length of a reply, so it was not made. Call again with shorter arguments."
            }
            Self::Paused => {
                "The reply was paused before it was complete, so the call was not made. Call again."
            }
            Self::Refused => "The reply was refused or filtered, so the call was not made.",
            Self::Other(word) => {
                let word = shown(word, 100);
                return Some(Cow::Owned(if self.is_malformed_call() {
                    format!(
                        "The call could not be read ({word}), so it was not made. Call one of your tools, with arguments that are one JSON object."
                    )
                } else {
                    format!(
                        "The reply ended with {word:?} and may be incomplete, so the call was not made. Call again."
                    )
                }));
            }
        }))
    }

    /// Returns whether the model wrote a tool call that its provider could not read, and so perhaps
    /// left out of the reply. Agents and predictors tell the model, which then calls again.
    ///
    /// Gemini reports this as `MALFORMED_FUNCTION_CALL` or `UNEXPECTED_TOOL_CALL`, and Bedrock as
    /// `malformed_tool_use`. Gateways write these words in lower case or inside a sentence.
    ///
    /// ```
    /// use toolwright_module::model::Finish;
    ///
    /// let other = |word: &str| Finish::Other(word.to_owned());
    /// assert!(other("MALFORMED_FUNCTION_CALL").is_malformed_call());
    /// assert!(other("function_call_filter: UNEXPECTED_TOOL_CALL").is_malformed_call());
    /// assert!(!other("network_error").is_malformed_call());
    /// assert!(!Finish::Stop.is_malformed_call());
    /// ```
    #[must_use]
    pub fn is_malformed_call(&self) -> bool {
        let Self::Other(word) = self else { return false };
        let letters = word.chars().filter(char::is_ascii_alphanumeric);
        let word: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let is_faulty = ["unexpected", "invalid"].iter().any(|fault| {
            ["toolcall", "functioncall", "tooluse"]
                .iter()
                .any(|call| word.contains(&format!("{fault}{call}")))
        });
        is_faulty || word.contains("malformed")
    }
}

/// One piece of a streamed reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of the model's reasoning.
    Reasoning(String),
    /// More of a call's arguments.
    Call {
        /// Index that distinguishes the calls of one reply.
        index: usize,
        /// Name of the tool, as far as it is known.
        name: String,
        /// The arguments since the last delta of this call.
        arguments: String,
    },
    /// The whole reply. No delta follows.
    Done(Box<Reply>),
}
