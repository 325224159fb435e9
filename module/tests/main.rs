//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod support;

// Tests by subject.
mod context;
mod errors;
mod hooks;
mod media;
mod messages;
mod models;
mod modules;
mod money;
mod panics;
mod predicting;
mod prompts;
mod recording;
mod schema_driven;
mod secrets;
mod shared_budgets;
mod tools;
mod toolsets;
mod validators;
mod waiting;
