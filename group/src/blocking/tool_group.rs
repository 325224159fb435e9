use std::fmt;
use std::ops::Deref;

use toolwright_module::{Context, Module, Result, Tool, ToolCall};
use toolwright_signature::Policy;

use crate::blocking::handle::{Blocking, Custom, Handle};
use crate::blocking::runner::Runner;
use crate::outcome::Outcome;
use crate::tool_group;

/// A collection of tools by name for programs without `async`: a [`ToolGroup`](crate::ToolGroup)
/// with its own runtime. [`run`](Self::run) and [`dispatch`](Self::dispatch) wait for the calls.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// use toolwright_group::blocking::{Context, Handle, Result, ToolCall, ToolGroup};
///
/// /// Say hello to somebody.
/// #[derive(Deserialize, JsonSchema)]
/// struct SayHello {
///     name: String,
/// }
///
/// impl Handle for SayHello {
///     fn handle(self, _cx_in: &(), _cx: &Context) -> Result<(String, ())> {
///         Ok((format!("Message delivered to {}.", self.name), ()))
///     }
/// }
///
/// let group = ToolGroup::new().handler::<SayHello>()?;
/// let call = ToolCall::new("call_1", "say_hello", r#"{"name": "Kate"}"#);
/// let outcome = group.run(&call, &(), &Context::default())?;
/// assert_eq!(outcome.content, "Message delivered to Kate.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ToolGroup<In = (), Out = ()> {
    group: tool_group::ToolGroup<In, Out>,
    runner: Runner,
}

impl<In, Out> Default for ToolGroup<In, Out> {
    fn default() -> Self {
        Self { group: tool_group::ToolGroup::new(), runner: Runner::default() }
    }
}

impl<In, Out> ToolGroup<In, Out> {
    /// Returns a group without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how far arguments may be repaired; see
    /// [`ToolGroup::with_policy`](crate::ToolGroup::with_policy).
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { group: self.group.with_policy(policy), ..self }
    }
}

impl<In: Sync + 'static, Out: Send + 'static> ToolGroup<In, Out> {
    fn with<E>(
        self,
        change: impl FnOnce(crate::ToolGroup<In, Out>) -> Result<crate::ToolGroup<In, Out>, E>,
    ) -> Result<Self, E> {
        Ok(Self { group: change(self.group)?, runner: self.runner })
    }

    /// Adds a type that handles itself.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolGroup::handler`](crate::ToolGroup::handler).
    pub fn handler<T: Handle<In, Out>>(self) -> Result<Self, toolwright_signature::ContractError> {
        self.with(|group| group.handler::<Blocking<T>>())
    }

    /// Adds a type that handles text instead of JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolGroup::custom`](crate::ToolGroup::custom).
    pub fn custom<T: Custom<In, Out>>(self) -> Result<Self, toolwright_signature::ContractError> {
        self.with(|group| group.custom::<Blocking<T>>())
    }

    /// Adds a module; it may be async.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolGroup::module`](crate::ToolGroup::module).
    pub fn module<M: Module>(self, module: M) -> Result<Self, toolwright_signature::ContractError> {
        self.with(|group| group.module(module))
    }

    /// Adds a tool; it may be async.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolGroup::tool`](crate::ToolGroup::tool).
    pub fn tool(self, tool: Tool) -> Result<Self, toolwright_signature::ContractError> {
        self.with(|group| group.tool(tool))
    }

    /// Runs all calls and waits for all of them. Each has its own result, in the order of the
    /// calls. Handlers run one after the other; modules run concurrently.
    ///
    /// # Errors
    ///
    /// [`InsideRuntime`](crate::blocking::InsideRuntime), before any call has run. The errors of
    /// single calls are in the list.
    pub fn dispatch(
        &self,
        calls: &[ToolCall],
        cx_in: &In,
        cx: &Context,
    ) -> Result<Vec<Result<Outcome<Out>>>> {
        self.runner.wait(self.group.dispatch(calls, cx_in, cx))
    }

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// [`InsideRuntime`](crate::blocking::InsideRuntime), and errors that are not for the model.
    pub fn run(&self, call: &ToolCall, cx_in: &In, cx: &Context) -> Result<Outcome<Out>> {
        self.runner.wait(self.group.run(call, cx_in, cx))?
    }
}

/// The methods of the async group that need no runtime, such as
/// [`definitions`](crate::ToolGroup::definitions) and [`bind`](crate::ToolGroup::bind).
impl<In, Out> Deref for ToolGroup<In, Out> {
    type Target = tool_group::ToolGroup<In, Out>;

    fn deref(&self) -> &Self::Target {
        &self.group
    }
}

impl<In, Out> fmt::Debug for ToolGroup<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.group, f)
    }
}

impl<In, Out> fmt::Display for ToolGroup<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.group, f)
    }
}
