//! How `Predict` and `ChainOfThought` ask: the modes, examples, asking again, streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod again;
mod examples;
mod modes;
mod streaming;
#[path = "../support/mod.rs"]
mod support;
