//! The constructors and settings that `Predict` and `ChainOfThought` have in common.
//!
//! Each type defines its contract: `fn contract() -> Result<Contract, ContractError>`.

/// Implements them for one type.
macro_rules! predictor_settings {
    ($module:ident) => {
        impl<S: Signature> $module<S> {
            /// Returns a module that asks this model, and not the one in the context.
            ///
            /// # Errors
            ///
            /// The signature has no valid contract, or the provider does not accept its output
            /// schema; see [`Contract::lower_output`].
            pub fn new(
                model: impl LanguageModel,
            ) -> Result<Self, toolwright_signature::ContractError> {
                Self::of(Predictor::new(Self::contract()?, Some(Arc::new(model))))
            }

            /// Returns a module that asks the model in the call's context.
            ///
            /// A call without a model in its context fails.
            ///
            /// # Errors
            ///
            /// The signature has no valid contract.
            pub fn from_context() -> Result<Self, toolwright_signature::ContractError> {
                Self::of(Predictor::new(Self::contract()?, None))
            }

            fn of(
                predictor: Result<Predictor, toolwright_signature::ContractError>,
            ) -> Result<Self, toolwright_signature::ContractError> {
                Ok(Self { predictor: predictor?, signature: PhantomData })
            }

            /// Sets the model.
            ///
            /// Call [`with_output_mode`](Self::with_output_mode) first if the model does not
            /// support the output in its default mode.
            ///
            /// # Errors
            ///
            /// The errors of [`new`](Self::new).
            pub fn with_model(
                self,
                model: impl LanguageModel,
            ) -> Result<Self, toolwright_signature::ContractError> {
                Self::of(self.predictor.with_model(Arc::new(model)))
            }

            /// Sets instructions for the model, in addition to the signature's description.
            #[must_use]
            pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
                let predictor = self.predictor.with_instructions(instructions.into());
                Self { predictor, ..self }
            }

            /// Sets how the model is asked for the output. Default: [`OutputMode::of`] the model's
            /// capabilities.
            ///
            /// A mode that is set is used even if the model does not claim to support it.
            ///
            /// # Errors
            ///
            /// The module's model has a provider that does not accept the output schema in this
            /// mode.
            pub fn with_output_mode(
                self,
                mode: OutputMode,
            ) -> Result<Self, toolwright_signature::ContractError> {
                Self::of(self.predictor.with_mode(mode))
            }

            /// Sets how often the model is asked before an answer that does not fit is an error.
            /// Default: 2. Minimum: 1.
            ///
            /// Each retry contains all faults of the answer before it. Retries end earlier if the
            /// ledger is exhausted.
            #[must_use]
            pub fn with_attempts(self, attempts: u32) -> Self {
                Self { predictor: self.predictor.with_attempts(attempts), ..self }
            }

            /// Sets how far the model's answer may be repaired. Default: [`Policy::Coerce`].
            ///
            /// The stricter of this policy and the context's applies. An answer that needs more
            /// repair is treated as one that does not fit.
            #[must_use]
            pub fn with_policy(self, policy: Policy) -> Self {
                Self { predictor: self.predictor.with_policy(policy), ..self }
            }

            /// Sets the maximum number of tokens in one answer. Default:
            /// [`Request::MAX_OUTPUT_TOKENS`](crate::Request::MAX_OUTPUT_TOKENS).
            #[must_use]
            pub fn with_max_output_tokens(self, tokens: u64) -> Self {
                Self { predictor: self.predictor.with_max_output_tokens(tokens), ..self }
            }
        }

        impl<S: Signature> Clone for $module<S> {
            fn clone(&self) -> Self {
                Self { predictor: self.predictor.clone(), signature: PhantomData }
            }
        }

        impl<S: Signature> fmt::Debug for $module<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($module)).field(&self.predictor.contract.name()).finish()
            }
        }
    };
}
pub(crate) use predictor_settings;
