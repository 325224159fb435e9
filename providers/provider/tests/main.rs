//! The tests of this crate, in one program.
#![cfg(test)]

mod content;
mod counts;
mod lenient;
mod streaming;
