//! The tests of this crate, in one program: see `README.md` beside this file.
#![cfg(test)]

#[path = "support/authorization.rs"]
mod authorization;
mod support;

mod client;
mod docs_pages;
mod faulty_http_servers;
mod faulty_servers;
mod http;
mod logins;
mod lowering;
mod process;
mod prompts_and_resources;
mod questions;
#[cfg(target_os = "linux")]
mod servers;
mod streams;
