//! Groups of tools for a loop of one's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod binding;
mod custom;
mod definitions;
mod dispatch;
mod support;
