//! The ReAct module: an agent with a typed input and output.
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::Value;
use toolwright_module::driver;
use toolwright_module::error::Stage;
use toolwright_module::event::Ending;
use toolwright_module::hook::Hook;
use toolwright_module::model::{BoxFuture, Settings};
use toolwright_module::predict::{Example, Validator, Validators};
use toolwright_module::{
    Context, Dialect, Effect, Error, LanguageModel, Message, Module, Policy, Repaired, Result, Tool,
};
use toolwright_signature::{Contract, ContractError, Loss, Signature};

use crate::approval_policy::ApprovalPolicy;
use crate::driver::{AfterStep, Judge, Verdict};
use crate::error;
use crate::finished::Finished;
use crate::limits::Limits;
use crate::run::{Edited, Run};
use crate::run_stream::RunStream;
use crate::state::RunState;
use crate::task::Task;
use crate::tool_choosing::Choosing;
use crate::tool_orchestrator::{ToolOrchestrator, ended, text_of, verdict};
use crate::tool_set::{Change, Resumed, ToolSet};
use crate::unfinished::Unfinished;

/// A module whose model uses tools to produce the typed output of a signature.
///
/// The model ends the run by calling `finish` with the output. An output that does not fit is sent
/// back with its faults. At a limit the model is not asked for a last answer, because prose is not
/// an output. The run then fails with [`Unfinished`].
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Reply, Signature, ToolCall};
/// use toolwright_orchestrator::ReAct;
///
/// /// Answer a question.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Ask {
///     question: String,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Answer {
///     answer: String,
///     certain: bool,
/// }
///
/// impl Signature for Ask {
///     type Output = Answer;
/// }
///
/// # let model = Scripted::new(|_| {
/// #     let output = r#"{"answer": "Rome", "certain": true}"#;
/// #     Ok(Reply::calls([ToolCall::new("1", "finish", output)]))
/// # });
/// let agent = ReAct::<Ask>::new(model, [])?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let ask = Ask { question: "What is the capital of Italy?".to_owned() };
/// let finished = agent.run(ask, &Context::default()).await?;
/// assert_eq!(finished.answer.answer, "Rome");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReAct<S: Signature> {
    orchestrator: ToolOrchestrator,
    contract: Arc<Contract>,
    /// The signature and the examples, for the system message.
    prompt: Arc<str>,
    /// The caller's instructions after the prompt.
    instructions: Option<Arc<str>>,
    /// The inputs and outputs of the examples, as JSON.
    examples: Arc<[(String, Value)]>,
    validators: Validators<S>,
}

/// Makes methods that set the same on the agent inside.
macro_rules! set_on_the_agent {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $value: $type) -> Self {
            self.orchestrator = self.orchestrator.$name($value);
            self
        }
    )*};
}

impl<S: Signature> ReAct<S> {
    /// Returns an agent with this model and these tools.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::new`], or the model's provider does not accept the output
    /// schema.
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        let contract = Arc::new(Contract::of::<S>()?);
        let orchestrator = ToolOrchestrator::new(model, tools)?.with_name(contract.name());
        let (prompt, instructions, examples) = ("".into(), None, Arc::default());
        let validators = Validators::default();
        Self { orchestrator, contract, prompt, instructions, examples, validators }.checked()
    }

    /// Checks that the model's provider accepts the output schema, and writes the prompt.
    fn checked(mut self) -> error::Result<Self> {
        self.orchestrator.lower(Some(&self.contract), |_| ())?;
        let mut text = format!(
            "{}\n\nThe task is JSON of this schema:\n{}\n\nUse the tools as you need them. Call `finish` with the answer once you know it.",
            self.contract.description(),
            self.contract.input(),
        );
        if !self.examples.is_empty() {
            text.push_str("\n\nExamples of tasks, each with its answer for `finish`:");
        }
        let dialect = self.orchestrator.model().capabilities().dialect;
        for (task, answer) in &*self.examples {
            let answer = self.contract.lower_output_value(dialect, answer)?;
            let _ = write!(text, "\n\nTask: {task}\nAnswer: {answer}");
        }
        self.prompt = text.into();
        Ok(self.instructed())
    }

    fn instructed(mut self) -> Self {
        let text: Cow<'_, str> = match &self.instructions {
            Some(instructions) => format!("{}\n\n{instructions}", self.prompt).into(),
            None => (&*self.prompt).into(),
        };
        self.orchestrator = self.orchestrator.with_instructions(&text);
        self
    }

    set_on_the_agent! {
        /// Sets the name for events, spans and errors. Default: the name of the signature.
        with_name(name: &str);

        /// Sets the limits of new runs. Default: [`Limits::default`].
        with_limits(limits: Limits);

        /// Sets how far the arguments of calls and the output may be repaired. Default:
        /// [`Policy::Coerce`]. See [`ToolOrchestrator::with_policy`].
        with_policy(policy: Policy);

        /// Sets whether the model's replies are streamed if the context has a listener. Default:
        /// `true`.
        with_streaming(streaming: bool);

        /// Adds a hook around this agent's own calls. See [`ToolOrchestrator::with_hook`].
        with_hook(hook: impl Hook);

        /// Sets which tools the model is shown. See [`ToolOrchestrator::with_filter`].
        with_filter(filter: impl Fn(&Run, &Tool) -> bool + Send + Sync + 'static);

        /// Sets an editor of what is sent. See [`ToolOrchestrator::with_editor`].
        with_editor(
            editor: impl Fn(&[Arc<Message>]) -> Option<Edited> + Send + Sync + 'static
        );
    }

    /// Adds a rule for the output. If the validator returns [`Error::retry`], the model reads the
    /// text and calls `finish` again; another error ends the drive.
    ///
    /// [`Error::retry`]: toolwright_module::Error::retry
    #[must_use]
    pub fn with_validator(mut self, validator: impl Validator<S>) -> Self {
        self.validators = self.validators.with(validator);
        self
    }

    /// Sets instructions for the model, after those of the signature.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self.instructed()
    }

    /// Sets examples of inputs with their outputs, for the system message. The reasoning of an
    /// example is not shown.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::Signature;
    /// use toolwright_module::predict::Example;
    /// use toolwright_orchestrator::ReAct;
    /// # /// Count the words.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct CountWords { text: String }
    /// # impl Signature for CountWords { type Output = u64; }
    ///
    /// let model = SchemaDriven::default();
    /// let example = Example::new(CountWords { text: "It rained.".to_owned() }, 2);
    /// let count = ReAct::<CountWords>::new(model, [])?.with_examples([example])?;
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An output does not fit its own schema, for example 6 stars of at most 5, or cannot be written
    /// in the dialect of the model.
    pub fn with_examples(
        mut self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> error::Result<Self> {
        let examples = examples.into_iter().map(|example| self.shown(&example));
        self.examples = examples.collect::<error::Result<_>>()?;
        self.checked()
    }

    /// Returns the JSON of an example.
    fn shown(&self, Example { input, output, .. }: &Example<S>) -> error::Result<(String, Value)> {
        let write = |source| {
            let contract = self.contract.name().to_owned();
            ContractError::Write { contract, source }
        };
        // Through text, because `serde_json::to_value` represents a float differently.
        let output = serde_json::to_string(output).map_err(write)?;
        let output: Value = serde_json::from_str(&output).map_err(write)?;
        // Models imitate examples, so an example itself must fit the schema.
        let wire = self.contract.lower_output_value(Dialect::JsonSchema2020, &output)?;
        self.contract.read_output_with::<S::Output>(&wire.to_string(), Policy::Strict)?;
        Ok((self.contract.write_input(input)?, output))
    }

    /// Replaces the model, for example by one for tests. See [`ToolOrchestrator::with_model`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::with_model`], or the model's provider does not accept the
    /// output schema or an example.
    pub fn with_model(mut self, model: impl LanguageModel) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_model(model)?;
        self.checked()
    }

    /// Sets the settings of the model calls. See [`ToolOrchestrator::with_settings`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::with_settings`].
    pub fn with_settings(mut self, settings: Settings) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_settings(settings)?;
        Ok(self)
    }

    /// Sets which calls wait for a person. Default: none. See [`ToolOrchestrator::with_approval`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::with_approval`].
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_approval(policy)?;
        Ok(self)
    }

    /// Sets how the model requests tools. Default: [`Choosing::Calls`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::with_choosing`].
    pub fn with_choosing(mut self, choosing: Choosing) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_choosing(choosing)?;
        Ok(self)
    }

    /// Returns the rules of the tools' and the output's schemas that the model's provider does not
    /// support or does not guarantee. See [`ToolOrchestrator::losses`].
    #[must_use]
    pub fn losses(&self) -> Vec<(String, Loss)> {
        self.orchestrator.losses_with(Some(&self.contract))
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        self.orchestrator.tools()
    }

    /// Returns the tools whose calls run one after another. See
    /// [`ToolOrchestrator::sequential_tools`].
    #[must_use]
    pub fn sequential_tools(&self) -> Vec<(&str, Effect)> {
        self.orchestrator.sequential_tools()
    }

    /// Returns the limits of new runs.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.orchestrator.limits()
    }

    /// Returns the contracts and effects of the tools. See [`ToolOrchestrator::tool_set`].
    #[must_use]
    pub fn tool_set(&self) -> ToolSet {
        self.orchestrator.tool_set()
    }

    /// Resumes a stored run with the tools and the output of this agent. See
    /// [`ToolOrchestrator::resume`].
    ///
    /// If the output has changed since the run was stored, the change is reported, and the model is
    /// asked for today's output.
    ///
    /// # Errors
    ///
    /// The errors of [`Run::resume`], and [`RunError::OtherOutput`](error::RunError::OtherOutput)
    /// for a run without a typed output.
    pub fn resume(&self, mut state: RunState) -> error::Result<Resumed> {
        let Some(was) = state.output.replace(Arc::clone(&self.contract)) else {
            return Err(self.other_output());
        };
        let mut resumed = self.orchestrator.resume(state)?;
        if !self.has_output(&was) {
            resumed.changes.push(Change::output(&was, &self.contract));
        }
        Ok(resumed)
    }

    fn has_output(&self, output: &Arc<Contract>) -> bool {
        Arc::ptr_eq(output, &self.contract) || output.fingerprint() == self.contract.fingerprint()
    }

    fn other_output(&self) -> error::RunError {
        error::RunError::OtherOutput { name: self.contract.name().to_owned() }
    }

    /// Returns a new run, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// The input cannot be serialized to JSON.
    pub fn start(&self, input: &S) -> error::Result<Run> {
        let (json, parts) = driver::written_input(&self.contract, input)?;
        let task = parts.into_iter().fold(Task::new(json), Task::with_part);
        self.orchestrator.start(task)?.with_output(Arc::clone(&self.contract))
    }

    /// Runs an input to its output.
    ///
    /// # Errors
    ///
    /// The errors of [`drive`](Self::drive).
    pub async fn run(&self, input: S, cx: &Context) -> Result<Finished<S::Output>> {
        let mut run = self.start(&input).map_err(error::RunError::into_module)?;
        self.drive(&mut run, cx).await
    }

    /// Runs an input as a stream of its events, with the result at the end. See
    /// [`ToolOrchestrator::stream`].
    #[must_use]
    pub fn stream(&self, input: S, cx: &Context) -> RunStream<S::Output> {
        let agent = self.clone();
        RunStream::new(cx.clone(), |cx| async move { agent.run(input, &cx).await })
    }

    /// Drives a run until it has its output.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::drive`]. A run that ends without an output is an error
    /// with [`Unfinished`] as its cause. At a limit its stage is
    /// [`Limit`](toolwright_module::error::Stage::Limit).
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished<S::Output>> {
        ended(self.drive_steps(run, cx, None, false).await?)
    }

    /// Like [`drive`](Self::drive), but calls `store` with the run at the start and after each
    /// change. See [`ToolOrchestrator::drive_and_store`].
    ///
    /// # Errors
    ///
    /// The errors of [`drive`](Self::drive) and of `store`.
    pub async fn drive_and_store<F, Fut>(
        &self,
        run: &mut Run,
        cx: &Context,
        mut store: F,
    ) -> Result<Finished<S::Output>>
    where
        F: FnMut(&Run) -> Fut + Send,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let mut store = |run: &Run| -> BoxFuture<'static, Result<()>> { Box::pin(store(run)) };
        ended(self.drive_steps(run, cx, Some(&mut store), false).await?)
    }

    /// Drives a run for one step. See [`ToolOrchestrator::step`].
    ///
    /// # Errors
    ///
    /// The errors of [`drive`](Self::drive).
    pub async fn step(&self, run: &mut Run, cx: &Context) -> Result<Option<Finished<S::Output>>> {
        self.drive_steps(run, cx, None, true).await
    }

    async fn drive_steps(
        &self,
        run: &mut Run,
        cx: &Context,
        store: Option<AfterStep<'_>>,
        only_one: bool,
    ) -> Result<Option<Finished<S::Output>>> {
        // The run may belong to another signature, or to an earlier form of this one.
        if !run.output().is_some_and(|output| self.has_output(output)) {
            return Err(self.other_output().into_module());
        }
        let policy = self.orchestrator.policy().min(cx.policy());
        let mut reads = ReadsOutput { agent: self, policy, output: None };
        let driven = self.orchestrator.drive_steps(run, cx, Some(&mut reads), store, only_one);
        let Some(finished) = driven.await? else { return Ok(None) };
        match reads.output {
            Some(output) if finished.ending == Ending::Answered => {
                Ok(Some(finished.with_output(output)))
            }
            _ => Err(Unfinished::error(self.orchestrator.name(), finished)),
        }
    }
}

/// Reads the output of a typed run, and checks it with the validators.
struct ReadsOutput<'r, S: Signature> {
    agent: &'r ReAct<S>,
    policy: Policy,
    output: Option<S::Output>,
}

impl<S: Signature> Judge for ReadsOutput<'_, S> {
    fn judge<'a>(
        &'a mut self,
        run: &'a Run,
        answer: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Verdict>> {
        Box::pin(async move {
            let ReAct { contract, validators, .. } = self.agent;
            let reading = match contract.read_output_with::<S::Output>(answer, self.policy) {
                Ok(reading) => reading,
                Err(fault) => {
                    return Ok(Verdict::Rejected(format!("{fault}. Call `finish` again.")));
                }
            };
            if !validators.is_empty() {
                let task = run.first_task();
                let json = text_of(task);
                let input = driver::read_with_parts(task, || contract.read(&json));
                let input = input.map_err(|error| Error::stop(error).at(Stage::Setup))?;
                let checked = validators.check(&input, &reading.value, cx).await;
                if let Verdict::Rejected(why) = verdict(checked)? {
                    return Ok(Verdict::Rejected(format!("{why} Call `finish` again.")));
                }
            }
            let repaired = Repaired::of(&reading);
            self.output = Some(reading.value);
            Ok(Verdict::Taken(repaired))
        })
    }
}

impl<S: Signature> Clone for ReAct<S> {
    fn clone(&self) -> Self {
        Self {
            orchestrator: self.orchestrator.clone(),
            contract: Arc::clone(&self.contract),
            prompt: Arc::clone(&self.prompt),
            instructions: self.instructions.clone(),
            examples: Arc::clone(&self.examples),
            validators: self.validators.clone(),
        }
    }
}

impl<S: Signature> fmt::Debug for ReAct<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReAct").field(&self.contract.name()).field(&self.orchestrator).finish()
    }
}

impl<S: Signature> Module for ReAct<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.run(input, cx).await?.answer)
    }

    fn effect(&self) -> Effect {
        self.orchestrator.effect()
    }

    fn has_parts(&self) -> bool {
        true
    }
}
