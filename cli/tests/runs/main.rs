//! Tests of the command `runs`. See `CONTRIBUTING.md`.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]

mod command;
#[cfg(feature = "postgres")]
mod database;
mod page;
#[path = "../common/server.rs"]
mod server;
mod world;
