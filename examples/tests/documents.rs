//! What the documents say is so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The folders with sources of ours.
const FOLDERS: [&str; 12] = [
    "http",
    "macros",
    "signature",
    "module",
    "group",
    "orchestrator",
    "durable",
    "providers",
    "toolsets",
    "toolwright",
    "cli",
    "examples",
];

/// The Rust files below some folders, each with its path from the root.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
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

/// What keeps a test from running everywhere and always, as the checklist has to say it.
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
    // Elsewhere they are skipped; see there.
    let compiler = path.ends_with("tests/compile_fail.rs").then(|| {
        let workspace = text("Cargo.toml");
        let oldest = workspace.lines().find_map(|line| line.strip_prefix("rust-version = "));
        format!("with rustc {}", oldest.unwrap().trim_matches('"'))
    });
    ignored.or(compiler)
}

/// All tests of the project, each with what keeps it from running everywhere; several may
/// have one name.
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
fn a_test_is_told_from_other_functions_and_what_keeps_it_from_running_is_seen() {
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

/// A line of the checklist: the tests, each with what it says of when they run, and what
/// is proven in part.
struct Mapped<'a> {
    tests: Vec<(&'a str, Option<&'a str>)>,
    in_part: Option<&'a str>,
}

fn mapped(line: &str) -> Mapped<'_> {
    let (tests, in_part) = match line.split_once(". In part: ") {
        Some((tests, what)) => (tests, Some(what)),
        None => (line, None),
    };
    let tests = tests.split(", ").map(|test| match test.split_once(" (") {
        Some((name, condition)) => (name, Some(condition.trim_end_matches(')'))),
        None => (test, None),
    });
    Mapped { tests: tests.collect(), in_part }
}

#[test]
fn the_checklist_has_every_number_and_says_what_its_tests_need() {
    let (checklist, tests) = (text("docs/checklist.md"), tests());
    let (mut in_part, mut faults) = (0, Vec::new());
    for number in 1..=204 {
        let start = format!("S{number} — ");
        let mut lines = checklist.lines().filter_map(|line| line.strip_prefix(&start));
        let line = lines.next().unwrap_or_else(|| panic!("S{number} is missing"));
        assert_eq!(lines.next(), None, "S{number} stands twice");
        let mapped = mapped(line);
        for (test, says) in mapped.tests.into_iter().filter(|(test, _)| *test != "open") {
            let Some(needs) = tests.get(test) else {
                faults.push(format!("S{number}: there is no test `{test}`"));
                continue;
            };
            // Of two that have one name, nobody knows which is meant.
            if !needs.iter().map(Option::as_deref).eq([says]) {
                faults.push(format!("S{number}: `{test}` says {says:?} and is {needs:?}"));
            }
        }
        if let Some(what) = mapped.in_part {
            in_part += 1;
            assert!(what.ends_with('.') && what.len() > 20, "S{number}: {what}");
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let said = format!("{in_part} numbers are proven in part only");
    assert!(checklist.replace('\n', " ").contains(&said), "the page must say: {said}");
}

/// The points of a list below a heading of a page, each on one line.
fn points(page: &str, heading: &str) -> Vec<String> {
    let below = page.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
    let below = below.split("\n## ").next().unwrap();
    let points = below.split("\n- ").skip(1);
    points.map(|point| point.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_decisions_say_why_it_is_one_system() {
    let decision = text("docs/adr/0001-the-input-type-is-the-signature.md");
    let superseded = decision.lines().find(|line| line.starts_with("- Supersedes"));
    assert!(superseded.is_some_and(|line| line.contains("DSPy.rb's ADR-005")), "{superseded:?}");
    let rejected = points(&decision, "Alternatives rejected");
    for (number, what) in [
        ("S149", "Two systems, tools beside signatures"),
        ("S150", "A `perform` block in the signature"),
        ("S151", "Modules with many signatures"),
    ] {
        let start = format!("{what} ({number}): ");
        let reason = rejected.iter().find_map(|point| point.strip_prefix(&start));
        assert!(reason.is_some_and(|why| why.split(' ').count() > 10), "{number}: {reason:?}");
    }
    // Who comes from DSPy.rb finds it without reading the decisions.
    let page = text("docs/one-system.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let link = "[ADR 0001](adr/0001-the-input-type-is-the-signature.md), which takes the place of DSPy.rb's ADR-005";
    assert!(page.contains(link), "{page}");
    for rejected in
        ["two systems side by side", "a body inside the signature", "modules with many signatures"]
    {
        assert!(page.contains(rejected), "{rejected}");
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
fn every_concept_has_a_page_and_each_page_leads_to_the_next() {
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
        // These show whole programs.
        let is_long = ["tool-calls.md", "writing-a-provider.md"].contains(&file.as_str());
        assert!(page.lines().count() <= 150 || is_long, "{file} is too long");
    }
    assert!(text("README.md").contains("(docs/README.md)"));
}

#[test]
fn the_migration_guide_shows_a_toolset_before_and_after() {
    let guide = text("docs/migration.md");
    let (before, after) = guide.split_once("```rust").unwrap();
    for said in ["```ruby", "< DSPy::Tools::Toolset", "toolset_name", "tool_name:", "sig {"] {
        assert!(before.contains(said), "{said}");
    }
    for said in ["#[toolset]\nimpl", "#[tool]", "name = \"find_task\"", ".tools()?"] {
        assert!(after.contains(said), "{said}");
    }
    let ruby = before.split("```ruby\n").nth(1).and_then(|rest| rest.split("```").next());
    let rust = after.split("```").next();
    let lines = [ruby, rust].map(|code| lines_of_code(code.unwrap().lines()));
    assert_eq!(lines, [19, 32], "the page says how many lines each has");
    let by_hand = text("docs/from-async-openai.md");
    let (before, after) = by_hand.split_once("impl Handle for").unwrap();
    assert!(before.contains("ChatCompletionTool {") && after.contains("chat_tools()"));
}

#[test]
fn a_page_shows_how_a_module_is_bound_to_a_signature() {
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
                // The facade's name of a type.
                let of = if of == "Agent" { "ToolOrchestrator" } else { of };
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
    // The decision says that it is gone.
    missing.retain(|item| !item.ends_with("0014-one-crate-speaks-http.md: `OpenAi::with_config`"));
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A decision says what is, and a page shows what is there: nothing is announced.
#[test]
fn no_page_announces_what_is_to_come() {
    let announced = [
        " will be",
        " will join",
        " will have",
        " will get",
        " comes with",
        " not yet",
        " in a later",
        " to be added",
        " is planned",
        " for now",
        " coming soon",
        " TODO",
    ];
    let folders = files(&["md"]).into_iter().filter(|page| {
        let page = page.to_str().unwrap();
        page.contains("docs/") || page.ends_with("README.md")
    });
    for page in folders {
        let shown = fs::read_to_string(&page).unwrap();
        let (mut prose, mut code) = (String::new(), false);
        for line in shown.lines() {
            code ^= line.trim_start().starts_with("```");
            if !code {
                prose = prose + line.trim() + " ";
            }
        }
        for word in announced {
            let at = prose.find(word).map(|at| {
                prose[prose.floor_char_boundary(at.saturating_sub(60))..].chars().take(120)
            });
            assert!(at.is_none(), "{}: {:?}", page.display(), at.map(String::from_iter));
        }
    }
    // What is missing is said in one place.
    assert!(text("README.md").contains("What is missing so far:"));
}

/// What DSPy.rb has twice: there is one way to declare a tool, and no class to extend.
#[test]
fn no_base_class_no_toolset_class_and_no_proxy() {
    for file in files(&["rs"]) {
        let source = fs::read_to_string(&file).unwrap();
        for line in source.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let kinds = ["struct", "trait", "enum", "type"];
            let item = words.iter().position(|word| kinds.contains(word));
            let Some(name) = item.and_then(|item| words.get(item + 1)) else { continue };
            // A struct such as `MailToolset` is one of many; a trait would be a class again.
            let a_class = words.contains(&"trait")
                && (name.contains("Toolset") || ["Tool", "Tools"].contains(name));
            let kept = a_class || ["Toolset", "ToolBase", "BaseTool", "ToolProxy"].contains(name);
            assert!(!kept, "{}: {line}", file.display());
        }
    }
}

/// There was no older form of a tool, so nothing has to be marked as one.
#[test]
fn nothing_is_deprecated() {
    for (path, source) in sources(&FOLDERS) {
        let code = source.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let marked = code.filter(|line| line.starts_with("#[deprecated"));
        // The warning of an attribute is one of a deprecated constant.
        let expected = usize::from(path == "macros/src/tool.rs");
        assert_eq!(marked.count(), expected, "{path}");
    }
}

#[test]
fn the_readme_says_who_should_use_it_and_who_should_not() {
    let readme = text("README.md");
    let section = readme.split("## Should you use it?").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    for other in ["rig", "DSRs", "DSPy", "genai", "rmcp", "async-openai", "pydantic-ai"] {
        // As a link: the letters of `rig` stand in other words too.
        assert!(section.contains(&format!("[{other}](https://")), "{other}");
    }
    for side in ["Yes, if you ", "Perhaps not, if you "] {
        let list = section.split(side).nth(1).and_then(|rest| rest.split("\n\n- ").nth(1));
        let reasons = list.unwrap().split("\n\n").next().unwrap().split("\n- ").count();
        assert!(reasons >= 4, "{side}: {reasons} reasons");
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
fn the_pages_show_exactly_the_programs_that_are_tested() {
    let crate_docs = "group/src/async_openai.rs";
    let pages = [
        "README.md",
        "docs/restate.md",
        "docs/tool-calls.md",
        "docs/writing-a-provider.md",
        "toolwright/README.md",
    ];
    for page in pages.into_iter().chain([crate_docs]) {
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

/// The review is of the code as it is: whoever makes a tool longer reads it again.
#[test]
fn what_users_of_the_first_version_found_is_recorded_and_what_a_tool_takes_today() {
    let hello = text("examples/examples/hello.rs");
    let (import, rest) = hello.split_once("\n\n").unwrap();
    let (tool, agent) = rest.split_once("\n\n").unwrap();
    // The comments on the function and on its parameter are there.
    let comments = tool.lines().filter(|line| line.trim().starts_with("///")).count();
    assert_eq!((comments, tool.contains("#[tool]\n")), (2, true), "{tool}");
    let tool = lines_of_code(tool.lines());
    let agent = lines_of_code(import.lines().chain(agent.lines()));
    assert!(tool + agent <= 15, "the program takes {} lines", tool + agent);
    assert!(text("README.md").contains(&hello), "both stand in the README");
    let memory = text("toolsets/memory/src/tools.rs");
    let store = memory.split("    // Repeating the call").nth(1).unwrap();
    let store = store.split("\n    }\n").next().unwrap().lines().skip(1);

    let page = text("docs/adr/0006-what-building-changed.md");
    let review = page.split("## Review of the ergonomics\n").nth(1).unwrap();
    let review = review.split("\n## ").next().unwrap();
    assert!(review.contains("Two people who had not written it"), "{review}");
    for (what, lines) in [
        ("a tool, with its comments (`hello`)", tool),
        ("the agent around it (`hello`)", agent),
        ("`Memory::store`, which is the tool `memory_store`", lines_of_code(store) + 1),
    ] {
        let row = format!("| {what} | {lines} |");
        assert!(review.contains(&row), "the review must say: {row}");
    }
    // What they found and what was done about it are the points of the decision.
    assert!(points(&page, "Decision").len() >= 10);
}

#[test]
fn the_page_on_groups_shows_every_program_that_uses_them() {
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
fn the_page_on_mcp_cites_the_specification_and_every_test_it_names_is_there() {
    let (page, tests) = (text("docs/mcp.md"), tests());
    let server = text("toolsets/mcp/tests/clients.sh");
    assert!(page.contains("https://modelcontextprotocol.io/specification/2026-07-28/"));
    let table = page.split("| the specification asks for | here | test |").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|row| row.starts_with('|')).collect();
    assert!(rows.len() >= 15, "{} points", rows.len());
    let mut named = 0;
    for row in &rows {
        // Names of tests have underscores; code in the other columns has none.
        for test in row.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2) {
            assert!(tests.contains_key(test), "the page names `{test}`, which is no test");
            named += 1;
        }
    }
    assert!(named >= rows.len() - 4, "{named} tests for {} points", rows.len());
    // The official suite, at one version, for both revisions that the page names.
    assert!(server.contains("@modelcontextprotocol/conformance@"));
    for revision in ["2026-07-28", "2025-11-25"] {
        assert!(server.contains(revision), "{revision}");
    }
    let left_out = text("toolsets/mcp/tests/clients/left_out.txt");
    for line in left_out.lines().filter(|line| !line.starts_with('#')) {
        let reason = line.split_once(": ").map(|(_, reason)| reason.split(' ').count());
        assert!(reason.is_some_and(|words| words >= 2), "{line}");
    }
}

/// The sources that write a schema without a type, and the reason of each.
const WRITTEN_SCHEMAS: &[(&str, &str)] = &[
    ("cli/src/schema.rs", "the fields that a user of the command names"),
    ("group/src/custom.rs", "the text of a custom tool as a field, for agents"),
    ("group/src/definition.rs", "the schema that `Handle::schema` replaces"),
    ("orchestrator/src/selector.rs", "the choice between the schemas of all tools of a run"),
    ("orchestrator/src/selector/fields.rs", "any object, so that each tool reads its own input"),
    ("providers/anthropic/src/request.rs", "a tool of the history that the request lacks"),
    ("toolsets/mcp/src/mcp_client.rs", "the tools of a server"),
    ("toolsets/mcp/src/mcp_client/listing.rs", "the tools of a server"),
];

/// Whoever makes a schema of a type goes through one function, so a type has one schema.
#[test]
fn nothing_but_the_signature_crate_makes_schemas() {
    let generators = ["schema_for", "SchemaSettings", "SchemaGenerator::", "into_generator"];
    let by_hand = [
        "Contract::dynamic",
        "Tool::dynamic",
        "\"properties\": ",
        "\"type\": \"object\"",
        "\"input_schema\": {",
        "\"inputSchema\": {",
    ];
    let (mut made, mut written, mut implemented) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (path, source) in sources(&FOLDERS) {
        if !path.contains("/src/") {
            continue;
        }
        // Tests in a source write the values that they expect.
        let (source, tests) =
            source.split_once("\n#[cfg(test)]\nmod tests {").unwrap_or((&source, ""));
        let after = tests.split_once("\n}\n").map_or("", |(_, after)| after);
        let source = format!("{source}\n{after}");
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            if generators.iter().any(|word| line.contains(word)) {
                made.push(path.clone());
            }
            let is_written = by_hand.iter().any(|word| line.contains(word));
            if is_written && !path.starts_with("signature/") {
                written.insert(path.clone());
            }
        }
        // What implements it without deriving gives the schema of another type, or that of media.
        let by_hand = source.matches("JsonSchema for").count();
        let of_another = source.matches("::json_schema(generator)").count()
            + source.matches("MediaKind::$name.schema()").count();
        if by_hand != of_another || source.contains("schema_with =") {
            implemented.push(path);
        }
    }
    made.dedup();
    assert_eq!(made, ["signature/src/schema.rs"]);
    assert!(implemented.is_empty(), "{implemented:#?}");
    let known: BTreeSet<String> = WRITTEN_SCHEMAS.iter().map(|(path, _)| (*path).into()).collect();
    assert_eq!(written, known, "a schema without a type needs a reason in `WRITTEN_SCHEMAS`");
}

#[test]
fn what_is_the_same_every_time_is_documented() {
    let page = text("docs/testing.md");
    let section = page.split("## The same every time\n").nth(1).unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
    for what in [
        "a contract",
        "the tools of a request",
        "the bytes of a request",
        "which calls",
        "the order of results",
    ] {
        assert!(rows.iter().any(|row| row.starts_with(&format!("| {what}"))), "{what}");
    }
    assert!(section.contains("What differs is what comes from outside"));
}

/// What the layer of tool calls takes from the layer below. Nothing of it reaches a model, so the
/// layer cannot ask one, whatever loop it has.
const OF_THE_MODULE_LAYER: &[&str] = &[
    "Arguments",
    "Audience",
    "Begun",
    "BoxFuture",
    "CallKind",
    "Context",
    "Document",
    "Effect",
    "Error",
    "Failed",
    "Handler",
    "Innermost",
    "Module",
    "Part",
    "Place",
    "Policy",
    "Repaired",
    "Result",
    "Source",
    "Stage",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "contained",
    "driver",
    "file_name",
    "object_of",
    "parts_of",
    "self",
    "shown",
];

#[test]
fn the_layer_of_tool_calls_has_no_loop_and_no_model() {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (path, source) in sources(&["group/src"]) {
        let code: Vec<&str> =
            source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for line in &code {
            for word in ["loop {", "while ", "cx.model", ".generate(", ".stream("] {
                assert!(!line.contains(word), "{path}: {line}");
            }
        }
        let code = code.join("\n");
        for used in code.split("toolwright_module::").skip(1) {
            let end = used.find([';', '\n', ' ', '<', '(']).unwrap_or(used.len());
            let is_list = used[..end].contains('{');
            let end = if is_list { used.find('}').unwrap() } else { end };
            let mut names = used[..end].split(|c| !word(c)).filter(|name| !name.is_empty());
            let is_type = |name: &&str| name.starts_with(char::is_uppercase);
            // What follows a type belongs to it.
            let of_path = (!is_list).then(|| names.clone().position(|name| is_type(&name)));
            let count = of_path.flatten().map_or(usize::MAX, |at| at + 1);
            let modules = ["error", "message", "model", "provider"];
            let other = names
                .by_ref()
                .take(count)
                .find(|name| !modules.contains(name) && !OF_THE_MODULE_LAYER.contains(name));
            assert_eq!(other, None, "{path}");
        }
    }
}

#[test]
fn what_is_said_of_version_licence_and_tools_is_so() {
    let (readme, workspace) = (text("README.md"), text("Cargo.toml"));
    let oldest = workspace.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let oldest = oldest.unwrap().trim_matches('"');
    assert!(readme.contains(&format!("Rust {oldest} or later")), "{oldest}");
    assert!(workspace.contains("license = \"MIT OR Apache-2.0\""));
    assert!(readme.contains("MIT or Apache-2.0"));
    let contributing = text("CONTRIBUTING.md");
    let checks = text(".ci/run");
    for check in checks.lines().map(str::trim).filter(|line| line.contains("cargo ")) {
        let check = check.trim_end_matches(" ;;");
        assert!(check.starts_with('#') || contributing.contains(check), "{check}");
    }
    // There is nothing yet that a badge could show.
    let badges = "There are no badges: they wait for publication";
    assert!(readme.contains(badges) && !readme.contains("img.shields.io"), "{badges}");
    let published = readme.contains("The crates are not published yet");
    assert!(published, "once they are, the README has badges, and this test says of what");
    for (file, command) in [("rustfmt.toml", "cargo fmt --check"), ("clippy.toml", "cargo clippy")]
    {
        assert!(root().join(file).exists() && checks.contains(command), "{file}");
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root().join(licence).exists() && contributing.contains(licence), "{licence}");
    }
    for member in
        ["signature", "module", "group", "orchestrator", "providers/openai", "toolsets/memory"]
    {
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

/// A package that the README's own commands have made; they may not ask the network.
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
    // The same versions as here, which are on this machine.
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    folder
}

/// Runs cargo in a package; it may not ask the network.
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
        let Some(used) = line.strip_prefix("use ") else { continue };
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
    assert!(added >= 3, "{added} commands found");
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
    // That everything public says what it is, the compiler checks.
    assert!(text("Cargo.toml").contains("missing_docs = \"warn\""));
}
