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
    fails(&["functions", "arguments", "parameters", "outputs", "toolsets", "same_method"]);
    fails(&["namespace"]);
}

#[test]
fn a_missing_description_is_a_warning_that_can_be_denied() {
    fails(&["undescribed"]);
}

#[test]
fn errors_of_the_compiler_point_at_the_code_that_was_written() {
    fails(&["not_shared", "same_name", "not_send", "one_thread"]);
}

/// The first error is ours. Those of serde and schemars follow it.
#[test]
fn a_type_that_does_not_fit_is_an_error_that_says_what_to_write() {
    fails(&["without_derives", "without_derives_output", "without_derives_data"]);
    fails(&["forgotten_context", "unknown_error", "aliased_result"]);
}

/// Text and errors of other libraries do not convert by `?`. The message names the method that
/// does.
#[test]
fn an_error_that_does_not_convert_is_an_error_that_names_the_method() {
    fails(&["converted_errors"]);
}
