//! Hooks around model calls and tool calls.
//!
//! A [`Hook`] sees each call before it is made and its result afterwards. It can change both, refuse
//! the call, repeat it, or answer in its place. [`Context::with_hook`] adds one for a call and
//! everything below it.
//!
//! | hook | does |
//! |---|---|
//! | [`Retry`] | repeats calls that failed with a retryable error |
//! | [`redact()`] | replaces texts before a model reads them |
//! | [`refuse()`] | refuses tool calls by a rule |
//! | [`limit_calls()`] | limits how often tools are called, for each user for example |
//!
//! ```
//! use toolwright_module::hook::{AskNext, CallNext, Hook};
//! use toolwright_module::{Context, Reply, Request, Result, ToolOutput};
//!
//! /// Prints each call.
//! struct Log;
//!
//! impl Hook for Log {
//!     fn name(&self) -> &str {
//!         "log"
//!     }
//!
//!     async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
//!         println!("{} messages to {}", request.messages.len(), next.model.name());
//!         next.run(request).await
//!     }
//!
//!     async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
//!         println!("{} {arguments}", next.contract.name());
//!         next.run(arguments).await
//!     }
//! }
//!
//! let cx = Context::default().with_hook(Log);
//! ```

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use futures_core::future::BoxFuture;
use toolwright_signature::Contract;

use crate::context::Context;
use crate::effect::Effect;
use crate::error::Result;
use crate::event::{EventKind, HookAct};
use crate::model::{LanguageModel, Reply, Request};
use crate::tool::ToolOutput;

pub(crate) mod chain;
mod limit_calls;
mod redact;
mod refuse;
mod retry;

use chain::{Asking, Calling};
pub use limit_calls::{CallCounts, CallLimit, CallStore, limit_calls};
pub use redact::redact;
pub use refuse::refuse;
pub use retry::Retry;

/// Code around the model calls and tool calls of a [`Context`].
///
/// Both methods may run `next` once, several times, or not at all. The first hook that was added is
/// the outermost one: it sees a call first and its result last. Each run of `next` that reaches the
/// model is reserved and counted by the [`Ledger`](crate::budget::Ledger). A tool call counts once,
/// however often a hook runs it: limits of tool calls bound the calls that the model makes. If several
/// runs of a streamed call are under way, only the one that began last is shown.
///
/// The calls of agents, predictors and groups all pass the hooks of their context. A hook that only
/// concerns tools leaves out `model`, and the reverse. If a hook panics, its call fails with
/// [`Stage::Panic`](crate::error::Stage::Panic).
///
/// ```
/// use toolwright_module::hook::{AskNext, Hook};
/// use toolwright_module::model::Settings;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Message, Reply, Request, Result};
///
/// /// Sets a temperature of zero for every model call.
/// struct Cold;
///
/// impl Hook for Cold {
///     fn name(&self) -> &str {
///         "cold"
///     }
///
///     async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
///         next.run(request.with_settings(Settings::default().with_temperature(0.0))).await
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model = Scripted::new(|request| {
///     let settings = request.settings.as_ref();
///     Ok(Reply::text(format!("{:?}", settings.and_then(|settings| settings.temperature))))
/// });
/// let cx = Context::default().with_hook(Cold);
/// let reply = cx.ask(&model, Request::new([Message::user("Hi!")]), false).await?;
/// assert_eq!(reply.to_text(), "Some(0.0)");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a hook",
    note = "write `impl Hook for {Self}`, or use one of `toolwright_module::hook`"
)]
pub trait Hook: Send + Sync + 'static {
    /// Returns the hook's name, for events and errors.
    fn name(&self) -> &str;

    /// Handles a model call. Default: runs it.
    ///
    /// # Errors
    ///
    /// Any error. It takes the place of the model's error.
    fn model(
        &self,
        request: Request,
        next: AskNext<'_>,
    ) -> impl Future<Output = Result<Reply>> + Send {
        next.run(request)
    }

    /// Handles a tool call. `arguments` is the text that the model wrote. Default: runs it.
    ///
    /// In an agent, the call has begun: its time limit runs. If it is interrupted here, for example
    /// while the hook waits, and its tool has the effect [`Write`](crate::Effect::Write) or a stronger
    /// one, the outcome of the call is unknown, even if the tool was not called.
    ///
    /// # Errors
    ///
    /// Any error. Its [`Audience`](crate::error::Audience) decides whether the model reads it.
    fn tool(
        &self,
        arguments: String,
        next: CallNext<'_>,
    ) -> impl Future<Output = Result<ToolOutput>> + Send {
        next.run(arguments)
    }
}

impl<H: Hook + ?Sized> Hook for Arc<H> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn model(
        &self,
        request: Request,
        next: AskNext<'_>,
    ) -> impl Future<Output = Result<Reply>> + Send {
        (**self).model(request, next)
    }

    fn tool(
        &self,
        arguments: String,
        next: CallNext<'_>,
    ) -> impl Future<Output = Result<ToolOutput>> + Send {
        (**self).tool(arguments, next)
    }
}

/// A hook of any type. A clone shares it.
#[derive(Clone)]
pub struct AnyHook(Arc<dyn ErasedHook>);

trait ErasedHook: Send + Sync {
    fn name(&self) -> &str;
    fn model_boxed<'a>(
        &'a self,
        request: Request,
        next: AskNext<'a>,
    ) -> BoxFuture<'a, Result<Reply>>;
    fn tool_boxed<'a>(
        &'a self,
        arguments: String,
        next: CallNext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput>>;
}

// The hook's own code runs at the first poll, where its panics are caught.
impl<H: Hook> ErasedHook for H {
    fn name(&self) -> &str {
        Hook::name(self)
    }

    fn model_boxed<'a>(
        &'a self,
        request: Request,
        next: AskNext<'a>,
    ) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { Hook::model(self, request, next).await })
    }

    fn tool_boxed<'a>(
        &'a self,
        arguments: String,
        next: CallNext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput>> {
        Box::pin(async move { Hook::tool(self, arguments, next).await })
    }
}

impl AnyHook {
    /// Erases the type of a hook.
    pub fn new(hook: impl Hook) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Hook for AnyHook {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.0.model_boxed(request, next).await
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        self.0.tool_boxed(arguments, next).await
    }
}

impl fmt::Debug for AnyHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyHook").field(&self.0.name()).finish()
    }
}

/// One hook in one call.
struct Frame<'a> {
    hook: &'a AnyHook,
    cx: &'a Context,
    /// The tool of a tool call.
    tool: Option<&'a str>,
    /// The context without this hook.
    own: OnceLock<Context>,
    runs: AtomicU32,
    /// Whether the last run succeeded.
    succeeded: AtomicBool,
}

impl<'a> Frame<'a> {
    fn new(hook: &'a AnyHook, cx: &'a Context, tool: Option<&'a str>) -> Self {
        let (own, runs, succeeded) = (OnceLock::new(), AtomicU32::new(0), AtomicBool::new(false));
        Self { hook, cx, tool, own, runs, succeeded }
    }

    fn own(&self) -> &Context {
        self.own.get_or_init(|| self.cx.without_hook(self.hook))
    }

    fn emit(&self, did: HookAct) {
        let (hook, tool) = (self.hook.0.name(), self.tool);
        self.cx.emit(|| EventKind::HookActed {
            hook: hook.to_owned(),
            tool: tool.map(str::to_owned),
            did,
        });
    }

    fn begin(&self) {
        if self.runs.fetch_add(1, Ordering::Relaxed) > 0 {
            self.emit(HookAct::Retried);
        }
    }

    fn ran<T>(&self, result: Result<T>) -> Result<T> {
        self.succeeded.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Emits what the hook did, as far as its number of runs and the results show it.
    fn end<T>(&self, result: &Result<T>) {
        let ran = self.runs.load(Ordering::Relaxed) > 0;
        let succeeded = self.succeeded.load(Ordering::Relaxed);
        match result {
            Ok(_) if !succeeded => self.emit(HookAct::Answered),
            Err(_) if !ran || succeeded => self.emit(HookAct::Refused),
            _ => {}
        }
    }
}

/// The rest of a model call, inside a hook. It may be run several times.
#[derive(Clone, Copy)]
pub struct AskNext<'a> {
    /// The model. A hook may set another one for the next runs.
    ///
    /// Schemas are lowered for the first model when an agent or predictor is made. A model of
    /// another dialect may reject them. [`Fallback`](crate::model::Fallback) lowers for all its models.
    pub model: &'a dyn LanguageModel,
    /// Whether the next runs are streamed.
    ///
    /// A streamed reply is shown to listeners and to the reader of
    /// [`Predict::stream`](crate::Predict::stream) before the hook gets it. A hook that changes or
    /// checks replies sets `false`. What the hook returns is then shown in one piece.
    pub stream: bool,
    frame: &'a Frame<'a>,
    asking: Asking<'a>,
}

impl<'a> AskNext<'a> {
    /// Runs the hooks inside this one, and then the model.
    ///
    /// # Errors
    ///
    /// The errors of [`Context::ask`].
    pub async fn run(self, request: Request) -> Result<Reply> {
        let Self { model, stream, frame, asking } = self;
        frame.begin();
        frame.ran(Asking { model, stream, ..asking }.run(request).await)
    }

    /// Returns the context of the call without this hook, so that a model call of the hook does not
    /// call the hook again.
    #[must_use]
    pub fn cx(&self) -> &'a Context {
        self.frame.own()
    }

    /// Emits an event that says that the hook changed the request or the reply.
    pub fn changed(&self) {
        self.frame.emit(HookAct::Changed);
    }
}

/// The rest of a tool call, inside a hook. It may be run several times.
#[derive(Clone, Copy)]
pub struct CallNext<'a> {
    /// The tool's contract, which has its name.
    pub contract: &'a Contract,
    /// The effect of the call.
    pub effect: Effect,
    frame: &'a Frame<'a>,
    calling: Calling<'a>,
}

impl<'a> CallNext<'a> {
    /// Runs the hooks inside this one, and then the tool.
    ///
    /// # Errors
    ///
    /// The errors of [`Tool::call`](crate::Tool::call).
    pub async fn run(self, arguments: String) -> Result<ToolOutput> {
        self.frame.begin();
        self.frame.ran(self.calling.run(arguments).await)
    }

    /// Returns the context of the call without this hook, so that a tool call of the hook does not
    /// call the hook again.
    #[must_use]
    pub fn cx(&self) -> &'a Context {
        self.frame.own()
    }

    /// Emits an event that says that the hook changed the arguments or the output.
    pub fn changed(&self) {
        self.frame.emit(HookAct::Changed);
    }
}
