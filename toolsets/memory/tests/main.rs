//! The tests of this crate, in one program: see `README.md` beside this file.
#![cfg(test)]

mod support;

mod concurrency;
mod contracts;
mod store;
mod tools;
