//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

#[cfg(feature = "async-openai")]
mod async_openai;
#[cfg(feature = "blocking")]
mod blocking;
mod groups;
mod hooks;
mod names;
mod panics;
mod policies;
