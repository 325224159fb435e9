//! What does not compile, and what the compiler then says.
//!
//! Each program in the folder stands beside the compiler's words. They are those of the
//! toolchain that the root `Cargo.toml` names. Another one may use other words, so there the
//! tests compare nothing: they say so on stderr, past the test runner, which shows no output
//! of a test that passes. With `COMPILE_FAIL=required`, as in `.ci/run`, they fail instead.
//! `TRYBUILD=overwrite cargo test --test compile_fail` writes the words anew.
#![cfg(test)]

use std::io::{Write, stderr};
use std::process::Command;

/// The toolchain whose words stand beside the programs.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

fn fails(programs: &[&str]) {
    let version = compiler();
    if !is_oldest(&version) {
        let skipped = format!(
            "SKIPPED: {} programs that must not compile were not tried: this is {version}, and \
             their messages are those of rustc {OLDEST}. Run `cargo +{OLDEST} test -p \
             toolwright-module --all-features --test compile_fail`.",
            programs.len(),
        );
        let required = std::env::var_os("COMPILE_FAIL").is_some_and(|how| how == "required");
        assert!(!required, "{skipped}");
        // Not `eprintln`, which a test that passes does not show.
        stderr().write_all(format!("{skipped}\n").as_bytes()).unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    for program in programs {
        cases.compile_fail(format!("tests/compile_fail/{program}.rs"));
    }
}

/// The compiler that trybuild starts, in its own words.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    String::from_utf8(version).unwrap().trim().to_owned()
}

fn is_oldest(version: &str) -> bool {
    version.strip_prefix("rustc ").is_some_and(|rest| rest.starts_with(&format!("{OLDEST}.")))
}

#[test]
fn only_the_oldest_toolchain_is_recognised() {
    assert!(is_oldest(&format!("rustc {OLDEST}.1 (0123456789 2026-01-01)")));
    for other in ["rustc 1.9.0", "rustc 1.950.0", "rustc 2.95.0", "", "clippy 1.95.0"] {
        assert!(!is_oldest(other), "{other}");
    }
}

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
