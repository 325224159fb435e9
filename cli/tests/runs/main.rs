//! Tests of the command `runs`. See `CONTRIBUTING.md`.

mod command;
mod page;
#[path = "../../../examples/tests/common/server.rs"]
mod server;
mod world;
