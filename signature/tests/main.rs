//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]

// What tests share.
mod corpus;
mod fuzzed {
    pub(crate) mod differential;
    pub(crate) mod lowering;
    pub(crate) mod partial;
    pub(crate) mod reading;
}
mod judge;
mod zoo;

// Tests by subject.
mod agreement;
mod all_optional;
mod changes;
mod checked;
mod comparing;
mod constructs;
mod contracts;
mod dialects;
mod differential;
mod foreign;
mod fuzz_corpus;
mod hostile;
mod hostile_schemas;
mod json_text;
mod lenient;
mod names;
mod partial;
mod reading;
mod recursive_unions;
mod refusals;
mod requests;
mod round_trip;
mod rules;
mod schemas;
mod sloppiness;
mod thoughts;
mod type_table;
mod versions;
