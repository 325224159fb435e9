//! Programs that must not compile, and the messages of the compiler.
//!
//! The messages are stored beside the programs. They are those of the `rust-version` in the root
//! `Cargo.toml`. With another toolchain the tests compare nothing. They report that on stderr
//! directly, because the test runner hides the output of a passing test. With
//! `COMPILE_FAIL=required`, as in `.ci/run`, they fail instead. `TRYBUILD=overwrite cargo test
//! --test compile_fail` updates the messages.
#![cfg(test)]

use std::io::{Write, stderr};
use std::process::Command;

/// Returns the toolchain of the stored messages.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

fn fails(programs: &[&str]) {
    let version = compiler();
    if !is_oldest(&version) {
        let skipped = format!(
            "SKIPPED: {} programs that must not compile were not tried: this is {version}, and \
             their messages are those of rustc {OLDEST}. Run `cargo +{OLDEST} test -p \
             toolwright --test compile_fail`.",
            programs.len(),
        );
        let required = std::env::var_os("COMPILE_FAIL").is_some_and(|how| how == "required");
        assert!(!required, "{skipped}");
        // Not `eprintln`, whose output the runner hides for a passing test.
        stderr().write_all(format!("{skipped}\n").as_bytes()).unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    for program in programs {
        cases.compile_fail(format!("tests/compile_fail/{program}.rs"));
    }
}

/// Returns the version text of the compiler that trybuild runs.
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
