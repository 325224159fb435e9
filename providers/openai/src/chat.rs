//! Chat Completions: the body of a request, and the reader of replies and streams.

mod reply;
mod request;

pub(crate) use reply::{Completion, Pieces};
pub(crate) use request::Body;

/// The provider of this API's reasoning. The reasoning is kept in the reply, but no request
/// contains it.
const PROVIDER: &str = "openai-chat";
