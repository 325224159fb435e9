//! The command `contract`, as a process.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use toolwright_mcp::McpServer;
use toolwright_memory::Memory;
use toolwright_module::Contract;

/// What a run of the command printed, and its exit code.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run_with(arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .arg("contract")
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A command that does not read it closes it.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let ran = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

fn run(arguments: &[&str]) -> Ran {
    run_with(arguments, "")
}

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn with(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let file: PathBuf = self.0.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

fn tool(name: &str, input: Value) -> Value {
    json!({"name": name, "description": name, "inputSchema": input})
}

fn listed(tools: &[Value]) -> String {
    json!({"tools": tools}).to_string()
}

/// Two versions of the same server from npm: see `recorded/README.md`.
const OLD: &str = "recorded/context7-1.0.33.json";
const NEW: &str = "recorded/context7-4.1.1.json";

#[test]
fn two_versions_of_a_server_are_compared_for_each_side() {
    let ran = run(&["diff", OLD, NEW]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    insta::assert_snapshot!(ran.stdout);
    let page = include_str!("../../docs/contracts-in-ci.md");
    assert!(page.contains(ran.stdout.trim_end()), "docs/contracts-in-ci.md shows this report");
    insta::assert_snapshot!(run(&["diff", "--format", "markdown", OLD, NEW]).stdout);
    let json: Value = serde_json::from_str(&run(&["diff", "--json", OLD, NEW]).stdout).unwrap();
    insta::assert_json_snapshot!(json);
}

#[test]
fn the_exit_code_says_what_is_denied() {
    let files = Files::new();
    let one = |description: &str| {
        let mut tool = tool("send", json!({"type": "object"}));
        tool["description"] = json!(description);
        listed(&[tool])
    };
    let (old, new) = (files.with("old", one("Send it.")), files.with("new", one("Send a letter.")));
    assert_eq!(run(&["diff", &old, &new]).code, Some(0));
    assert_eq!(run(&["diff", "--deny", "any", &old, &new]).code, Some(1));
    assert_eq!(run(&["diff", "--deny", "any", &old, &old]).code, Some(0));
    let gone = files.with("gone", "[]");
    assert_eq!(run(&["diff", &old, &gone]).code, Some(1));
    assert_eq!(run(&["diff", &old, "missing"]).code, Some(2));
    assert_eq!(run(&["diff", &old]).code, Some(2));
    let ran = run(&["diff", "-", "-"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("standard input has only one version"), "{}", ran.stderr);
}

#[test]
fn hints_names_and_instructions_are_compared_too() {
    let files = Files::new();
    let fields = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
    let mut delete = tool("delete", fields.clone());
    delete["annotations"] = json!({"readOnlyHint": false, "destructiveHint": true});
    let tools = [delete.clone(), tool("getItem", fields.clone()), tool("old one", fields.clone())];
    let old = json!({"instructions": "Ask first.", "tools": tools});
    delete["annotations"] = json!({"destructiveHint": false});
    delete["title"] = json!("Delete it");
    let broken = tool("old one", json!({"type": "object", "properties": {"a": {"$ref": "#/a"}}}));
    let tools = [delete, tool("get-item", fields), broken];
    let new = json!({"instructions": "Never ask.", "tools": tools});
    let (old, new) = (files.with("old", old.to_string()), files.with("new", new.to_string()));
    let ran = run(&["diff", &old, &new]);
    let folder = files.0.path().to_str().unwrap();
    insta::assert_snapshot!((ran.stdout + &ran.stderr).replace(folder, "FOLDER"));
}

#[test]
fn text_of_a_server_stays_text_in_a_terminal_and_in_a_comment() {
    let files = Files::new();
    let field = "x` | ![](http://127.0.0.1/a.png)\n# @all \u{1b}[2J\u{202e}";
    let new =
        json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    let old = files.with("old", listed(&[tool("send", json!({"type": "object"}))]));
    let new = files.with("new", listed(&[tool("send", new)]));
    let text = run(&["diff", &old, &new]).stdout;
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    let comment = run(&["diff", "--format", "markdown", &old, &new]).stdout;
    let line = comment.lines().find(|line| line.contains("@all")).unwrap();
    assert_eq!(line.matches('`').count(), 2, "{line}");
    assert!(line.starts_with("- **breaks** `") && line.ends_with('`'), "{line}");
}

#[test]
fn what_show_prints_is_read_again_and_is_the_file_of_the_assertion() {
    let files = Files::new();
    let ran = run(&["show", "--json", "--tools", "memory,text"]);
    let contracts: Vec<Contract> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(contracts.len(), 17);
    let file = files.with("contracts.json", &ran.stdout);
    let tools = Memory::default().tools().unwrap();
    let text = toolwright_text::Text::default().tools().unwrap();
    let all = tools.iter().chain(&text).map(|tool| tool.contract());
    toolwright_signature::assert_unchanged!(&file, all);
    assert_eq!(run(&["diff", "--deny", "any", &file, "-"]).code, Some(2), "nothing is no version");
    assert_eq!(run_with(&["diff", "--deny", "any", &file, "-"], &ran.stdout).code, Some(0));
    let ran = run(&["show", OLD]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(ran.stdout);
    let ran = run(&["show", "--tools", "text", OLD]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
}

#[test]
fn each_provider_gets_its_own_form_with_the_losses() {
    let input = json!({
        "type": "object",
        "properties": {"count": {"type": "integer", "maximum": 9}},
        "additionalProperties": true,
    });
    let tools = listed(&[tool("count", input)]);
    let mut printed = String::new();
    for dialect in ["json-schema", "openai-strict", "openai-loose", "anthropic", "gemini", "mcp"] {
        let ran = run_with(&["lower", "--json", "--dialect", dialect, "-"], &tools);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let _ = writeln!(printed, "{dialect}: {}", ran.stdout.trim_end());
    }
    insta::assert_snapshot!(printed);
    let ran = run(&["lower", "--dialect", "gemini", "--tools", "memory"]);
    let tools: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(tools.len(), 9);
    let ran = run(&["lower", "--dialect", "openai-strict", "--output", "--tools", "text"]);
    let schemas: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert!(schemas.iter().all(|schema| schema["type"] == "object"));
    let ran = run(&["lower", "--dialect", "klingon"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("choose one of json-schema"), "{}", ran.stderr);
}

#[test]
fn what_a_client_of_mcp_would_drop_is_listed_with_its_source() {
    let input = json!({
        "type": "object",
        "properties": {"rows": {"type": "array"}},
        "allOf": [{"required": ["rows"]}],
    });
    let tools = listed(&[tool("count", input)]);
    let ran = run_with(&["lower", "--dialect", "mcp", "-"], &tools);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for said in [
        "`count`: Claude Code drops the tool: `allOf` at the root (https://github.com/",
        "`count`: VS Code drops the tool: `array` without `items` at $.rows (https://github.com/",
    ] {
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    let ran = run_with(&["lower", "--json", "--dialect", "mcp", "-"], &tools);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    let first = &line["clients"][0];
    assert_eq!(
        (&first["client"], &first["otherwise"]),
        (&json!("Claude Code"), &json!("drops the tool"))
    );
    assert!(first["found"].is_string() && first["source"].is_string() && first["date"].is_string());
    // Nothing is dropped of our own tools.
    for tools in ["memory", "text", "github", "files:."] {
        let ran = run(&["lower", "--dialect", "mcp", "--tools", tools]);
        assert!(!ran.stderr.contains("drop") && !ran.stderr.contains("fails"), "{}", ran.stderr);
    }
}

#[test]
fn each_tool_of_this_program_has_the_form_of_each_dialect() {
    let tools = |dialect: &str| -> Vec<Value> {
        let ran = run(&["lower", "--dialect", dialect, "--tools", "memory,text,github"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    };
    for dialect in ["json-schema", "openai-strict", "openai-loose", "anthropic", "gemini", "mcp"] {
        let tools = tools(dialect);
        let name = |tool: &Value| match tool.get("function").unwrap_or(tool)["name"].as_str() {
            Some(name) => name.split('_').next().unwrap().to_owned(),
            None => panic!("{dialect}: {tool}"),
        };
        let count = |toolset| tools.iter().filter(|tool| name(tool) == toolset).count();
        assert_eq!([count("memory"), count("text"), count("github")], [9, 8, 7], "{dialect}");
        assert_eq!(tools.len(), 24, "{dialect}");
    }
    for tool in tools("openai-strict") {
        assert_eq!(tool["function"]["strict"], json!(true), "{tool}");
        let parameters = &tool["function"]["parameters"];
        let properties: Vec<_> = parameters["properties"].as_object().unwrap().keys().collect();
        assert_eq!(parameters["required"], json!(properties), "{tool}");
        assert_eq!(parameters["additionalProperties"], json!(false));
    }
    for tool in tools("mcp") {
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_nobody_reads_is_no_panic() {
    for arguments in [&["show"][..], &["lower", "--dialect", "mcp"], &["diff", OLD, NEW]] {
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwright"));
        command.arg("contract").args(arguments).stdout(full()).stderr(full());
        let ended = command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).status();
        assert_ne!(ended.unwrap().code(), Some(101), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_a_version() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mcp:http://{}/mcp", listener.local_addr().unwrap());
    let server = McpServer::new("memory", "1.0.0", Memory::default().tools().unwrap()).unwrap();
    let serving = tokio::spawn(server.serve_http(listener));
    let test = tokio::task::spawn_blocking(move || {
        let shown = run(&["show", "--json", &url]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        let ran = run_with(&["diff", "--deny", "any", "-", &url], &shown.stdout);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        let ran = run(&["diff", OLD, &url]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stdout.contains("0 changed, 9 new"), "{}", ran.stdout);
    });
    test.await.unwrap();
    serving.abort();
    let ran =
        tokio::task::spawn_blocking(|| run(&["show", "mcp:/there/is/no/program --key secret"]));
    let ran = ran.await.unwrap();
    assert_eq!(ran.code, Some(1));
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
}

/// Files that are no versions, each with a part of the error.
#[test]
fn hostile_files_are_errors_with_a_place() {
    let files = Files::new();
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", b"".to_vec(), "not JSON"),
        ("text", b"tools: []".to_vec(), "not JSON"),
        ("binary", vec![0xff, 0xfe, 0, 1], "UTF-8"),
        ("number", b"7".to_vec(), "a file has a list of contracts"),
        ("object", b"{}".to_vec(), "a file has a list of contracts"),
        ("no list", br#"{"tools": {}}"#.to_vec(), "a file has a list of contracts"),
        ("deep", deep(100_000).into_bytes(), "recursion limit"),
        ("items", b"[1]".to_vec(), "item 0: it is not a contract"),
        ("fields", br#"[{"name": "a"}]"#.to_vec(), "item 0: it is not a contract"),
        ("name", br#"[{"name": "a b", "description": "", "input": {}}]"#.to_vec(), "item 0"),
        (
            "twice",
            listed(&[tool("a", json!({})), tool("a", json!({}))]).into_bytes(),
            "`a` is there twice",
        ),
        // Both are `a_b` for a model.
        (
            "alike",
            listed(&[tool("a.b", json!({})), tool("a b", json!({}))]).into_bytes(),
            "`a_b` is there twice",
        ),
    ];
    for (name, text, expected) in cases {
        let file = files.with(name, text);
        for arguments in [["diff", &file, OLD], ["diff", OLD, &file]] {
            let ran = run(&arguments);
            assert_eq!(ran.code, Some(2), "{name}: {}", ran.stdout);
            assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(&file) && ran.stderr.len() < 1_000,
                "{name}: {}",
                ran.stderr
            );
        }
        assert_eq!(run(&["show", &file]).code, Some(1), "{name}");
    }
    let folder = files.0.path().to_str().unwrap();
    assert_eq!(run(&["diff", folder, OLD]).code, Some(2));
}

/// Tools that no contract can be made of, and unusual ones that it can be made of.
#[test]
fn a_tool_that_cannot_be_compared_breaks_if_its_definition_changed() {
    let files = Files::new();
    let tools = |kind: &str| {
        let fields = json!({"n": {"type": "any"}, "a": {"type": kind}});
        let tool = json!({"name": "pay", "inputSchema": {"type": "object", "properties": fields}});
        json!({ "tools": [tool] }).to_string()
    };
    let old = files.with("old.json", tools("integer"));
    let same = files.with("same.json", tools("integer"));
    let new = files.with("new.json", tools("string"));
    assert_eq!(run(&["diff", &old, &same]).code, Some(0));
    let ran = run(&["diff", &old, &new]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let said = "pay: BREAKING, changed, but could not be compared, because it is left out: ";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    assert!(ran.stdout.contains("1 breaking"), "{}", ran.stdout);
}

#[test]
fn hostile_tools_are_left_out_with_a_reason_or_compared() {
    let files = Files::new();
    let mut nested = json!({"type": "string"});
    for _ in 0..40 {
        nested = json!({"type": "object", "properties": {"a": nested}});
    }
    let tools = [
        tool("not_object", json!({"type": "string"})),
        tool("nowhere", json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}})),
        tool(
            "circle",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        ),
        tool(
            "elsewhere",
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}),
        ),
        tool("no_schema", json!(7)),
        tool("wrong_type", json!({"type": "object", "properties": {"a": {"type": "integr"}}})),
        tool(
            "unknown_dialect",
            json!({"$schema": "https://example.com/mine", "type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        tool("list", json!({"type": "object", "properties": {"next": {"$ref": "#"}}})),
        tool("nested", nested),
        tool("", json!({})),
    ];
    let file = files.with("hostile", listed(&tools));
    let ran = run(&["diff", &file, &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let folder = files.0.path().to_str().unwrap();
    let (stdout, stderr) =
        (ran.stdout.replace(folder, "FOLDER"), ran.stderr.replace(folder, "FOLDER"));
    // Both versions have the same ones.
    let left_out: Vec<&str> = stderr.lines().collect();
    assert!(stdout.contains("3 unchanged, 7 left out and not compared"), "{stdout}");
    insta::assert_snapshot!(format!("{stdout}{}", left_out[..left_out.len() / 2].join("\n")));
}

#[test]
fn thousands_of_tools_take_seconds() {
    let files = Files::new();
    let version = |kind: &str, name: &str| {
        let fields =
            json!({"type": "object", "properties": {"a": {"type": kind}}, "required": ["a"]});
        let tools: Vec<_> =
            (0..3_000).map(|n| tool(&format!("{name}{n}"), fields.clone())).collect();
        listed(&tools)
    };
    let old = files.with("old", version("string", "tool"));
    let began = Instant::now();
    for new in [version("integer", "tool"), version("string", "other")] {
        let ran = run(&["diff", &old, &files.with("new", new)]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stdout.contains("3000 breaking"), "{:.200}", ran.stdout);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
