use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{self, Poll};

use futures_core::future::BoxFuture;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_signature::{Contract, NameFault, Policy, Signature};

use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result, Stage};
use crate::message::{Image, ToolCall, ToolResult};
use crate::module::Module;
use crate::panics;
use crate::repaired::{Arguments, Repaired};

/// A module as a model sees it: a contract, and a call with text in and text out.
///
/// This is the one place where types are erased. Cloning shares the module.
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
/// assert_eq!(output.text(), "Hello Kate!");
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
    handler: Arc<dyn Handler>,
}

/// What is left of a module once its types are gone.
///
/// What it gives back is put into a place that the caller keeps: returned, it would be
/// moved once for each future around it, which costs more than the call itself.
pub trait Handler: Send + Sync {
    /// Starts a call and polls it for the first time.
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
        place: Place<'a>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a>;
}

/// The place of a call's output.
pub struct Place<'a> {
    /// The output, empty at first.
    pub output: &'a mut ToolOutput,
    /// Whether to keep the value that the text is made from.
    pub with_value: bool,
}

/// The error of a call, and whether its own arguments did not fit.
///
/// It is marked where it happens: an error that a module passes up may be about the
/// arguments of another call. One pointer, so that a call's result stands in registers.
#[derive(Debug)]
pub struct Failed(Error);

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.0
    }
}

struct Typed<M> {
    module: M,
    /// Whether the schema of the output says more than its type does.
    checks_output: bool,
    has_floats: bool,
}

impl<M: Module> Handler for Typed<M> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
        place: Place<'a>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        Begun::of(task, async move {
            let Place { output: place, with_value } = place;
            let input = arguments.read(|repaired| place.repaired = Some(Box::new(repaired)))?;
            let output = self.module.call(input, cx).await.map_err(Failed::work)?;
            let text =
                M::Signature::render(&output).map_err(|source| Failed::work(broken(source)))?;
            // A float that is no number is written as null.
            if self.checks_output || self.has_floats && text.contains("null") {
                check(arguments.contract, &output).map_err(Failed::work)?;
            }
            place.text = text;
            if with_value {
                place.value = Some(Box::new(output));
            }
            Ok(())
        })
    }
}

struct Dynamic<F>(F);

impl<F, Fut> Handler for Dynamic<F>
where
    F: Fn(String, Context) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
{
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
        place: Place<'a>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        // The closure itself may panic, before there is a future.
        Begun::of(task, async move {
            let mut text = arguments.text.to_owned();
            let note = |repaired: Repaired| {
                text.clone_from(&repaired.json);
                place.output.repaired = Some(Box::new(repaired));
            };
            match arguments.read::<IgnoredAny>(note) {
                // The handler reads them itself, and may know better than the schema.
                Err(_) if arguments.policy == Policy::default() => {}
                read => drop(read?),
            }
            let output = (self.0)(text, cx.clone()).await.map_err(Failed::work)?;
            let repaired = place.output.repaired.take();
            *place.output = ToolOutput { repaired, ..output };
            Ok(())
        })
    }
}

impl Failed {
    /// The arguments did not fit the contract, as `error` says.
    #[must_use]
    pub fn arguments(error: Error) -> Self {
        Self(error.of_this_calls_arguments(true))
    }

    /// The arguments could not be read: `error` is of their contract.
    #[must_use]
    pub fn read(error: toolwright_signature::Error, arguments: &str) -> Self {
        Self::arguments(Error::arguments(error, arguments))
    }

    /// The call failed after its arguments were read.
    #[must_use]
    pub fn work(error: Error) -> Self {
        Self(error.of_this_calls_arguments(false))
    }

    /// The error, and whether the arguments did not fit.
    #[must_use]
    pub fn apart(self) -> (Error, bool) {
        let arguments = self.0.is_of_this_calls_arguments();
        (self.0, arguments)
    }

    #[cold]
    fn too_deep() -> Self {
        let text = format!("tools call each other more than {DEEPEST} deep; does one call itself?");
        Self::work(Error::stop(text).at(Stage::Limit))
    }

    fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let text = format!("the tool panicked: {}", panics::text_of(panic));
        Self::work(Error::other(text).at(Stage::Panic))
    }
}

/// The end of a call's work; its output is in its [`Place`].
pub type Ended = Result<(), Failed>;

/// A call that has begun.
///
/// Its work is polled for the first time where its type is still known: where a program has
/// many tools, the processor does not foresee which comes next, and most calls so have one
/// such jump and not two.
pub enum Begun<'a> {
    /// It ended with its first poll.
    Ended(Ended),
    /// It waits for something.
    Pending(BoxFuture<'a, Ended>),
}

impl<'a> Begun<'a> {
    /// Polls `work` once.
    #[inline]
    pub fn of(task: &mut task::Context<'_>, work: impl Future<Output = Ended> + Send + 'a) -> Self {
        let mut work = Box::pin(work);
        match work.as_mut().poll(task) {
            Poll::Ready(ended) => Self::Ended(ended),
            Poll::Pending => Self::Pending(work),
        }
    }
}

/// Work that was begun. It may be dropped at any time, such as with its whole dispatch, and
/// what it holds may panic then: its siblings are dropped all the same.
struct Pending<'a>(Option<BoxFuture<'a, Ended>>);

impl Drop for Pending<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            drop_quietly(work);
        }
    }
}

#[cold]
fn drop_quietly(work: BoxFuture<'_, Ended>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
        panics::text_of(panic);
    }
}

/// How many calls may be polled inside each other: each takes a part of the stack.
const DEEPEST: u32 = 32;

thread_local! {
    /// How many calls are polled inside each other now.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Keeps a panic inside the call, so that its siblings go on, and ends calls that call
/// themselves before the stack does.
///
/// Not around the work before its type is gone: that would be compiled anew for every
/// handler, and cost more at every call.
pub fn contained<'a>(
    begin: impl FnOnce(&mut task::Context<'_>) -> Begun<'a> + Send,
) -> impl Future<Output = Ended> + Send {
    let (mut begin, mut pending) = (Some(begin), Pending(None));
    poll_fn(move |task| {
        let poll = || match (begin.take(), &mut pending.0) {
            (Some(begin), _) => match begin(task) {
                Begun::Ended(ended) => Poll::Ready(ended),
                Begun::Pending(work) => {
                    pending.0 = Some(work);
                    Poll::Pending
                }
            },
            (None, Some(work)) => work.as_mut().poll(task),
            (None, None) => Poll::Pending,
        };
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Poll::Ready(Err(Failed::too_deep()));
        }
        DEPTH.set(depth + 1);
        // What the module shares may be left in any state: its locks say so by poisoning.
        let polled = catch_unwind(AssertUnwindSafe(poll));
        DEPTH.set(depth);
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Failed::panicked(panic))))
    })
}

impl Tool {
    /// A module as a tool: name, description and schemas are its signature's.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the contract; see [`Contract::of`].
    pub fn new<M: Module>(module: M) -> toolwright_signature::Result<Self> {
        let contract = Arc::new(Contract::of::<M::Signature>()?);
        let effect = module.effect();
        let (checks_output, has_floats) = (contract.checks_output(), contract.output_has_floats());
        let handler = Arc::new(Typed { module, checks_output, has_floats });
        Ok(Self::erased(contract, effect, handler))
    }

    /// A tool that is only known while the program runs, such as one that a remote
    /// server describes.
    ///
    /// `handler` gets the arguments as the model wrote them and reads them itself. Where
    /// they only fit the contract after a repair, it gets them repaired. Arguments that do
    /// not fit are kept from it only if a [policy](Self::with_policy) is set.
    pub fn dynamic<F, Fut>(contract: Contract, effect: Effect, handler: F) -> Self
    where
        F: Fn(String, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
    {
        Self::erased(Arc::new(contract), effect, Arc::new(Dynamic(handler)))
    }

    /// A tool whose handler reads with the contract that it is shown by.
    pub(crate) fn erased(
        contract: Arc<Contract>,
        effect: Effect,
        handler: Arc<dyn Handler>,
    ) -> Self {
        Self { contract, effect, policy: Policy::default(), handler }
    }

    /// The same tool under another name.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](toolwright_signature::Error::Name) if a model cannot be shown
    /// the name.
    pub fn named(self, name: &str) -> toolwright_signature::Result<Self> {
        Ok(Self { contract: Arc::new(self.contract.named(name)?), ..self })
    }

    /// The same tool with `prefix` and an underscore before its name: how a toolset says
    /// what its tools belong to, and how two of them stay apart in one list.
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
    /// # Ok::<(), toolwright_signature::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Name`](toolwright_signature::Error::Name) if the prefix is empty, or if a
    /// model cannot be shown the name.
    pub fn prefixed(self, prefix: &str) -> toolwright_signature::Result<Self> {
        if prefix.is_empty() {
            let (name, fault) = (prefix.to_owned(), NameFault::Empty);
            return Err(toolwright_signature::Error::Name { name, fault });
        }
        let name = format!("{prefix}_{}", self.name());
        self.named(&name)
    }

    /// The same tool with another description.
    #[must_use]
    pub fn described(self, description: &str) -> Self {
        Self { contract: Arc::new(self.contract.described(description)), ..self }
    }

    /// The same tool, whose text `field` takes one of `names` only: those that the program
    /// has registered by now. See [`Contract::allowing`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn allowing<'a>(
        self,
        field: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> toolwright_signature::Result<Self> {
        Ok(Self { contract: Arc::new(self.contract.allowing(field, names)?), ..self })
    }

    /// The same tool with another word on what it does to the world.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Sets how far arguments may be repaired. Default: [`Policy::Coerce`].
    ///
    /// The strictest policy holds of those that are set: here, on the group or the agent
    /// that makes the call, and on the [`Context`]. [`Policy::Exact`] is for tools whose
    /// calls cannot be undone: the model reads what it has to write otherwise.
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

    /// How far arguments may be repaired, as the tool itself says.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What the model calls it by.
    #[must_use]
    pub fn name(&self) -> &str {
        self.contract.name()
    }

    /// What a model is told of it.
    #[must_use]
    pub fn contract(&self) -> &Arc<Contract> {
        &self.contract
    }

    /// What a call does to the world.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Calls it with arguments as a model wrote them.
    ///
    /// # Errors
    ///
    /// [`Stage::Arguments`] if they do not fit, [`Stage::Panic`] if the module
    /// panicked, [`Stage::Module`] if its output breaks the schema of the contract,
    /// otherwise what the module failed with.
    pub async fn call(&self, arguments: &str, cx: &Context) -> Result<ToolOutput> {
        let policy = self.policy.min(cx.policy());
        let arguments = Arguments { contract: &self.contract, text: arguments, policy };
        let mut output = ToolOutput::default();
        let place = Place { output: &mut output, with_value: true };
        match contained(|task| self.handler.begin(arguments, cx, place, task)).await {
            Ok(()) => Ok(output),
            Err(failed) => Err(Error::from(failed).with_repaired(output.repaired)),
        }
    }

    /// The same for a group, which needs no value and asks whether it was the arguments.
    ///
    /// A panic goes on to the group, which contains it.
    pub(crate) fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
        output: &'a mut ToolOutput,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        let place = Place { output, with_value: false };
        self.handler.begin(arguments, cx, place, task)
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

/// What a tool gives back: text for the model, and the value it was made from.
#[derive(Default)]
pub struct ToolOutput {
    text: String,
    images: Vec<Image>,
    value: Option<Box<dyn ToValue>>,
    repaired: Option<Box<Repaired>>,
}

/// A typed output that can still become a JSON value.
trait ToValue: Send + Sync {
    fn to_value(&self) -> serde_json::Result<Value>;
}

impl<T: Serialize + Send + Sync> ToValue for T {
    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// Holds what a module gives to the schema that it promises. The person is to know: the
/// model cannot fix a module.
#[cold]
fn check<T: Serialize>(contract: &Contract, output: &T) -> Result<()> {
    let json = serde_json::to_string(output).map_err(broken)?;
    contract.check_output(&json).map_err(broken)
}

fn broken(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::other(source).at(Stage::Module)
}

impl ToolOutput {
    /// Text, and nothing else.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The same with the value that the text was made from.
    #[must_use]
    pub fn with_value(mut self, value: Value) -> Self {
        self.value = Some(Box::new(value));
        self
    }

    /// The same with images beside the text.
    #[must_use]
    pub fn with_images(mut self, images: Vec<Image>) -> Self {
        self.images = images;
        self
    }

    /// What the model reads.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Images beside the text.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The value that the text was made from, as JSON.
    ///
    /// Made when asked for: most calls only need the text.
    ///
    /// # Errors
    ///
    /// [`Stage::Module`] if the output has no JSON form.
    pub fn value(&self) -> Result<Option<Value>> {
        let value = self.value.as_ref().map(|value| value.to_value()).transpose();
        value.map_err(|source| Error::other(source).at(Stage::Module))
    }

    /// What was read of the arguments, if they had to be repaired.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.repaired.as_deref()
    }

    pub(crate) fn take_repaired(&mut self) -> Option<Box<Repaired>> {
        self.repaired.take()
    }

    pub(crate) fn set_repaired(&mut self, repaired: Option<Box<Repaired>>) {
        self.repaired = repaired;
    }

    /// Text and images, for a message.
    #[must_use]
    pub fn into_parts(self) -> (String, Vec<Image>) {
        (self.text, self.images)
    }
}

impl ToolResult {
    /// What a model is told of a call, and the error if it failed.
    ///
    /// An error whose audience is [`Audience::Run`] ends the run: whoever writes a loop
    /// passes it on and tells the model nothing.
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
            Ok(mut output) => {
                let repaired = output.take_repaired();
                let (text, images) = output.into_parts();
                (Self { repaired, ..Self::new(call, text).with_images(images) }, None)
            }
            Err(error) => {
                let repaired = error.repaired().cloned().map(Box::new);
                (Self { repaired, ..Self::failed(call, error.for_model()) }, Some(error))
            }
        }
    }
}

impl fmt::Debug for ToolOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolOutput")
            .field("text", &self.text)
            .field("images", &self.images.len())
            .finish_non_exhaustive()
    }
}
