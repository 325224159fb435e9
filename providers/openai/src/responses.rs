//! Responses.

mod reply;
mod request;

pub(crate) use reply::{Pieces, Response};
pub(crate) use request::Body;

/// Whose reasoning items they are. They go back as they came.
const PROVIDER: &str = "openai-responses";
