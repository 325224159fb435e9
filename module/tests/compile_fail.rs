//! What does not compile, and what the compiler then says.
//!
//! Each program in the folder stands beside the compiler's words. They are those of the
//! toolchain that the root `Cargo.toml` names: another one may say the same otherwise, so
//! only that one compares them. `TRYBUILD=overwrite cargo test --test compile_fail` writes
//! them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::process::Command;

fn fails(programs: &[&str]) {
    if !same_toolchain() {
        return;
    }
    let cases = trybuild::TestCases::new();
    for program in programs {
        cases.compile_fail(format!("tests/compile_fail/{program}.rs"));
    }
}

fn same_toolchain() -> bool {
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    version.starts_with(concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"), "."))
}

#[test]
fn s179_to_s181_s189_contexts_that_do_not_match_and_missing_handlers_do_not_compile() {
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
fn s88_s104_a_module_has_exactly_one_signature() {
    fails(&["second_signature", "module_without_signature"]);
}

#[test]
fn a_newcomers_likeliest_mistakes_are_answered_in_our_words() {
    fails(&["not_a_signature", "output_without_schema", "not_a_module", "name_for_a_model"]);
}
