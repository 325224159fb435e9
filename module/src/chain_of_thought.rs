use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_signature::{Contract, Signature};

use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result, Stage};
use crate::language_model::LanguageModel;
use crate::module::Module;
use crate::question::Question;

/// A module whose work a language model does after thinking about it in writing.
///
/// It fulfils the same signature as [`Predict`](crate::Predict), so as a tool it looks
/// the same. The model is asked for `{"reasoning", "output"}`, reasoning first: what
/// it writes there helps what it writes next. [`reason`](Self::reason) gives both.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{ChainOfThought, Context, Reply, Signature};
/// # /// Compute.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Compute { task: String }
/// # impl Signature for Compute { type Output = i64; }
/// # let model = Scripted::new(|_| Ok(Reply::text(
/// #     r#"{"reasoning": "6 * 7 is 42.", "output": 42}"#)));
/// let compute = ChainOfThought::<Compute>::new(model)?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let input = Compute { task: "six times seven".to_owned() };
/// let answer = compute.reason(input, &Context::default()).await?;
/// assert_eq!((answer.output, answer.reasoning.as_str()), (42, "6 * 7 is 42."));
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChainOfThought<S: Signature> {
    question: Question,
    signature: PhantomData<fn(S)>,
}

/// An output and the thinking before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoned<O> {
    /// What the model wrote while thinking.
    pub reasoning: String,
    /// What it came to.
    pub output: O,
}

impl<S: Signature> ChainOfThought<S> {
    /// A module answered by this model, whatever the call's context says.
    ///
    /// # Errors
    ///
    /// As [`Predict::new`](crate::Predict::new).
    pub fn new(model: impl LanguageModel) -> toolwright_signature::Result<Self> {
        Self::asking(Some(Arc::new(model)))
    }

    /// A module answered by the model of the call's context.
    ///
    /// # Errors
    ///
    /// If the signature is no contract.
    pub fn from_context() -> toolwright_signature::Result<Self> {
        Self::asking(None)
    }

    fn asking(model: Option<Arc<dyn LanguageModel>>) -> toolwright_signature::Result<Self> {
        let reasoning = json!({
            "type": "string",
            "description": "Think step by step towards the output.",
        });
        let contract = Contract::of::<S>()?.asking_first("reasoning", reasoning)?;
        Ok(Self { question: Question::new(contract, model)?, signature: PhantomData })
    }

    /// Tells the model more than the signature's description does.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.question.set_instructions(instructions.into());
        self
    }

    /// How often the model is asked before an answer that does not fit is an error:
    /// 2 unless said, at least 1.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.question.set_attempts(attempts);
        self
    }

    /// The most the model may write in one answer, in tokens.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.question.set_max_output_tokens(tokens);
        self
    }

    /// The output together with the thinking before it.
    ///
    /// # Errors
    ///
    /// As [`Module::forward`].
    pub async fn reason(&self, input: S, cx: &Context) -> Result<Reasoned<S::Output>> {
        let input = self
            .question
            .contract()
            .write_input(&input)
            .map_err(|error| Error::other(error).at(Stage::Module))?;
        self.question.ask(input, cx).await
    }
}

impl<S: Signature> Clone for ChainOfThought<S> {
    fn clone(&self) -> Self {
        Self { question: self.question.clone(), signature: PhantomData }
    }
}

impl<S: Signature> fmt::Debug for ChainOfThought<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChainOfThought").field(&self.question.contract().name()).finish()
    }
}

impl<S: Signature> Module for ChainOfThought<S> {
    type Signature = S;

    async fn forward(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.reason(input, cx).await?.output)
    }

    /// A model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
