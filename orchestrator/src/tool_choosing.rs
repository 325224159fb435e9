//! The two forms in which a model requests a tool.
use serde::{Deserialize, Serialize};

/// The form in which a model requests a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Choosing {
    /// The provider's tool calls. A reply may have several calls, and the prompt has no text about
    /// tools.
    #[default]
    Calls,
    /// A JSON answer with an action, a tool and its input, for models without tool calls.
    ///
    /// If the provider supports output schemas, the answer is held to one that contains the input
    /// schema of each tool. A reply requests one tool. At the end the model is asked for an answer
    /// in prose.
    Selector,
}

impl Choosing {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
