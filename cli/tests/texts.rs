//! The texts of errors, which people see in the words of the command.

use std::fs;
use std::path::{Path, PathBuf};

use toolwright_cli::in_our_words;
use toolwright_mcp::McpError;
use toolwright_orchestrator::RunError;

/// The sources of the texts. Groups are for loops of a program's own.
const SOURCES: [&str; 15] = [
    "signature",
    "module",
    "orchestrator",
    "evals",
    "http",
    "providers/anthropic",
    "providers/gemini",
    "providers/openai",
    "providers/provider",
    "toolsets/github",
    "toolsets/mcp",
    "toolsets/memory",
    "toolsets/text",
    "durable/journal",
    "durable/postgres",
];

/// The beginnings of texts that no user of the command sees: of faults in a program, of logs, and of
/// parts of other texts.
const FOR_PROGRAMS: [&str; 12] = [
    "`Perform::perform_all` must return",
    "the performer lost the outcome",
    "the run is already at step",
    "calls of these tools run one after another",
    "a value of `{contract}` has no JSON form",
    "`with_key`",
    "more bytes may follow",
    " with `with_",
    "`inputs`",
    "there is no world",
    // The command never sends both.
    "a server gets either a token or a login",
    "it has no variable; use",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// Returns the texts in a source outside of comments, tests, and what the compiler shows.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("\nmod tests {").next().unwrap();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let source = lines.collect::<Vec<_>>().join("\n");
    let text = regex_lite::Regex::new(r#"(\w+ = )?"((?:[^"\\]|\\(?s:.))*)""#).unwrap();
    let next_line = regex_lite::Regex::new(r"\\\n\s*").unwrap();
    let of_compiler = ["message = ", "note = ", "label = ", "doc = ", "path = "];
    text.captures_iter(&source)
        .filter(|found| !found.get(1).is_some_and(|name| of_compiler.contains(&name.as_str())))
        .map(|found| next_line.replace_all(&found[2], "").into_owned())
        .collect()
}

/// Returns the first name of a library in a text: a path, a builder method, or a type.
fn library_name(text: &str) -> Option<&str> {
    let name = regex_lite::Regex::new(
        r"`[^`]*::[^`]*`|`(?:with|from)_\w+[^`]*`|`[A-Z][a-z]+[A-Z]\w*`|`max_\w+`",
    );
    Some(name.unwrap().find(text)?.as_str())
}

#[test]
fn no_error_that_people_see_names_a_function_or_a_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    SOURCES.iter().for_each(|name| sources(&root.join(name).join("src"), &mut found));
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in found {
        for text in texts(&fs::read_to_string(&path).unwrap()) {
            if library_name(&text).is_none() {
                continue;
            }
            seen += 1;
            if FOR_PROGRAMS.iter().any(|start| text.starts_with(start)) {
                continue;
            }
            for prefix in ["--mcp-", "--"] {
                let ours = in_our_words(&text, prefix);
                if let Some(name) = library_name(&ours) {
                    wrong.push(format!("{}: {name} in: {ours}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "change the text, or add it to `MEANINGS`:\n{}", wrong.join("\n"));
    assert!(seen > 30, "only {seen} texts were found");
}

#[test]
fn errors_name_options_and_no_functions() {
    let (name, tools) = ("a".to_owned(), Vec::new());
    let errors = [
        RunError::DuplicateTool { name: name.clone() }.to_string(),
        RunError::ReservedTool.to_string(),
        RunError::ReservedForReading.to_string(),
        RunError::ReservedForFinding.to_string(),
        RunError::OtherTools { name: name.clone() }.to_string(),
        RunError::OtherToolSet.to_string(),
        RunError::OpenCallTool { id: name.clone(), tool: name.clone(), tools }.to_string(),
        McpError::Changed { tool: name.clone() }.to_string(),
        McpError::Duplicate { name: name.clone() }.to_string(),
        McpError::Unauthorized { server: name.clone() }.to_string(),
        McpError::Drift { server: name.clone(), diff: name.clone() }.to_string(),
        McpError::Header { name }.to_string(),
    ];
    for error in errors {
        for prefix in ["--mcp-", "--"] {
            let ours = in_our_words(&error, prefix);
            assert!(!ours.contains("::"), "{ours}");
            assert!(!ours.contains("`with_"), "{ours}");
            assert!(prefix == "--mcp-" || !ours.contains("--mcp-"), "{ours}");
        }
    }
    let theirs = "a tool says `Tool::named`";
    assert_eq!(in_our_words(theirs, "--"), theirs);
}
