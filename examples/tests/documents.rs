//! What the documents say is so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The names of all functions in the project's sources.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folders = ["signature", "module", "orchestrator", "providers", "toolsets", "examples"];
    let mut open: Vec<PathBuf> = folders.map(|folder| root().join(folder)).to_vec();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(path).unwrap();
            let after = source.split("fn ").skip(1);
            let name = |text: &str| -> String {
                text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
            };
            names.extend(after.map(name));
        }
    }
    names
}

#[test]
fn the_checklist_has_every_number_and_names_only_tests_that_exist() {
    let (checklist, functions) = (text("docs/checklist.md"), functions());
    for number in 1..=204 {
        let start = format!("S{number} — ");
        let mut lines = checklist.lines().filter_map(|line| line.strip_prefix(&start));
        let tests = lines.next().unwrap_or_else(|| panic!("S{number} is missing"));
        assert_eq!(lines.next(), None, "S{number} stands twice");
        for test in tests.split(", ").filter(|test| *test != "open") {
            assert!(functions.contains(test), "S{number}: there is no test `{test}`");
        }
    }
}

#[test]
fn every_test_with_a_number_stands_in_the_checklist() {
    let checklist = text("docs/checklist.md");
    let numbered = |name: &String| {
        name.starts_with('s') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
    };
    for test in functions().into_iter().filter(numbered) {
        assert!(checklist.contains(&test), "the checklist does not name `{test}`");
    }
}

#[test]
fn s72_s149_to_s151_the_decisions_say_why_it_is_one_system() {
    let decision = text("docs/adr/0001-the-input-type-is-the-signature.md");
    for word in ["ADR-005", "S72", "S149", "S150", "S151"] {
        assert!(decision.contains(word), "{word}");
    }
}

#[test]
fn s159_the_readme_says_who_should_use_it_and_who_should_not() {
    let readme = text("README.md");
    let section = readme.split("## Should you use it?").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    for other in ["rig", "DSRs", "genai", "rmcp", "async-openai", "pydantic-ai"] {
        assert!(section.contains(other), "{other}");
    }
}

#[test]
fn no_code_in_the_documentation_is_left_out_of_the_tests() {
    let sources = ["signature/src", "module/src", "orchestrator/src", "providers", "toolsets"];
    let mut open: Vec<PathBuf> = sources.map(|folder| root().join(folder)).to_vec();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let left_out = source.lines().any(|line| {
                line.trim_start().starts_with("//")
                    && line.contains("```")
                    && line.contains("ignore")
            });
            assert!(!left_out, "{}", path.display());
        }
    }
}
