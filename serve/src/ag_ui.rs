//! The protocol AG-UI 1.0: what clients such as `@ag-ui/client` send and read.
//!
//! The server keeps the conversation. Of the messages that a client sends, only the user's last one is
//! new; the others are the client's copy, and are sent back when its copy has to change.

mod agent;
mod event;
mod input;
mod messages;
mod routes;
mod stream;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use routes::routes;

/// The key of our own data in the metadata of AG-UI's events, and the first part of the names of our
/// own events.
const OWN: &str = "toolwright";
