//! `mcp_server` and `mcp_client` as a user runs them: as processes.

use crate::mcp;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Ran, program, run};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_mcp::McpServer;
use toolwright_module::message::Image;
use toolwright_module::{Effect, Error, Tool, ToolOutput};
use toolwright_signature::Contract;

/// What no output may hold.
const TOKEN: &str = "hunter2-0123456789";

/// The client, over standard input and output of a server with these arguments.
fn over_stdio(arguments: &[&str]) -> Command {
    let server = program("mcp_server");
    let words = [&[server.get_program().to_str().unwrap()], arguments].concat();
    let mut client = program("mcp_client");
    client.arg("--stdio").arg(shlex::try_join(words).unwrap());
    client
}

fn over_http(url: &str) -> Command {
    let mut client = program("mcp_client");
    client.args(["--http", url]);
    client
}

/// A server over HTTP that ends with the test.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(arguments: &[&str], token: Option<&str>) -> Self {
        let mut server = program("mcp_server");
        server.args(["--http", "0"]).args(arguments);
        if let Some(token) = token {
            server.env("MCP_WORD", token).args(["--token-env", "MCP_WORD"]);
        }
        let mut process = server.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("at ").expect(&line).to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { process, url }
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ok(ran: Ran) -> String {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

/// What was said of a failure; nothing came of it.
fn failed(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    ran.stderr
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn list_shows_each_tool_and_what_the_server_says_of_it() {
    let shown = ok(run(over_stdio(&[]).arg("list")));
    insta::assert_snapshot!(shown);
    let served = Served::start(&[], None);
    assert_eq!(ok(run(over_http(&served.url).arg("list"))), shown);
}

#[test]
fn list_gives_other_programs_the_definitions() {
    let all = ok(run(over_stdio(&["--tools", "memory,text,github"]).args(["list", "--json"])));
    let definitions = lines(&all);
    assert_eq!(definitions.len(), 9 + 8 + 7);
    let of = |name: &str| definitions.iter().find(|definition| definition["name"] == name);
    let store = of("memory_store").unwrap();
    assert_eq!(store["inputSchema"]["required"], json!(["key", "value"]));
    assert_eq!(store["annotations"]["idempotentHint"], true);
    assert!(of("text_grep").is_some() && of("github_get_issue").is_some(), "{all}");
    // A toolset by itself has nothing to say of a memory.
    let lock = ok(run(over_stdio(&["--tools", "text"]).arg("lock")));
    assert!(!lock.contains("memory"), "{lock}");
}

#[test]
fn call_prints_the_result_and_a_failure_is_told_and_an_exit_code() {
    let served = Served::start(&[], None);
    let call = |arguments: &[&str]| run(over_http(&served.url).arg("call").args(arguments));
    let stored = ok(call(&["memory_store", r#"{"key": "color", "value": "blue"}"#]));
    assert!(stored.starts_with("Stored memory 'color' successfully\n"), "{stored}");
    assert_eq!(ok(call(&["memory_count"])), "1\n");
    let retrieved = ok(call(&["memory_retrieve", r#"{"key": "color"}"#, "--json"]));
    let expected = json!({"text": "blue", "value": {"result": "blue"}, "parts": []});
    assert_eq!(lines(&retrieved), [expected]);

    for (arguments, said) in [
        (&["memory_store", r#"{"key": "color"#][..], "the JSON text ends too early"),
        (&["memory_store", "[1]"], "expected an object"),
        (&["memory_store", ""], "does not fit"),
        (&["memory_store", r#"{"key": 1, "value": "x"}"#], "$.key: expected a string"),
        (&["memory_search", r#"{"pattern": "["}"#], "unclosed"),
        (&["memory_forget"], "there is no tool `memory_forget`; there are: memory_store, "),
    ] {
        let told = failed(call(arguments));
        assert!(told.contains(said), "{arguments:?}: {told}");
        assert!(failed(call(&[arguments, &["--json"]].concat())).contains(said));
    }
    assert_eq!(run(over_http(&served.url).arg("call")).code, Some(2));
}

#[test]
fn a_lock_holds_the_server_to_what_it_was() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("server.lock");
    let lock = ok(run(over_stdio(&[]).arg("lock")));
    let served = Served::start(&[], None);
    assert_eq!(ok(run(over_http(&served.url).arg("lock"))), lock);
    fs::write(&file, &lock).unwrap();
    let held =
        |client: &mut Command, task: &[&str]| run(client.arg("--lock").arg(&file).args(task));
    assert_eq!(ok(held(&mut over_stdio(&[]), &["lock"])), lock);
    assert_eq!(ok(held(&mut over_http(&served.url), &["call", "memory_count"])), "0\n");

    // Tools that are new, and a description that is another.
    let told =
        failed(held(&mut over_stdio(&["--tools", "memory,text"]), &["call", "memory_count"]));
    assert!(told.contains("\n+      \"name\": \"text_grep\",\n"), "{told}");
    fs::write(&file, lock.replace("Remove all entries", "Show all entries")).unwrap();
    let told = failed(held(&mut over_http(&served.url), &["list"]));
    let changed = ["Show", "Remove"].map(|word| {
        let sign = if word == "Show" { '-' } else { '+' };
        format!("{sign}      \"description\": \"{word} all entries for good.\",\n")
    });
    assert!(told.contains(&changed.concat()), "{told}");

    fs::write(&file, "no lock").unwrap();
    let told = failed(held(&mut over_stdio(&[]), &["list"]));
    assert!(told.contains("server.lock: this file was not written by `lock`"), "{told}");
    fs::remove_file(&file).unwrap();
    let told = failed(held(&mut over_stdio(&[]), &["list"]));
    assert!(told.contains("server.lock: No such file"), "{told}");
}

#[test]
fn a_token_is_asked_for_and_shown_by_nobody() {
    let mut served = Served::start(&[], Some(TOKEN));
    let with = |token: &str, url: &str| {
        let mut client = over_http(url);
        client.env("MCP_WORD", token).args(["--token-env", "MCP_WORD", "call", "memory_count"]);
        let ran = run(&mut client);
        assert!(!ran.stderr.contains(token) && !ran.stdout.contains(token), "{}", ran.stderr);
        ran
    };
    assert_eq!(ok(with(TOKEN, &served.url)), "0\n");
    let told = failed(with("another-word", &served.url));
    assert!(told.contains("rejected the token in MCP_WORD"), "{told}");
    let told = failed(run(over_http(&served.url).arg("list")));
    assert!(told.contains(&format!("{} requires a token;", served.url)), "{told}");
    assert!(told.contains("--token-env"), "{told}");
    let told = failed(with("no\u{fc}header", &served.url));
    assert!(told.contains("the token is empty or has a character"), "{told}");
    // Not over a network that can read it.
    let told = failed(with(TOKEN, "http://tools.example.com/mcp"));
    assert!(told.contains("use https://"), "{told}");
    served.kill();
    let told = failed(with(TOKEN, &served.url));
    assert!(told.contains("no MCP server responded at"), "{told}");

    for name in ["mcp_server", "mcp_client"] {
        let address = if name == "mcp_server" { "0" } else { "http://127.0.0.1:9/mcp" };
        let mut program = program(name);
        program.args(["--http", address, "--token-env", "MCP_WORD"]);
        let task: &[&str] = if name == "mcp_client" { &["list"] } else { &[] };
        let told = failed(run(program.args(task)));
        assert!(told.contains("MCP_WORD has no token; set it"), "{told}");
    }
}

#[test]
fn beyond_this_machine_the_server_wants_a_token() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let told = failed(run(program("mcp_server").args(["--http", address])));
        assert!(told.contains("--token-env"), "{told}");
        let mut named = program("mcp_server");
        named.env("MCP_WORD", TOKEN).args(["--http", address, "--token-env", "MCP_WORD"]);
        let told = failed(run(&mut named));
        assert!(told.contains("--host") && !told.contains(TOKEN), "{told}");
    }
    let ran = run(program("mcp_server").args(["--http", "here"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("such as 127.0.0.1:8000"), "{}", ran.stderr);
}

#[test]
fn a_memory_in_a_file_is_there_for_the_next_server() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("memory.db");
    let call = |arguments: &[&str]| {
        let mut client = over_stdio(&["--memory", file.to_str().unwrap()]);
        ok(run(client.arg("call").args(arguments)))
    };
    call(&["memory_store", r#"{"key": "color", "value": "blue"}"#]);
    assert_eq!(call(&["memory_retrieve", r#"{"key": "color"}"#]), "blue\n");
    // In the process it is not.
    assert_eq!(ok(run(over_stdio(&[]).args(["call", "memory_count"]))), "0\n");

    let told = failed(run(over_stdio(&["--tools", "text", "--memory", "x.db"]).arg("list")));
    assert!(told.contains("--tools does not name memory"), "{told}");
}

#[test]
fn the_end_of_input_ends_the_server_and_the_end_of_the_client_too() {
    let ran = run(program("mcp_server").stdin(Stdio::null()));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("numbers");
    let client = |task: &[&str]| {
        let mut client = program("mcp_client");
        client.arg("--stdio").arg(mcp::serve(&file, &[])).args(task);
        client
    };
    for task in [&["list"][..], &["call", "memory_count"], &["call", "none"], &["lock"]] {
        run(&mut client(task));
    }
    assert_eq!(mcp::numbers(&file).len(), 4);
    mcp::ended(&file);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_client_and_a_server_that_does_not_answer() {
    for signal in ["-INT", "-KILL"] {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("numbers");
        let command = mcp::tell_number(&file, &["cat"]);
        let mut client = program("mcp_client").args(["--stdio", &command, "list"]).spawn().unwrap();
        mcp::numbers(&file);
        let number = client.id().to_string();
        assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
        let expected = if signal == "-INT" { Some(130) } else { None };
        assert_eq!(client.wait().unwrap().code(), expected);
        mcp::ended(&file);
    }
}

#[test]
fn a_command_is_split_and_no_shell_reads_it() {
    let folder = TempDir::new().unwrap();
    let made = folder.path().join("made");
    let server = program("mcp_server");
    let server = server.get_program().to_str().unwrap();
    let stdio = |command: &str| run(program("mcp_client").args(["--stdio", command, "list"]));
    let touch = format!("{server} $(touch {})", made.display());
    assert!(failed(stdio(&touch)).contains("unexpected argument"));
    assert!(!made.exists());

    // What a server dies of is said; what follows its name is not, it may be a secret.
    let told = failed(stdio(r#"sh -c 'echo "the key is missing" >&2; exit 3' hunter2"#));
    assert!(
        told.contains("no MCP server responded at sh; its standard error was: the key is missing"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
    let told = failed(stdio("no-such-server --key hunter2"));
    assert!(told.starts_with("error: `no-such-server` could not be started"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    assert!(failed(stdio("sh 'hunter2")).contains("a quote that is not closed"));
    assert!(failed(stdio(" ")).contains("command of a server is empty"));
    let told = failed(run(over_http("127.0.0.1:8000/mcp").arg("list")));
    assert!(told.contains("it is not a URL; write the complete URL"), "{told}");
    for switches in [
        &["list"][..],
        &["--stdio", "x", "--http", "y", "list"],
        &["--stdio", "x", "--token-env", "Y", "list"],
        &["--http", "x", "--env", "Y", "list"],
        &["--stdio", "x"],
    ] {
        assert_eq!(run(program("mcp_client").args(switches)).code, Some(2), "{switches:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_server_gets_the_variables_that_are_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("variables");
    let server = program("mcp_server");
    let words = ["sh", "-c", r#"env > "$0"; exec "$1""#];
    let server = [file.to_str().unwrap(), server.get_program().to_str().unwrap()];
    let command = shlex::try_join(words.into_iter().chain(server)).unwrap();
    let seen = |switches: &[&str]| {
        let mut client = program("mcp_client");
        client.env("MCP_WORD", TOKEN).args(["--stdio", &command]).args(switches);
        ok(run(client.args(["call", "memory_count"])));
        fs::read_to_string(&file).unwrap().contains(TOKEN)
    };
    assert!(!seen(&[]));
    assert!(seen(&["--env", "MCP_WORD"]));
    let mut client = program("mcp_client");
    let told = failed(run(client.args(["--stdio", &command, "--env", "MCP_WORD", "list"])));
    assert!(told.contains("--env: MCP_WORD is not set"), "{told}");
}

/// Tools that ours are not: with images, unreadable schemas, and failures of every kind.
fn odd() -> Vec<Tool> {
    let tool = |name: &str, description: &str, make: fn() -> Result<ToolOutput, Error>| {
        let input = json!({"type": "object", "properties": {
            "kind": {"enum": ["a", 1, null]},
            "parts": {"type": "array", "items": {"type": "object", "properties": {
                "at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "below": {"$ref": "#/properties/parts"},
            }, "required": ["at"]}},
        }});
        let contract = Contract::dynamic(name, description, input, None).unwrap();
        Tool::dynamic(contract, Effect::Irreversible, move |_, _| async move { make() })
    };
    let images = || {
        let image = |url: &str| Image::url(url).into();
        let images = [image("data:image/png;base64,AAAA"), image("https://example.com/a.png")];
        Ok(ToolOutput::text_only("Two\u{1b}[2J images.").with_parts(images))
    };
    vec![
        tool("picture", "Show\u{1b}[2J a picture.\n\nAnd another.", images),
        tool("refuse", "Refuse.", || Err(Error::refuse("Not on Sundays."))),
        tool("fail", "Fail.", || Err(Error::other(TOKEN))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn images_odd_schemas_and_failures_are_shown_and_steer_no_terminal() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = McpServer::new("odd", "1", odd()).unwrap();
    tokio::spawn(server.serve_http(listener));
    tokio::task::spawn_blocking(move || {
        let client = |task: &[&str]| run(over_http(&url).args(task));
        let shown = ok(client(&["list"]));
        insta::assert_snapshot!(shown.split("\nrefuse").next().unwrap(), @r#"
        picture (may change things)
          Show[2J a picture.

          And another.
            kind: "a" or 1 or null, optional
            parts: array of {at: integer or null, below?: parts}, optional
        "#);

        let ran = client(&["call", "picture"]);
        assert!(ran.stderr.contains("(the result has a file of type image/png;"), "{}", ran.stderr);
        assert!(ok(ran).starts_with("Two[2J images.\n"));
        let images = ok(client(&["call", "picture", "--json"]));
        assert!(images.contains("data:image/png;base64,AAAA") && !images.contains('\u{1b}'));
        assert_eq!(failed(client(&["call", "refuse"])), "Not on Sundays.\n");
        let told = failed(client(&["call", "fail"]));
        assert!(told.contains("failed") && !told.contains(TOKEN), "{told}");
    })
    .await
    .unwrap();
}

#[test]
fn a_client_whose_output_nobody_reads_does_not_panic() {
    let mut client =
        over_stdio(&[]).arg("list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(client.stdout.take());
    let mut told = String::new();
    client.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((client.wait().unwrap().code(), told.as_str()), (Some(0), ""));
}

#[test]
fn the_configuration_of_a_desktop_client_names_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let shown: Value = serde_json::from_str(shown).unwrap();
    let server = &shown["mcpServers"]["toolwright"];
    let command = server["command"].as_str().unwrap();
    assert!(command.ends_with("/target/debug/examples/mcp_server"), "{command}");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("memory.db");
    let arguments = server["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
    let arguments: Vec<&str> = arguments
        .map(|one| if one.ends_with(".db") { file.to_str().unwrap() } else { one })
        .collect();
    assert_eq!(lines(&ok(run(over_stdio(&arguments).args(["list", "--json"])))).len(), 9 + 8);
    assert!(file.exists());
}
