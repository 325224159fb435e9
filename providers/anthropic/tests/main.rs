//! The tests of this crate's public interface, in one program: see `README.md` beside this file.
#![cfg(test)]
