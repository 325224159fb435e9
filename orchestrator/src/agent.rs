//! The agent: a model, its tools and its settings.
mod core;
mod driving;
mod reader;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_module::event::Ending;
use toolwright_module::hook::{AnyHook, Hook};
use toolwright_module::model::Settings;
use toolwright_module::predict::{Validator, Validators};
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Module, Policy, Result, Tool, ToolCall,
};
use toolwright_signature::{Contract, Loss};

pub(crate) use self::core::Core;
use self::reader::{Answers, Reader};
use crate::approval_policy::ApprovalPolicy;
use crate::call_check::CallCheck;
use crate::compaction::Compaction;
use crate::error;
use crate::limits::Limits;
use crate::read_result::READ_RESULT;
use crate::run::{Edited, Run};
use crate::state::RunState;
use crate::task::{Task, TaskAnswer};
use crate::tool_choosing::Choosing;
use crate::tool_set::{Change, Resumed, ToolSet};

/// An agent: a model that calls tools until it has an answer. `O` is the type of the answer.
///
/// [`new`](Self::new) returns an agent that answers with text, and [`answering`](Self::answering) one
/// that answers with a value of a type. The task is a text, images and other parts, or the next message
/// of a conversation; see [`Task`].
///
/// It drives a [`Run`] on tokio; it needs tokio's timer if there is a deadline or a time limit.
/// Reads of one turn run concurrently, all other calls in the model's order. If a tool fails, the
/// model gets the error and continues. The model's text is streamed if the context has a listener
/// for events.
///
/// An agent is a [`Module`], so it can be a tool of another agent.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_module::testing::SchemaDriven;
/// use toolwright_module::{Context, Signature, Tool, from_fn};
/// use toolwright_orchestrator::Agent;
///
/// /// Say how the weather is.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct GetWeather {
///     city: String,
/// }
///
/// impl Signature for GetWeather {
///     type Output = String;
/// }
///
/// let get_weather = from_fn(async |ask: GetWeather| Ok(format!("Rain in {}.", ask.city)));
/// let agent = Agent::new(SchemaDriven::default(), [Tool::new(get_weather)?])?;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let finished = agent.run("How is the weather?", &Context::default()).await?;
/// assert_eq!(finished.answer, "done");
/// assert_eq!(finished.tools_used, ["get_weather"]);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Agent<O = String> {
    pub(crate) core: Core,
    reader: Reader<O>,
    validators: Validators<Task, O>,
}

/// An [`Agent`], by the name of what it does: it orchestrates a model and its tools.
///
/// ```
/// # use toolwright_module::testing::Scripted;
/// use toolwright_orchestrator::{Agent, ToolOrchestrator};
///
/// let agent: Agent = ToolOrchestrator::new(Scripted::replies([]), [])?;
/// # drop(agent);
/// # Ok::<(), toolwright_orchestrator::RunError>(())
/// ```
pub type ToolOrchestrator<O = String> = Agent<O>;

impl Agent {
    /// Returns an agent with this model and these tools.
    ///
    /// If there are [deferred](Tool::deferred) tools, the model is shown the others and `find_tools`.
    /// It describes there what it needs, and then calls what was found. If there are more tools than
    /// the model's provider accepts in a request, the agent shows the first 16 and defers the others:
    /// put those that most tasks need first. [`losses`](Self::losses) names the deferred ones.
    ///
    /// # Errors
    ///
    /// Two tools have the same name, or the model's provider does not accept one of the tools.
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        Core::new(Arc::new(model), tools.into_iter().collect()).map(Self::answering_with_text)
    }

    fn answering_with_text(core: Core) -> Self {
        Self { core, reader: Reader::Text(|text| text), validators: Validators::default() }
    }

    /// Makes the agent's runs typed: a run ends when the model calls `finish` with an output of this
    /// contract. If an output does not fit, the model gets the faults and calls `finish` again.
    ///
    /// Use it for a schema that is known only at run time; for a type there is
    /// [`answering`](Self::answering). The answer is the text of the output. Read it with
    /// [`Contract::read_output`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::{Value, json};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Contract, Reply, ToolCall};
    /// # use toolwright_orchestrator::Agent;
    /// # let model = Scripted::new(|_| {
    /// #     Ok(Reply::calls([ToolCall::new("1", "finish", r#"{"age": "36"}"#)]))
    /// # });
    /// let output = json!({
    ///     "type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
    /// });
    /// let contract = Contract::dynamic("person", "", json!({"type": "object"}), Some(output))?;
    /// let contract = Arc::new(contract);
    /// let agent = Agent::new(model, [])?.with_output(Arc::clone(&contract))?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let finished = agent.run("How old is Ada?", &Context::default()).await?;
    /// assert_eq!(contract.read_output::<Value>(&finished.answer)?, json!({"age": 36}));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The contract has no output schema, a tool has the name `finish`, or the model's provider does
    /// not accept the schema.
    pub fn with_output(mut self, contract: Arc<Contract>) -> error::Result<Self> {
        self.core.output = Some(contract);
        self.core.choose_deferred()?;
        self.core.lower(|_| ())?;
        Ok(Self::answering_with_text(self.core))
    }
}

impl<O: Send + Sync + 'static> Agent<O> {
    /// Returns this agent with a typed answer: a run ends when the model calls `finish` with a value of
    /// this type. If a value does not fit, the model gets the faults and calls `finish` again.
    ///
    /// The settings are those of this agent, without its validators, which are for its own type of
    /// answer. While the model writes, the event
    /// [`AnswerDelta`](toolwright_module::event::EventKind::AnswerDelta) has each piece of the answer.
    ///
    /// At a limit the model is not asked for a last answer, because prose is not a value. Every ending
    /// but [`Answered`](Ending::Answered) is an error with [`Unfinished`](crate::Unfinished) as its
    /// cause.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Message, Reply, ToolCall};
    /// use toolwright_orchestrator::{Agent, Task};
    ///
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     age: u32,
    /// }
    ///
    /// # let model = Scripted::new(|_| {
    /// #     let person = r#"{"name": "Ada", "age": 36}"#;
    /// #     Ok(Reply::calls([ToolCall::new("1", "finish", person)]))
    /// # });
    /// let agent = Agent::new(model, [])?.answering::<Person>()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let before = [Message::user("Whom do you know?"), Message::assistant("Ada.")];
    /// let task = Task::new("How old is she?").with_history(before);
    /// let finished = agent.run(task, &Context::default()).await?;
    /// assert_eq!(finished.answer.age, 36);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The type has no valid schema, a tool has the name `finish`, or the model's provider does not
    /// accept the schema.
    pub fn answering<T>(&self) -> error::Result<Agent<T>>
    where
        T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static,
    {
        self.answering_by(Arc::new(Contract::of::<Answers<T>>()?))
    }

    /// Returns this agent with the output of a contract as its answer.
    pub(crate) fn answering_by<T>(&self, contract: Arc<Contract>) -> error::Result<Agent<T>>
    where
        T: DeserializeOwned + 'static,
    {
        let mut core = self.core.clone();
        core.output = Some(Arc::clone(&contract));
        // Also because tools keep the contracts of one type of answer.
        core.choose_deferred()?;
        core.lower(|_| ())?;
        let reader = Reader::Output { contract, read: Contract::read_output_with::<T> };
        Ok(Agent { core, reader, validators: Validators::default() })
    }

    /// Replaces the model, for example by one for tests.
    ///
    /// # Errors
    ///
    /// The model's provider does not accept the tools, or the model does not support the agent's
    /// settings.
    pub fn with_model(mut self, model: impl LanguageModel) -> error::Result<Self> {
        self.core.model = Arc::new(model);
        self.core.choose_deferred()?;
        self.core.lower(|_| ())?;
        self.core.check_media()?;
        if let Some(settings) = &self.core.settings {
            settings.check(self.core.model.capabilities().settings)?;
        }
        Ok(self)
    }

    /// Adds a hook around this agent's own model calls and tool calls. Calls below its tools do not
    /// pass it; for these use [`Context::with_hook`].
    ///
    /// The hooks of the context are outside of those of the agent.
    #[must_use]
    pub fn with_hook(mut self, hook: impl Hook) -> Self {
        self.core.hooks = self.core.hooks.iter().cloned().chain([AnyHook::new(hook)]).collect();
        self
    }

    /// Adds a rule for the agent's answer. If the validator returns [`Error::retry`], the model
    /// reads the text and continues; another error ends the drive.
    ///
    /// The validator gets the current task, with the conversation before it, and the answer.
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Error, Reply};
    /// use toolwright_orchestrator::{Agent, Task};
    ///
    /// # let model = Scripted::replies([Reply::text("Perhaps."), Reply::text("Yes.")]);
    /// let agent = Agent::new(model, [])?.with_validator(|_: &Task, answer: &String| {
    ///     match answer.as_str() {
    ///         "Yes." | "No." => Ok(()),
    ///         _ => Err(Error::retry("Answer with `Yes.` or `No.`")),
    ///     }
    /// });
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// assert_eq!(agent.run("Is it late?", &Context::default()).await?.answer, "Yes.");
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_validator(mut self, validator: impl Validator<Task, O>) -> Self {
        self.validators = self.validators.with(validator);
        self
    }

    /// Sets the name for events, spans and errors. Default: `agent`. An agent that is called as a
    /// tool has the tool's name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.core.name = Some(name.into());
        self
    }

    /// Sets which calls wait for a person. Default: none.
    ///
    /// A waiting call is passed to the context's approver. Without an approver, `drive` returns an
    /// error. Store the run then, apply the decision, and drive the run again.
    ///
    /// The policy applies to this agent's own calls. An agent that is a tool has the most severe
    /// effect of its tools, so a call of the whole agent may wait. To approve its single calls,
    /// give it a policy of its own.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Effect, Tool, from_fn};
    /// use toolwright_module::approval::Decision;
    /// use toolwright_module::error::Stage;
    /// # use toolwright_module::{Reply, Signature, ToolCall};
    /// use toolwright_orchestrator::{Agent, ApprovalPolicy, RunState, StepResult};
    ///
    /// # /// Delete everything.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct DeleteAll {}
    /// # impl Signature for DeleteAll { type Output = String; }
    /// # let model = Scripted::replies([
    /// #     Reply::calls([ToolCall::new("call_1", "delete_all", "{}")]),
    /// #     Reply::text("You do not want that."),
    /// # ]);
    /// let delete_all = from_fn(async |_: DeleteAll| Ok("All gone.".to_owned()))
    ///     .with_effect(Effect::Irreversible);
    /// let agent = Agent::new(model, [Tool::new(delete_all)?])?
    ///     .with_approval(ApprovalPolicy::from_effect(Effect::Irreversible))?;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let mut run = agent.start("Tidy up.")?;
    /// let error = agent.drive(&mut run, &Context::default()).await.unwrap_err();
    /// assert_eq!(error.stage(), Stage::Approval);
    /// let stored = serde_json::to_string(&run)?;
    ///
    /// // Later, in another process: a person has denied the call.
    /// let state: RunState = serde_json::from_str(&stored)?;
    /// let mut run = agent.resume(state)?.run;
    /// let step = run.next().number;
    /// run.apply(StepResult::decisions(step, [("call_1", Decision::deny("Keep it."))]))?;
    /// let finished = agent.drive(&mut run, &Context::default()).await?;
    /// assert_eq!(finished.answer, "You do not want that.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`error::RunError::NoSuchTool`] if the policy names a tool that does not exist. Its calls
    /// would not wait.
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> error::Result<Self> {
        self.core.known.check(&policy)?;
        self.core.approval = policy;
        Ok(self)
    }

    /// Sets a rule by which calls wait for a person, beside the [policy](Self::with_approval). It returns
    /// the reason for the person, or `None` for a call that need not wait.
    ///
    /// The rule judges each call of a reply once, before the first of them is made. A call that an
    /// earlier drive of the run began or decided is not judged again. The rule must return the same for
    /// the same run, call and values of the context, because a stored run may be driven again.
    ///
    /// ```
    /// # use serde_json::Value;
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_orchestrator::Agent;
    /// # let model = SchemaDriven::default();
    /// let agent = Agent::new(model, [])?.with_approval_rule(|_run, call, _cx| {
    ///     let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    ///     let amount = arguments["amount"].as_f64().unwrap_or_default();
    ///     (amount > 1000.0).then(|| format!("it pays {amount}, which is more than 1000"))
    /// });
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    #[must_use]
    pub fn with_approval_rule(
        mut self,
        rule: impl Fn(&Run, &ToolCall, &Context) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.core.rule = Some(Arc::new(rule));
        self
    }

    /// Sets a check that decides on calls that wait, before a person is asked. Default: none.
    ///
    /// The check gets the task, the call and the texts of strangers. If it allows or denies the call, that
    /// is the decision, and the name of the check is recorded with it. If it leaves the decision to a person
    /// or fails, the approver is asked, or the call waits. Its cost counts in the run. A call whose outcome
    /// is unknown is not for a check.
    ///
    /// A second model can be misled by the same text as the first one. It is a help for the person, and not
    /// a proof.
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_module::Effect;
    /// use toolwright_orchestrator::{Agent, ApprovalPolicy, CallCheck};
    ///
    /// # let (model, second_model) = (SchemaDriven::default(), SchemaDriven::default());
    /// let agent = Agent::new(model, [])?
    ///     .with_approval(ApprovalPolicy::default().with_after_untrusted(Effect::Idempotent))?
    ///     .with_call_check(CallCheck::of_model("guard", second_model)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_call_check(mut self, check: CallCheck) -> Self {
        self.core.check = Some(check);
        self
    }

    /// Sets how far the arguments of the agent's calls may be repaired. Default:
    /// [`Policy::Coerce`].
    ///
    /// The strictest of three policies applies: this one, that of a tool, and that of the context.
    /// It also applies to agents and predictors below the agent's tools. [`Finished::repaired`](crate::Finished::repaired) and
    /// the event [`ToolFinished`](toolwright_module::event::EventKind::ToolFinished) list the
    /// repairs.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Policy, Reply, Signature, Tool, ToolCall, from_fn};
    /// # use toolwright_orchestrator::Agent;
    /// # /// Wait.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Wait { seconds: u32 }
    /// # impl Signature for Wait { type Output = String; }
    /// # let model = || Scripted::replies([
    /// #     Reply::calls([ToolCall::new("call_1", "wait", r#"{"seconds": "3"}"#)]),
    /// #     Reply::text("Done."),
    /// # ]);
    /// # let wait = || Tool::new(from_fn(async |_: Wait| Ok("Waited.".to_owned())));
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// // The model calls `wait` with {"seconds": "3"}.
    /// let agent = Agent::new(model(), [wait()?])?;
    /// let finished = agent.run("Wait.", &Context::default()).await?;
    /// let repair = &finished.repaired[0].repairs[0];
    /// assert_eq!(repair.to_string(), r#"$.seconds: read the string "3" as the number 3"#);
    ///
    /// let agent = Agent::new(model(), [wait()?])?.with_policy(Policy::Strict);
    /// let finished = agent.run("Wait.", &Context::default()).await?;
    /// assert_eq!(finished.failures.len(), 1);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.core.policy = policy;
        self
    }

    /// Sets how the model requests tools. Default: [`Choosing::Calls`].
    ///
    /// # Errors
    ///
    /// The model's provider does not accept the tools in this form.
    pub fn with_choosing(mut self, choosing: Choosing) -> error::Result<Self> {
        self.core.choosing = choosing;
        self.core.lower(|_| ())?;
        Ok(self)
    }

    /// Sets the limits of new runs. Default: [`Limits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.core.limits = limits;
        self
    }

    /// Adds the tool `read_result`, with which the model reads long results of earlier calls.
    ///
    /// The model gets the first [`max_result_bytes`](Limits::max_result_bytes) of a result. Without this
    /// method, the rest is dropped. With it, the run keeps the whole text, up to
    /// [`max_kept_bytes`](Limits::max_kept_bytes) of all results, and stores it with its history. The
    /// model reads it in pieces, or searches it. The calls count as tool calls. An agent without tools
    /// gets no `read_result`.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Message, Reply, Signature, Tool, ToolCall, from_fn};
    /// use toolwright_orchestrator::{Agent, Limits};
    ///
    /// # /// Read the log.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct ReadLog {}
    /// # impl Signature for ReadLog { type Output = String; }
    /// # let log = format!("{}\nerror: the disk is full\n", "all is well\n".repeat(1000));
    /// # let read_log = Tool::new(from_fn(move |_: ReadLog| {
    /// #     let log = log.clone();
    /// #     async move { Ok(log) }
    /// # }))?;
    /// # let search = r#"{"id": "call_1", "search": "error"}"#;
    /// # let model = Scripted::replies([
    /// #     Reply::calls([ToolCall::new("call_1", "read_log", "{}")]),
    /// #     Reply::calls([ToolCall::new("call_2", "read_result", search)]),
    /// #     Reply::text("The disk is full."),
    /// # ]);
    /// let agent = Agent::new(model, [read_log])?
    ///     .with_limits(Limits { max_result_bytes: 1_000, ..Limits::default() })
    ///     .with_result_reading()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let finished = agent.run("What is wrong?", &Context::default()).await?;
    /// # let texts: Vec<&str> = finished.history.iter().filter_map(|message| match &**message {
    /// #     Message::Tool(result) => Some(&*result.text),
    /// #     _ => None,
    /// # }).collect();
    /// # let note = "bytes are shown; read more with read_result {\"id\": \"call_1\"}]";
    /// # assert!(texts[0].ends_with(note), "{}", texts[0]);
    /// # assert!(texts[1].contains("error: the disk is full"), "{}", texts[1]);
    /// assert_eq!(finished.answer, "The disk is full.");
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`error::RunError::ReservedForReading`], and the errors of [`new`](Self::new).
    pub fn with_result_reading(mut self) -> error::Result<Self> {
        self.core.read_results = true;
        self.core.choose_deferred()?;
        self.core.lower(|_| ())?;
        Ok(self)
    }

    /// Sets the settings of the model calls of new runs, such as the temperature. Default: the
    /// model's own.
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_module::model::{Effort, Settings};
    /// use toolwright_orchestrator::Agent;
    ///
    /// # let model = SchemaDriven::default();
    /// let settings = Settings::default().with_temperature(0.0).with_effort(Effort::Low);
    /// let agent = Agent::new(model, [])?.with_settings(settings)?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`error::RunError::Setting`] if the model does not support one of them.
    /// [`Settings::supported_by`] leaves these out.
    pub fn with_settings(mut self, settings: Settings) -> error::Result<Self> {
        settings.check(self.core.model.capabilities().settings)?;
        self.core.settings = Some(Arc::new(settings));
        Ok(self)
    }

    /// Sets instructions for the model, as its system message.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.core.instructions = Some(instructions.into());
        self
    }

    /// Sets whether the model's replies are streamed if the context has a listener. Default:
    /// `true`.
    #[must_use]
    pub fn with_streaming(mut self, streaming: bool) -> Self {
        self.core.streaming = streaming;
        self
    }

    /// Sets which tools the model may use, for example by the rights of the user, which a
    /// [value](Context::with) of the context can name. The model neither sees nor finds the others.
    ///
    /// The filter is called for each tool before each request. The run records the tools if they
    /// change; see [`Run::offer`]. An agent with a filter defers only the tools that are
    /// [deferred](Tool::deferred), however many it has.
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::Effect;
    /// # use toolwright_orchestrator::Agent;
    /// # let model = SchemaDriven::default();
    /// // In the first three rounds the model can only look around.
    /// let agent = Agent::new(model, [])?
    ///     .with_filter(|run, tool, _| run.iterations() >= 3 || tool.effect() == Effect::Read)?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn with_filter(
        mut self,
        filter: impl Fn(&Run, &Tool, &Context) -> bool + Send + Sync + 'static,
    ) -> error::Result<Self> {
        self.core.filter = Some(Arc::new(filter));
        self.core.choose_deferred()?;
        self.core.lower(|_| ())?;
        Ok(self)
    }

    /// Sets an editor of what is sent, for example to leave out the start of a long conversation.
    ///
    /// The editor is called before each request with the run, which has what would be
    /// [sent](Run::sent) and what is [spent](Run::spent). It returns an edit, or `None` for no change. Later requests are sent with all edits so far; see
    /// [`Run::edit_sent`]. An edit that parts a call from its result ends the drive with an error.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_module::Message;
    /// # use toolwright_orchestrator::Agent;
    /// use toolwright_orchestrator::{Edited, Run};
    ///
    /// // Leave out what was said before the last message of the user.
    /// let is_of_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
    /// let short = move |run: &Run| {
    ///     let sent = run.sent();
    ///     let start = sent.iter().rposition(is_of_user)?;
    ///     (start > 100).then(|| Edited::new(start, [Message::user("[Earlier messages are left out.]")]))
    /// };
    /// # let model = SchemaDriven::default();
    /// let agent = Agent::new(model, [])?.with_editor(short);
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    #[must_use]
    pub fn with_editor(
        mut self,
        editor: impl Fn(&Run) -> Option<Edited> + Send + Sync + 'static,
    ) -> Self {
        self.core.editor = Some(Arc::new(editor));
        self
    }

    /// Sets what gives the next task of a conversation, for conversations whose tasks a program knows.
    ///
    /// Each time the run is about to end, the closure gets the run. If it returns a task, the run
    /// goes on with it, as after [`Run::follow_up`]; with `None` the run ends. The whole conversation
    /// is then one run, also in a journal or a database. A run that has reached the limit of its
    /// budget or of its time ends without the closure.
    ///
    /// A drive from records calls the closure again, so its tasks must depend on the run only. Values
    /// from elsewhere, such as the lines of a user, belong to a new run or into
    /// [`Run::follow_up`].
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Message, Reply};
    /// use toolwright_orchestrator::{Agent, Run, Task};
    ///
    /// let tasks = ["And in Rome?", "And in Oslo?"];
    /// // The first one that is not in the conversation yet.
    /// let next = move |run: &Run| {
    ///     let is_new = |task: &&str| !run.history().contains(&Message::user(*task));
    ///     tasks.into_iter().find(is_new).map(Task::new)
    /// };
    /// # let model = Scripted::new(|_| Ok(Reply::text("Rain.")));
    /// let agent = Agent::new(model, [])?.with_next_task(next);
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let finished = agent.run("How is the weather in Paris?", &Context::default()).await?;
    /// // Three questions, and three answers.
    /// assert_eq!(finished.history.len(), 6);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_next_task(
        mut self,
        next: impl Fn(&Run) -> Option<Task> + Send + Sync + 'static,
    ) -> Self {
        self.core.next_task = Some(Arc::new(next));
        self
    }

    /// Sets by which rules the conversation is shortened before it gets too long for the model.
    /// Default: it is not, and a request that is too long is an error
    /// ([`Error::context_exceeded`](toolwright_module::Error::context_exceeded)).
    ///
    /// See [`Compaction`]. The model can read cleared results again with `read_result`
    /// ([`with_result_reading`](Self::with_result_reading)), unless one of the tools has this name.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::Message;
    /// # use toolwright_module::message::Part;
    /// # use toolwright_orchestrator::Agent;
    /// use toolwright_orchestrator::Compaction;
    ///
    /// // What the user asks to keep is never left out.
    /// let keep = |message: &Message| match message {
    ///     Message::User { parts } => {
    ///         let texts = parts.iter().filter_map(|part| match part {
    ///             Part::Text(text) => Some(text),
    ///             _ => None,
    ///         });
    ///         let lines = texts.flat_map(|text| text.lines());
    ///         lines.filter(|line| line.starts_with("Keep this:")).map(str::to_owned).collect()
    ///     }
    ///     _ => Vec::new(),
    /// };
    /// let compaction = Compaction {
    ///     window: Some(128_000),
    ///     keep: Some(Arc::new(keep)),
    ///     ..Compaction::default()
    /// };
    /// # let model = SchemaDriven::default();
    /// let agent = Agent::new(model, [])?.with_compaction(compaction)?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn with_compaction(mut self, compaction: Compaction) -> error::Result<Self> {
        self.core.compaction = Some(compaction);
        // A tool of the program may have the name. Then the model calls a tool again.
        let is_free = self.core.tools.iter().all(|tool| tool.name() != READ_RESULT);
        self.core.read_results |= is_free;
        self.core.choose_deferred()?;
        self.core.lower(|_| ())?;
        Ok(self)
    }

    /// Returns the rules of the tools' schemas that the model's provider does not support or does
    /// not guarantee, each with the name of its tool.
    ///
    /// The keyword `strict` marks a tool that is sent without the guarantee of a strict dialect:
    /// the dialect does not support its schema, or the request already has too many strict tools.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Contract, Dialect, Effect, Tool, ToolOutput};
    /// use toolwright_module::model::Capabilities;
    /// # use toolwright_module::Reply;
    /// use toolwright_orchestrator::Agent;
    ///
    /// # let model = Scripted::new(|_| Ok(Reply::text("Done.")));
    /// let model = model.with_capabilities(Capabilities::new(Dialect::OpenAiStrict));
    /// let input = json!({"type": "object", "properties": {"value": {}}});
    /// let contract = Contract::dynamic("store", "Store a value.", input, None)?;
    /// let store = Tool::dynamic(contract, Effect::Write, |_, _| async { Ok(ToolOutput::default()) });
    /// let agent = Agent::new(model, [store])?;
    /// let (tool, loss) = &agent.losses()[0];
    /// assert_eq!((tool.as_str(), loss.path.as_str(), loss.keyword.as_str()), ("store", "$.value", "strict"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn losses(&self) -> Vec<(String, Loss)> {
        self.core.losses()
    }

    /// Returns the tools whose calls run one after another, with their effects: all but the reads.
    ///
    /// [`Effect::Write`] is also the effect of a module that declares none. If such a tool only
    /// reads, declare [`Effect::Read`], so that its calls run concurrently.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::{Effect, Signature, Tool, from_fn};
    /// # use toolwright_orchestrator::Agent;
    /// # /// Say the time.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct GetTime {}
    /// # impl Signature for GetTime { type Output = String; }
    /// # let model = SchemaDriven::default;
    /// let get_time = Tool::new(from_fn(async |_: GetTime| Ok("noon".to_owned())))?;
    /// let agent = Agent::new(model(), [get_time.clone()])?;
    /// assert_eq!(agent.sequential_tools(), [("get_time", Effect::Write)]);
    ///
    /// let agent = Agent::new(model(), [get_time.with_effect(Effect::Read)])?;
    /// assert!(agent.sequential_tools().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sequential_tools(&self) -> Vec<(&str, Effect)> {
        self.core.sequential_tools().collect()
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.core.tools
    }

    /// Returns the limits of new runs.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// Returns the contracts and effects of the tools, to store them once per deploy. See
    /// [`ToolSet`].
    #[must_use]
    pub fn tool_set(&self) -> ToolSet {
        self.core.known.tool_set()
    }

    /// Resumes a stored run with the tools and the type of answer of this agent.
    ///
    /// If the tools have changed since the run was stored, the changes are reported. For a full
    /// report, give the state the [`ToolSet`] of that time: [`RunState::with_tool_set`]. If the type of
    /// a typed answer has changed, this is reported too, and the model is asked for the current one.
    ///
    /// # Errors
    ///
    /// The errors of [`Run::resume`], and [`RunError::OtherOutput`](error::RunError::OtherOutput) if
    /// this agent has a typed answer and the run has none.
    pub fn resume(&self, mut state: RunState) -> error::Result<Resumed> {
        let Some(is) = self.output() else {
            return Run::resume_shared(state, Arc::clone(&self.core.known));
        };
        let Some(was) = state.output.replace(Arc::clone(is)) else {
            return Err(error::RunError::OtherOutput { name: is.name().to_owned() });
        };
        let mut resumed = Run::resume_shared(state, Arc::clone(&self.core.known))?;
        if !is_same(is, &was) {
            resumed.changes.push(Change::output(&was, is));
        }
        Ok(resumed)
    }

    /// Returns the contract of a typed answer. `None` if the answer is the model's text. Its name is
    /// that of the type, or of the signature of a [`ReAct`](crate::ReAct).
    #[must_use]
    pub fn output(&self) -> Option<&Arc<Contract>> {
        match &self.reader {
            Reader::Text(_) => None,
            Reader::Output { contract, .. } => Some(contract),
        }
    }

    /// Returns a new run, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// The errors of [`Run::new`] and [`Run::with_choosing`].
    pub fn start(&self, task: impl Into<Task>) -> error::Result<Run> {
        let mut run =
            Run::begin(task.into(), Arc::clone(&self.core.known), self.core.limits.clone())?;
        run.add_approval(&self.core.approval);
        if self.core.choosing != Choosing::default() {
            run = run.with_choosing(self.core.choosing)?;
        }
        if let Some(settings) = &self.core.settings {
            run = run.with_settings(Arc::clone(settings))?;
        }
        if let Some(instructions) = &self.core.instructions {
            run = run.with_instructions(&**instructions);
        }
        if let Some(output) = &self.core.output {
            run = run.with_output(Arc::clone(output))?;
        }
        run.check_model(&*self.core.model)?;
        Ok(run)
    }
}

/// Returns whether two contracts are of the same output.
fn is_same(a: &Arc<Contract>, b: &Arc<Contract>) -> bool {
    Arc::ptr_eq(a, b) || a.fingerprint() == b.fingerprint()
}

impl<O> Clone for Agent<O> {
    fn clone(&self) -> Self {
        let Self { core, reader, validators } = self;
        Self { core: core.clone(), reader: reader.clone(), validators: validators.clone() }
    }
}

impl<O> fmt::Debug for Agent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("model", &self.core.model.name())
            .field("tools", &self.core.tools)
            .field("limits", &self.core.limits)
            .finish_non_exhaustive()
    }
}

/// The caller gets the answer as a text. A typed answer is JSON.
impl<O: Send + Sync + 'static> Module for Agent<O> {
    type Signature = Task;

    async fn call(&self, input: Task, cx: &Context) -> Result<TaskAnswer> {
        if input.task.is_empty() && input.parts.is_empty() && input.history.is_empty() {
            return Err(Error::retry("the task is empty; write what is to be done"));
        }
        let mut run = self.start(input).map(Box::new).map_err(error::RunError::into_module)?;
        let (finished, _) = driving::ended(self.drive_read(&mut run, cx, false).await?)?;
        let limit_reached = finished.ending != Ending::Answered;
        Ok(TaskAnswer { answer: finished.answer, limit_reached })
    }

    /// Returns the most severe effect of the agent's tools.
    fn effect(&self) -> Effect {
        self.core.with_search.iter().map(Tool::effect).max().unwrap_or(Effect::Read)
    }

    fn has_parts(&self) -> bool {
        true
    }
}
