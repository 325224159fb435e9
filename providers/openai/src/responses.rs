//! Responses: the body of a request, and the reader of replies and streams.

mod reply;
mod request;

pub(crate) use reply::{Pieces, Response};
pub(crate) use request::body;
