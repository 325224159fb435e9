//! Chat Completions: the body of a request, and the reader of replies and streams.

mod pieces;
mod reasoning;
mod reply;
mod request;

pub(crate) use pieces::{Pieces, filtered};
pub(crate) use reply::{Completion, Function};
pub(crate) use request::body;
