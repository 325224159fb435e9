//! The ReAct module: an agent with a typed input and output.
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use toolwright_module::event::Ending;
use toolwright_module::{Context, Effect, LanguageModel, Module, Policy, Repaired, Result, Tool};
use toolwright_signature::{Contract, Loss, Signature};

use crate::approval_policy::ApprovalPolicy;
use crate::driver::Verdict;
use crate::error;
use crate::finished::Finished;
use crate::limits::Limits;
use crate::run::Run;
use crate::tool_choosing::Choosing;
use crate::tool_orchestrator::ToolOrchestrator;
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
    signature: PhantomData<fn(S)>,
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

    /// Sets the limits of new runs. Default: [`Limits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.orchestrator = self.orchestrator.with_limits(limits);
        self
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

    /// Sets how far the arguments of calls and the output may be repaired. Default:
    /// [`Policy::Coerce`]. See [`ToolOrchestrator::with_policy`].
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.orchestrator = self.orchestrator.with_policy(policy);
        self
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

    /// Returns the agent's tools, which [`Run::resume`] needs.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        self.orchestrator.tools()
    }

    /// Returns a new run, for [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// The input cannot be serialized to JSON.
    pub fn start(&self, input: &S) -> error::Result<Run> {
        let task = self.contract.write_input(input)?;
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

    /// Drives a run until it has its output.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolOrchestrator::drive`]. A run that ends without an output is an error
    /// with [`Unfinished`] as its cause. At a limit its stage is
    /// [`Limit`](toolwright_module::error::Stage::Limit).
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished<S::Output>> {
        // A stored run may belong to an earlier form of the signature.
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
