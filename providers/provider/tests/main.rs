//! The tests of this crate, in one program.
#![cfg(test)]

mod calls;
mod content;
mod counts;
mod lenient;
mod streaming;
