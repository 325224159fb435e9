//! The Vercel AI SDK's UI message stream, which `useChat` of `@ai-sdk/react` reads.
//!
//! The client sends its messages and shows one message of the assistant for each run. Its names for
//! things: a run is a message, a model's reply with the results of its calls is a step.

mod chunk;
mod conversation;
mod request;
mod routes;
mod writer;

pub(crate) use routes::routes;

#[cfg(test)]
mod tests;
