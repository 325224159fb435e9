//! Typed examples for predictors.
use toolwright_signature::Signature;

/// An input with its correct output, as an example for a model.
///
/// Examples are typed: one that no longer matches its signature does not compile.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::SchemaDriven;
/// # use toolwright_module::{ChainOfThought, Predict, Signature};
/// # use toolwright_module::predict::Example;
/// # /// Compute.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Compute { task: String }
/// # impl Signature for Compute { type Output = i64; }
/// let examples = || {
///     let task = "two plus three times four".to_owned();
///     [Example::new(Compute { task }, 14).with_reasoning("3 * 4 is 12, and 2 more is 14.")]
/// };
/// // Both modules accept the same examples.
/// ChainOfThought::<Compute>::new(SchemaDriven::default())?.with_examples(examples())?;
/// Predict::<Compute>::new(SchemaDriven::default())?.with_examples(examples())?;
/// # Ok::<(), toolwright_module::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Example<S: Signature> {
    /// Input of the task.
    pub input: S,
    /// The correct output.
    pub output: S::Output,
    /// The reasoning that leads to the output. Only a [`ChainOfThought`](crate::ChainOfThought)
    /// uses it.
    pub reasoning: Option<String>,
}

impl<S: Signature> Example<S> {
    /// Returns an example without reasoning.
    pub fn new(input: S, output: S::Output) -> Self {
        Self { input, output, reasoning: None }
    }

    /// Sets the reasoning that leads to the output, as a model should write it.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }
}
