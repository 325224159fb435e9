//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod support;

// Tests by subject.
mod budgets;
mod crash;
mod driving;
mod earlier;
mod endless;
mod leases;
mod many;
mod reading;
