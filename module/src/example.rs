use toolwright_signature::Signature;

/// An input with the output that is right for it, to show to a model.
///
/// It is typed, so an example that no longer fits its signature does not compile.
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
/// // The same examples do for both.
/// ChainOfThought::<Compute>::new(SchemaDriven::default())?.with_examples(examples())?;
/// Predict::<Compute>::new(SchemaDriven::default())?.with_examples(examples())?;
/// # Ok::<(), toolwright_module::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Example<S: Signature> {
    /// What is asked.
    pub input: S,
    /// The right answer.
    pub output: S::Output,
    /// The thinking that leads to it; only a
    /// [`ChainOfThought`](crate::ChainOfThought) shows it.
    pub reasoning: Option<String>,
}

impl<S: Signature> Example<S> {
    /// An example without its thinking.
    pub fn new(input: S, output: S::Output) -> Self {
        Self { input, output, reasoning: None }
    }

    /// The same with the thinking that leads to the output, as a model should write it.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }
}
