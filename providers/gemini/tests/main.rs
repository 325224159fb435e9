//! The tests of this crate's public interface, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod common;

// Tests by subject.
mod cases;
mod faults;
mod incomplete;
mod requests;
mod round_trip;
mod setup;
