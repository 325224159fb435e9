//! What the documents say is so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let page = text("docs/one-system.md");
    for said in ["(adr/0001-the-input-type-is-the-signature.md)", "ADR-005"] {
        assert!(page.contains(said), "{said}");
    }
}

/// The concept pages as the index lists them: what each is called, and its file.
fn pages() -> Vec<(String, String)> {
    let index = text("docs/README.md");
    let rows = index.lines().filter_map(|line| line.strip_prefix("| ["));
    let page = |row: &str| {
        let (title, rest) = row.split_once("](").unwrap();
        (title.to_owned(), rest.split_once(')').unwrap().0.to_owned())
    };
    rows.map(page).collect()
}

#[test]
fn s71_every_concept_has_a_page_and_each_page_leads_to_the_next() {
    let pages = pages();
    let files: Vec<&str> = pages.iter().map(|(_, file)| file.as_str()).collect();
    let at = |name: &str| files.iter().position(|file| *file == name).unwrap();
    assert_eq!(at("memory.md") + 1, at("toolsets.md"));
    assert_eq!(at("toolsets.md") + 1, at("predictors.md"));
    for (place, (_, file)) in pages.iter().enumerate() {
        let link =
            |word: &str, (title, file): &(String, String)| format!("{word}: [{title}]({file}).");
        let before = place.checked_sub(1).map(|place| link("Before", &pages[place]));
        let next = pages.get(place + 1).map(|page| link("Next", page));
        let links: Vec<String> = before.into_iter().chain(next).collect();
        let page = text(&format!("docs/{file}"));
        assert_eq!(page.lines().last(), Some(links.join(" ").as_str()), "{file}");
        assert!(page.lines().count() <= 150 || file == "tool-calls.md", "{file} is too long");
    }
    assert!(text("README.md").contains("(docs/README.md)"));
}

#[test]
fn s124_the_migration_guide_shows_a_toolset_before_and_after() {
    let guide = text("docs/migration.md");
    let (before, after) = guide.split_once("```rust").unwrap();
    for said in ["```ruby", "< DSPy::Tools::Toolset", "toolset_name", "tool_name:", "sig {"] {
        assert!(before.contains(said), "{said}");
    }
    for said in ["impl Signature for", "impl Module for", ".prefixed(", ".named(", "Vec<Tool>"] {
        assert!(after.contains(said), "{said}");
    }
    let by_hand = text("docs/from-async-openai.md");
    let (before, after) = by_hand.split_once("impl Handle for").unwrap();
    assert!(before.contains("ChatCompletionTool {") && after.contains("chat_tools()"));
}

#[test]
fn s126_a_page_shows_how_a_module_is_bound_to_a_signature() {
    let page = text("docs/modules.md");
    let shown = page.split("```").nth(1).unwrap();
    for said in
        ["impl Signature for DetectLanguage", "type Signature = DetectLanguage", "Predict::<"]
    {
        assert!(shown.contains(said), "{said}");
    }
}

/// Every file of the project with one of these extensions.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
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

/// The place that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn s140_every_link_on_a_page_leads_somewhere() {
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
fn s140_every_rust_program_on_a_page_is_compiled() {
    let compiled = text("examples/src/lib.rs");
    for page in files(&["md"]) {
        let path = page.to_str().unwrap().split("../").last().unwrap();
        // A decision shows the shape it is about, not a program.
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

/// What DSPy.rb has twice: there is one way to declare a tool, and no class to extend.
#[test]
fn s138_s139_s144_no_base_class_no_toolset_class_and_no_proxy() {
    for file in files(&["rs"]) {
        let source = fs::read_to_string(&file).unwrap();
        for line in source.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let item = words.iter().position(|word| ["struct", "trait", "enum"].contains(word));
            let Some(name) = item.and_then(|item| words.get(item + 1)) else { continue };
            // A struct such as `MailToolset` is one of many; a trait would be a class again.
            let a_class = words.contains(&"trait") && name.contains("Toolset");
            let kept = a_class || ["Toolset", "ToolBase", "BaseTool", "ToolProxy"].contains(name);
            assert!(!kept, "{}: {line}", file.display());
        }
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

/// A page with what stands behind each `<!-- code: PATH -->` replaced by that file.
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

/// The same for a crate's documentation, where code has its first comment left out.
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
fn s162_the_pages_show_exactly_the_programs_that_are_tested() {
    let crate_docs = "providers/openai/src/lib.rs";
    for page in ["README.md", "docs/tool-calls.md", crate_docs] {
        let shown = text(page);
        let true_to_code =
            if page == crate_docs { with_code_in_the_crate(&shown) } else { with_code(&shown) };
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(root().join(page), &true_to_code).unwrap();
        }
        let update = "run it with UPDATE_DOCS=1 and read the difference";
        assert!(text(page) == true_to_code, "{page} shows other code; {update}");
    }
    for program in ["hello", "chat_group"] {
        let shown = format!("<!-- code: examples/examples/{program}.rs -->\n");
        assert!(text("README.md").contains(&shown), "{program}");
    }
}

/// How many lines of a text say something.
fn lines_of_code<'a>(lines: impl IntoIterator<Item = &'a str>) -> usize {
    lines.into_iter().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn s133_a_tool_takes_14_lines_and_an_agent_20_more_and_what_users_found_is_recorded() {
    let hello = text("examples/examples/hello.rs");
    let (imports, rest) = hello.split_once("\n\n/// ").unwrap();
    let (signature, main) = rest.split_once("\n\n#[tokio::main").unwrap();
    let (before, rest) = main.split_once("    let get_weather = ").unwrap();
    let (handler, after) = rest.split_once(";\n").unwrap();
    // The comment on the type, those on two fields, and the closure are all there.
    let comments = signature.lines().filter(|line| line.trim().starts_with("///")).count();
    assert_eq!((comments, handler.starts_with("from_fn(")), (2, true), "{signature}");
    let tool = lines_of_code(signature.lines().chain(handler.lines()));
    assert!(tool <= 14, "the tool takes {tool} lines");
    let agent = lines_of_code(imports.lines().chain(before.lines()).chain(after.lines()));
    assert!(agent <= 20, "the agent takes {agent} lines");
    assert!(text("README.md").contains(&hello), "both stand in the README");

    let review = text("docs/adr/0006-what-building-changed.md");
    assert!(review.contains("two people who used and attacked it"));
}

#[test]
fn s203_the_page_on_groups_shows_every_program_that_uses_them() {
    let page = text("docs/tool-calls.md");
    let mut shown = 0;
    for entry in fs::read_dir(root().join("examples/examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && fs::read_to_string(&path).unwrap().contains("async_openai") {
            assert!(page.contains(&format!("<!-- code: examples/examples/{name} -->")), "{name}");
            shown += 1;
        }
    }
    for setup in ["mod", "blocking"] {
        let marker = format!("<!-- code: examples/examples/common/{setup}.rs -->");
        assert!(page.contains(&marker), "{setup}");
        shown += 1;
    }
    assert_eq!(shown, 15);
    for reason in ["invalid_name", "invalid_arguments", "explicit_handler_error"] {
        assert!(page.contains(reason), "{reason}");
    }
}

#[test]
fn s160_the_layer_of_tool_calls_has_no_loop_and_no_model() {
    let folders = ["module/src/group", "module/src/blocking", "providers/openai/src/wire"];
    let mut files = vec![root().join("module/src/group.rs")];
    for folder in folders {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for word in ["LanguageModel", ".generate(", ".stream(", "loop {", "while "] {
                assert!(!line.contains(word), "{}: {line}", file.display());
            }
        }
    }
}

#[test]
fn s153_what_is_said_of_version_licence_and_tools_is_so() {
    let (readme, workspace) = (text("README.md"), text("Cargo.toml"));
    let oldest = workspace.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let oldest = oldest.unwrap().trim_matches('"');
    assert!(readme.contains(&format!("Rust {oldest} or later")), "{oldest}");
    assert!(workspace.contains("license = \"MIT OR Apache-2.0\""));
    assert!(readme.contains("MIT or Apache-2.0"));
    let contributing = text("CONTRIBUTING.md");
    let checks = text(".ci/run");
    for check in checks.lines().filter(|line| line.contains("cargo ")) {
        assert!(contributing.contains(check), "{check}");
    }
    for (file, command) in [("rustfmt.toml", "cargo fmt --check"), ("clippy.toml", "cargo clippy")]
    {
        assert!(root().join(file).exists() && checks.contains(command), "{file}");
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root().join(licence).exists() && contributing.contains(licence), "{licence}");
    }
    for member in ["signature", "module", "orchestrator", "providers/openai", "toolsets/memory"] {
        let manifest = text(&format!("{member}/Cargo.toml"));
        assert!(manifest.contains("description = \""), "{member}");
        for key in
            ["version", "edition", "rust-version", "license", "authors", "keywords", "categories"]
        {
            assert!(manifest.contains(&format!("{key}.workspace = true")), "{member}: {key}");
        }
        assert!(manifest.contains("[lints]\nworkspace = true"), "{member}");
    }
}

/// A package of its own, as the README says to start one.
fn package(name: &str) -> PathBuf {
    let readme = text("README.md");
    let said = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let clone = fs::canonicalize(root()).unwrap();
    let said = said.replace("\"toolwright/", &format!("\"{}/", clone.display()));
    let folder = std::env::temp_dir().join(format!("toolwright-{name}-{}", std::process::id()));
    fs::create_dir_all(folder.join("src")).unwrap();
    let package = "[package]\nname = \"started\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(folder.join("Cargo.toml"), format!("{package}\n{said}\n[workspace]\n")).unwrap();
    fs::write(folder.join("src/main.rs"), text("examples/examples/hello.rs")).unwrap();
    // The same versions as here, which are on this machine.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}

/// Runs cargo in a package; it may not ask the network.
fn cargo(package: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    let ran = command.args(arguments).arg("--offline").current_dir(package).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn s154_the_readmes_dependencies_are_there_and_name_what_its_program_uses() {
    let folder = package("resolved");
    // Not `metadata`, which wants the crates of every platform.
    cargo(&folder, &["tree", "--quiet"]);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for line in text("examples/examples/hello.rs").lines() {
        let Some(used) = line.strip_prefix("use ") else { continue };
        let used = used.split("::").next().unwrap().replace('_', "-");
        assert!(manifest.contains(&format!("\n{used} = ")), "{used}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "heavy: builds every dependency anew"]
fn s154_a_package_as_the_readme_says_builds() {
    let folder = package("built");
    cargo(&folder, &["check", "--target-dir", "target"]);
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
    // That everything public says what it is, the compiler checks.
    assert!(text("Cargo.toml").contains("missing_docs = \"warn\""));
}
