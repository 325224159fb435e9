//! What the pages show is so: programs compile and run, links lead somewhere, named tests exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The folders with Rust sources.
pub(crate) const FOLDERS: [&str; 14] = [
    "http",
    "macros",
    "signature",
    "module",
    "group",
    "orchestrator",
    "serve",
    "evals",
    "durable",
    "providers",
    "toolsets",
    "toolwright",
    "cli",
    "examples",
];

/// The Rust files below some folders, each with its path from the root.
pub(crate) fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let (mut found, base) = (Vec::new(), root());
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| base.join(folder)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(&base).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The tests of a source, each with the condition that the checklist names: why `cargo test` may
/// skip it.
fn tests_of(path: &str, source: &str) -> Vec<(String, Option<String>)> {
    let (mut tests, mut attributes) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(rest) = declared {
            let is_test = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
            let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            if is_test {
                let name: String = rest.chars().take_while(word).collect();
                tests.push((name, condition(path, &attributes)));
            }
        }
        let open = !attributes.is_empty() && !attributes.ends_with(']');
        if line.starts_with("#[") || open {
            attributes += line;
        } else if !line.starts_with("//") {
            attributes.clear();
        }
    }
    tests
}

fn condition(path: &str, attributes: &str) -> Option<String> {
    let ignored = attributes.split_once("#[ignore").map(|(_, rest)| {
        let reason = rest.strip_prefix(" = \"").and_then(|rest| rest.split('"').next());
        format!("ignored: {}", reason.unwrap())
    });
    // These tests are skipped with any other compiler.
    let compiler = path.ends_with("tests/compile_fail.rs").then(|| {
        let workspace = text("Cargo.toml");
        let oldest = workspace.lines().find_map(|line| line.strip_prefix("rust-version = "));
        format!("with rustc {}", oldest.unwrap().trim_matches('"'))
    });
    ignored.or(compiler)
}

/// All tests of the project with their conditions. Several tests may have one name.
fn tests() -> BTreeMap<String, BTreeSet<Option<String>>> {
    let mut tests = BTreeMap::<_, BTreeSet<_>>::new();
    for (path, source) in sources(&FOLDERS) {
        for (name, condition) in tests_of(&path, &source) {
            tests.entry(name).or_default().insert(condition);
        }
    }
    tests
}

#[test]
fn tests_and_their_conditions_are_found_in_a_source() {
    let source = r#"
        #[test]
        fn plain() {}
        fn helper() {}
        /// Words.
        #[tokio::test(flavor = "multi_thread")]
        // More words.
        #[ignore = "needs a server: tests/server.sh"]
        async fn ignored() {}
        #[derive(Debug)]
        struct Other;
        fn after() {}
    "#;
    let ignored = "ignored: needs a server: tests/server.sh".to_owned();
    let expected = [("plain".to_owned(), None), ("ignored".to_owned(), Some(ignored))];
    assert_eq!(tests_of("module/tests/x.rs", source), expected);
    let compiler = tests_of("group/tests/compile_fail.rs", "#[test]\nfn fails() {}");
    assert!(compiler[0].1.as_ref().unwrap().starts_with("with rustc 1."), "{compiler:?}");
}

/// The tests in a line of the checklist, each with its condition. What is not a test is a document:
/// a link, which another test follows, or a heading.
fn listed(line: &str) -> Vec<(&str, Option<&str>)> {
    let tests = line.split(". In part: ").next().unwrap_or_default().split(", ");
    let tests = tests.filter(|test| *test != "open" && !test.starts_with(['[', '"']));
    tests
        .map(|test| match test.split_once(" (") {
            Some((name, condition)) => (name, Some(condition.trim_end_matches(')'))),
            None => (test, None),
        })
        .collect()
}

#[test]
fn the_checklist_has_every_number_and_its_tests_exist() {
    let (checklist, tests) = (text("docs/checklist.md"), tests());
    let mut faults = Vec::new();
    for number in 1..=204 {
        let start = format!("S{number} — ");
        let mut lines = checklist.lines().filter_map(|line| line.strip_prefix(&start));
        let line = lines.next().unwrap_or_else(|| panic!("S{number} is missing"));
        assert_eq!(lines.next(), None, "S{number} is there twice");
        for heading in line.split('"').skip(1).step_by(2).filter(|_| line.starts_with('"')) {
            let there = text("README.md").lines().any(|line| line == format!("## {heading}"));
            assert!(there && line.ends_with(" in the README"), "S{number}: {line}");
        }
        for (test, says) in listed(line) {
            let Some(needs) = tests.get(test) else {
                faults.push(format!("S{number}: there is no test `{test}`"));
                continue;
            };
            // If two tests share a name, the line does not say which one is meant.
            if !needs.iter().map(Option::as_deref).eq([says]) {
                faults.push(format!("S{number}: `{test}` says {says:?} and is {needs:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The tables of the pages on MCP name a test for each point.
#[test]
fn every_test_that_a_page_names_exists() {
    let (tests, mut named) = (tests(), 0);
    for page in ["docs/mcp.md", "docs/mcp-client.md"] {
        let shown = text(page);
        let points = shown.split("## Point by point\n").nth(1).unwrap();
        for row in points.lines().filter(|row| row.starts_with("| ")) {
            // Names of tests have underscores; code in the other columns has few.
            let words = row.split('`').skip(1).step_by(2);
            for test in words.filter(|word| word.matches('_').count() > 2) {
                assert!(tests.contains_key(test), "{page} names `{test}`, which is not a test");
                named += 1;
            }
        }
    }
    assert!(named > 30, "{named} tests found");
}

/// Every file of the project with one of these extensions.
pub(crate) fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(path) = open.pop() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && (name == ".." || !name.starts_with('.')) {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|is| extensions.iter().any(|one| is == *one)) {
            found.push(path);
        }
    }
    found
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_on_a_page_leads_somewhere() {
    let mut links = 0;
    for page in files(&["md"]) {
        let shown = fs::read_to_string(&page).unwrap();
        for link in shown.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{} links to {link}", page.display());
            if !place.is_empty() {
                let target = fs::read_to_string(target).unwrap();
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                let there = headings.any(|heading| anchor(heading) == place);
                assert!(there, "{} links to {link}", page.display());
            }
            links += 1;
        }
    }
    assert!(links > 50, "{links} links found");
}

#[test]
fn every_rust_program_on_a_page_is_compiled() {
    let compiled = text("examples/src/lib.rs");
    for page in files(&["md"]) {
        let path = page.to_str().unwrap().split("../").last().unwrap();
        // A decision shows a shape, not a program.
        let whole = path.starts_with("docs/adr/") || compiled.contains(&format!("../../{path}\""));
        let shown = fs::read_to_string(&page).unwrap();
        let mut above = "";
        for line in shown.lines() {
            let fence =
                line.trim_start().strip_prefix("```").filter(|kind| kind.starts_with("rust"));
            if let Some(kind) = fence {
                let by_path = above.starts_with("<!-- code: ");
                assert!(kind == "rust" && (whole || by_path), "{path}: {above}\n{line}");
            }
            above = line;
        }
    }
}

/// The words of code.
fn words(code: &str) -> BTreeSet<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// A page that names `Type::item` is wrong once the item has another name.
#[test]
fn every_item_of_a_type_that_a_page_names_exists() {
    let sources: Vec<String> = sources(&FOLDERS)
        .into_iter()
        .filter(|(path, _)| path.contains("/src/"))
        .map(|(_, source)| {
            let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.collect::<Vec<_>>().join("\n")
        })
        .collect();
    let sources: Vec<(BTreeSet<&str>, &str)> =
        sources.iter().map(|source| (words(source), source.as_str())).collect();
    let is_ours = |name: &str| {
        let kinds = ["struct", "enum", "trait", "type"];
        let declared = kinds.map(|kind| format!("pub {kind} {name}"));
        sources.iter().any(|(words, source)| {
            words.contains(name) && declared.iter().any(|declared| source.contains(declared))
        })
    };
    let (mut named, mut missing) = (0, Vec::new());
    for page in files(&["md"]).into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let shown = fs::read_to_string(&page).unwrap();
        let prose = shown.split("```").step_by(2).collect::<Vec<_>>().join("\n");
        for code in prose.split('`').skip(1).step_by(2) {
            for (before, after) in code.match_indices("::").map(|(at, _)| code.split_at(at)) {
                let ends = |c: char| !c.is_alphanumeric() && c != '_';
                let of = before.rsplit(ends).next().unwrap();
                let item = after[2..].split(ends).next().unwrap();
                if !of.starts_with(char::is_uppercase) || item.is_empty() || !is_ours(of) {
                    continue;
                }
                named += 1;
                let declared =
                    [format!("fn {item}"), format!("pub {item}:"), format!("const {item}")];
                let there = sources.iter().any(|(words, source)| {
                    let declares = || declared.iter().any(|declared| source.contains(declared));
                    let in_macro = source.contains("macro_rules!");
                    if words.contains(of) && words.contains(item) {
                        // A macro may put the name of an item together.
                        return in_macro || item.starts_with(char::is_uppercase) || declares();
                    }
                    // A macro may add an item to types that its file does not name.
                    in_macro && declares()
                });
                if !there {
                    missing.push(format!("{}: `{of}::{item}`", page.display()));
                }
            }
        }
    }
    assert!(named > 100, "{named} items found");
    // The decision says that this item was removed.
    missing.retain(|item| !item.ends_with("0014-one-crate-speaks-http.md: `OpenAi::with_config`"));
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A page whose code after each `<!-- code: PATH -->` is replaced with that file.
fn with_code(page: &str) -> String {
    let mut parts = page.split("<!-- code: ");
    let mut whole = parts.next().unwrap().to_owned();
    for part in parts {
        let (path, rest) = part.split_once(" -->\n```rust\n").unwrap();
        let (_, after) = rest.split_once("\n```\n").unwrap();
        whole += &format!("<!-- code: {path} -->\n```rust\n{}```\n{after}", text(path));
    }
    whole
}

/// The same for a crate's documentation, which shows the code without its first comment.
fn with_code_in_the_crate(source: &str) -> String {
    let (before, rest) = source.split_once("//! <!-- code: ").unwrap();
    let (path, rest) = rest.split_once(" -->\n//!\n//! ```no_run\n").unwrap();
    let (_, after) = rest.split_once("//! ```\n").unwrap();
    let code = text(path);
    let code = code.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    let code: String = code.map(|line| format!("{}\n", format!("//! {line}").trim_end())).collect();
    format!("{before}//! <!-- code: {path} -->\n//!\n//! ```no_run\n{code}//! ```\n{after}")
}

#[test]
fn the_pages_show_exactly_the_programs_that_are_tested() {
    let crate_docs = "group/src/async_openai.rs";
    let (mut shown, mut faults) = (0, Vec::new());
    for page in files(&["md"]).into_iter().chain([root().join(crate_docs)]) {
        let before = fs::read_to_string(&page).unwrap();
        if !before.contains("<!-- code: ") {
            continue;
        }
        shown += before.matches("<!-- code: ").count();
        let of_crate = page.ends_with(crate_docs);
        let now = if of_crate { with_code_in_the_crate(&before) } else { with_code(&before) };
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&page, &now).unwrap();
        } else if before != now {
            faults.push(page);
        }
    }
    assert!(faults.is_empty(), "run it with UPDATE_DOCS=1 and read the difference: {faults:?}");
    assert!(shown >= 5, "{shown} programs found");
}

#[test]
fn contributing_has_the_commands_of_ci_and_the_readme_the_oldest_rust() {
    let (contributing, checks) = (text("CONTRIBUTING.md"), text(".ci/run"));
    for check in checks.lines().map(str::trim).filter(|line| line.contains("cargo ")) {
        let check = check.trim_end_matches(" ;;");
        assert!(check.starts_with('#') || contributing.contains(check), "{check}");
    }
    let workspace = text("Cargo.toml");
    let oldest = workspace.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let oldest = oldest.unwrap().trim_matches('"');
    assert!(text("README.md").contains(&format!("Rust {oldest} or later")), "{oldest}");
}

/// A package made by the README's commands, without the network.
#[cfg(unix)]
fn package(name: &str) -> PathBuf {
    let readme = text("README.md");
    let commands = readme.split("```sh\n").find(|rest| rest.starts_with("cargo new umbrella\n"));
    let commands = commands.and_then(|rest| rest.split("```").next()).unwrap();
    let folder = std::env::temp_dir().join(format!("toolwright-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let clone = fs::canonicalize(root()).unwrap();
    std::os::unix::fs::symlink(clone, folder.join("toolwright")).unwrap();
    let mut shell = Command::new("sh");
    let ran = shell.args(["-euc", commands]).env("CARGO_NET_OFFLINE", "true").current_dir(&folder);
    let ran = ran.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let package = folder.join("umbrella");
    fs::write(package.join("src/main.rs"), text("examples/examples/hello.rs")).unwrap();
    // The versions of the workspace are on this machine already.
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    folder
}

/// Runs cargo in a package, without the network.
#[cfg(unix)]
fn cargo(package: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    let ran = command.args(arguments).arg("--offline").current_dir(package).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[cfg(unix)]
#[test]
fn the_readmes_commands_add_what_its_program_uses() {
    let folder = package("resolved");
    let package = folder.join("umbrella");
    // Not `metadata`, which wants the crates of every platform.
    cargo(&package, &["tree", "--quiet"]);
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    for line in text("examples/examples/hello.rs").lines() {
        // An import, or an attribute such as `#[tokio::main]`.
        let used = line.strip_prefix("use ").or_else(|| line.strip_prefix("#["));
        let Some(used) = used.filter(|used| used.contains("::")) else { continue };
        let used = used.split("::").next().unwrap().replace('_', "-");
        assert!(manifest.contains(&format!("\n{used} = ")), "{used}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Each `cargo add` of a page names a crate and features that exist.
#[test]
fn every_crate_and_feature_that_a_page_adds_exists() {
    let mut added = 0;
    for page in files(&["md"]) {
        let shown = fs::read_to_string(&page).unwrap();
        for command in shown.split("cargo add ").skip(1) {
            let command = command.split(['\n', '`']).next().unwrap();
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |flag| words.iter().position(|word| *word == flag).map(|at| words[at + 1]);
            let folder = match after("--path") {
                // The clone is the folder `toolwright` beside the package.
                Some(path) => path.strip_prefix("../toolwright/").unwrap_or(path).to_owned(),
                None if words[0].starts_with("toolwright") => words[0].to_owned(),
                None => continue,
            };
            let manifest = text(&format!("{folder}/Cargo.toml"));
            let features = manifest.split("[features]\n").nth(1).unwrap_or_default();
            let features = features.split("\n[").next().unwrap();
            for feature in after("--features").into_iter().flat_map(|list| list.split(',')) {
                let known = features.lines().any(|line| line.starts_with(&format!("{feature} = ")));
                assert!(known, "{}: cargo add {command}: {feature}", page.display());
            }
            added += 1;
        }
    }
    assert!(added > 0, "{added} commands found");
}

#[cfg(unix)]
#[test]
#[ignore = "heavy: compiles a new package"]
fn a_package_as_the_readme_says_builds() {
    let folder = package("built");
    // It shares the dependencies with the checks that ran before; the crates of ours are compiled.
    let target = fs::canonicalize(root()).unwrap().join("target");
    cargo(&folder.join("umbrella"), &["check", "--target-dir", target.to_str().unwrap()]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn no_code_in_the_documentation_is_left_out_of_the_tests() {
    for file in files(&["rs", "md"]) {
        let rust = file.extension().is_some_and(|is| is == "rs");
        let shown = fs::read_to_string(&file).unwrap();
        for line in shown.lines().map(str::trim_start) {
            let said = if rust { line.strip_prefix("//").unwrap_or_default() } else { line };
            let fence = said.trim_start_matches(['/', '!', ' ']).strip_prefix("```");
            let left_out = fence.is_some_and(|kind| kind.contains("ignore"));
            assert!(!left_out, "{}: {line}", file.display());
        }
    }
}
