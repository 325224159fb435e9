use serde::{Deserialize, Serialize};

/// How a model says which tool it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Choosing {
    /// By its provider's tool calls: several at once, and no word about tools in the
    /// prompt.
    #[default]
    Calls,
    /// By answering with a selection, for models that cannot call tools: what to do,
    /// which tool, with which input. The provider holds the answer to a schema that has
    /// each tool's own input in it, if it can hold answers to schemas at all. One tool
    /// at a time; an answer in prose is asked for at the end.
    Selector,
}

impl Choosing {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
