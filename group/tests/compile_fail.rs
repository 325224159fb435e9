//! Programs that must not compile, and the messages of the compiler.
//!
//! The messages are stored beside the programs. They are those of the `rust-version` in the root
//! `Cargo.toml`. With another toolchain the tests compare nothing. They report that on stderr
//! directly, because the test runner hides the output of a passing test. With
//! `COMPILE_FAIL=required`, as in `.ci/run`, they fail instead. `TRYBUILD=overwrite cargo test
//! --test compile_fail` updates the messages.
#![cfg(test)]

mod oldest_toolchain;

use oldest_toolchain::fails;

#[test]
fn mismatched_contexts_and_missing_handlers_do_not_compile() {
    fails(&[
        "wrong_context_in",
        "wrong_context_out",
        "mixed_group",
        "dispatch_context",
        "missing_handler",
        "handle_without_a_body",
        "wrong_return",
        "custom_as_handler",
    ]);
}

#[test]
fn a_module_has_exactly_one_signature() {
    fails(&["second_signature", "module_without_signature"]);
}

#[test]
fn likely_mistakes_get_our_own_compiler_messages() {
    fails(&["not_a_signature", "output_without_schema", "not_a_module", "name_for_a_model"]);
}
