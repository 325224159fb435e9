use crate::model::Capabilities;

/// How a model is asked for an output that fits.
///
/// The first that the model is capable of, in the order here, unless a module is told
/// otherwise. However it was asked, its answer is read the same way, leniently: also
/// text where a call was asked for, and JSON with words around it.
///
/// ```
/// use toolwright_module::Dialect;
/// use toolwright_module::model::Capabilities;
/// use toolwright_module::predict::OutputMode;
///
/// let capabilities = Capabilities::new(Dialect::OpenAiStrict).with_tools(true);
/// assert_eq!(OutputMode::of(capabilities), OutputMode::Tool);
/// let capabilities = capabilities.with_structured_output(true);
/// assert_eq!(OutputMode::of(capabilities), OutputMode::Schema);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputMode {
    /// The schema is given beside the prompt, and the provider sees to it that the
    /// answer fits.
    Schema,
    /// The model has to call a tool whose arguments are the output.
    Tool,
    /// The schema is part of the prompt.
    Prompted,
}

impl OutputMode {
    /// The mode for a model of these capabilities.
    #[must_use]
    pub fn of(capabilities: Capabilities) -> Self {
        if capabilities.structured_output {
            Self::Schema
        } else if capabilities.tools {
            Self::Tool
        } else {
            Self::Prompted
        }
    }
}
