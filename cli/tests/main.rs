//! Tests of the command `toolwright`, as a process: output, exit code, requests, terminal.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]

// What tests share.
#[expect(dead_code, reason = "the tests of toolwright-mcp use the rest")]
#[path = "../../toolsets/mcp/tests/support/authorization.rs"]
mod authorization;
mod common;
#[path = "common/mcp.rs"]
mod mcp_process;
#[path = "common/server.rs"]
mod server;

// Tests by subject.
mod chat;
mod config;
mod contract;
mod eval;
mod help;
mod journal;
mod login;
mod mcp;
#[cfg(unix)]
mod odd_files;
mod record;
mod run;
mod serve;
#[cfg(unix)]
mod terminal;
mod texts;
mod tools;
