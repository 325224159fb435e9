use std::time::Duration;

use crate::language_model::Usage;
use crate::message::ToolCall;

/// Something that happened in a call, for a screen, a log or a recorder.
///
/// Events tell; they decide nothing, and a run is the same without a listener.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The model wrote some text.
    TextDelta {
        /// The text since the last delta.
        text: String,
    },
    /// The model thought aloud.
    ReasoningDelta {
        /// The text since the last delta.
        text: String,
    },
    /// A model call ended well.
    ModelReplied {
        /// The model's own name, as its server says it.
        model: String,
        /// What the call cost.
        usage: Usage,
        /// How long it took, retries included.
        elapsed: Duration,
    },
    /// A tool is about to run.
    ToolStarted {
        /// The call.
        call: ToolCall,
    },
    /// A tool has run, or could not.
    ToolFinished {
        /// The call.
        call: ToolCall,
        /// What the model is told.
        text: String,
        /// Why it failed, for the user: the whole error as `{:#}` shows it.
        error: Option<String>,
        /// How long it took.
        elapsed: Duration,
    },
}
