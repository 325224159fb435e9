//! Evals as programs write them.
mod runs;
