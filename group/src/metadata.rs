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
    };
}

pub(crate) use {common_metadata, custom_metadata, function_metadata};
