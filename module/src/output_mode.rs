//! The mode in which a model is asked for typed output.
use crate::model::Capabilities;

/// The form in which a model is asked for its output.
///
/// Default: the first mode in the order below that the model supports. The answer is read leniently
/// in every mode. Text is accepted where a call was asked for, and JSON may have words around it.
///
/// ```
/// use toolwright_module::Dialect;
/// use toolwright_module::model::Capabilities;
/// use toolwright_module::predict::OutputMode;
///
/// let capabilities = Capabilities { tools: true, ..Capabilities::new(Dialect::OpenAiStrict) };
/// assert_eq!(OutputMode::from(capabilities), OutputMode::Tool);
/// let capabilities = Capabilities { structured_output: true, ..capabilities };
/// assert_eq!(OutputMode::from(capabilities), OutputMode::Schema);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputMode {
    /// The schema is sent beside the prompt, and the provider makes the answer fit.
    Schema,
    /// The model has to call a tool whose arguments are the output.
    Tool,
    /// The schema is part of the prompt.
    Prompted,
}

/// The default mode for a model with these capabilities.
impl From<Capabilities> for OutputMode {
    fn from(capabilities: Capabilities) -> Self {
        if capabilities.structured_output {
            Self::Schema
        } else if capabilities.tools {
            Self::Tool
        } else {
            Self::Prompted
        }
    }
}
