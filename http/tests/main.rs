//! The tests of this crate that need a server: see `README.md` beside this file.
#![cfg(test)]

mod client;
