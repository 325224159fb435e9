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
use crate::choosing::Choosing;
use crate::driver::{Driver, Judge, Verdict};
use crate::error;
use crate::finished::Finished;
use crate::limits::Limits;
use crate::run::Run;
use crate::run_stream::RunStream;
use crate::telemetry;
use crate::tools::Tools;
use crate::unfinished::Unfinished;

/// An agent: a model that calls tools until it has an answer.
///
/// It drives a [`Run`] on tokio, with its timer where a context has a deadline. Reads of one turn run side by side, everything else
/// in the model's order; what a tool fails with is told to the model, which goes on.
/// Its text is streamed where somebody listens to the context's events.
///
/// It is a [`Module`] itself, so an agent can be a tool of another one.
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
    /// An agent of this model and these tools.
    ///
    /// # Errors
    ///
    /// If two tools share a name, or the model's provider cannot be sent one of them, or so
    /// many of them: found here, not at the first call in production.
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

    /// The same agent under another name, for events, spans and errors; `agent` unless
    /// said. Called as a tool, it goes by the tool's.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// The same agent, whose calls wait for a person as `policy` says.
    ///
    /// A call that waits is put to the context's approver. Without one the run ends in
    /// an error, for now: store it, decide, drive it on.
    ///
    /// The policy is for this agent's own calls. An agent below it has the effect of the
    /// heaviest of its tools, so a call of the whole agent waits; for its single calls to
    /// wait, give it a policy of its own.
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
    /// // Later, in another process: a person has said no.
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
    /// [`error::RunError::NoSuchTool`] if the policy names one: its calls would not wait.
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> error::Result<Self> {
        self.known.check(&policy)?;
        self.approval = policy;
        Ok(self)
    }

    /// Sets how far the arguments of the agent's calls may be repaired. Default:
    /// [`Policy::Coerce`].
    ///
    /// The strictest policy holds of those that are set: here, on a tool, and on the
    /// context. It holds for agents and predictors below the agent's tools too.
    /// [`Finished::repaired`] and the event
    /// [`ToolFinished`](toolwright_module::event::EventKind::ToolFinished) list what was repaired.
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

    /// How far the arguments of the agent's calls may be repaired.
    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// The same agent, whose model chooses tools in another way.
    ///
    /// # Errors
    ///
    /// If the model's provider cannot be sent the tools in that way.
    pub fn with_choosing(mut self, choosing: Choosing) -> error::Result<Self> {
        self.choosing = choosing;
        self.lower(None, |_| ())?;
        Ok(self)
    }

    /// The same agent with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same agent, told how to go about its tasks.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Whether the model's replies are streamed where somebody listens: yes, unless
    /// said.
    #[must_use]
    pub fn with_streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// What the model's provider cannot be told of the tools, or not held to, each with the
    /// name of its tool.
    ///
    /// The keyword `strict` marks a tool that is sent without the guarantee of a strict
    /// dialect, because the dialect cannot say its schema or the request has no room for it.
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

    /// The same of a run that ends with an output.
    pub(crate) fn losses_with(&self, output: Option<&Contract>) -> Vec<(String, Loss)> {
        let mut losses = Vec::new();
        // What cannot be lowered at all was refused when the agent was made.
        let _ = self.lower(output, |(contract, lowered)| {
            let name = contract.name();
            losses.extend(lowered.losses.iter().map(|loss| (name.to_owned(), loss.clone())));
        });
        losses
    }

    /// Lowers everything that a request of this agent has a schema of.
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

    /// The agent's model.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn LanguageModel> {
        &self.model
    }

    /// The agent's tools.
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

    /// A run that has not begun, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// As [`Run::new`] and [`Run::with_choosing`].
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
    /// As [`drive`](Self::drive).
    pub async fn run(&self, task: impl Into<String>, cx: &Context) -> Result<Finished> {
        let mut run = self.start(task).map_err(error::RunError::into_module)?;
        self.drive(&mut run, cx).await
    }

    /// The same as a stream of what happens, the end included.
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
    /// Its errors are those of [`drive`](Self::drive). To keep the run itself, drive it
    /// with a context whose events go into a channel of yours.
    #[must_use]
    pub fn stream(&self, task: impl Into<String>, cx: &Context) -> RunStream {
        let (agent, task) = (self.clone(), task.into());
        RunStream::new(cx.clone(), |cx| async move { agent.run(task, &cx).await })
    }

    /// Moves a run on until it is done.
    ///
    /// If it fails, the run is where it was before the step that failed: look at it,
    /// store it, or drive it again. A call that was under way then is made again.
    ///
    /// A tool that keeps its thread (a long computation, a lock, `std::fs`) cannot be
    /// stopped, by no deadline: nothing else runs until it gives way. That is told with
    /// [`EventKind::ToolBlocked`](toolwright_module::event::EventKind::ToolBlocked); move such
    /// work to `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    ///
    /// What the model's provider fails with; a refusal of the model and a reason to stop
    /// that this version does not know ([`Stage::Provider`]), and a model that got stuck ([`Stage::Limit`]), both with
    /// [`Unfinished`] for a cause; a call that waits for a person where there is no
    /// approver ([`Stage::Approval`], [`AwaitsApproval`](crate::AwaitsApproval)); a
    /// tool's [`Error::stop`]; cancellation; the context's deadline and a ledger of the
    /// context that has too little left ([`Stage::Limit`]). What a tool fails with
    /// otherwise is told to the model and is no error here; a limit of the run itself is
    /// an [`Ending`].
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

    /// The same, with every ending that there is; what `judge` says of an answer that it
    /// does not take is told to the model.
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
        run.hold_to(&self.approval);
        let mut driver = Driver::new(self, name, run, below);
        // Boxed: agents below agents would need a stack of their own otherwise.
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

    fn render(output: &TaskAnswer) -> toolwright_signature::Result<String> {
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

    /// What the heaviest of its tools does: whoever calls the agent may come to that.
    fn effect(&self) -> Effect {
        self.tools.iter().map(Tool::effect).max().unwrap_or(Effect::Read)
    }
}
