//! The constructors and settings that `Predict` and `ChainOfThought` have in common.
//!
//! Each type defines its contract: `fn asked_contract() -> Result<Contract, ContractError>`.

/// Implements them for one type.
macro_rules! predictor_settings {
    ($module:ident) => {
        impl<S: Signature> $module<S> {
            /// Returns a module that asks this model, and not the one in the context.
            ///
            /// # Errors
            ///
            /// The signature has no valid contract, the provider does not accept its output
            /// schema (see [`Contract::lower_output`]), the output holds an image, a document or
            /// audio, or the input holds one of a kind that the model does not take.
            pub fn new(
                model: impl LanguageModel,
            ) -> Result<Self, toolwright_signature::ContractError> {
                let model: Arc<dyn LanguageModel> = Arc::new(model);
                let predictor = Predictor::new(Self::asked_contract()?, Some(model))?;
                Ok(Self { predictor, validators: Validators::default() })
            }

            /// Returns a module that asks the model in the call's context.
            ///
            /// A call without a model in its context fails.
            ///
            /// # Errors
            ///
            /// The signature has no valid contract, or the output holds an image, a document or
            /// audio.
            pub fn from_context() -> Result<Self, toolwright_signature::ContractError> {
                let predictor = Predictor::new(Self::asked_contract()?, None)?;
                Ok(Self { predictor, validators: Validators::default() })
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
                let predictor = self.predictor.with_model(Arc::new(model))?;
                Ok(Self { predictor, ..self })
            }

            /// Sets instructions for the model, in addition to the signature's description.
            #[must_use]
            pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
                let predictor = self.predictor.with_instructions(instructions.into());
                Self { predictor, ..self }
            }

            /// Sets how the model is asked for the output. Default: [`OutputMode::from`] the model's
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
                Ok(Self { predictor: self.predictor.with_mode(mode)?, ..self })
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

            /// Adds a rule for outputs that the schema cannot express. See [`Validator`].
            ///
            /// An output that a validator rejects is sent back with the validator's text, within
            /// the [attempts](Self::with_attempts).
            #[must_use]
            pub fn with_validator(self, validator: impl Validator<S, S::Output>) -> Self {
                Self { validators: self.validators.with(validator), ..self }
            }

            /// Sets how far the model's answer may be repaired. Default: [`Policy::Coerce`].
            ///
            /// The stricter of this policy and the context's applies. An answer that needs more
            /// repair is treated as one that does not fit.
            #[must_use]
            pub fn with_policy(self, policy: Policy) -> Self {
                Self { predictor: self.predictor.with_policy(policy), ..self }
            }

            /// Returns the contract of the prompt: the schemas of the input and of the answer, and as
            /// its description that of the signature with the instructions.
            ///
            /// Write it to a file, and a test finds every change of the prompt's promise: see
            /// [`assert_unchanged!`](toolwright_signature::assert_unchanged). Examples and settings
            /// are not part of it.
            #[must_use]
            pub fn contract(&self) -> Contract {
                self.predictor.contract()
            }

            /// Sets the settings of the model calls, such as the temperature. Default: the
            /// model's own.
            ///
            /// # Errors
            ///
            /// [`UnsupportedSetting`](crate::model::UnsupportedSetting) if the module has a model
            /// of its own that does not support one of them.
            pub fn with_settings(
                self,
                settings: crate::model::Settings,
            ) -> Result<Self, crate::model::UnsupportedSetting> {
                Ok(Self { predictor: self.predictor.with_settings(settings)?, ..self })
            }
        }

        impl<S: Signature> Clone for $module<S> {
            fn clone(&self) -> Self {
                Self { predictor: self.predictor.clone(), validators: self.validators.clone() }
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
