//! Responses: the body of a request, and the reader of replies and streams.

mod reply;
mod request;

pub(crate) use reply::{Pieces, Response};
pub(crate) use request::body;

/// The provider of this API's reasoning. Later requests contain the reasoning unchanged.
const PROVIDER: &str = "openai-responses";
