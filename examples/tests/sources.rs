//! Rules for the sources of all crates, which neither the compiler nor Clippy checks.

use std::collections::BTreeSet;
use std::fs;

use crate::documents::{FOLDERS, files, sources};

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
            let kept = a_class
                || ["Toolset", "ToolBase", "ToolProxy", "Base"].contains(name)
                || name.starts_with("BaseTool");
            assert!(!kept, "{}: {line}", file.display());
        }
    }
}

/// The sources that write a schema without a type, and the reason of each.
const WRITTEN_SCHEMAS: &[(&str, &str)] = &[
    ("cli/src/contract/clients.rs", "the forms that clients drop, in its tests"),
    ("cli/src/schema.rs", "the fields that a user of the command names"),
    ("group/src/custom.rs", "the text of a custom tool as a field, for agents"),
    ("group/src/definition.rs", "the schema that `Handle::schema` replaces"),
    ("orchestrator/src/find_tools.rs", "a type's schema with a description of the tools there are"),
    ("orchestrator/src/read_result.rs", "a type's schema for a tool with images beside its text"),
    ("orchestrator/src/selector.rs", "the choice between the schemas of all tools of a run"),
    ("orchestrator/src/selector/fields.rs", "any object, so that each tool reads its own input"),
    ("providers/anthropic/src/request.rs", "a tool of the history that the request lacks"),
    ("serve/src/ag_ui/tests.rs", "the schema of a question, as a client reads it"),
    ("serve/src/ag_ui/writer.rs", "the answers to a question, around the schema of its tool"),
    ("serve/src/ui_messages/tests/written.rs", "the schema of a question, as a client reads it"),
    ("toolsets/mcp/src/mcp_client.rs", "the tools of a server"),
    ("toolsets/mcp/src/mcp_client/listing.rs", "the tools of a server"),
    ("toolsets/mcp/src/mcp_client/questions.rs", "the question of a server"),
    (
        "toolsets/mcp/src/mcp_client/resources.rs",
        "a type's schema for a tool with images beside its text",
    ),
];

/// One function makes the schemas of all types, so a type has one schema.
#[test]
fn nothing_but_the_signature_crate_makes_schemas() {
    let generators = ["schema_for", "SchemaSettings", "SchemaGenerator::", "into_generator"];
    let by_hand = [
        "Contract::dynamic",
        "Tool::dynamic",
        "runner::proxy",
        "\"properties\":",
        "\"type\":\"object\"",
        "\"input_schema\":{",
        "\"inputSchema\":{",
        "json_schema!",
        "insert(\"properties\"",
        "(\"properties\",",
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
            // However it is laid out.
            let line: String = line.split_whitespace().collect();
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
    // The schema of what readers get is no contract: it describes the program's own JSON to people.
    assert_eq!(made, ["serve/src/update.rs", "signature/src/schema.rs"]);
    assert!(implemented.is_empty(), "{implemented:#?}");
    let known: BTreeSet<String> = WRITTEN_SCHEMAS.iter().map(|(path, _)| (*path).into()).collect();
    assert_eq!(written, known, "a schema without a type needs a reason in `WRITTEN_SCHEMAS`");
}

/// What the layer of tool calls takes from the layer below. Nothing of it reaches a model, so the
/// layer cannot ask one, whatever loop it has.
const OF_THE_MODULE_LAYER: &[&str] = &[
    "ARGUMENTS",
    "Unread",
    "canonical_json",
    "given_arguments",
    "is_same_json",
    "Arguments",
    "Audience",
    "BoxFuture",
    "CallKind",
    "Context",
    "Document",
    "Effect",
    "Error",
    "Handler",
    "Innermost",
    "Module",
    "Part",
    "Policy",
    "Repaired",
    "Result",
    "Source",
    "Stage",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "Contained",
    "runner",
    "file_name",
    "object_of",
    "of_work",
    "parts_of",
    "self",
    "shown",
    "stable_hash",
];

#[test]
fn the_layer_of_tool_calls_has_no_loop_and_no_model() {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (path, source) in sources(&["group/src"]) {
        let code: Vec<&str> =
            source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for line in &code {
            for word in ["loop {", "while ", "cx.model", ".generate(", "::generate(", ".stream("] {
                assert!(!line.contains(word), "{path}: {line}");
            }
        }
        let code = code.join("\n");
        // Another name for the layer below would hide what is taken from it.
        for word in ["toolwright_module::*", "toolwright_module as ", "toolwright_module;"] {
            assert!(!code.contains(word), "{path}: {word}");
        }
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
