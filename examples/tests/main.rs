//! Tests of the programs, of the documents and of the crates together: see `README.md`
//! beside this file.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]
#![allow(clippy::duplicate_mod, reason = "programs that share a module each bring it")]

// What tests share.
mod common;
#[path = "../../cli/tests/common/server.rs"]
mod server;
#[path = "toolsets/server.rs"]
mod toolset_server;
#[path = "toolsets/support.rs"]
mod toolset_support;

// Programs whose parts are tested; each also runs as a process.
#[path = "../examples/api_client.rs"]
#[allow(dead_code, reason = "`main` runs as a process")]
mod api_client;
#[path = "../examples/counting_server.rs"]
#[allow(dead_code, reason = "`main` runs as a process")]
mod counting_server;
#[path = "../examples/database.rs"]
#[allow(dead_code, reason = "`main` runs as a process")]
mod database;
#[path = "../examples/search.rs"]
#[allow(dead_code, reason = "`main` runs as a process")]
mod search;
#[path = "../examples/tasks.rs"]
#[allow(dead_code, reason = "`main` runs as a process")]
mod tasks;

// Tests by subject.
mod agents;
mod deploys;
mod documents;
#[cfg(unix)]
mod durable_file;
mod effects;
mod endless;
mod evals;
#[path = "evals/world.rs"]
mod evals_with_a_world;
mod find_tools;
mod layers;
mod lower;
#[cfg(target_os = "linux")]
mod mcp_servers;
mod message_order;
mod programs;
mod publishing;
mod reading;
mod real_server;
mod replay;
#[cfg(unix)]
mod service;
mod shared_budget;
mod sources;
#[cfg(unix)]
mod stored_run;
mod tool_calls;
mod toolsets;
