//! The tests of this crate: see `README.md` beside this file.
#![cfg(test)]

mod client;
mod endpoint;
mod headers;
mod redact;
mod retry;
mod sse;
