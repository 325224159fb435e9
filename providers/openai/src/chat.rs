//! Chat Completions: the body of a request, and the reader of replies and streams.

mod pieces;
mod reply;
mod request;

pub(crate) use pieces::Pieces;
pub(crate) use reply::Completion;
pub(crate) use request::body;

/// The provider of this API's reasoning. The reasoning is kept in the reply, but no request
/// contains it.
const PROVIDER: &str = "openai-chat";
