//! Responses: the body of a request, and the reader of replies and streams.

mod reply;
mod request;
mod state;

pub(crate) use reply::{Pieces, RequestInfo, Response, unfinished};
pub(crate) use request::{body, input};
pub(crate) use state::{History, previous};
