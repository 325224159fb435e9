//! The `ChainOfThought` module: a language model that reasons before it answers.
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_signature::{Contract, Policy, Reading, Signature};

use crate::context::Context;
use crate::effect::Effect;
use crate::error::Result;
use crate::example::Example;
use crate::model::LanguageModel;
use crate::module::Module;
use crate::output_mode::OutputMode;
use crate::predict_stream::PredictStream;
use crate::predictor::Predictor;
use crate::predictor_settings::predictor_settings;
use crate::validator::{Validator, Validators};

/// A module that asks a language model for its reasoning and then for the output.
///
/// It fulfils the same signature as [`Predict`](crate::Predict), so as a tool it looks the same.
/// The model is asked for `{"reasoning", "output"}`, in this order, because written reasoning
/// improves the output after it. [`answer`](Self::answer) returns both.
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
/// let answer = compute.answer(input, &Context::default()).await?.value;
/// assert_eq!((answer.output, answer.reasoning.as_str()), (42, "6 * 7 is 42."));
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChainOfThought<S: Signature> {
    predictor: Predictor,
    validators: Validators<S, S::Output>,
}

/// An output with the reasoning before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoned<O> {
    /// The reasoning text.
    pub reasoning: String,
    /// Output of the signature.
    pub output: O,
}

impl<O> Reasoned<O> {
    fn output(&self) -> &O {
        &self.output
    }
}

predictor_settings!(ChainOfThought);

impl<S: Signature> ChainOfThought<S> {
    fn asked_contract() -> Result<Contract, toolwright_signature::ContractError> {
        let reasoning = json!({
            "type": "string",
            "description": "Think step by step towards the output.",
        });
        Contract::of::<S>()?.asking_first("reasoning", reasoning)
    }

    /// Sets the examples: inputs with reasoning and outputs. Earlier examples are replaced.
    ///
    /// They are sent as in [`Predict::with_examples`](crate::Predict::with_examples). An example
    /// without reasoning is not sent as a turn of the conversation, because it would teach the
    /// model to skip its reasoning. The system message lists it as an input with a known output.
    ///
    /// # Errors
    ///
    /// The errors of [`Predict::with_examples`](crate::Predict::with_examples), or an example without
    /// reasoning holds an image, a document or audio.
    pub fn with_examples(
        self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        let shown = examples
            .into_iter()
            .map(|Example { input, output, reasoning }| {
                let only = reasoning.is_none().then_some("output");
                let output = Reasoned { reasoning: reasoning.unwrap_or_default(), output };
                self.predictor.example(&input, &output, only)
            })
            .collect::<Result<_, toolwright_signature::ContractError>>()?;
        Ok(Self { predictor: self.predictor.with_examples(shown)?, ..self })
    }

    /// Returns the output with its reasoning and the repairs of the answer.
    ///
    /// # Errors
    ///
    /// The errors of [`Module::call`].
    pub async fn answer(&self, input: S, cx: &Context) -> Result<Reading<Reasoned<S::Output>>> {
        self.predictor.ask(&input, cx, &self.validators, Reasoned::output).await
    }

    /// Returns a stream of the reasoning and the output.
    ///
    /// The partial fields are under `reasoning` and `output`. Cost, attempts and errors are those
    /// of [`Module::call`].
    pub fn stream<'a>(
        &'a self,
        input: S,
        cx: &'a Context,
    ) -> PredictStream<'a, Reasoned<S::Output>> {
        PredictStream::new(&self.predictor, input, cx, &self.validators, Reasoned::output)
    }
}

impl<S: Signature> Module for ChainOfThought<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.answer(input, cx).await?.value.output)
    }

    /// Returns [`Effect::Read`], because a model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
