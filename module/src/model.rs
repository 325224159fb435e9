//! Language models: the trait, its requests and its replies.

use std::sync::Arc;

pub use futures_core::future::BoxFuture;
pub use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use toolwright_signature::{Contract, Dialect, LoweredRequest};

use crate::error::Result;
use crate::message::{Message, ReplyPart, ToolCall};
use crate::most_usage::most_usage;
pub use crate::usage::Usage;

/// Something that answers a conversation.
///
/// Providers implement it, and so do the models in [`testing`](crate::testing).
/// It is object-safe: keep one as `Arc<dyn LanguageModel>` and pass it wherever an
/// `impl LanguageModel` is asked for. So its methods return boxed futures and streams:
///
/// ```
/// use toolwright_module::{Dialect, LanguageModel, Message, Reply, Request, Result};
/// use toolwright_module::message::Part;
/// use toolwright_module::model::{BoxFuture, Capabilities};
///
/// /// Says again what it was told last.
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
/// Where a model is passed on, any of them will do:
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
    /// The model's name, for people: logs, recordings, errors.
    fn name(&self) -> &str;

    /// Who serves it, for telemetry: OpenTelemetry's `gen_ai.provider.name`, such as
    /// `openai`.
    fn provider(&self) -> &str {
        "unknown"
    }

    /// What this model and its provider can do.
    fn capabilities(&self) -> Capabilities;

    /// Answers, all at once.
    ///
    /// # Errors
    ///
    /// Whatever goes wrong on the way, with its stage, whether trying again may help,
    /// the raw reply and what it cost, as far as that is known
    /// ([`Error::with_usage`](crate::Error::with_usage)). Never a model's bad answer: that
    /// is a reply.
    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>>;

    /// Answers piece by piece; the last item is [`Delta::Done`] or an error.
    ///
    /// Without a better way, the whole reply comes as one piece. The request is the
    /// stream's own, because a stream outlives the call that made it.
    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        stream::once(async move { self.generate(&request).await })
            .flat_map(|reply| stream::iter(pieces(reply)))
            .boxed()
    }
}

/// A reply as the deltas that a stream would have given.
fn pieces(reply: Result<Reply>) -> Vec<Result<Delta>> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return vec![Err(error)],
    };
    let mut deltas: Vec<_> = reply
        .parts
        .iter()
        .enumerate()
        .filter_map(|(index, part)| match part {
            ReplyPart::Text(text) => Some(Delta::Text(text.clone())),
            ReplyPart::Reasoning(reasoning) if reasoning.text.is_empty() => None,
            ReplyPart::Reasoning(reasoning) => Some(Delta::Reasoning(reasoning.text.clone())),
            ReplyPart::Call(call) => Some(Delta::Call {
                index,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }),
        })
        .map(Ok)
        .collect();
    deltas.push(Ok(Delta::Done(Box::new(reply))));
    deltas
}

impl<M: LanguageModel + ?Sized> LanguageModel for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> &str {
        (**self).provider()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        (**self).generate(request)
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        (**self).stream(request)
    }
}

/// What a model and its provider can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The JSON Schema it accepts for tools and answers.
    pub dialect: Dialect,
    /// Whether an answer's schema can be given beside the prompt.
    pub structured_output: bool,
    /// Whether it can be made to call a tool ([`ToolChoice::Required`]).
    pub tools: bool,
}

impl Capabilities {
    /// Tools and answers in `dialect`, and nothing that is more than a prompt: answers'
    /// schemas go into it.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, structured_output: false, tools: false }
    }

    /// Whether an answer's schema can be given beside the prompt.
    #[must_use]
    pub fn with_structured_output(mut self, structured_output: bool) -> Self {
        self.structured_output = structured_output;
        self
    }

    /// Whether it can be made to call a tool.
    #[must_use]
    pub fn with_tools(mut self, tools: bool) -> Self {
        self.tools = tools;
        self
    }
}

/// One question to a model.
///
/// Messages and tools are shared, so that asking again with one message more copies
/// no text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Request {
    /// The conversation so far.
    pub messages: Vec<Arc<Message>>,
    /// What the model may call.
    #[serde(default = "no_tools", skip_serializing_if = "is_empty")]
    pub tools: Arc<[Arc<Contract>]>,
    /// Whether it should.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The contract whose output the answer has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Contract>>,
    /// The most the model may write, reasoning included.
    pub max_output_tokens: u64,
}

fn no_tools() -> Arc<[Arc<Contract>]> {
    // Shared by the standard library: costs no allocation.
    Arc::default()
}

fn is_empty(tools: &Arc<[Arc<Contract>]>) -> bool {
    tools.is_empty()
}

impl Request {
    /// What a model may write unless somebody says otherwise.
    pub const MAX_OUTPUT_TOKENS: u64 = 4096;

    /// A question without tools.
    pub fn new(messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        Self {
            messages: messages.into_iter().collect(),
            tools: no_tools(),
            tool_choice: ToolChoice::Auto,
            output: None,
            max_output_tokens: Self::MAX_OUTPUT_TOKENS,
        }
    }

    /// The same with tools that the model may call.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Arc<[Arc<Contract>]>>) -> Self {
        self.tools = tools.into();
        self
    }

    /// The same with a word on whether the model should call a tool.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// The same, asking for an answer that is an output of this contract.
    #[must_use]
    pub fn with_output(mut self, output: Arc<Contract>) -> Self {
        self.output = Some(output);
        self
    }

    /// The same with another bound on what the model may write.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// The schemas of its tools and its answer as one dialect takes them together, for crates
    /// of providers: the contracts keep them, so this costs little.
    ///
    /// # Errors
    ///
    /// As [`LoweredRequest::new`].
    pub fn lower(&self, dialect: Dialect) -> toolwright_signature::Result<LoweredRequest<'_>> {
        LoweredRequest::new(dialect, &*self.tools, self.output.as_deref())
    }

    /// The most tokens that this can take, which a ledger reserves: those read by the
    /// bytes of its texts and schemas, because no tokenizer makes more tokens of a text
    /// than it has bytes, and some for each message and image; those written by
    /// `max_output_tokens`.
    ///
    /// ```
    /// use toolwright_module::{Dialect, Message, Request};
    ///
    /// let request = Request::new([Message::user("Hi!")]).with_max_output_tokens(50);
    /// let most = request.most_usage(Dialect::JsonSchema2020);
    /// assert_eq!((most.input_tokens, most.output_tokens), (3 + 16, 50));
    /// ```
    #[must_use]
    pub fn most_usage(&self, dialect: Dialect) -> Usage {
        most_usage(self, dialect)
    }
}

/// Whether a model should call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// It must not; the tools stay in the prompt, so that what was cached stays so.
    None,
    /// It must call at least one.
    Required,
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// A model's whole answer to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reply {
    /// Text, reasoning and calls, in the model's order.
    pub parts: Vec<ReplyPart>,
    /// Why the model stopped.
    #[serde(default)]
    pub finish: Finish,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// The model's own name, as its server says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Reply {
    /// A reply of these parts.
    pub fn new(parts: impl IntoIterator<Item = ReplyPart>) -> Self {
        let parts = parts.into_iter().collect();
        Self { parts, finish: Finish::Stop, usage: Usage::default(), model: None }
    }

    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ReplyPart::Text(text.into())])
    }

    /// A reply that calls tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::new(calls.into_iter().map(ReplyPart::Call))
    }

    /// The same with another reason to stop.
    #[must_use]
    pub fn with_finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// The same with what it cost.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// The same with the name of the model that gave it.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// All text together; empty if there is none.
    #[must_use]
    pub fn to_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            ReplyPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The tools it calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// It was done: with its answer, or with asking for tools.
    #[default]
    Stop,
    /// It reached `max_output_tokens` or its own limit; the last part is cut off.
    Length,
    /// It refused, or its provider filtered the answer; the text says what it said.
    Refused,
    /// A reason this version does not know, in the provider's word. It may mean that the
    /// reply is not finished, so agents and predictors do not take its text for an answer.
    Other(String),
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of the model's thinking.
    Reasoning(String),
    /// More of a call's arguments.
    Call {
        /// Tells the calls of one reply apart.
        index: usize,
        /// The tool's name, as far as it is known.
        name: String,
        /// The arguments since the last delta.
        arguments: String,
    },
    /// The whole reply; nothing follows.
    Done(Box<Reply>),
}
