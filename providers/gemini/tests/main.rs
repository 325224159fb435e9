//! The tests.
#![cfg(test)]
