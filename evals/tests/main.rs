//! Evals as programs write them.

#![cfg(test)]

mod bfcl;
mod expected_calls;
mod graders;
mod odd;
mod reports;
mod runs;
mod tau2;
