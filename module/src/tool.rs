//! Tools: modules with their types erased, called with JSON text by a model.
use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use futures_core::future::BoxFuture;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_signature::{Contract, NameFault, Policy, Side, Signature};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result, Stage};
use crate::hook::AnyHook;
use crate::hook::chain::{self, Innermost};
use crate::message::{Part, Source, ToolCall, ToolResult};
use crate::module::{Module, OutputOf};
use crate::repaired::Repaired;
use crate::untrusted::{START, fence, inside};
use crate::{panic_text, places};

/// A module as a model sees it: a contract, and a call that takes and returns text.
///
/// The types of the module are erased here and nowhere else. A clone shares the module.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_module::{Context, Signature, Tool, from_fn};
///
/// /// Greet somebody.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// impl Signature for Greet {
///     type Output = String;
/// }
///
/// let tool = Tool::new(from_fn(async |greet: Greet| Ok(format!("Hello {}!", greet.name))))?;
/// assert_eq!(tool.contract().name(), "greet");
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let output = tool.call(r#"{"name": "Kate"}"#, &Context::default()).await?;
/// assert_eq!(output.text, "Hello Kate!");
///
/// let error = tool.call("{}", &Context::default()).await.unwrap_err();
/// assert_eq!(error.for_model(), "input of `greet` does not fit: $.name: this field is missing; expected a string");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tool {
    contract: Arc<Contract>,
    effect: Effect,
    policy: Policy,
    has_parts: bool,
    is_deferred: bool,
    is_untrusted: bool,
    handler: Arc<dyn Handler>,
}

/// A module with its types erased.
pub trait Handler: Send + Sync {
    /// Answers a call: reads the arguments, and does the work. The work's error passes [`of_work`].
    fn call<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput>>;
}

/// Adds the repairs of the call's arguments to an error of its work. The error is then not one of
/// these arguments, whatever it was where the work got it: it may concern the arguments of another
/// call.
#[must_use]
pub fn of_work(error: Error, repaired: Option<Box<Repaired>>) -> Error {
    error.of_this_calls_arguments(false).with_repaired(repaired)
}

struct Typed<M> {
    module: M,
    /// Whether the output schema is stricter than the output type.
    checks_output: bool,
    has_floats: bool,
    has_media: bool,
}

impl<M: Module> Typed<M> {
    /// Returns the text for the model, and the parts beside it.
    fn render(&self, output: &OutputOf<M>) -> Result<(String, Vec<Part>)> {
        let render = || M::Signature::render(output).map_err(broken);
        if !self.has_media {
            return Ok((render()?, Vec::new()));
        }
        let (text, mut parts) = places::collect(|_| true, render);
        if parts.is_empty() {
            // The text is the author's own. The model still gets the parts.
            let write = || serde_json::to_writer(io::sink(), output).map_err(broken);
            let (written, all) = places::collect(|_| true, write);
            written?;
            parts = all;
        }
        Ok((text?, parts))
    }
}

impl<M: Module> Typed<M> {
    async fn answer(
        &self,
        input: M::Signature,
        arguments: Arguments<'_>,
        cx: &Context,
    ) -> Result<ToolOutput> {
        let output = self.module.call(input, cx).await?;
        let (text, parts) = self.render(&output)?;
        // JSON has no form for NaN or infinity, so such a float is written as null.
        let has_null = self.has_floats && text.contains("null");
        if self.checks_output || has_null {
            check(arguments.contract, &output)?;
        }
        if has_null {
            arguments.contract.check_finite(&output).map_err(broken)?;
        }
        let value = arguments.keeps_value.then(|| Box::new(output) as Box<dyn ToValue>);
        Ok(ToolOutput { text, parts, value, ..ToolOutput::default() })
    }
}

impl<M: Module> Handler for Typed<M> {
    fn call<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput>> {
        Box::pin(async move {
            let (input, repaired) = arguments.read()?;
            match self.answer(input, arguments, cx).await {
                Ok(output) => Ok(ToolOutput { repaired, ..output }),
                Err(error) => Err(of_work(error, repaired)),
            }
        })
    }
}

struct Dynamic<F> {
    handler: F,
    /// Whether the output is checked here, and not by the handler.
    checks_output: bool,
}

impl<F, Fut> Handler for Dynamic<F>
where
    F: Fn(String, Context) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
{
    fn call<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput>> {
        Box::pin(async move {
            let (repaired, fits) = match arguments.read::<IgnoredAny>() {
                Ok((_, repaired)) => (repaired, true),
                // With the default policy the handler reads the arguments itself, and may accept
                // more than the schema does.
                Err(_) if arguments.policy == Policy::default() => (None, false),
                Err(error) => return Err(error),
            };
            let text = repaired.as_ref().map_or(arguments.text, |repaired| &repaired.json);
            let output = (self.handler)(text.to_owned(), cx.clone()).await.and_then(|output| {
                if self.checks_output {
                    output.check(arguments.contract)?;
                }
                Ok(output)
            });
            match output {
                Ok(output) => Ok(ToolOutput { repaired, ..output }),
                Err(error) => {
                    // The handler found it, too.
                    let of_arguments = !fits && error.stage() == Stage::Arguments;
                    Err(of_work(error, repaired).of_this_calls_arguments(of_arguments))
                }
            }
        })
    }
}

/// Maximum number of calls that are polled inside each other. Each takes part of the stack.
const MAX_DEPTH: u32 = 32;

thread_local! {
    /// The number of calls that are polled inside each other on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A call whose panics are errors, so that calls beside it go on. A tool that calls itself ends
/// before the stack overflows.
pub struct Contained<'a, T> {
    call: Option<BoxFuture<'a, Result<T>>>,
    arguments: Option<Arguments<'a>>,
}

impl<'a, T> Contained<'a, T> {
    /// Wraps a call. The error of a panic has the repairs of the call's arguments, if they are JSON
    /// and given here.
    #[must_use]
    pub fn new(call: BoxFuture<'a, Result<T>>, arguments: Option<Arguments<'a>>) -> Self {
        Self { call: Some(call), arguments }
    }

    #[cold]
    fn panicked(&self, panic: Box<dyn Any + Send>) -> Error {
        let text = format!("the tool panicked: {}", panic_text::text_of(panic));
        let repaired = self.arguments.and_then(Arguments::repaired);
        Error::other(text).at(Stage::Panic).with_repaired(repaired)
    }
}

impl<T> Future for Contained<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Result<T>> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let depth = DEPTH.get();
        if depth >= MAX_DEPTH {
            let text =
                format!("tools call each other more than {MAX_DEPTH} deep; does one call itself?");
            return Poll::Ready(Err(Error::stop(text).at(Stage::Limit)));
        }
        DEPTH.set(depth + 1);
        // A panic may leave shared state of the module inconsistent; its locks are poisoned then.
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(task)));
        DEPTH.set(depth);
        polled.unwrap_or_else(|panic| Poll::Ready(Err(self.panicked(panic))))
    }
}

/// A call may be dropped at any time, for example with its whole dispatch. Without this a panic in
/// the drop of one call would keep the calls beside it from being dropped.
impl<T> Drop for Contained<'_, T> {
    fn drop(&mut self) {
        let call = self.call.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(call))) {
            panic_text::text_of(panic);
        }
    }
}

impl Tool {
    /// Returns a module as a tool. Name, description and schemas come from its signature.
    ///
    /// # Errors
    ///
    /// The errors of [`Contract::of`], or the input holds an image, a document or audio, which a
    /// model cannot write.
    pub fn new<M: Module>(module: M) -> Result<Self, toolwright_signature::ContractError> {
        let contract = Arc::new(Contract::of::<M::Signature>()?);
        contract.check_written_by_model(Side::Input)?;
        let (effect, has_parts) = (module.effect(), module.has_parts());
        let is_untrusted = module.is_untrusted();
        let (checks_output, has_floats) = (contract.checks_output(), contract.output_has_floats());
        let has_media = !contract.media(Side::Output).is_empty();
        let handler = Arc::new(Typed { module, checks_output, has_floats, has_media });
        Ok(Self { has_parts, is_untrusted, ..Self::erased(contract, effect, handler) })
    }

    /// Returns a tool that is defined at run time, such as one that a remote server describes.
    ///
    /// `handler` gets the arguments as the model wrote them and parses them itself. If they fit the
    /// contract only after a repair, it gets the repaired text. Arguments that do not fit are
    /// rejected only if a [policy](Self::with_policy) is set.
    ///
    /// If the contract has an output, the handler's output has to fit it: the
    /// [value](ToolOutput::with_value), or else the text, which is JSON or a plain string.
    pub fn dynamic<F, Fut>(contract: Contract, effect: Effect, handler: F) -> Self
    where
        F: Fn(String, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
    {
        let handler = Dynamic { handler, checks_output: true };
        Self::erased(Arc::new(contract), effect, Arc::new(handler))
    }

    /// Like [`dynamic`](Self::dynamic), for a handler that checks its output itself.
    pub(crate) fn proxy<F, Fut>(contract: Contract, effect: Effect, handler: F) -> Self
    where
        F: Fn(String, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
    {
        let handler = Dynamic { handler, checks_output: false };
        Self::erased(Arc::new(contract), effect, Arc::new(handler))
    }

    /// Returns a tool whose handler reads its arguments with this contract.
    pub(crate) fn erased(
        contract: Arc<Contract>,
        effect: Effect,
        handler: Arc<dyn Handler>,
    ) -> Self {
        Self {
            contract,
            effect,
            policy: Policy::default(),
            has_parts: false,
            is_deferred: false,
            is_untrusted: false,
            handler,
        }
    }

    /// Renames the tool.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](toolwright_signature::ContractError::Name) if providers do not accept the name.
    pub fn named(self, name: &str) -> Result<Self, toolwright_signature::ContractError> {
        Ok(Self { contract: Arc::new(self.contract.named(name)?), ..self })
    }

    /// Puts `prefix` and an underscore before the tool's name. A prefix shows which toolset a tool
    /// belongs to, and keeps the names of two toolsets distinct.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # /// Query the database.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Query { sql: String }
    /// # impl Signature for Query { type Output = String; }
    /// let query = Tool::new(from_fn(async |query: Query| Ok(query.sql)))?;
    /// assert_eq!(query.prefixed("db")?.name(), "db_query");
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Name`](toolwright_signature::ContractError::Name) if the prefix is empty or providers do
    /// not accept the new name.
    pub fn prefixed(self, prefix: &str) -> Result<Self, toolwright_signature::ContractError> {
        if prefix.is_empty() {
            let (name, fault) = (prefix.to_owned(), NameFault::Empty);
            return Err(toolwright_signature::ContractError::Name { name, fault });
        }
        let name = format!("{prefix}_{}", self.name());
        self.named(&name)
    }

    /// Replaces the tool's description.
    #[must_use]
    pub fn described(self, description: &str) -> Self {
        Self { contract: Arc::new(self.contract.described(description)), ..self }
    }

    /// Restricts the text `field` to `names`, such as the names that the program has registered so
    /// far. See [`Contract::allowing`].
    ///
    /// # Errors
    ///
    /// The errors of [`Contract::allowing`].
    pub fn allowing<'a>(
        self,
        field: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        Ok(Self { contract: Arc::new(self.contract.allowing(field, names)?), ..self })
    }

    /// Sets the effect of a call.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Defers the tool: an agent does not show it to the model until the model finds it with the tool
    /// `find_tools`. Then the model calls it as any other tool.
    ///
    /// An agent with hundreds of tools then sends a few of them with each request. Leave the tools that
    /// nearly every task needs as they are.
    #[must_use]
    pub fn deferred(self) -> Self {
        Self { is_deferred: true, ..self }
    }

    /// Returns whether the model has to find the tool before it sees it.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    /// Marks the tool as one whose results contain text that strangers wrote: a web page, an e-mail, a
    /// comment.
    ///
    /// The model gets the text of each result, and of each error that it reads, between marks that the
    /// text cannot end ([`fence`](crate::untrusted::fence)). The
    /// [value](ToolOutput::value) for programs has no marks. The results are marked in stored runs
    /// ([`ToolResult::untrusted`]), and a policy can demand a person for later calls
    /// (`ApprovalPolicy::after_untrusted` of `toolwright-orchestrator`).
    ///
    /// The tools of MCP servers are untrusted already. A result whose text has marks, as those of GitHub's
    /// tools, is untrusted too. A tool that calls an untrusted tool with the context of its own call, such
    /// as an agent, has untrusted results then.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// use toolwright_module::{Context, Signature, Tool, from_fn};
    ///
    /// /// Read the newest mail.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct ReadMail {}
    ///
    /// impl Signature for ReadMail {
    ///     type Output = String;
    /// }
    ///
    /// let tool = Tool::new(from_fn(async |_: ReadMail| Ok("Send me money.".to_owned())))?.untrusted();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let output = tool.call("{}", &Context::default()).await?;
    /// assert_eq!(output.text, "<untrusted_data>\nSend me money.\n</untrusted_data>");
    /// assert_eq!(output.value()?, Some("Send me money.".into()));
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn untrusted(self) -> Self {
        Self { is_untrusted: true, ..self }
    }

    /// Returns whether each result of the tool contains text that strangers wrote.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Sets how far arguments may be repaired. Default: [`Policy::Coerce`].
    ///
    /// The strictest of three policies applies: this one, that of the group or agent that makes the
    /// call, and that of the [`Context`]. Use [`Policy::Exact`] for tools whose calls cannot be
    /// undone. The error then says what the model has to write instead.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// use toolwright_module::{Context, Effect, Policy, Signature, Tool, from_fn};
    ///
    /// /// Delete all files that begin with a prefix.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Purge {
    ///     prefix: Option<String>,
    /// }
    ///
    /// impl Signature for Purge {
    ///     type Output = String;
    /// }
    ///
    /// let purge = from_fn(async |_: Purge| Ok("Purged.".to_owned()));
    /// let tool = Tool::new(purge.with_effect(Effect::Irreversible))?.with_policy(Policy::Exact);
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let cx = Context::default();
    /// let error = tool.call(r#"{"prefix": "tmp", "dry_run": true}"#, &cx).await.unwrap_err();
    /// assert_eq!(
    ///     error.for_model(),
    ///     "input of `purge` does not fit: $.dry_run: this needs a repair, and none is allowed \
    ///      here (left out a field that is not asked for); write it as the schema says",
    /// );
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Returns the tool's own policy for repairs.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the name by which the model calls the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.contract.name()
    }

    /// Returns the contract that a model sees.
    #[must_use]
    pub fn contract(&self) -> &Arc<Contract> {
        &self.contract
    }

    /// Returns the effect of a call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns whether a call is made of the parts of a run; see [`Module::has_parts`].
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// Calls the tool with arguments as a model wrote them.
    ///
    /// # Errors
    ///
    /// - [`Stage::Arguments`]: the arguments do not fit the contract.
    /// - [`Stage::Panic`]: the module panicked.
    /// - [`Stage::Module`]: the output does not fit the output schema.
    /// - Otherwise the module's own error, or that of a [`Hook`](crate::hook::Hook).
    pub async fn call(&self, arguments: &str, cx: &Context) -> Result<ToolOutput> {
        let output = match cx.hooks() {
            [] => self.call_module(arguments, cx).await,
            hooks => Box::pin(self.call_through(hooks, arguments, cx)).await,
        };
        self.marked(output, cx)
    }

    /// Marks an output or an error, if strangers wrote its text. This is outside of all hooks, so that
    /// none of them can drop the mark.
    pub(crate) fn marked(&self, output: Result<ToolOutput>, cx: &Context) -> Result<ToolOutput> {
        let is_untrusted = self.is_untrusted || cx.has_untrusted();
        match output {
            Ok(output) if is_untrusted || output.untrusted => {
                cx.note_untrusted();
                Ok(output.untrusted())
            }
            // The tool has put marks around a part of its text, or it got a text with marks.
            Ok(output) if output.text.contains(START) => {
                cx.note_untrusted();
                Ok(ToolOutput { untrusted: true, ..output })
            }
            // The text about arguments that do not fit is ours. That of any other error may be of strangers,
            // whatever its stage.
            Err(error)
                if is_untrusted
                    && error.model_reads_text()
                    && !error.is_of_this_calls_arguments() =>
            {
                cx.note_untrusted();
                Err(error.untrusted())
            }
            output => output,
        }
    }

    /// Like [`call`](Self::call), through these hooks.
    pub(crate) async fn call_through(
        &self,
        hooks: &[AnyHook],
        arguments: &str,
        cx: &Context,
    ) -> Result<ToolOutput> {
        let call = ModuleCall { tool: self, cx };
        chain::call(cx, hooks, (&self.contract, self.effect), arguments, &call).await
    }

    /// Like [`call`](Self::call), without the hooks.
    pub(crate) fn call_module<'a>(
        &'a self,
        text: &'a str,
        cx: &'a Context,
    ) -> Contained<'a, ToolOutput> {
        let policy = self.policy.min(cx.policy());
        let arguments = Arguments { contract: &self.contract, text, policy, keeps_value: true };
        self.call_with(arguments, cx)
    }

    /// Like [`call_module`](Self::call_module), with the contract and policy of a group.
    pub(crate) fn call_with<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
    ) -> Contained<'a, ToolOutput> {
        Contained::new(self.handler.call(arguments, cx), Some(arguments))
    }
}

/// A call of a tool inside its hooks.
struct ModuleCall<'a> {
    tool: &'a Tool,
    cx: &'a Context,
}

impl Innermost for ModuleCall<'_> {
    fn call(&self, arguments: String) -> BoxFuture<'_, Result<ToolOutput>> {
        Box::pin(async move { self.tool.call_module(&arguments, self.cx).await })
    }
}

/// The contract, as for `assert_unchanged!` of `toolwright-signature`.
impl AsRef<Contract> for Tool {
    fn as_ref(&self) -> &Contract {
        &self.contract
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.contract.name())
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

/// The output of a tool: text and other parts for the model, and the value the text was rendered
/// from.
#[derive(Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// The images, documents and audio beside the text.
    pub parts: Vec<Part>,
    /// The repairs of the call's arguments, if there were any.
    pub repaired: Option<Box<Repaired>>,
    /// The names of [deferred](Tool::deferred) tools that the model may call from now on. They are the
    /// output of a search for tools.
    pub found: Vec<String>,
    /// Whether strangers wrote the text, or a part of it. The part is between the marks of
    /// [`fence`](crate::untrusted::fence). [`Tool::call`] sets it for an
    /// [untrusted](Tool::untrusted) tool, and for a text with marks. The code of a tool may set it for
    /// one output, and `Tool::call` then puts the marks around the whole text.
    pub untrusted: bool,
    value: Option<Box<dyn ToValue>>,
}

/// A typed output that can be converted to JSON later.
trait ToValue: Send + Sync {
    fn to_value(&self) -> serde_json::Result<Value>;

    /// Returns whether `text` is this output: its JSON, or the string itself.
    fn is_text(&self, text: &str) -> bool;
}

impl<T: Serialize + Send + Sync + 'static> ToValue for T {
    fn to_value(&self) -> serde_json::Result<Value> {
        let value = serde_json::to_value(self)?;
        if !has_float(&value) {
            return Ok(value);
        }
        // The text has the digits of an `f32`. Here, 0.1 became 0.10000000149011612. Only a value with
        // too many levels cannot be read.
        Ok(serde_json::from_str(&serde_json::to_string(self)?).unwrap_or(value))
    }

    fn is_text(&self, text: &str) -> bool {
        let this: &dyn Any = self;
        let string = this.downcast_ref::<String>().map(String::as_str);
        let string = string.or_else(|| this.downcast_ref::<Value>()?.as_str());
        if let Some(string) = string {
            return string == text;
        }
        let mut rest = Rest(text.as_bytes());
        serde_json::to_writer(&mut rest, self).is_ok() && rest.0.is_empty()
    }
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(fields) => fields.values().any(has_float),
        _ => false,
    }
}

/// The rest of a text that is compared with JSON while the JSON is written.
struct Rest<'a>(&'a [u8]);

impl io::Write for Rest<'_> {
    #[inline]
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(json).ok_or(io::ErrorKind::InvalidData)?;
        Ok(json.len())
    }

    #[inline]
    fn write_all(&mut self, json: &[u8]) -> io::Result<()> {
        self.write(json).map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks a module's output against its schema. The error is for the caller, because the model
/// cannot fix a module.
#[cold]
fn check<T: Serialize>(contract: &Contract, output: &T) -> Result<()> {
    let json = serde_json::to_string(output).map_err(broken)?;
    contract.check_output(&json).map_err(broken)
}

fn broken(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::other(source).at(Stage::Module)
}

impl ToolOutput {
    /// Checks the output of a handler that is not typed: its value, or else its text.
    fn check(&self, contract: &Contract) -> Result<()> {
        if contract.output_to_write().is_none() {
            return Ok(());
        }
        if let Some(value) = self.value()? {
            return check(contract, &value);
        }
        let checked = contract.check_output(&self.text);
        // The text of a string is the string itself.
        checked.or_else(|error| check(contract, &self.text).map_err(|_| broken(error)))
    }

    /// Returns an output that has only text.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Marks the output as one whose text strangers wrote, and puts marks around the text.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.untrusted = true;
        if let Cow::Owned(fenced) = fence(&self.text) {
            self.text = fenced;
        }
        for part in &mut self.parts {
            part.fence();
        }
        self
    }

    /// Returns the text without the marks around untrusted text.
    fn plain_text(&self) -> &str {
        let inside = inside(&self.text).filter(|_| self.untrusted);
        inside.unwrap_or(&self.text)
    }

    /// Sets the value that the text was rendered from.
    #[must_use]
    pub fn with_value(mut self, value: Value) -> Self {
        self.value = Some(Box::new(value));
        self
    }

    /// Sets the images, documents and audio beside the text.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.parts = parts.into_iter().collect();
        self
    }

    /// Sets the names of deferred tools that the model may call from now on.
    #[must_use]
    pub fn with_found(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.found = names.into_iter().collect();
        self
    }

    /// Returns the value that the text was rendered from, as JSON. Images, documents and audio in
    /// it are complete.
    ///
    /// The conversion happens here, because most calls only need the text.
    ///
    /// # Errors
    ///
    /// [`Stage::Module`] if the output has no JSON form.
    pub fn value(&self) -> Result<Option<Value>> {
        let value = self.value.as_ref().map(|value| value.to_value()).transpose();
        value.map_err(|source| Error::other(source).at(Stage::Module))
    }

    /// Returns the value as JSON, with `[image 1]` where it has the content of an image, and
    /// likewise for documents and audio. The content is in [`parts`](Self::parts). Addresses stay,
    /// and the numbers do not count them: MCP has blocks for content, and none for addresses.
    ///
    /// # Errors
    ///
    /// [`Stage::Module`] if the output has no JSON form.
    pub fn value_beside_parts(&self) -> Result<Option<Value>> {
        if self.parts.is_empty() {
            return self.value();
        }
        places::collect(Source::is_content, || self.value()).0
    }

    /// Returns the value as JSON, unless the text is the value already.
    fn value_beside_text(&self) -> Result<Option<Value>> {
        match &self.value {
            Some(value) if !value.is_text(self.plain_text()) => self.value(),
            _ => Ok(None),
        }
    }
}

impl ToolResult {
    /// Returns the result that a model reads, and the error if the call failed.
    ///
    /// An error with the audience [`Audience::Run`] ends the run. Your loop returns it and sends no
    /// result to the model.
    ///
    /// ```
    /// use toolwright_module::{Context, Result, Tool, ToolCall};
    /// use toolwright_module::error::Audience;
    /// use toolwright_module::message::ToolResult;
    ///
    /// async fn run_tool(tool: &Tool, call: &ToolCall, cx: &Context) -> Result<ToolResult> {
    ///     let outcome = tool.call(&call.arguments, cx).await;
    ///     match ToolResult::of(call, outcome) {
    ///         (_, Some(error)) if error.audience() == Audience::Run => Err(error),
    ///         (result, _) => Ok(result),
    ///     }
    /// }
    /// ```
    ///
    /// [`Audience::Run`]: crate::error::Audience::Run
    #[must_use]
    pub fn of(call: &ToolCall, outcome: Result<ToolOutput>) -> (Self, Option<Error>) {
        match outcome {
            Ok(output) => {
                // The model reads the text. Without JSON for programs the call has still worked.
                let value = output.value_beside_text().unwrap_or_default();
                let ToolOutput { text, parts, repaired, found, untrusted, .. } = output;
                (Self { repaired, value, parts, found, untrusted, ..Self::new(call, text) }, None)
            }
            Err(error) => {
                let repaired = error.repaired().cloned().map(Box::new);
                let untrusted = error.is_untrusted();
                (Self { repaired, untrusted, ..Self::failed(call, error.for_model()) }, Some(error))
            }
        }
    }
}

impl fmt::Debug for ToolOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolOutput")
            .field("text", &self.text)
            .field("parts", &self.parts.len())
            .finish_non_exhaustive()
    }
}
