//! Between groups of tools and async-openai's types, for a loop of one's own.

mod calls;
mod definitions;
mod outcomes;
mod replies;

pub use calls::IntoToolCall;
pub use definitions::{DefinitionExt, GroupExt};
pub use outcomes::OutcomeExt;
pub use replies::ReplyExt;
