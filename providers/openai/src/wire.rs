//! Between groups of tools and async-openai's types, for a loop of one's own.

mod calls;
mod definitions;
mod outcomes;

pub use calls::{IntoToolCall, read_call};
pub use definitions::{DefinitionExt, GroupExt};
pub use outcomes::OutcomeExt;
