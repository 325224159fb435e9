/// What `Predict` and `ChainOfThought` let be set, word for word the same.
///
/// Each brings its contract: `fn contract() -> toolwright_signature::Result<Contract>`.
macro_rules! settings {
    ($module:ident) => {
        impl<S: Signature> $module<S> {
            /// A module answered by this model, whatever the call's context says.
            ///
            /// # Errors
            ///
            /// If the signature is no contract, or the model's provider cannot be asked
            /// for its output: [`Contract::lower_output`].
            pub fn new(model: impl LanguageModel) -> toolwright_signature::Result<Self> {
                Self::of(Question::new(Self::contract()?, Some(Arc::new(model))))
            }

            /// A module answered by the model of the call's context.
            ///
            /// A call without one fails and says so.
            ///
            /// # Errors
            ///
            /// If the signature is no contract.
            pub fn from_context() -> toolwright_signature::Result<Self> {
                Self::of(Question::new(Self::contract()?, None))
            }

            fn of(
                question: toolwright_signature::Result<Question>,
            ) -> toolwright_signature::Result<Self> {
                Ok(Self { question: question?, signature: PhantomData })
            }

            /// The same, answered by this model.
            ///
            /// Comes after [`with_output_mode`](Self::with_output_mode) where the model
            /// cannot be asked in the mode it would get otherwise.
            ///
            /// # Errors
            ///
            /// As [`new`](Self::new).
            pub fn with_model(
                self,
                model: impl LanguageModel,
            ) -> toolwright_signature::Result<Self> {
                Self::of(self.question.with_model(Arc::new(model)))
            }

            /// Tells the model more than the signature's description does.
            #[must_use]
            pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
                let question = self.question.with_instructions(instructions.into());
                Self { question, ..self }
            }

            /// How the model is asked for the output; [`OutputMode::of`] its capabilities
            /// unless said.
            ///
            /// Said, it is taken at its word, whatever the model claims to be able to do.
            ///
            /// # Errors
            ///
            /// If the module has a model whose provider cannot be asked like that.
            pub fn with_output_mode(self, mode: OutputMode) -> toolwright_signature::Result<Self> {
                Self::of(self.question.with_mode(mode))
            }

            /// How often the model is asked before an answer that does not fit is an
            /// error: 2 unless said, at least 1.
            ///
            /// Each time it is told all that was wrong. The call's ledger ends it earlier
            /// if there is nothing left to ask with.
            #[must_use]
            pub fn with_attempts(self, attempts: u32) -> Self {
                Self { question: self.question.with_attempts(attempts), ..self }
            }

            /// Sets how far the model's answer may be repaired. Default:
            /// [`Policy::Coerce`].
            ///
            /// The stricter one holds of this and of the context's. An answer that it does
            /// not allow goes back to the model as one that does not fit.
            #[must_use]
            pub fn with_policy(self, policy: Policy) -> Self {
                Self { question: self.question.with_policy(policy), ..self }
            }

            /// The most the model may write in one answer, in tokens.
            #[must_use]
            pub fn with_max_output_tokens(self, tokens: u64) -> Self {
                Self { question: self.question.with_max_output_tokens(tokens), ..self }
            }
        }

        impl<S: Signature> Clone for $module<S> {
            fn clone(&self) -> Self {
                Self { question: self.question.clone(), signature: PhantomData }
            }
        }

        impl<S: Signature> fmt::Debug for $module<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($module)).field(&self.question.contract.name()).finish()
            }
        }
    };
}
pub(crate) use settings;
