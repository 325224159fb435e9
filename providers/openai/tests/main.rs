//! The tests of this crate's public interface, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod common;
mod content;

// Tests by subject.
#[cfg(feature = "async-openai")]
mod async_openai;
mod cases;
mod faults;
mod hostile;
mod incomplete;
mod parts_and_settings;
mod requests;
mod round_trips;
mod server_features;
mod settled;
mod setup;
