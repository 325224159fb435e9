//! Modules that ask a language model: `Predict` and the types around it.

use std::fmt;
use std::sync::Arc;

use toolwright_signature::{Contract, Policy, Reading, Signature};

pub use crate::chain_of_thought::Reasoned;
use crate::context::Context;
use crate::effect::Effect;
use crate::error::Result;
pub use crate::example::Example;
use crate::model::LanguageModel;
use crate::module::Module;
pub use crate::output_mode::OutputMode;
pub use crate::predict_stream::{PredictEvent, PredictStream};
use crate::predictor::Predictor;
use crate::predictor_settings::predictor_settings;
pub use crate::validator::{Validator, Validators};

/// A module that asks a language model for its output.
///
/// The prompt is made from the signature: its description, the schemas of its input and output, and
/// the input as JSON, plus instructions and examples if they are set. By default, an answer that
/// does not fit is sent back once with all its faults. After that the call fails, with the raw
/// answers and their usage. [`stream`](Self::stream) returns the fields of an answer while the
/// model writes it.
///
/// Settings apply to every call. For a call with other settings, change a clone; it shares the
/// rest.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Module, Predict, Reply, Signature};
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
/// let summary = summarize.call(Summarize { text: "Rain, all day.".to_owned() }, &Context::default()).await?;
/// assert_eq!(summary.sentence, "It rained.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Predict<S: Signature> {
    predictor: Predictor,
    validators: Validators<S, S::Output>,
}

predictor_settings!(Predict);

impl<S: Signature> Predict<S> {
    fn asked_contract() -> Result<Contract, toolwright_signature::ContractError> {
        Contract::of::<S>()
    }

    /// Sets the examples: inputs with outputs. Earlier examples are replaced.
    ///
    /// They are sent before the input as turns of the conversation, in the shape and [`OutputMode`]
    /// of the real answer. They are the same bytes in each call. The reasoning of an example is not
    /// sent.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::{Predict, Signature};
    /// # use toolwright_module::predict::Example;
    /// # /// Count the words.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct CountWords { text: String }
    /// # impl Signature for CountWords { type Output = u64; }
    /// let count = Predict::<CountWords>::new(SchemaDriven::default())?
    ///     .with_examples([Example::new(CountWords { text: "It rained.".to_owned() }, 2)])?;
    /// # Ok::<(), toolwright_module::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An output does not fit its own schema, for example 6 stars of at most 5. Or it cannot be
    /// written in the dialect of the module's model. With a model from the context, the second
    /// error occurs in the call ([`Stage::Setup`](crate::error::Stage::Setup)).
    pub fn with_examples(
        self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        let shown = examples
            .into_iter()
            .map(|example| self.predictor.example(&example.input, &example.output, None))
            .collect::<Result<_, toolwright_signature::ContractError>>()?;
        Ok(Self { predictor: self.predictor.with_examples(shown)?, ..self })
    }

    /// Returns the output with the repairs of the model's answer.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Predict, Reply, Signature};
    /// # /// Count the words.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct CountWords { text: String }
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Counted { words: u32 }
    /// # impl Signature for CountWords { type Output = Counted; }
    /// # let model = Scripted::new(|_| Ok(Reply::text(r#"{"words": "2"}"#)));
    /// let count = Predict::<CountWords>::new(model)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let input = CountWords { text: "It rained.".to_owned() };
    /// let answer = count.answer(input, &Context::default()).await?;
    /// assert_eq!(answer.value.words, 2);
    /// let repair = &answer.repairs[0];
    /// assert_eq!(repair.to_string(), r#"$.words: read the string "2" as the number 2"#);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Module::call`].
    pub async fn answer(&self, input: S, cx: &Context) -> Result<Reading<S::Output>> {
        self.predictor.ask(&input, cx, &self.validators, |output| output).await
    }

    /// Returns a stream of the output while the model writes it.
    ///
    /// Cost, attempts and errors are those of [`Module::call`].
    pub fn stream<'a>(&'a self, input: S, cx: &'a Context) -> PredictStream<'a, S::Output> {
        PredictStream::new(&self.predictor, input, cx, &self.validators, |output| output)
    }
}

impl<S: Signature> Module for Predict<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.answer(input, cx).await?.value)
    }

    /// Returns [`Effect::Read`], because a model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
