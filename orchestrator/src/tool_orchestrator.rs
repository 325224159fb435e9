//! The agent: a model, its tools and its settings.
mod driving;

use std::fmt;
use std::sync::Arc;

use toolwright_module::event::Ending;
use toolwright_module::hook::{AnyHook, Hook};
use toolwright_module::model::Settings;
use toolwright_module::predict::{Validator, Validators};
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Module, Policy, Result, Tool,
};
use toolwright_signature::{Contract, Loss, Lowered, LoweredRequest, Side};

pub(crate) use self::driving::{ended, text_of, verdict};
use crate::approval_policy::ApprovalPolicy;
use crate::error;
use crate::limits::Limits;
use crate::run::{Edited, Run};
use crate::state::RunState;
use crate::task::{Task, TaskAnswer};
use crate::tool_choosing::Choosing;
use crate::tool_set::{Resumed, ToolSet};
use crate::tools::Tools;

/// An agent: a model that calls tools until it has an answer.
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
/// use toolwright_orchestrator::ToolOrchestrator;
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
/// let agent = ToolOrchestrator::new(SchemaDriven::default(), [Tool::new(get_weather)?])?;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let finished = agent.run("How is the weather?", &Context::default()).await?;
/// assert_eq!(finished.answer, "done");
/// assert_eq!(finished.tools_used, ["get_weather"]);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ToolOrchestrator {
    model: Arc<dyn LanguageModel>,
    tools: Arc<[Tool]>,
    known: Arc<Tools>,
    name: Arc<str>,
    limits: Limits,
    settings: Option<Arc<Settings>>,
    approval: ApprovalPolicy,
    policy: Policy,
    choosing: Choosing,
    instructions: Option<Arc<str>>,
    output: Option<Arc<Contract>>,
    streaming: bool,
    filter: Option<Filter>,
    editor: Option<Editor>,
    hooks: Arc<[AnyHook]>,
    validators: Validators<Task>,
}

/// Decides whether a tool is shown.
type Filter = Arc<dyn Fn(&Run, &Tool) -> bool + Send + Sync>;

/// Edits what is sent.
type Editor = Arc<dyn Fn(&[Arc<Message>]) -> Option<Edited> + Send + Sync>;

impl ToolOrchestrator {
    /// Returns an agent with this model and these tools.
    ///
    /// # Errors
    ///
    /// Two tools have the same name, or the model's provider does not accept one of the tools, or
    /// that number of tools; see [`filtered`](Self::filtered).
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        Self::make(Arc::new(model), tools.into_iter().collect(), None)
    }

    /// Returns an agent with more tools than its model's provider accepts in one request. The filter
    /// chooses the tools of each round, as in [`with_filter`](Self::with_filter).
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # use toolwright_orchestrator::{Run, ToolOrchestrator};
    /// # /// Look something up.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct LookUp {}
    /// # impl Signature for LookUp { type Output = String; }
    /// # let tool = |n: u32| {
    /// #     let tool = Tool::new(from_fn(async |_: LookUp| Ok(String::new()))).unwrap();
    /// #     tool.named(&format!("look_up_{n}")).unwrap()
    /// # };
    /// # let model = SchemaDriven::default();
    /// let tools = (0..1000).map(tool);
    /// let agent = ToolOrchestrator::filtered(model, tools, |run: &Run, tool: &Tool| {
    ///     // Here a program searches for tools that fit the conversation.
    ///     run.history().len() < 5 && tool.name().ends_with("00")
    /// })?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Two tools have the same name, or the model's provider does not accept one of the tools.
    pub fn filtered(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
        filter: impl Fn(&Run, &Tool) -> bool + Send + Sync + 'static,
    ) -> error::Result<Self> {
        Self::make(Arc::new(model), tools.into_iter().collect(), Some(Arc::new(filter)))
    }

    fn make(
        model: Arc<dyn LanguageModel>,
        tools: Arc<[Tool]>,
        filter: Option<Filter>,
    ) -> error::Result<Self> {
        let known = Tools::of(&*tools)?;
        let agent = Self {
            model,
            tools,
            known: Arc::new(known),
            name: "agent".into(),
            limits: Limits::default(),
            settings: None,
            approval: ApprovalPolicy::default(),
            policy: Policy::default(),
            choosing: Choosing::default(),
            instructions: None,
            output: None,
            streaming: true,
            filter,
            editor: None,
            hooks: Arc::default(),
            validators: Validators::default(),
        };
        agent.lower(None, |_| ())?;
        agent.check_media()?;
        agent.note_undeclared();
        Ok(agent)
    }

    /// Replaces the model, for example by one for tests.
    ///
    /// # Errors
    ///
    /// The model's provider does not accept the tools, or the model does not support the agent's
    /// settings.
    pub fn with_model(mut self, model: impl LanguageModel) -> error::Result<Self> {
        self.model = Arc::new(model);
        self.lower(None, |_| ())?;
        self.check_media()?;
        if let Some(settings) = &self.settings {
            settings.check(self.model.capabilities().settings)?;
        }
        Ok(self)
    }

    /// Checks that the model takes the images and files that the tools return.
    fn check_media(&self) -> error::Result<()> {
        let capabilities = self.model.capabilities();
        let contracts = self.tools.iter().map(Tool::contract);
        contracts
            .into_iter()
            .try_for_each(|contract| capabilities.check_media(contract, Side::Output))?;
        Ok(())
    }

    /// Adds a hook around this agent's own model calls and tool calls. Calls below its tools do not
    /// pass it; for these use [`Context::with_hook`].
    ///
    /// The hooks of the context are outside of those of the agent.
    #[must_use]
    pub fn with_hook(mut self, hook: impl Hook) -> Self {
        self.hooks = self.hooks.iter().cloned().chain([AnyHook::new(hook)]).collect();
        self
    }

    pub(crate) fn hooks(&self) -> &[AnyHook] {
        &self.hooks
    }

    /// Adds a rule for the agent's answer. If the validator returns [`Error::retry`], the model
    /// reads the text and continues; another error ends the drive.
    ///
    /// The validator gets the text of the current task.
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Error, Reply};
    /// use toolwright_orchestrator::{Task, TaskAnswer, ToolOrchestrator};
    ///
    /// # let model = Scripted::replies([Reply::text("Perhaps."), Reply::text("Yes.")]);
    /// let agent = ToolOrchestrator::new(model, [])?.with_validator(|_: &Task, said: &TaskAnswer| {
    ///     match said.answer.as_str() {
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
    pub fn with_validator(mut self, validator: impl Validator<Task>) -> Self {
        self.validators = self.validators.with(validator);
        self
    }

    /// Sets the name for events, spans and errors. Default: `agent`. An agent that is called as a
    /// tool has the tool's name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
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
    /// use toolwright_orchestrator::{ApprovalPolicy, RunState, StepResult, ToolOrchestrator};
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
    /// let agent = ToolOrchestrator::new(model, [Tool::new(delete_all)?])?
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
        self.known.check(&policy)?;
        self.approval = policy;
        Ok(self)
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
    /// # use toolwright_orchestrator::ToolOrchestrator;
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
    /// let agent = ToolOrchestrator::new(model(), [wait()?])?;
    /// let finished = agent.run("Wait.", &Context::default()).await?;
    /// let repair = &finished.repaired[0].repairs[0];
    /// assert_eq!(repair.to_string(), r#"$.seconds: read the string "3" as the number 3"#);
    ///
    /// let agent = ToolOrchestrator::new(model(), [wait()?])?.with_policy(Policy::Strict);
    /// let finished = agent.run("Wait.", &Context::default()).await?;
    /// assert_eq!(finished.failures.len(), 1);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns how far the arguments of the agent's calls may be repaired.
    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Sets how the model requests tools. Default: [`Choosing::Calls`].
    ///
    /// # Errors
    ///
    /// The model's provider does not accept the tools in this form.
    pub fn with_choosing(mut self, choosing: Choosing) -> error::Result<Self> {
        self.choosing = choosing;
        self.lower(None, |_| ())?;
        Ok(self)
    }

    /// Sets the limits of new runs. Default: [`Limits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the settings of the model calls of new runs, such as the temperature. Default: the
    /// model's own.
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_module::model::{Effort, Settings};
    /// use toolwright_orchestrator::ToolOrchestrator;
    ///
    /// # let model = SchemaDriven::default();
    /// let settings = Settings::default().with_temperature(0.0).with_effort(Effort::Low);
    /// let agent = ToolOrchestrator::new(model, [])?.with_settings(settings)?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`error::RunError::Setting`] if the model does not support one of them.
    /// [`Settings::supported_by`] leaves these out.
    pub fn with_settings(mut self, settings: Settings) -> error::Result<Self> {
        settings.check(self.model.capabilities().settings)?;
        self.settings = Some(Arc::new(settings));
        Ok(self)
    }

    /// Sets instructions for the model, as its system message.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Makes the agent's runs typed: a run ends when the model calls `finish` with an output of this
    /// contract. If an output does not fit, the model gets the faults and calls `finish` again.
    ///
    /// Use it for a schema that is known only at run time, or for the output of a type if the task is
    /// a text: `Contract::of::<S>()`. If the task is the input of a signature too, use
    /// [`ReAct`](crate::ReAct).
    ///
    /// The answer is the text of the output. Read it with [`Contract::read_output`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::{Value, json};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Contract, Reply, ToolCall};
    /// # use toolwright_orchestrator::ToolOrchestrator;
    /// # let model = Scripted::new(|_| {
    /// #     Ok(Reply::calls([ToolCall::new("1", "finish", r#"{"age": "36"}"#)]))
    /// # });
    /// let output = json!({
    ///     "type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
    /// });
    /// let contract = Contract::dynamic("person", "", json!({"type": "object"}), Some(output))?;
    /// let contract = Arc::new(contract);
    /// let agent = ToolOrchestrator::new(model, [])?.with_output(Arc::clone(&contract))?;
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
        self.lower(Some(&contract), |_| ())?;
        self.output = Some(contract);
        Ok(self)
    }

    /// Sets whether the model's replies are streamed if the context has a listener. Default:
    /// `true`.
    #[must_use]
    pub fn with_streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Sets which tools the model is shown, for example by the rights of the user.
    ///
    /// The filter is called for each tool before each question. The run records the tools if they
    /// change; see [`Run::offer`].
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::Effect;
    /// # use toolwright_orchestrator::ToolOrchestrator;
    /// # let model = SchemaDriven::default();
    /// // In the first three rounds the model can only look around.
    /// let agent = ToolOrchestrator::new(model, [])?
    ///     .with_filter(|run, tool| run.iterations() >= 3 || tool.effect() == Effect::Read);
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    #[must_use]
    pub fn with_filter(
        mut self,
        filter: impl Fn(&Run, &Tool) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Sets an editor of what is sent, for example to leave out the start of a long conversation.
    ///
    /// The editor is called before each question with what would be sent. It returns an edit, or
    /// `None` for no change. Later questions are sent with all edits so far; see
    /// [`Run::edit_sent`]. An edit that parts a call from its result ends the drive with an error.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_module::Message;
    /// # use toolwright_orchestrator::ToolOrchestrator;
    /// use toolwright_orchestrator::Edited;
    ///
    /// // Leave out what was said before the last message of the user.
    /// let is_of_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
    /// let short = move |sent: &[Arc<Message>]| {
    ///     let start = sent.iter().rposition(is_of_user)?;
    ///     (start > 100).then(|| Edited::new(start, [Message::user("[Earlier messages are left out.]")]))
    /// };
    /// # let model = SchemaDriven::default();
    /// let agent = ToolOrchestrator::new(model, [])?.with_editor(short);
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    #[must_use]
    pub fn with_editor(
        mut self,
        editor: impl Fn(&[Arc<Message>]) -> Option<Edited> + Send + Sync + 'static,
    ) -> Self {
        self.editor = Some(Arc::new(editor));
        self
    }

    /// Returns whether there is a filter or an editor for [`prepare`](Self::prepare).
    pub(crate) fn prepares(&self) -> bool {
        self.filter.is_some() || self.editor.is_some()
    }

    /// Applies the filter and the editor before a question to the model.
    pub(crate) fn prepare(&self, run: &mut Run) -> error::Result<()> {
        if let Some(filter) = &self.filter {
            let shown = self.tools.iter().filter(|tool| filter(run, tool)).map(Tool::name);
            let shown: Vec<&str> = shown.collect();
            if !run.offered().eq(shown.iter().copied()) {
                run.offer(shown)?;
            }
        }
        let edited = self.editor.as_ref().and_then(|editor| editor(&run.sent()));
        edited.map_or(Ok(()), |Edited { replaced, by, .. }| run.edit_sent(replaced, by))
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
    /// use toolwright_orchestrator::ToolOrchestrator;
    ///
    /// # let model = Scripted::new(|_| Ok(Reply::text("Done.")));
    /// let model = model.with_capabilities(Capabilities::new(Dialect::OpenAiStrict));
    /// let input = json!({"type": "object", "properties": {"value": {}}});
    /// let contract = Contract::dynamic("store", "Store a value.", input, None)?;
    /// let store = Tool::dynamic(contract, Effect::Write, |_, _| async { Ok(ToolOutput::default()) });
    /// let agent = ToolOrchestrator::new(model, [store])?;
    /// let (tool, loss) = &agent.losses()[0];
    /// assert_eq!((tool.as_str(), loss.path.as_str(), loss.keyword.as_str()), ("store", "$.value", "strict"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn losses(&self) -> Vec<(String, Loss)> {
        self.losses_with(None)
    }

    /// Like [`losses`](Self::losses), for a run with a typed output.
    pub(crate) fn losses_with(&self, output: Option<&Arc<Contract>>) -> Vec<(String, Loss)> {
        let mut losses = Vec::new();
        // The constructor has rejected schemas that cannot be lowered.
        let _ = self.lower(output, |(contract, lowered)| {
            for loss in &lowered.losses {
                let loss = (contract.name().to_owned(), loss.clone());
                // Several dialects may lose the same.
                if !losses.contains(&loss) {
                    losses.push(loss);
                }
            }
        });
        losses
    }

    /// Lowers every schema of the agent's requests.
    pub(crate) fn lower(
        &self,
        output: Option<&Arc<Contract>>,
        mut each: impl FnMut((&Contract, &Lowered)),
    ) -> error::Result<()> {
        let contracts = match output {
            Some(output) => self.known.typed(Arc::clone(&self.known.contracts), output)?,
            None => Arc::clone(&self.known.contracts),
        };
        for dialect in self.model.capabilities().dialects() {
            if self.choosing == Choosing::Selector {
                let selector = self.known.selector(&contracts, output.map(|output| &**output))?;
                each((&selector.asked, selector.asked.lower_output(dialect)?));
            } else if self.filter.is_some() {
                // A request has only some of the tools.
                for contract in &*contracts {
                    each((contract, contract.lower(dialect)?));
                }
            } else {
                let lowered = LoweredRequest::new(dialect, &*contracts, None)?;
                contracts.iter().map(|contract| &**contract).zip(lowered.tools).for_each(&mut each);
            }
        }
        Ok(())
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
    /// # use toolwright_orchestrator::ToolOrchestrator;
    /// # /// Say the time.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct GetTime {}
    /// # impl Signature for GetTime { type Output = String; }
    /// # let model = SchemaDriven::default;
    /// let get_time = Tool::new(from_fn(async |_: GetTime| Ok("noon".to_owned())))?;
    /// let agent = ToolOrchestrator::new(model(), [get_time.clone()])?;
    /// assert_eq!(agent.sequential_tools(), [("get_time", Effect::Write)]);
    ///
    /// let agent = ToolOrchestrator::new(model(), [get_time.with_effect(Effect::Read)])?;
    /// assert!(agent.sequential_tools().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sequential_tools(&self) -> Vec<(&str, Effect)> {
        let tools = self.tools.iter().map(|tool| (tool.name(), tool.effect()));
        tools.filter(|(_, effect)| *effect != Effect::Read).collect()
    }

    /// Tells which tools may have no declared effect.
    fn note_undeclared(&self) {
        let tools = self.sequential_tools().into_iter();
        let writes = tools.filter(|(_, effect)| *effect == Effect::Write).map(|(name, _)| name);
        let writes: Vec<&str> = writes.collect();
        if !writes.is_empty() {
            tracing::info!(
                tools = writes.join(", "),
                "calls of these tools run one after another, because their effect is `Write`, the default; declare `Effect::Read` for those that only read"
            );
        }
    }

    /// Returns the agent's model.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn LanguageModel> {
        &self.model
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns the limits of new runs.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the contracts and effects of the tools, to store them once per deploy. See
    /// [`ToolSet`].
    #[must_use]
    pub fn tool_set(&self) -> ToolSet {
        self.known.tool_set()
    }

    /// Resumes a stored run with the tools of this agent.
    ///
    /// If the tools have changed since the run was stored, the changes are reported. For a full
    /// report, give the state the [`ToolSet`] of that time: [`RunState::with_tool_set`].
    ///
    /// # Errors
    ///
    /// The errors of [`Run::resume`].
    pub fn resume(&self, state: RunState) -> error::Result<Resumed> {
        Run::resume_shared(state, Arc::clone(&self.known))
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(self.known.place(name)?)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn streams(&self) -> bool {
        self.streaming
    }

    /// Returns a new run, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// The errors of [`Run::new`] and [`Run::with_choosing`].
    pub fn start(&self, task: impl Into<Task>) -> error::Result<Run> {
        let mut run = Run::begin(task.into(), Arc::clone(&self.known), self.limits.clone())?;
        run.add_approval(&self.approval);
        if self.choosing != Choosing::default() {
            run = run.with_choosing(self.choosing)?;
        }
        if let Some(settings) = &self.settings {
            run = run.with_settings(Arc::clone(settings))?;
        }
        if let Some(instructions) = &self.instructions {
            run = run.with_instructions(&**instructions);
        }
        if let Some(output) = &self.output {
            run = run.with_output(Arc::clone(output))?;
        }
        run.check_model(&*self.model)?;
        Ok(run)
    }
}

impl fmt::Debug for ToolOrchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolOrchestrator")
            .field("model", &self.model.name())
            .field("tools", &self.tools)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Module for ToolOrchestrator {
    type Signature = Task;

    async fn call(&self, input: Task, cx: &Context) -> Result<TaskAnswer> {
        if input.task.is_empty() && input.parts.is_empty() && input.history.is_empty() {
            return Err(Error::retry("the task is empty; write what is to be done"));
        }
        let finished = self.run(input, cx).await?;
        let limit_reached = finished.ending != Ending::Answered;
        Ok(TaskAnswer { answer: finished.answer, limit_reached })
    }

    /// Returns the most severe effect of the agent's tools.
    fn effect(&self) -> Effect {
        self.tools.iter().map(Tool::effect).max().unwrap_or(Effect::Read)
    }

    fn has_parts(&self) -> bool {
        true
    }
}
