use std::fmt;
use std::marker::PhantomData;
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
use crate::question::Question;
use crate::settings::settings;

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

settings!(ChainOfThought);

impl<S: Signature> ChainOfThought<S> {
    fn contract() -> toolwright_signature::Result<Contract> {
        let reasoning = json!({
            "type": "string",
            "description": "Think step by step towards the output.",
        });
        Contract::of::<S>()?.asking_first("reasoning", reasoning)
    }

    /// Shows the model inputs with their reasoning and outputs, in place of those set
    /// before.
    ///
    /// As [`Predict::with_examples`](crate::Predict::with_examples). An example without
    /// reasoning is no turn of the conversation, where it would teach the model to skip
    /// its own: it is listed in the system message, as an output that is known for an
    /// input.
    ///
    /// # Errors
    ///
    /// As [`Predict::with_examples`](crate::Predict::with_examples).
    pub fn with_examples(
        self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> toolwright_signature::Result<Self> {
        let shown = examples
            .into_iter()
            .map(|Example { input, output, reasoning }| {
                let only = reasoning.is_none().then_some("output");
                let output = Reasoned { reasoning: reasoning.unwrap_or_default(), output };
                self.question.example(&input, &output, only)
            })
            .collect::<toolwright_signature::Result<_>>()?;
        Self::of(self.question.with_examples(shown))
    }

    /// The output together with the thinking before it.
    ///
    /// # Errors
    ///
    /// As [`Module::call`].
    pub async fn reason(&self, input: S, cx: &Context) -> Result<Reasoned<S::Output>> {
        Ok(self.answer(input, cx).await?.value)
    }

    /// Both together with what was repaired in the model's answer.
    ///
    /// # Errors
    ///
    /// As [`Module::call`].
    pub async fn answer(&self, input: S, cx: &Context) -> Result<Reading<Reasoned<S::Output>>> {
        self.question.ask(&input, cx).await
    }

    /// Thinking and output while they are being written.
    ///
    /// The fields so far are under `reasoning` and `output`. What it costs, what ends it
    /// and what it ends with are those of a call.
    pub fn stream<'a>(
        &'a self,
        input: S,
        cx: &'a Context,
    ) -> PredictStream<'a, Reasoned<S::Output>> {
        PredictStream::new(&self.question, &input, cx)
    }
}

impl<S: Signature> Module for ChainOfThought<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.reason(input, cx).await?.output)
    }

    /// A model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
