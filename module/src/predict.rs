//! Modules whose work a language model does.

use std::fmt;
use std::marker::PhantomData;
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
use crate::question::Question;
use crate::settings::settings;

/// A module whose work a language model does.
///
/// The prompt is made of the signature alone: its description, the schema of its
/// input and of its output, and the input as JSON; with instructions and examples where
/// they are set. An answer that does not fit goes back once with all that is wrong; then
/// the call fails with the raw answers and what they cost. [`stream`](Self::stream) gives
/// the fields of an answer while it is written.
///
/// What is set holds for every call. For one call with other instructions, examples or
/// another mode, set them on a clone: it shares the rest.
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
    question: Question,
    signature: PhantomData<fn(S)>,
}

settings!(Predict);

impl<S: Signature> Predict<S> {
    fn contract() -> toolwright_signature::Result<Contract> {
        Contract::of::<S>()
    }

    /// Shows the model inputs with their outputs, in place of those set before.
    ///
    /// They come before the input as turns that went well, in the shape and the
    /// [`OutputMode`] in which the model is asked, and are the same bytes in each call.
    /// An example's reasoning is left out.
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
    /// If an output does not fit its own schema, such as 6 of at most 5 stars, or has
    /// no form in which the module's model can be asked. For a model of the context
    /// the latter is found at the call ([`Stage::Setup`](crate::error::Stage::Setup)).
    pub fn with_examples(
        self,
        examples: impl IntoIterator<Item = Example<S>>,
    ) -> toolwright_signature::Result<Self> {
        let shown = examples
            .into_iter()
            .map(|example| self.question.example(&example.input, &example.output, None))
            .collect::<toolwright_signature::Result<_>>()?;
        Self::of(self.question.with_examples(shown))
    }

    /// The output together with what was repaired in the model's answer.
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
    /// As [`Module::call`].
    pub async fn answer(&self, input: S, cx: &Context) -> Result<Reading<S::Output>> {
        self.question.ask(&input, cx).await
    }

    /// The output while it is being written.
    ///
    /// What it costs, what ends it and what it ends with are those of a call.
    pub fn stream<'a>(&'a self, input: S, cx: &'a Context) -> PredictStream<'a, S::Output> {
        PredictStream::new(&self.question, &input, cx)
    }
}

impl<S: Signature> Module for Predict<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        Ok(self.answer(input, cx).await?.value)
    }

    /// A model's answer changes nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
