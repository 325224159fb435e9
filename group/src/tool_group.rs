use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde_json::value::RawValue;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::CallKind;
use toolwright_module::runner::{self, Arguments, shown};
use toolwright_module::{Context, Effect, Error, Module, Repaired, Result, Tool, ToolCall};
use toolwright_signature::{NameFault, Policy};

use crate::custom::Custom;
use crate::definition::Definition;
use crate::handle::Handle;
use crate::outcome::{FailReason, Outcome};
use crate::pretty;
use crate::work::{Binding, Hooked, Work};

/// A collection of tools by name, which runs the calls of a model.
///
/// The group has no loop and no model. Your loop sends its [`definitions`](Self::definitions) to a
/// model, passes the calls in the reply to [`dispatch`](Self::dispatch), and sends the outcomes
/// back. The page `docs/tool-calls.md` of the project shows a whole program.
///
/// Every handler gets an `In` and returns an `Out`. Handlers of other types do not compile.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// use toolwright_group::{FailReason, Handle, ToolGroup};
/// use toolwright_module::{Context, Result, ToolCall};
///
/// /// Say hello to somebody.
/// #[derive(Deserialize, JsonSchema)]
/// struct SayHello {
///     name: String,
/// }
///
/// impl Handle for SayHello {
///     async fn handle(self, _cx_in: &(), _cx: &Context) -> Result<(String, ())> {
///         Ok((format!("Message delivered to {}.", self.name), ()))
///     }
/// }
///
/// let group = ToolGroup::new().handler::<SayHello>()?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // The calls of a model's reply.
/// let calls = [
///     ToolCall::new("call_1", "say_hello", r#"{"name": "Kate"}"#),
///     ToolCall::new("call_2", "say_hi", r#"{"name": "John"}"#),
/// ];
/// let outcomes = group.dispatch(&calls, &(), &Context::default()).await;
/// let [Ok(kate), Ok(john)] = &outcomes[..] else { panic!("neither is the program's error") };
/// assert_eq!(kate.content, "Message delivered to Kate.");
/// assert_eq!(john.content, "Tool, `say_hi` not found.");
/// assert_eq!(john.fail_reason, Some(FailReason::InvalidName));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ToolGroup<In = (), Out = ()> {
    definitions: Vec<Definition>,
    works: Vec<Work<In, Out>>,
    /// The index of each name. The program chooses the names and a model only looks them up, so
    /// collisions cannot be provoked.
    by_name: HashMap<Box<str>, usize, FixedState>,
    policy: Policy,
    wire_forms: Mutex<Vec<(&'static str, Arc<RawValue>)>>,
}

impl<In, Out> Default for ToolGroup<In, Out> {
    fn default() -> Self {
        Self {
            definitions: Vec::new(),
            works: Vec::new(),
            by_name: HashMap::default(),
            policy: Policy::default(),
            wire_forms: Mutex::default(),
        }
    }
}

impl<In, Out> ToolGroup<In, Out> {
    /// Returns a group without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how far arguments may be repaired, for all tools of the group. Default:
    /// [`Policy::Coerce`].
    ///
    /// The strictest of three policies applies: this one, that of the tool or its [`Handle`], and
    /// that of the call's [`Context`].
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use toolwright_group::{FailReason, Handle, ToolGroup};
    /// # use toolwright_module::{Context, Policy, Result, ToolCall};
    /// # /// Wait.
    /// # #[derive(Deserialize, JsonSchema)]
    /// # struct Wait { seconds: u32 }
    /// # impl Handle for Wait {
    /// #     async fn handle(self, _: &(), _: &Context) -> Result<(String, ())> {
    /// #         Ok((format!("Waited {} s.", self.seconds), ()))
    /// #     }
    /// # }
    /// let call = ToolCall::new("call_1", "wait", r#"{"seconds": "3"}"#);
    /// let cx = Context::default();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let outcome = ToolGroup::new().handler::<Wait>()?.run(&call, &(), &cx).await?;
    /// let repaired = outcome.repaired().unwrap();
    /// assert_eq!(repaired.json, r#"{"seconds":3}"#);
    ///
    /// let strict = ToolGroup::new().handler::<Wait>()?.with_policy(Policy::Strict);
    /// let outcome = strict.run(&call, &(), &cx).await?;
    /// assert_eq!(outcome.fail_reason, Some(FailReason::InvalidArguments));
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    pub(crate) fn with(
        mut self,
        definition: Definition,
        work: Work<In, Out>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        let name = definition.name();
        if self.by_name.contains_key(name) {
            let (name, fault) = (name.to_owned(), NameFault::Duplicate);
            return Err(toolwright_signature::ContractError::Name { name, fault });
        }
        self.by_name.insert(name.into(), self.works.len());
        self.definitions.push(definition);
        self.works.push(work);
        self.wire_forms = Mutex::default();
        Ok(self)
    }

    /// Returns the definitions of all tools, in the order in which they were added.
    #[must_use]
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// Returns the definition of one tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(*self.by_name.get(name)?)
    }

    /// Returns all definitions in the form of one provider. It is made once for each `key`, and
    /// cached.
    ///
    /// This method is for provider crates. Their users have a method of their own.
    ///
    /// # Errors
    ///
    /// The error of `make`. Nothing is cached then.
    pub fn wire_form<E>(
        &self,
        key: &'static str,
        make: impl FnOnce(&[Definition]) -> Result<Box<RawValue>, E>,
    ) -> Result<Arc<RawValue>, E> {
        let kept = |forms: &[(&str, Arc<RawValue>)]| {
            forms.iter().find(|(known, _)| *known == key).map(|(_, form)| Arc::clone(form))
        };
        if let Some(form) = kept(&self.wire_forms.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(form);
        }
        // `make` is foreign code, so it runs without the lock. Two concurrent calls make equal
        // forms.
        let form: Arc<RawValue> = make(&self.definitions)?.into();
        let mut forms = self.wire_forms.lock().unwrap_or_else(PoisonError::into_inner);
        if kept(&forms).is_none() {
            forms.push((key, Arc::clone(&form)));
        }
        Ok(form)
    }
}

impl<In: Sync + 'static, Out: Send + 'static> ToolGroup<In, Out> {
    /// Adds a type that handles itself.
    ///
    /// # Errors
    ///
    /// The name or schema is invalid (see [`Handle`]), or another tool of the group has the same
    /// name.
    pub fn handler<T: Handle<In, Out>>(self) -> Result<Self, toolwright_signature::ContractError> {
        self.with(T::definition()?, Work::function::<T>())
    }

    /// Adds a type that handles text instead of JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`handler`](Self::handler).
    pub fn custom<T: Custom<In, Out>>(self) -> Result<Self, toolwright_signature::ContractError> {
        self.with(T::definition()?, Work::custom::<T>())
    }

    /// Adds a module: code, a language model, or both. It gets no `In` and returns no `Out`.
    ///
    /// # Errors
    ///
    /// The errors of [`handler`](Self::handler).
    pub fn module<M: Module>(self, module: M) -> Result<Self, toolwright_signature::ContractError> {
        let tool = Tool::new(module)?;
        let definition = Definition::of_tool(&tool, M::Signature::schema_name());
        self.with(definition, Work::Tool(tool))
    }

    /// Adds a tool, such as a renamed one or one of a remote server.
    ///
    /// # Errors
    ///
    /// The errors of [`handler`](Self::handler).
    pub fn tool(self, tool: Tool) -> Result<Self, toolwright_signature::ContractError> {
        let name = Cow::Owned(tool.contract().name().to_owned());
        self.with(Definition::of_tool(&tool, name), Work::Tool(tool))
    }

    /// Runs all calls concurrently and waits for all of them.
    ///
    /// Each call has its own result, in the order of the calls:
    ///
    /// - An [`Outcome`] is for the model. It may be a failure: an unknown name, arguments that do
    ///   not fit, or an [`Error::retry`] or [`Error::refuse`] of the handler. A call that is
    ///   [`incomplete`](ToolCall::incomplete) is not made; providers and `async_openai::ReplyExt`
    ///   mark the calls of a reply that was cut off.
    /// - An `Err` is for the program: any other error, or a panic. The other calls are not
    ///   affected. To continue after it, answer the call with [`Outcome::of_error`].
    ///
    /// The calls run on the task that awaits this method. They make progress while others wait.
    pub async fn dispatch(
        &self,
        calls: &[ToolCall],
        cx_in: &In,
        cx: &Context,
    ) -> Vec<Result<Outcome<Out>>> {
        match calls {
            [call] => vec![self.run(call, cx_in, cx).await],
            calls => join_all(calls.iter().map(|call| self.run(call, cx_in, cx))).await,
        }
    }

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// Errors that are not for the model; see [`dispatch`](Self::dispatch).
    pub async fn run(&self, call: &ToolCall, cx_in: &In, cx: &Context) -> Result<Outcome<Out>> {
        let Some(&at) = self.by_name.get(call.name.as_str()) else {
            if let Some(name) = self.meant(&call.name, cx) {
                return Box::pin(self.run_as(name, call, cx_in, cx)).await;
            }
            let error = Error::retry(format!("Tool, `{}` not found.", shown(&call.name, 100)));
            return Ok(Outcome::failed(call, FailReason::InvalidName, error));
        };
        if let Some(why) = call.why_not_made() {
            let error = Error::retry(why);
            return Ok(Outcome::failed(call, FailReason::InvalidArguments, error));
        }
        let (definition, work) = (&self.definitions[at], &self.works[at]);
        if definition.kind() != call.kind {
            return Err(other_kind(call));
        }
        let policy = self.policy.min(definition.policy()).min(cx.policy());
        let (contract, has_hooks) = (definition.contract(), runner::has_hooks(cx));
        // An outcome has no value, but a hook may ask for it.
        let arguments =
            Arguments { contract, text: &call.arguments, policy, keeps_value: has_hooks };
        if has_hooks {
            let hooked = Hooked { work, arguments, cx_in, cx, out: Mutex::default() };
            return Box::pin(hooked.run(call, definition.effect())).await;
        }
        let (output, out) = match work.call(arguments, cx_in, cx).await {
            Ok((output, out)) => (Ok(output), out),
            Err(error) => (Err(error), None),
        };
        match work.marked(output, cx) {
            Ok(output) => Ok(Outcome::new(call, output, out)),
            Err(error) => told(call, error),
        }
    }
}

impl<In: Sync + 'static, Out: Send + 'static> ToolGroup<In, Out> {
    /// Returns the tool that is meant by a name in a model's own notation, if a repair is allowed.
    fn meant(&self, called: &str, cx: &Context) -> Option<&str> {
        let name = runner::meant_tool(called, self.definitions.iter().map(Definition::name))?;
        let policy = self.policy.min(self.get(name)?.policy()).min(cx.policy());
        (policy >= Policy::Repair).then_some(name)
    }

    /// Runs a call under the repaired name, and lists the repair.
    async fn run_as(
        &self,
        name: &str,
        call: &ToolCall,
        cx_in: &In,
        cx: &Context,
    ) -> Result<Outcome<Out>> {
        let mut named = call.clone();
        name.clone_into(&mut named.name);
        let mut outcome = self.run(&named, cx_in, cx).await?;
        if outcome.fail_reason.is_none() {
            let repaired = outcome.repaired.get_or_insert_with(|| {
                Box::new(Repaired { json: call.arguments.clone(), repairs: Vec::new() })
            });
            repaired.repairs.insert(0, runner::name_repair(&call.name, name));
        }
        Ok(outcome)
    }
}

impl<In: Send + Sync + 'static, Out: Send + 'static> ToolGroup<In, Out> {
    /// Converts the group to plain tools, for an orchestrator. Every handler gets `cx_in`. `on_out`
    /// is called with the tool's name and the handler's `Out`.
    ///
    /// The tools share the contracts of the group, so a server can bind it again for each request.
    /// A value of the request can also be in the [`Context`]; see [`Context::with`].
    ///
    /// A custom tool becomes a function with its text as the only field, because a
    /// [`LanguageModel`](toolwright_module::LanguageModel) supports functions only.
    pub fn bind(&self, cx_in: In, on_out: impl Fn(&str, Out) + Send + Sync + 'static) -> Vec<Tool> {
        let binding = Arc::new(Binding { cx_in, on_out: Box::new(on_out) });
        let both = self.definitions.iter().zip(&self.works);
        both.map(|(definition, work)| {
            let custom = definition.kind() == CallKind::Custom;
            let tool = work.bind(definition.contract(), definition.effect(), custom, &binding);
            tool.with_policy(self.policy.min(definition.policy()))
        })
        .collect()
    }
}

/// Returns the outcome of a failed call, or its error if it is not for the model.
fn told<Out>(call: &ToolCall, error: Error) -> Result<Outcome<Out>> {
    let reason = match error.audience() {
        _ if runner::is_of_arguments(&error) => FailReason::InvalidArguments,
        Audience::ModelMayRetry | Audience::ModelFinal => FailReason::ExplicitHandlerError,
        // The rest is not for the model.
        _ => return Err(error),
    };
    Ok(Outcome::failed(call, reason, error))
}

impl<In: Sync + 'static, Out: Send + 'static> Hooked<'_, In, Out> {
    async fn run(self, call: &ToolCall, effect: Effect) -> Result<Outcome<Out>> {
        let Arguments { contract, text, .. } = self.arguments;
        let output = runner::call_through_hooks(self.cx, contract, effect, text, &self).await;
        match self.work.marked(output, self.cx) {
            Ok(output) => {
                let out = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
                Ok(Outcome::new(call, output, out))
            }
            Err(error) => told(call, error),
        }
    }
}

fn other_kind(call: &ToolCall) -> Error {
    let (called, is) = match call.kind {
        CallKind::Function => ("a function", "a custom tool"),
        _ => ("a custom tool", "a function"),
    };
    let name = &call.name;
    Error::other(format!("`{name}` is called as {called} and is {is}; send its own definition"))
        .at(Stage::Decoding)
}

impl<In, Out> fmt::Debug for ToolGroup<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.definitions.iter().map(Definition::name);
        f.debug_tuple("ToolGroup").field(&names.collect::<Vec<_>>()).finish()
    }
}

/// The definitions in a readable form.
impl<In, Out> fmt::Display for ToolGroup<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.definitions.iter().map(|member| pretty::deeper(&member.to_string()));
        write!(f, "ToolGroup([\n{}\n])", members.collect::<Vec<_>>().join(",\n"))
    }
}
