//! Between groups of tools and async-openai's types, for a loop of one's own.

mod calls;
mod definitions;
mod outcomes;
mod replies;

#[cfg(feature = "client")]
pub(crate) use calls::object_of;
pub use calls::{IntoToolCall, read_call};
pub use definitions::{DefinitionExt, GroupExt};
pub use outcomes::OutcomeExt;
#[cfg(feature = "client")]
pub(crate) use outcomes::images_of;
pub use replies::ReplyExt;
