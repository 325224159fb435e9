//! The layers: arrows point down, and the lower crates stay light.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Which of our crates each of them may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("toolwright-http", &[]),
    ("toolwright-macros", &[]),
    ("toolwright-signature", &[]),
    // The feature `provider` brings the HTTP crate, and `macros` the attributes.
    ("toolwright-module", &["toolwright-http", "toolwright-macros", "toolwright-signature"]),
    ("toolwright-group", &["toolwright-module", "toolwright-signature"]),
    ("toolwright-orchestrator", &["toolwright-module", "toolwright-signature"]),
    (
        "toolwright-journal",
        &["toolwright-module", "toolwright-orchestrator", "toolwright-signature"],
    ),
    // It is another home of the journal's runs.
    (
        "toolwright-postgres",
        &["toolwright-journal", "toolwright-module", "toolwright-orchestrator"],
    ),
    ("toolwright-restate", &["toolwright-module", "toolwright-orchestrator"]),
    ("toolwright-anthropic", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    // It plays the same scripts with all of them.
    (
        "toolwright-conformance",
        &[
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
        ],
    ),
    ("toolwright-genai", &["toolwright-module", "toolwright-signature"]),
    ("toolwright-gemini", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    ("toolwright-openai", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    ("toolwright-github", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    (
        "toolwright-mcp",
        &["toolwright-group", "toolwright-http", "toolwright-module", "toolwright-signature"],
    ),
    ("toolwright-memory", &["toolwright-module", "toolwright-signature"]),
    ("toolwright-text", &["toolwright-module", "toolwright-signature"]),
    (
        "toolwright-conformance",
        &[
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
        ],
    ),
    (
        "toolwright",
        &[
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-genai",
            "toolwright-github",
            "toolwright-group",
            "toolwright-journal",
            "toolwright-macros",
            "toolwright-mcp",
            "toolwright-memory",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            "toolwright-postgres",
            "toolwright-restate",
            "toolwright-signature",
            "toolwright-text",
        ],
    ),
    (
        "toolwright-cli",
        &[
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-github",
            "toolwright-journal",
            "toolwright-mcp",
            "toolwright-memory",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            "toolwright-signature",
            "toolwright-text",
        ],
    ),
    (
        "toolwright-examples",
        &[
            "toolwright",
            "toolwright-cli",
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-github",
            "toolwright-group",
            "toolwright-journal",
            "toolwright-mcp",
            "toolwright-memory",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            "toolwright-signature",
            "toolwright-text",
        ],
    ),
];

/// What the two layers that every program has depend on, ours left out, and how many crates
/// that brings in all: one more is a decision, which this test asks for.
const CORE: [(&str, &[&str], usize); 2] = [
    (
        "toolwright-signature",
        &[
            "heck",
            "regex-lite",
            "schemars",
            "serde",
            "serde_json",
            "serde_path_to_error",
            "strsim",
            "thiserror",
        ],
        27,
    ),
    (
        "toolwright-module",
        &[
            "base64",
            "futures-core",
            "futures-util",
            "schemars",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tokio-util",
            "tracing",
        ],
        40,
    ),
];

/// Maximum number of external crates that an agent brings: provider and orchestrator, with
/// their default features.
const AGENT_CRATES: usize = 110;

/// How many lines of code the layer of typed tool calls may have, with and without `async`.
const TOOL_CALL_LINES: usize = 1_404;

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

#[test]
fn every_dependency_points_down_tests_included() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let rules: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let allowed = rules.get(name).unwrap_or_else(|| panic!("say where `{name}` stands"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            assert!(
                // A crate's tests may turn on features of the crate itself.
                !used.starts_with("toolwright") || used == name || allowed.contains(&used),
                "`{name}` may not depend on `{used}`",
            );
        }
    }
}

/// Two glob imports of our crates must not clash: each public name at a crate's root belongs to
/// one crate. A name that a crate only passes on is the same item, so it is not counted.
#[test]
fn no_two_crates_export_the_same_name() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let manifests = metadata["packages"].as_array().unwrap().iter();
    let manifests = manifests.filter(|package| package["name"] != "toolwright-examples");
    let folders: Vec<_> =
        manifests.map(|package| Path::new(package["manifest_path"].as_str().unwrap())).collect();
    let mut owners: BTreeMap<String, &Path> = BTreeMap::new();
    for manifest in folders {
        let names = root_names(manifest);
        assert!(
            !names.is_empty(),
            "{manifest:?} exports nothing, so this test does not understand it"
        );
        for name in names {
            if let Some(other) = owners.insert(name.clone(), manifest) {
                panic!("`{name}` is exported by {other:?} and {manifest:?}; rename one of them");
            }
        }
    }
}

/// The names of a crate's own items at its root, as its `pub use` and `pub mod` lines list them.
fn root_names(manifest: &Path) -> Vec<String> {
    let source = fs::read_to_string(manifest.with_file_name("src").join("lib.rs")).unwrap();
    let mut names = Vec::new();
    for item in source.split("\npub ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        if let Some(module) = item.strip_prefix("mod ") {
            names.push(module.to_owned());
        } else if let Some(function) = item.strip_prefix("fn ") {
            // An attribute.
            names.extend(function.split('(').next().map(str::to_owned));
        } else if let Some(path) = item.strip_prefix("use ").filter(|path| is_own(path)) {
            let listed = path.rsplit_once("::").map_or(path, |(_, last)| last);
            let listed =
                path.split_once('{').map_or(listed, |(_, list)| list.trim_end_matches('}'));
            names.extend(listed.split(',').map(|name| name.trim().to_owned()));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn is_own(path: &str) -> bool {
    !path.starts_with("toolwright_") && path.contains("::")
}

/// Slow, because each set of features is compiled: `.ci/run` runs it.
#[test]
#[ignore = "compiles every crate several times"]
fn each_feature_builds_alone_and_none() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let features = package["features"].as_object().unwrap().keys().map(String::as_str);
        for feature in features.chain([""]) {
            println!("{name}: {}", if feature.is_empty() { "no feature" } else { feature });
            cargo(&["check", "-p", name, "--lib", "--no-default-features", "--features", feature]);
        }
    }
}

#[test]
fn the_lowest_layer_knows_no_runtime() {
    let crates = external_crates(&["toolwright-signature"]);
    for runtime in ["tokio", "futures-core", "futures-util", "async-trait"] {
        assert!(!crates.contains(runtime), "toolwright-signature depends on {runtime}");
    }
}

#[test]
fn crates_stay_light() {
    for (package, direct, most) in CORE {
        let all = external_crates(&[package]);
        assert!(all.len() <= most, "{package}: {} crates: {all:?}", all.len());
        let depends = tree(&["-p", package, "--depth", "1"]);
        assert!(depends.iter().eq(direct), "{package} depends on {depends:?}");
    }

    let agent = external_crates(&["toolwright-openai", "toolwright-orchestrator"]);
    println!("agent: {} external crates", agent.len());
    assert!(agent.len() <= AGENT_CRATES, "{}: {agent:?}", agent.len());
    // Its types are for loops of one's own.
    assert!(!agent.contains("async-openai"), "{agent:?}");
}

/// As large as toolcall itself, whose place it takes: 1,404 lines.
#[test]
fn the_layer_of_tool_calls_stays_small() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../group/src");
    let all = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    let mut open: Vec<_> = all.filter(|path| !path.ends_with("async_openai")).collect();
    let mut lines = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let code = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines += code.filter(|line| !line.starts_with("//")).count();
    }
    assert!((500..=TOOL_CALL_LINES).contains(&lines), "{lines} lines");
}

#[test]
fn conversions_bring_the_types_of_async_openai_and_no_client() {
    let crates = tree(&["-p", "toolwright-group", "--features", "async-openai"]);
    for client in ["reqwest", "hyper", "rustls", "tower", "secrecy", "eventsource-stream"] {
        assert!(!crates.contains(client), "toolwright-group brings {client}");
    }
    assert!(crates.contains("async-openai"));
}

/// What these packages of ours bring, names without versions.
fn external_crates(packages: &[&str]) -> BTreeSet<String> {
    packages.iter().flat_map(|package| tree(&["-p", package])).collect()
}

fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let base = ["tree", "-e", "normal", "--prefix", "none", "--offline"];
    let text = cargo(&[&base, arguments].concat());
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !name.is_empty() && !name.starts_with("toolwright"))
        .map(str::to_owned)
        .collect()
}
