//! The agent: a model, its tools and its settings.
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::driver;
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::{Context, Effect, LanguageModel, Module, Policy, Result, Tool};
use toolwright_signature::{Contract, Loss, Lowered, LoweredRequest, Signature};
use tracing::Instrument;

use crate::approval_policy::ApprovalPolicy;
use crate::driver::{Driver, Judge, Verdict};
use crate::error;
use crate::finished::Finished;
use crate::limits::Limits;
use crate::run::Run;
use crate::run_stream::RunStream;
use crate::telemetry;
use crate::tool_choosing::Choosing;
use crate::tools::Tools;
use crate::unfinished::Unfinished;

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
    approval: ApprovalPolicy,
    policy: Policy,
    choosing: Choosing,
    instructions: Option<Arc<str>>,
    streaming: bool,
}

impl ToolOrchestrator {
    /// Returns an agent with this model and these tools.
    ///
    /// # Errors
    ///
    /// Two tools have the same name, or the model's provider does not accept one of the tools, or
    /// that number of tools.
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        let tools: Arc<[Tool]> = tools.into_iter().collect();
        let known = Tools::of(&*tools)?;
        LoweredRequest::new(model.capabilities().dialect, &*known.contracts, None)?;
        Ok(Self {
            model: Arc::new(model),
            tools,
            known: Arc::new(known),
            name: "agent".into(),
            limits: Limits::default(),
            approval: ApprovalPolicy::default(),
            policy: Policy::default(),
            choosing: Choosing::default(),
            instructions: None,
            streaming: true,
        })
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
    /// use toolwright_orchestrator::{StepResult, ApprovalPolicy, Run, RunState, ToolOrchestrator};
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
    /// let mut run = Run::resume(state, agent.tools())?;
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
    /// It also applies to agents and predictors below the agent's tools. [`Finished::repaired`] and
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

    /// Sets instructions for the model, as its system message.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets whether the model's replies are streamed if the context has a listener. Default:
    /// `true`.
    #[must_use]
    pub fn with_streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
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
    pub(crate) fn losses_with(&self, output: Option<&Contract>) -> Vec<(String, Loss)> {
        let mut losses = Vec::new();
        // The constructor has rejected schemas that cannot be lowered.
        let _ = self.lower(output, |(contract, lowered)| {
            let name = contract.name();
            losses.extend(lowered.losses.iter().map(|loss| (name.to_owned(), loss.clone())));
        });
        losses
    }

    /// Lowers every schema of the agent's requests.
    pub(crate) fn lower(
        &self,
        output: Option<&Contract>,
        mut each: impl FnMut((&Contract, &Lowered)),
    ) -> error::Result<()> {
        let dialect = self.model.capabilities().dialect;
        let contracts = match output {
            Some(output) => self.known.typed(output)?,
            None => Arc::clone(&self.known.contracts),
        };
        if self.choosing == Choosing::Selector {
            let selector = self.known.selector(&contracts, output)?;
            each((&selector.asked, selector.asked.lower_output(dialect)?));
            return Ok(());
        }
        let lowered = LoweredRequest::new(dialect, &*contracts, None)?;
        contracts.iter().map(|contract| &**contract).zip(lowered.tools).for_each(each);
        Ok(())
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

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(self.known.place(name)?)
    }

    pub(crate) fn streams(&self) -> bool {
        self.streaming
    }

    /// Returns a new run, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// The errors of [`Run::new`] and [`Run::with_choosing`].
    pub fn start(&self, task: impl Into<String>) -> error::Result<Run> {
        let run = Run::begin(task.into(), Arc::clone(&self.known), self.limits)
            .with_approval(self.approval.clone())?
            .with_choosing(self.choosing)?;
        Ok(match &self.instructions {
            Some(instructions) => run.with_instructions(&**instructions),
            None => run,
        })
    }

    /// Runs a task to its end.
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::{Ending, ToolOrchestrator};
    /// # let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
    /// let agent = ToolOrchestrator::new(model, [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let finished = agent.run("Say hello.", &Context::default()).await?;
    /// assert_eq!((finished.answer.as_str(), finished.ending), ("Hello.", Ending::Answered));
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`drive`](Self::drive).
    pub async fn run(&self, task: impl Into<String>, cx: &Context) -> Result<Finished> {
        let mut run = self.start(task).map_err(error::RunError::into_module)?;
        self.drive(&mut run, cx).await
    }

    /// Runs a task as a stream of its events, with the result at the end.
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_module::event::EventKind;
    /// use toolwright_orchestrator::{Progress, ToolOrchestrator};
    ///
    /// # let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
    /// let agent = ToolOrchestrator::new(model, [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let mut stream = agent.stream("Say hello.", &Context::default());
    /// let mut seen = String::new();
    /// while let Some(progress) = stream.next().await {
    ///     match progress? {
    ///         Progress::Event(event) => {
    ///             if let EventKind::TextDelta { text } = event.kind {
    ///                 seen.push_str(&text);
    ///             }
    ///         }
    ///         Progress::Finished(finished) => assert_eq!(finished.answer, seen),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Its errors are those of [`drive`](Self::drive). To keep the run itself, call `drive` with a
    /// context whose listener sends the events to a channel.
    #[must_use]
    pub fn stream(&self, task: impl Into<String>, cx: &Context) -> RunStream {
        let (agent, task) = (self.clone(), task.into());
        RunStream::new(cx.clone(), |cx| async move { agent.run(task, &cx).await })
    }

    /// Drives a run until it is done.
    ///
    /// If it fails, the run is at the step that failed. You can inspect it, store it, or drive it
    /// again. A call that was in progress is then made again.
    ///
    /// A tool that blocks its thread (a long computation, a lock, `std::fs`) cannot be interrupted,
    /// not even by a deadline, and no other task runs on the thread. The event
    /// [`EventKind::ToolBlocked`](toolwright_module::event::EventKind::ToolBlocked) reports such a
    /// tool. Move its work to `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    ///
    /// - An error of the model's provider.
    /// - [`Stage::Provider`] with [`Unfinished`] as its cause: the model refused, or stopped for a
    ///   reason that this version does not know.
    /// - [`Stage::Limit`] with [`Unfinished`] as its cause: the model repeated the same mistake too
    ///   often.
    /// - [`Stage::Approval`] with [`AwaitsApproval`](crate::AwaitsApproval) as its cause: a call
    ///   waits for a person, and there is no approver.
    /// - [`Stage::Limit`]: the context's deadline passed, or a ledger of the context has too little
    ///   left.
    /// - A cancellation, and a tool's [`Error::stop`].
    ///
    /// Other errors of tools are sent to the model. A limit of the run itself is an [`Ending`].
    ///
    /// [`Error::stop`]: toolwright_module::Error::stop
    /// [`Stage::Provider`]: toolwright_module::error::Stage::Provider
    /// [`Stage::Limit`]: toolwright_module::error::Stage::Limit
    /// [`Stage::Approval`]: toolwright_module::error::Stage::Approval
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished> {
        let finished = self.drive_on(run, cx, &mut |_| Verdict::Taken(None)).await?;
        match finished.ending {
            Ending::Refused | Ending::Stuck | Ending::Unclear => {
                Err(Unfinished::error(cx.tool().unwrap_or(&self.name), finished))
            }
            _ => Ok(finished),
        }
    }

    /// Drives a run and returns every ending. If `judge` rejects an answer, the model gets its
    /// reason.
    pub(crate) async fn drive_on(
        &self,
        run: &mut Run,
        cx: &Context,
        judge: Judge<'_>,
    ) -> Result<Finished> {
        let name = cx.tool().unwrap_or(&self.name);
        let below = driver::nested(cx)?;
        let span = telemetry::invoke_agent(name, self.model.name(), self.model.provider());
        cx.emit(|| EventKind::Started { agent: name.to_owned(), step: run.step() });
        run.check_tools(&self.known).map_err(error::RunError::into_module)?;
        run.add_approval(&self.approval);
        let mut driver = Driver::new(self, name, run, below);
        // Boxed, because agents below agents would otherwise use too much of the stack.
        let driven = Box::pin(driver.drive(judge));
        let result = driven.instrument(span.clone()).await;
        let failures = std::mem::take(&mut driver.failures);
        drop(driver);
        span.record("gen_ai.usage.input_tokens", run.spent().usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", run.spent().usage.output_tokens);
        match result {
            Ok(result) => {
                if let Some(limit) = result.limit {
                    let reason = format!("`{name}` has reached its limit of {limit}");
                    cx.emit(|| EventKind::LimitReached { limit, reason });
                }
                cx.emit(|| EventKind::Done {
                    answer: result.answer.clone(),
                    ending: result.ending,
                });
                Ok(Finished::new(run, result, failures))
            }
            Err(error) => {
                telemetry::failed(&span, &error);
                cx.emit(|| EventKind::Failed {
                    stage: error.stage(),
                    error: run.limits().cut_error(format!("{error:#}")),
                });
                Err(error)
            }
        }
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

// The model reads these comments, and a stored run has the fingerprint of the schema: a change
// would keep runs of earlier versions from being resumed.

/// Carry out a task with tools of your own and tell what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// What is to be done, with everything that must be known for it.
    pub task: String,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAnswer {
    /// What the agent answered.
    pub answer: String,
    /// Whether it ran into a limit, so that the answer is not complete.
    pub limit_reached: bool,
}

impl Signature for Task {
    type Output = TaskAnswer;

    fn render(output: &TaskAnswer) -> Result<String, toolwright_signature::ContractError> {
        let note: Cow<'_, str> = if output.limit_reached {
            "\n(A limit was reached: this answer may not be complete.)".into()
        } else {
            "".into()
        };
        Ok(format!("{}{note}", output.answer))
    }
}

impl Module for ToolOrchestrator {
    type Signature = Task;

    async fn call(&self, input: Task, cx: &Context) -> Result<TaskAnswer> {
        let finished = self.run(input.task, cx).await?;
        let limit_reached = finished.ending != Ending::Answered;
        Ok(TaskAnswer { answer: finished.answer, limit_reached })
    }

    /// Returns the most severe effect of the agent's tools.
    fn effect(&self) -> Effect {
        self.tools.iter().map(Tool::effect).max().unwrap_or(Effect::Read)
    }
}
