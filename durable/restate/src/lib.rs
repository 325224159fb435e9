//! Durable runs on [Restate](https://restate.dev).

mod drive;
mod engine;
mod outside;
mod performer;
mod record;
mod restate;

#[cfg(test)]
mod tests;

pub use outside::{Decide, Events, Waiting, decide, events, waiting};
pub use restate::{Restate, options};
