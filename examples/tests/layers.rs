//! The layers: arrows point down, and the lower crates stay light.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What a provider may depend on.
const PROVIDER: &[&str] =
    &["toolwright-http", "toolwright-module", "toolwright-provider", "toolwright-signature"];

/// Which of our crates each of them may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("toolwright-http", &[]),
    ("toolwright-macros", &[]),
    ("toolwright-signature", &[]),
    ("toolwright-module", &["toolwright-macros", "toolwright-signature"]),
    ("toolwright-provider", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    ("toolwright-group", &["toolwright-module", "toolwright-signature"]),
    ("toolwright-orchestrator", &["toolwright-module", "toolwright-signature"]),
    (
        "toolwright-journal",
        &["toolwright-module", "toolwright-orchestrator", "toolwright-signature"],
    ),
    // A home may use the module `home` of the journal.
    (
        "toolwright-postgres",
        &["toolwright-journal", "toolwright-module", "toolwright-orchestrator"],
    ),
    ("toolwright-restate", &["toolwright-module", "toolwright-orchestrator"]),
    (
        "toolwright-evals",
        &[
            "toolwright-journal",
            // The tests of tau2.
            "toolwright-mcp",
            "toolwright-module",
            "toolwright-orchestrator",
            "toolwright-signature",
        ],
    ),
    (
        "toolwright-serve",
        &[
            "toolwright-journal",
            "toolwright-module",
            "toolwright-orchestrator",
            // The feature `postgres`.
            "toolwright-postgres",
            "toolwright-signature",
        ],
    ),
    ("toolwright-anthropic", PROVIDER),
    ("toolwright-genai", PROVIDER),
    ("toolwright-gemini", PROVIDER),
    ("toolwright-openai", PROVIDER),
    ("toolwright-github", &["toolwright-http", "toolwright-module", "toolwright-signature"]),
    (
        "toolwright-mcp",
        &["toolwright-group", "toolwright-http", "toolwright-module", "toolwright-signature"],
    ),
    ("toolwright-memory", &["toolwright-module", "toolwright-signature"]),
    ("toolwright-text", &["toolwright-module", "toolwright-signature"]),
    // It plays the same scripts with all providers.
    (
        "toolwright-conformance",
        &[
            "toolwright-anthropic",
            "toolwright-gemini",
            "toolwright-http",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            "toolwright-provider",
        ],
    ),
    (
        "toolwright",
        &[
            "toolwright-anthropic",
            "toolwright-evals",
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
            "toolwright-provider",
            "toolwright-restate",
            "toolwright-serve",
            "toolwright-signature",
            "toolwright-text",
        ],
    ),
    (
        "toolwright-cli",
        &[
            "toolwright-anthropic",
            "toolwright-evals",
            "toolwright-gemini",
            "toolwright-github",
            "toolwright-http",
            "toolwright-journal",
            "toolwright-mcp",
            "toolwright-memory",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            // The feature `postgres`.
            "toolwright-postgres",
            "toolwright-provider",
            "toolwright-serve",
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
            "toolwright-evals",
            "toolwright-gemini",
            "toolwright-github",
            "toolwright-group",
            "toolwright-journal",
            "toolwright-mcp",
            "toolwright-memory",
            "toolwright-module",
            "toolwright-openai",
            "toolwright-orchestrator",
            "toolwright-postgres",
            "toolwright-provider",
            "toolwright-serve",
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
    let rules: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for package in packages() {
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
    let packages = packages();
    let manifests = packages.iter().filter(|package| package["name"] != "toolwright-examples");
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

/// Cargo builds the examples and commands of all packages into one folder: of two with the same name, one is
/// lost, and a test that starts it gets the other.
#[test]
fn no_two_packages_have_an_example_or_a_command_of_the_same_name() {
    let mut owners = BTreeMap::new();
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let kind = target["kind"][0].as_str().unwrap();
            let name = target["name"].as_str().unwrap();
            if !["example", "bin"].contains(&kind) {
                continue;
            }
            let package = package["name"].as_str().unwrap().to_owned();
            let key = (kind.to_owned(), name.to_owned());
            if let Some(other) = owners.insert(key, package.clone()) {
                panic!("the {kind} `{name}` is in {other} and in {package}; rename one of them");
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

/// The packages of the workspace, without their dependencies.
fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

/// The features that the sources or the tests of a package name.
fn features_of_code(package: &Value) -> BTreeSet<String> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let mut open = ["src", "tests"].map(|folder| manifest.with_file_name(folder)).to_vec();
    let mut named = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(path).unwrap();
            let names = source.split("feature = \"").skip(1);
            named.extend(names.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    let required = package["targets"].as_array().unwrap().iter();
    let required = required.filter_map(|target| target["required-features"].as_array()).flatten();
    named.extend(required.map(|feature| feature.as_str().unwrap().to_owned()));
    named
}

/// Code behind a feature that no test turns on may be broken.
#[test]
fn each_feature_that_code_depends_on_is_on_in_the_tests_of_ci() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let checks = fs::read_to_string(root.join(".ci/run")).unwrap();
    let listed = checks.lines().find_map(|line| line.strip_prefix("features=")).unwrap();
    let mut on: BTreeSet<String> = listed.split(',').map(str::to_owned).collect();
    assert!(checks.contains("\ncargo test --workspace --features \"$features\"\n"));
    let all = ["tree", "--workspace", "--depth", "0", "-e", "normal,dev", "--prefix", "none"];
    let members = cargo(&[&all[..], &["--offline", "-f", "{p}|{f}"]].concat());
    for member in members.lines().filter(|line| !line.is_empty()) {
        let (name, features) = member.split_once('|').unwrap();
        let name = name.split(' ').next().unwrap();
        on.extend(features.split(',').map(|feature| format!("{name}/{feature}")));
    }
    let mut missing = Vec::new();
    // The facade has no code of its own, and `each_feature_builds_alone_and_none` builds it.
    for package in packages().iter().filter(|package| package["name"] != "toolwright") {
        let name = package["name"].as_str().unwrap();
        let known = package["features"].as_object().unwrap();
        let used = features_of_code(package).into_iter().filter(|name| known.contains_key(name));
        missing.extend(used.map(|used| format!("{name}/{used}")).filter(|used| !on.contains(used)));
    }
    assert!(missing.is_empty(), "no test runs with {missing:?}: add them to `features` in .ci/run");
}

/// A user of the facade never needs one of its crates by name only to turn on a feature.
#[test]
fn the_facade_can_turn_on_every_feature_of_its_crates() {
    let packages = packages();
    let named = |name: &str| packages.iter().find(|package| package["name"] == name).unwrap();
    let list = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let facade = named("toolwright");
    let own = facade["features"].as_object().unwrap().values().flat_map(list);
    let own: BTreeSet<String> = own.map(|turned_on| turned_on.replace("?/", "/")).collect();
    for dependency in facade["dependencies"].as_array().unwrap() {
        let name = dependency["name"].as_str().unwrap();
        if !name.starts_with("toolwright-") || !dependency["kind"].is_null() {
            continue;
        }
        let features = named(name)["features"].as_object().unwrap();
        let mut on: BTreeSet<String> = list(&dependency["features"]).into_iter().collect();
        if dependency["uses_default_features"] == true {
            on.insert("default".to_owned());
        }
        let own = own.iter().filter_map(|turned_on| turned_on.strip_prefix(&format!("{name}/")));
        on.extend(own.map(str::to_owned));
        let mut last = 0;
        while last < on.len() {
            last = on.len();
            let next: Vec<_> =
                on.iter().filter_map(|name| features.get(name)).flat_map(list).collect();
            on.extend(next);
        }
        let off: Vec<&String> = features
            .keys()
            .filter(|feature| !on.contains(*feature) && *feature != "default")
            // The facade exports the attributes itself.
            .filter(|feature| (name, feature.as_str()) != ("toolwright-module", "macros"))
            .collect();
        assert!(off.is_empty(), "no feature of `toolwright` turns on {off:?} of `{name}`");
    }
}

/// Slow, because each set of features is compiled: `.ci/run` runs it.
#[test]
#[ignore = "compiles every crate several times"]
fn each_feature_builds_alone_and_none() {
    for package in packages() {
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

/// The figures of the page are the current ones, and each row is tested.
#[test]
fn the_page_on_costs_has_the_number_of_crates() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/costs.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split("| crate | external crates |\n|---|---|\n").nth(1).unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let mut checked = 0;
    for row in rows {
        let (what, figure) = row.trim_matches(['|', ' ']).split_once(" | ").unwrap();
        let mut names = what.split('`').skip(1).step_by(2).peekable();
        while let Some(package) = names.next() {
            let feature = names.next_if(|name| !name.starts_with("toolwright"));
            let features: &[&str] = match &feature {
                Some(feature) => &["--features", feature],
                None => &[],
            };
            let crates = tree(&[&["-p", package], features].concat()).len();
            assert_eq!(crates.to_string(), figure, "{package} {features:?}");
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked} figures");
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
