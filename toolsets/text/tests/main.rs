//! The tests of this crate, but for `hostile.rs`: see `README.md` beside this file.
#![cfg(test)]

mod support;

mod contracts;
mod differential;
mod properties;
mod tools;
