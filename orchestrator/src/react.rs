//! The ReAct module: an agent whose task is the input of a signature, and whose answer is its output.
use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::predict::{Example, Validator};
use toolwright_module::{Context, Dialect, Effect, Error, Message, Module, Policy, Result, runner};
use toolwright_signature::{Contract, ContractError, Signature};

use crate::agent::Agent;
use crate::error;
use crate::task::Task;

/// A module that fulfils a signature with an agent: the input becomes the task, and the output is the
/// answer.
///
/// A call needs nothing else. For everything that an agent can do, use [`agent`](Self::agent) with a
/// [`task`](Self::task): drive it over a journal, stream it, or give it a conversation.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Reply, ToolCall};
/// use toolwright_module::{Context, Module, Signature};
/// use toolwright_orchestrator::{Agent, ReAct};
///
/// /// Answer a question.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Ask {
///     question: String,
/// }
///
/// impl Signature for Ask {
///     type Output = String;
/// }
///
/// # let model = Scripted::new(|_| {
/// #     Ok(Reply::calls([ToolCall::new("1", "finish", r#"{"result": "Rome"}"#)]))
/// # });
/// let react = ReAct::<Ask>::new(Agent::new(model, [])?)?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let (ask, cx) = (Ask { question: "What is the capital of Italy?".to_owned() }, Context::default());
/// let finished = react.agent().run(react.task(&ask)?, &cx).await?;
/// assert_eq!(finished.answer, "Rome");
/// assert_eq!(react.call(ask, &cx).await?, "Rome");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReAct<S: Signature> {
    agent: Agent<S::Output>,
    contract: Arc<Contract>,
    /// The instructions of the agent before, which follow those of the signature.
    instructions: Option<Arc<str>>,
}

impl<S: Signature> ReAct<S> {
    /// Returns a module on this agent. Its name is that of the signature, unless it has one, and the
    /// signature comes before its instructions.
    ///
    /// # Errors
    ///
    /// The signature has no valid contract, a tool has the name `finish`, or the model's provider does
    /// not accept the schema of the output.
    pub fn new(agent: Agent) -> error::Result<Self> {
        let contract = Arc::new(Contract::of::<S>()?);
        let instructions = agent.core.instructions.clone();
        let mut agent = agent.answering_by(Arc::clone(&contract))?;
        agent.core.name.get_or_insert_with(|| contract.name().into());
        Self { agent, contract, instructions }.with_examples([])
    }

    /// Sets examples of inputs with their outputs, for the system message. The reasoning of an example
    /// is not shown.
    ///
    /// # Errors
    ///
    /// An output does not fit its own schema, for example 6 stars of at most 5, or cannot be written in
    /// the dialect of the model.
    pub fn with_examples(
        mut self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> error::Result<Self> {
        let Self { agent, contract, instructions } = &self;
        let (about, schema) = (contract.description(), contract.input());
        let mut text = format!(
            "{about}\n\nThe task is JSON of this schema:\n{schema}\n\nUse the tools as you need them. Call `finish` with the answer once you know it."
        );
        let dialect = agent.core.model.capabilities().dialect;
        let mut title = "\n\nExamples of tasks, each with its answer for `finish`:";
        for Example { input, output, .. } in examples {
            let task = contract.write_input(&input)?;
            let answer = contract.lower_output_value(dialect, &checked::<S>(contract, &output)?)?;
            let _ =
                write!(text, "{}\n\nTask: {task}\nAnswer: {answer}", std::mem::take(&mut title));
        }
        if let Some(instructions) = instructions {
            let _ = write!(text, "\n\n{instructions}");
        }
        self.agent = self.agent.with_instructions(&text);
        Ok(self)
    }

    /// Adds a rule for the output. If the validator returns [`Error::retry`], the model reads the text
    /// and calls `finish` again; another error ends the drive.
    #[must_use]
    pub fn with_validator(mut self, validator: impl Validator<S, S::Output>) -> Self {
        let contract = Arc::clone(&self.contract);
        self.agent =
            self.agent.with_validator(OfInput { contract, validator, signature: PhantomData });
        self
    }

    /// Returns the agent, for tasks of [`task`](Self::task).
    #[must_use]
    pub fn agent(&self) -> &Agent<S::Output> {
        &self.agent
    }

    /// Returns an input as a task of the agent.
    ///
    /// # Errors
    ///
    /// The input cannot be serialized to JSON.
    pub fn task(&self, input: &S) -> error::Result<Task> {
        let (json, parts) = runner::written_input(&self.contract, input)?;
        Ok(parts.into_iter().fold(Task::new(json), Task::with_part))
    }
}

/// Returns the output of an example as JSON. Models imitate it, so it must fit its own schema.
fn checked<S: Signature>(contract: &Contract, output: &S::Output) -> error::Result<Value> {
    let write = |source| ContractError::Write { contract: contract.name().to_owned(), source };
    // Through text, because `serde_json::to_value` represents a float differently.
    let output: Value =
        serde_json::from_str(&serde_json::to_string(output).map_err(write)?).map_err(write)?;
    let wire = contract.lower_output_value(Dialect::JsonSchema2020, &output)?;
    contract.read_output_with::<S::Output>(&wire.to_string(), Policy::Strict)?;
    Ok(output)
}

/// A validator that gets the input of the signature in place of the task.
struct OfInput<S, V> {
    contract: Arc<Contract>,
    validator: V,
    signature: PhantomData<fn(S)>,
}

impl<S: Signature, V: Validator<S, S::Output>> Validator<Task, S::Output> for OfInput<S, V> {
    async fn check(&self, task: &Task, output: &S::Output, cx: &Context) -> Result<()> {
        // A follow-up may be a text about the last input.
        let messages = task.clone().into_messages();
        let inputs = messages.iter().rev().filter_map(|message| match &**message {
            Message::User { parts } => Some(parts),
            _ => None,
        });
        for parts in inputs {
            let json = Task::after(&[], parts).task;
            let read = || self.contract.read_with::<S>(&json, Policy::Strict);
            if let Ok(input) = runner::read_with_parts(parts, read) {
                return self.validator.check(&input.value, output, cx).await;
            }
        }
        let name = self.contract.name();
        let text = format!(
            "no message of the run is an input of `{name}`; start it with a task of `ReAct::task`"
        );
        Err(Error::stop(text).at(Stage::Setup))
    }
}

impl<S: Signature> Clone for ReAct<S> {
    fn clone(&self) -> Self {
        let Self { agent, contract, instructions } = self;
        let (agent, instructions) = (agent.clone(), instructions.clone());
        Self { agent, contract: Arc::clone(contract), instructions }
    }
}

impl<S: Signature> fmt::Debug for ReAct<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReAct").field(&self.contract.name()).field(&self.agent).finish()
    }
}

impl<S: Signature> Module for ReAct<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        let task = self.task(&input).map_err(error::RunError::into_module)?;
        Ok(self.agent.run(task, cx).await?.answer)
    }

    fn effect(&self) -> Effect {
        self.agent.effect()
    }

    fn has_parts(&self) -> bool {
        true
    }
}
