//! The runner of programs that must not compile, which `toolwright` has too.

use std::io::{Write, stderr};
use std::process::Command;

/// Returns the toolchain of the stored messages.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

pub(crate) fn fails(programs: &[&str]) {
    let version = compiler();
    if !is_oldest(&version) {
        let skipped = format!(
            "SKIPPED: {} programs that must not compile were not tried: this is {version}, and \
             their messages are those of rustc {OLDEST}. Run `cargo +{OLDEST} test -p \
             {} --all-features --test compile_fail`.",
            programs.len(),
            env!("CARGO_PKG_NAME"),
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
