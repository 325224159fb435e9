//! Macros for the metadata functions of handlers. The async traits and the blocking ones share
//! them.

/// The functions that every handler has.
macro_rules! common_metadata {
    () => {
        /// Returns the name of the tool. Default: see [`generate_name`](Self::generate_name).
        fn name() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_name::<Self>(Self::generate_name)
        }

        /// Returns a name made from the type's name, for a rule that many tools share. Default: an
        /// empty text, which means the type's name in snake case.
        #[must_use]
        fn generate_name(type_name: &str) -> std::borrow::Cow<'static, str> {
            let _ = type_name;
            std::borrow::Cow::Borrowed("")
        }

        /// Returns the effect of a call. Default: [`Effect::Write`].
        ///
        /// [`Effect::Write`]: toolwright_module::Effect::Write
        #[must_use]
        fn effect() -> toolwright_module::Effect {
            toolwright_module::Effect::Write
        }
    };
}

/// The functions of a handler whose arguments are JSON.
macro_rules! function_metadata {
    () => {
        $crate::metadata::common_metadata!();

        /// Returns the description for the model. Default: the one in [`schema`](Self::schema), or
        /// the type's doc comment.
        fn description() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_description::<Self>(Self::schema().as_ref())
        }

        /// Returns a JSON Schema to send in place of the type's own, unchanged. Default: `None`,
        /// the type's own.
        ///
        /// Arguments are validated against it and then deserialized into the type, so it has to
        /// allow what the type requires.
        #[must_use]
        fn schema() -> Option<serde_json::Value> {
            None
        }

        /// Returns whether the provider has to guarantee that arguments fit the schema. Default:
        /// `false`. Providers support this for some schemas only.
        #[must_use]
        fn strict() -> bool {
            false
        }

        /// Returns how far arguments may be repaired. Default: [`Policy::Coerce`].
        ///
        /// The strictest of this policy, the group's and the context's applies.
        ///
        /// [`Policy::Coerce`]: toolwright_module::Policy::Coerce
        #[must_use]
        fn policy() -> toolwright_module::Policy {
            toolwright_module::Policy::default()
        }

        /// Returns the definition of the tool, with everything that the type overrides. It needs no
        /// group.
        ///
        /// # Errors
        ///
        /// The name or the schema is invalid.
        fn definition() -> Result<$crate::Definition, toolwright_signature::ContractError> {
            $crate::Definition::said_of::<Self>($crate::definition::Said {
                name: Self::name(),
                generate_name: Self::generate_name,
                description: Self::description(),
                effect: Self::effect(),
                policy: Self::policy(),
                kind: $crate::definition::SaidKind::Function {
                    schema: Self::schema(),
                    strict: Self::strict(),
                },
            })
        }

        /// Reads a model's arguments as the [definition](Self::definition) says, with the stricter
        /// of its policy and the context's.
        ///
        /// To handle a call without a group, call `handle` on the result. The definition is made
        /// each time, so a [`ToolGroup`](crate::ToolGroup) is faster for many calls.
        ///
        /// # Errors
        ///
        /// The errors of [`definition`](Self::definition) and of
        /// [`Definition::read`](crate::Definition::read).
        fn read(
            arguments: &str,
            cx: &toolwright_module::Context,
        ) -> toolwright_module::Result<Self> {
            let definition = Self::definition().map_err(|error| {
                toolwright_module::Error::other(error).at(toolwright_module::error::Stage::Setup)
            })?;
            let policy = definition.policy().min(cx.policy());
            definition.with_policy(policy).read(arguments)
        }
    };
}

/// The functions of a handler that is called with text.
macro_rules! custom_metadata {
    () => {
        $crate::metadata::common_metadata!();

        /// Returns the description for the model. Default: the type's doc comment.
        fn description() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_description::<Self>(None)
        }

        /// Returns the format of the text, which the provider guarantees. Default: `None`, any
        /// text.
        #[must_use]
        fn format() -> Option<$crate::Format> {
            None
        }

        /// Returns the definition of the tool, with everything that the type overrides. It needs no
        /// group.
        ///
        /// # Errors
        ///
        /// The name is invalid.
        fn definition() -> Result<$crate::Definition, toolwright_signature::ContractError> {
            $crate::Definition::said_of::<Self>($crate::definition::Said {
                name: Self::name(),
                generate_name: Self::generate_name,
                description: Self::description(),
                effect: Self::effect(),
                policy: toolwright_module::Policy::default(),
                kind: $crate::definition::SaidKind::Custom { format: Self::format() },
            })
        }
    };
}

pub(crate) use {common_metadata, custom_metadata, function_metadata};
