//! Programs that must not compile, and the messages of the compiler.
//!
//! The messages are stored beside the programs. They are those of the `rust-version` in the root
//! `Cargo.toml`. With another toolchain the tests compare nothing. They report that on stderr
//! directly, because the test runner hides the output of a passing test. With
//! `COMPILE_FAIL=required`, as in `.ci/run`, they fail instead. `TRYBUILD=overwrite cargo test
//! --test compile_fail` updates the messages.
#![cfg(test)]

#[path = "../../group/tests/oldest_toolchain/mod.rs"]
mod oldest_toolchain;

use oldest_toolchain::fails;

#[test]
fn misuse_of_an_attribute_is_an_error_at_the_code_that_is_wrong() {
    fails(&["functions", "arguments", "parameters", "outputs", "toolsets"]);
}

#[test]
fn a_missing_description_is_a_warning_that_can_be_denied() {
    fails(&["undescribed"]);
}

#[test]
fn errors_of_the_compiler_point_at_the_code_that_was_written() {
    fails(&["not_shared", "without_derives", "same_name", "unknown_error", "not_send"]);
}
