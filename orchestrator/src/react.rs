use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use toolwright_module::event::Ending;
use toolwright_module::{Context, Effect, LanguageModel, Module, Policy, Repaired, Result, Tool};
use toolwright_signature::{Contract, Loss, Signature};

use crate::approval_policy::ApprovalPolicy;
use crate::choosing::Choosing;
use crate::driver::Verdict;
use crate::error;
use crate::finished::Finished;
use crate::limits::Limits;
use crate::run::Run;
use crate::tool_orchestrator::ToolOrchestrator;
use crate::unfinished::Unfinished;

/// A module whose work a model does with tools: a typed signature in, its whole typed
/// output out.
///
/// The model ends the run by calling `finish` with the output. What does not fit goes
/// back to it with what is wrong. At a limit there is no last question, because prose is
/// no output: the run ends in an error with [`Unfinished`].
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
    signature: PhantomData<fn(S)>,
}

impl<S: Signature> ReAct<S> {
    /// An agent of this model and these tools.
    ///
    /// # Errors
    ///
    /// As [`ToolOrchestrator::new`], and if the model's provider cannot be asked for
    /// the output.
    pub fn new(
        model: impl LanguageModel,
        tools: impl IntoIterator<Item = Tool>,
    ) -> error::Result<Self> {
        let contract = Arc::new(Contract::of::<S>()?);
        let instructions = format!(
            "{}\n\nThe task is JSON of this schema:\n{}\n\nUse the tools as you need them. Call `finish` with the answer once you know it.",
            contract.description(),
            contract.input(),
        );
        let orchestrator = ToolOrchestrator::new(model, tools)?
            .with_name(contract.name())
            .with_instructions(&instructions);
        orchestrator.lower(Some(&contract), |_| ())?;
        Ok(Self { orchestrator, contract, signature: PhantomData })
    }

    /// The same agent with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.orchestrator = self.orchestrator.with_limits(limits);
        self
    }

    /// The same agent, whose calls wait for a person as `policy` says; see
    /// [`ToolOrchestrator::with_approval`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_approval(policy)?;
        Ok(self)
    }

    /// Sets how far the arguments of the agent's calls and its output may be repaired; see
    /// [`ToolOrchestrator::with_policy`].
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.orchestrator = self.orchestrator.with_policy(policy);
        self
    }

    /// The same agent, whose model chooses tools in another way.
    ///
    /// # Errors
    ///
    /// As [`ToolOrchestrator::with_choosing`].
    pub fn with_choosing(mut self, choosing: Choosing) -> error::Result<Self> {
        self.orchestrator = self.orchestrator.with_choosing(choosing)?;
        Ok(self)
    }

    /// What the model's provider cannot be told, or not held to, of the tools and of `finish`;
    /// see [`ToolOrchestrator::losses`].
    #[must_use]
    pub fn losses(&self) -> Vec<(String, Loss)> {
        self.orchestrator.losses_with(Some(&self.contract))
    }

    /// The agent's tools, to resume a stored run with.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        self.orchestrator.tools()
    }

    /// A run that has not begun, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// If the input has no JSON form.
    pub fn start(&self, input: &S) -> error::Result<Run> {
        let task = self.contract.write_input(input)?;
        self.orchestrator.start(task)?.with_output(Arc::clone(&self.contract))
    }

    /// Runs an input to its output.
    ///
    /// # Errors
    ///
    /// As [`drive`](Self::drive).
    pub async fn run(&self, input: S, cx: &Context) -> Result<Finished<S::Output>> {
        let mut run = self.start(&input).map_err(error::RunError::into_module)?;
        self.drive(&mut run, cx).await
    }

    /// Moves a run on until its output is there.
    ///
    /// # Errors
    ///
    /// As [`ToolOrchestrator::drive`]; any other ending than the output is one too, with
    /// [`Unfinished`] for a cause: at a limit of the stage
    /// [`Limit`](toolwright_module::error::Stage::Limit).
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished<S::Output>> {
        // A stored run may be of an earlier form of the signature.
        let output = run.output().map(Contract::fingerprint);
        if output != Some(self.contract.fingerprint()) {
            let name = self.contract.name().to_owned();
            return Err(error::RunError::OtherOutput { name }.into_module());
        }
        let mut output = None;
        let policy = self.orchestrator.policy().min(cx.policy());
        let mut judge = |answer: &str| match self.contract.read_output_with(answer, policy) {
            Ok(reading) => {
                let repaired = Repaired::of(&reading);
                output = Some(reading.value);
                Verdict::Taken(repaired)
            }
            Err(fault) => Verdict::Rejected(format!("{fault}. Call `finish` again.")),
        };
        let finished = self.orchestrator.drive_on(run, cx, &mut judge).await?;
        match output {
            Some(output) if finished.ending == Ending::Answered => Ok(finished.with_output(output)),
            _ => Err(Unfinished::error(self.contract.name(), finished)),
        }
    }
}

impl<S: Signature> Clone for ReAct<S> {
    fn clone(&self) -> Self {
        Self {
            orchestrator: self.orchestrator.clone(),
            contract: Arc::clone(&self.contract),
            signature: PhantomData,
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
}
