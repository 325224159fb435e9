use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use toolwright_signature::{Contract, Signature};

use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result, Stage};
use crate::language_model::LanguageModel;
use crate::module::Module;
use crate::question::Question;

/// A module whose work a language model does.
///
/// The prompt is made of the signature alone: its description, the schema of its
/// input and of its output, and the input as JSON. An answer that does not fit goes
/// back once with what is wrong; then the call fails with the raw answer and what it
/// cost.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Module, Predict, Reply, Signature};
/// /// Sum up a text in one sentence.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Summarize {
///     text: String,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Summary {
///     sentence: String,
/// }
///
/// impl Signature for Summarize {
///     type Output = Summary;
/// }
///
/// # let model = Scripted::new(|_| Ok(Reply::text(r#"{"sentence": "It rained."}"#)));
/// let summarize = Predict::<Summarize>::new(model)?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let summary = summarize.call(Summarize { text: "Rain, all day.".to_owned() }).await?;
/// assert_eq!(summary.sentence, "It rained.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Predict<S: Signature> {
    question: Question,
    signature: PhantomData<fn(S)>,
}

impl<S: Signature> Predict<S> {
    /// A module answered by this model, whatever the call's context says.
    ///
    /// # Errors
    ///
    /// If the signature is no contract, or the model's provider cannot be asked for
    /// its output: [`Contract::lower_output`].
    pub fn new(model: impl LanguageModel) -> toolwright_signature::Result<Self> {
        Self::asking(Some(Arc::new(model)))
    }

    /// A module answered by the model of the call's context.
    ///
    /// A call without one fails and says so.
    ///
    /// # Errors
    ///
    /// If the signature is no contract.
    pub fn from_context() -> toolwright_signature::Result<Self> {
        Self::asking(None)
    }

    fn asking(model: Option<Arc<dyn LanguageModel>>) -> toolwright_signature::Result<Self> {
        let question = Question::new(Contract::of::<S>()?, model)?;
        Ok(Self { question, signature: PhantomData })
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
}

impl<S: Signature> Clone for Predict<S> {
    fn clone(&self) -> Self {
        Self { question: self.question.clone(), signature: PhantomData }
    }
}

impl<S: Signature> fmt::Debug for Predict<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Predict").field(&self.question.contract().name()).finish()
    }
}

impl<S: Signature> Module for Predict<S> {
    type Signature = S;

    async fn forward(&self, input: S, cx: &Context) -> Result<S::Output> {
        let input = self
            .question
            .contract()
            .write_input(&input)
            .map_err(|error| Error::other(error).at(Stage::Module))?;
        self.question.ask(input, cx).await
    }

    /// A model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
