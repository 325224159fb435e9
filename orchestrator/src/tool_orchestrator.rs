use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use std::panic::AssertUnwindSafe;

use futures_util::future::{FutureExt, join_all};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{
    Audience, Context, Error, Event, LanguageModel, Ledger, Message, Module, Result, Stage, Tool,
    ToolCall, ToolResult, Usage,
};
use toolwright_signature::Signature;

use crate::error;
use crate::limits::Limits;
use crate::run::Run;
use crate::step::{Answer, Ending, RunResult, StepKind};
use crate::tools::Tools;

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
    limits: Limits,
    instructions: Option<Arc<str>>,
    streaming: bool,
}

/// A run that came to its end.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// The model's last text.
    pub answer: String,
    /// How the run ended; an answer at a limit is one that the model could not finish.
    pub ending: Ending,
    /// How many rounds of tool calls there were.
    pub iterations: u32,
    /// What all model calls used, those below the tools included.
    pub usage: Usage,
    /// The names of the tools that were called, each once.
    pub tools_used: Vec<String>,
    /// The calls that failed, with all that is known: the model was told less.
    ///
    /// Only those since the run was driven last; a stored run does not keep them.
    pub failures: Vec<ToolFailure>,
    /// The whole conversation.
    pub history: Vec<Arc<Message>>,
}

/// A call that failed, for the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolFailure {
    /// The call.
    pub call: ToolCall,
    /// Why it failed: the whole error as `{:#}` shows it.
    pub error: String,
}

impl Finished {
    fn new(run: &Run, result: RunResult, failures: Vec<ToolFailure>) -> Self {
        Self {
            answer: result.answer,
            ending: result.ending,
            iterations: run.iterations(),
            usage: run.usage(),
            tools_used: run.tools_used().to_vec(),
            failures,
            history: run.history().to_vec(),
        }
    }
}

impl ToolOrchestrator {
    /// An agent of this model and these tools.
    ///
    /// # Errors
    ///
    /// If two tools share a name, or the model's provider cannot be sent one of them:
    /// found here, not at the first call in production.
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        let tools: Arc<[Tool]> = tools.into_iter().collect();
        let known = Tools::of(&*tools)?;
        for contract in &*known.contracts {
            contract.lower(model.capabilities().dialect)?;
        }
        Ok(Self {
            model: Arc::new(model),
            tools,
            known: Arc::new(known),
            limits: Limits::default(),
            instructions: None,
            streaming: true,
        })
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

    /// A run that has not begun, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// As [`Run::new`].
    pub fn start(&self, task: impl Into<String>) -> error::Result<Run> {
        let run = Run::begin(task.into(), Arc::clone(&self.known), self.limits);
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
        let mut run = self.start(task).map_err(error::Error::into_module)?;
        self.drive(&mut run, cx).await
    }

    /// Moves a run on until it is done.
    ///
    /// If it fails, the run is where it was before the step that failed: look at it,
    /// store it, or drive it again.
    ///
    /// # Errors
    ///
    /// What the model's provider fails with; a refusal of the model
    /// ([`Stage::Provider`]); a tool's [`Error::stop`]; cancellation; the context's
    /// deadline ([`Stage::Limit`]). What a tool fails with otherwise is told to the
    /// model and is no error here.
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished> {
        // Models below the tools count here as well as wherever the caller counts.
        let ledger = cx.ledger().map_or_else(Ledger::default, Ledger::below);
        let mut cx = cx.below()?.with_ledger(ledger.clone());
        if cx.model().is_none() {
            cx = cx.with_model(Arc::clone(&self.model));
        }
        let mut failures = Vec::new();
        loop {
            let step = run.next();
            let (started, before) = (Instant::now(), ledger.used());
            let answer = match step.kind {
                StepKind::CallModel(request) => {
                    let asked = cx.ask(&*self.model, request, self.streaming);
                    let reply = in_time(&cx, asked).await;
                    Answer::model(step.number, reply.map_err(|error| cost(run, error))?)
                }
                StepKind::CallTools(calls) => {
                    let called = cx.until_cancelled(self.call_all(&calls, &cx, &mut failures));
                    let results = in_time(&cx, called).await;
                    let results = results.map_err(|error| cost(run, error))?;
                    let nested = ledger.used().since(before);
                    Answer::tools(step.number, results).with_nested_usage(nested)
                }
                StepKind::Done(result) if result.ending == Ending::Refused => {
                    let text = "the model refused the task; its reply says why";
                    return Err(Error::other(text)
                        .at(Stage::Provider)
                        .with_raw(result.answer)
                        .with_usage(run.usage()));
                }
                StepKind::Done(result) => return Ok(Finished::new(run, result, failures)),
            };
            let answer = answer.with_elapsed(started.elapsed());
            run.apply(answer).map_err(error::Error::into_module)?;
            for (call, result) in run.take_own_results() {
                cx.emit(|| Event::ToolStarted { call: call.clone() });
                let error = Some(result.text.clone());
                let elapsed = Duration::ZERO;
                cx.emit(|| Event::ToolFinished { call, text: result.text, error, elapsed });
            }
        }
    }

    /// Calls them side by side. All have ended when this ends: a failing call does
    /// not cancel the others.
    async fn call_all(
        &self,
        calls: &[ToolCall],
        cx: &Context,
        failures: &mut Vec<ToolFailure>,
    ) -> Result<Vec<ToolResult>> {
        if let [only] = calls {
            let (result, failure) = self.call(only, cx).await?;
            failures.extend(failure);
            return Ok(vec![result]);
        }
        // On this task, not on tasks of their own: whoever drops the run drops them.
        let outcomes = join_all(calls.iter().map(|call| self.call(call, cx))).await;
        let mut results = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let (result, failure) = outcome?;
            results.push(result);
            failures.extend(failure);
        }
        Ok(results)
    }

    /// Calls one; an error ends the run.
    async fn call(
        &self,
        call: &ToolCall,
        cx: &Context,
    ) -> Result<(ToolResult, Option<ToolFailure>)> {
        // A tool's own panics are contained in its call. This is for what it leaves
        // behind: an output that panics when dropped, an error that panics when shown.
        let told = AssertUnwindSafe(self.call_and_tell(call, cx)).catch_unwind().await;
        told.unwrap_or_else(|_| {
            let error = Error::other("the tool panicked after its call").at(Stage::Panic);
            let result = ToolResult::failed(call, error.for_model());
            let failure = ToolFailure { call: call.clone(), error: format!("{error:#}") };
            Ok((result, Some(failure)))
        })
    }

    async fn call_and_tell(
        &self,
        call: &ToolCall,
        cx: &Context,
    ) -> Result<(ToolResult, Option<ToolFailure>)> {
        cx.emit(|| Event::ToolStarted { call: call.clone() });
        let started = Instant::now();
        let outcome = match self.known.place(&call.name).and_then(|place| self.tools.get(place)) {
            Some(tool) => tool.call(&call.arguments, cx).await,
            // The run answers calls of unknown tools; a driver of other tools got here.
            None => Err(Error::stop(format!(
                "the run calls `{}`, which is no tool of this orchestrator; drive it with the one that started it",
                call.name,
            ))
            .at(Stage::Setup)),
        };
        let (result, error) = ToolResult::of(call, outcome);
        let text = error.as_ref().map(|error| format!("{error:#}"));
        cx.emit(|| Event::ToolFinished {
            call: call.clone(),
            text: result.text.clone(),
            error: text.clone(),
            elapsed: started.elapsed(),
        });
        match error {
            Some(error) if error.audience() == Audience::Run => Err(error),
            _ => Ok((result, text.map(|error| ToolFailure { call: call.clone(), error }))),
        }
    }
}

/// The error with what the whole run cost before it.
fn cost(run: &Run, error: Error) -> Error {
    let usage = run.usage() + error.usage();
    error.with_usage(usage)
}

/// Waits no longer than the context's deadline.
async fn in_time<T>(cx: &Context, work: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(deadline) = cx.deadline() else {
        return work.await;
    };
    // A timeout lets go first what is ready at once: without this, a model that never
    // waits would never be late.
    let deadline = tokio::time::Instant::from(deadline);
    if tokio::time::Instant::now() < deadline
        && let Ok(result) = tokio::time::timeout_at(deadline, work).await
    {
        return result;
    }
    let text = "the deadline of this call has passed; allow it more time";
    Err(Error::other(text).at(Stage::Limit))
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

/// What came of a [`Task`].
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

    async fn forward(&self, input: Task, cx: &Context) -> Result<TaskAnswer> {
        let finished = self.run(input.task, cx).await?;
        let limit_reached = finished.ending != Ending::Answered;
        Ok(TaskAnswer { answer: finished.answer, limit_reached })
    }
}
