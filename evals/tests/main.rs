//! Evals as programs write them.

#![cfg(test)]

mod expected_calls;
mod runs;
