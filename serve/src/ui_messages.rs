//! The Vercel AI SDK's UI message stream, which `useChat` of `@ai-sdk/react` reads.
//!
//! The client sends its messages and shows one message of the assistant for each run. Its names for
//! things: a run is a message, a model's reply with the results of its calls is a step.

mod chunk;
mod conversation;
mod request;
mod writer;

pub(crate) use conversation::messages;
pub(crate) use request::read;
pub(crate) use writer::UiMessages;

/// The header by which clients know the protocol, and its value.
pub(crate) const HEADER: (&str, &str) = ("x-vercel-ai-ui-message-stream", "v1");

#[cfg(test)]
mod tests;
