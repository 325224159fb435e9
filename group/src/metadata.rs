//! The functions of a handler that describe its tool, for the traits with `async` and without.

/// The functions that every handler has.
macro_rules! common_metadata {
    () => {
        /// The name of the tool. Default: see [`generate_name`](Self::generate_name).
        fn name() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_name::<Self>(Self::generate_name)
        }

        /// Makes a name from the type's name, for a rule that many tools share. Default: an
        /// empty name, which means the type's name in snake case.
        #[must_use]
        fn generate_name(type_name: &str) -> std::borrow::Cow<'static, str> {
            let _ = type_name;
            std::borrow::Cow::Borrowed("")
        }

        /// The effect of a call on the world. Default: [`Effect::Write`].
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

        /// The description that the model reads. Default: the one in
        /// [`schema`](Self::schema), or the type's doc comment.
        fn description() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_description::<Self>(Self::schema().as_ref())
        }

        /// A JSON Schema that is sent to the model in place of the type's own, unchanged.
        /// Default: the type's own.
        ///
        /// Arguments are checked against it and then read into the type, so it has to allow
        /// what the type needs.
        #[must_use]
        fn schema() -> Option<serde_json::Value> {
            None
        }

        /// Whether the provider has to guarantee that arguments fit the schema. Default: no.
        /// Providers can do so for some schemas only.
        #[must_use]
        fn strict() -> bool {
            false
        }

        /// How far arguments may be repaired. Default: [`Policy::Coerce`].
        ///
        /// Of this policy, the group's and the context's, the strictest one holds.
        ///
        /// [`Policy::Coerce`]: toolwright_module::Policy::Coerce
        #[must_use]
        fn policy() -> toolwright_module::Policy {
            toolwright_module::Policy::default()
        }
    };
}

/// The functions of a handler that is called with text.
macro_rules! custom_metadata {
    () => {
        $crate::metadata::common_metadata!();

        /// The description that the model reads. Default: the type's doc comment.
        fn description() -> std::borrow::Cow<'static, str> {
            $crate::definition::default_description::<Self>(None)
        }

        /// The form of the text, which the provider guarantees. Default: any text, and the
        /// provider is not asked for a form.
        #[must_use]
        fn format() -> Option<$crate::Format> {
            None
        }
    };
}

pub(crate) use {common_metadata, custom_metadata, function_metadata};
