//! Chat Completions.

mod reply;
mod request;

pub(crate) use reply::{Completion, Pieces};
pub(crate) use request::Body;

/// Whose reasoning it is that comes beside a message. It is kept and not sent back.
const PROVIDER: &str = "openai-chat";
