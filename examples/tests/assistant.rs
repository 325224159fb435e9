//! The assistant as a conversation, for other programs, and with its switches.

use crate::mcp;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Ran, program, run};
use crate::server::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A reply that calls a tool.
fn call(name: &str, arguments: &str) -> String {
    reply(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}},
    ]}))
}

/// A reply that says something.
fn says(text: &str) -> String {
    reply(json!({"role": "assistant", "content": text}))
}

fn reply(message: Value) -> String {
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    json!({
        "model": "small",
        "choices": [{"finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 10},
    })
    .to_string()
}

fn server(replies: &[String]) -> Server {
    Server::start(&replies.iter().map(String::as_str).collect::<Vec<_>>())
}

fn assistant(server: &Server) -> Command {
    let mut command = program("assistant");
    command.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    command
}

/// Runs a conversation of these lines, over a pipe.
fn converse(command: &mut Command, lines: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// What was said in a request, without the instructions.
fn messages(asked: &Value) -> Vec<&Value> {
    let all = asked["messages"].as_array().unwrap().iter();
    all.filter(|message| message["role"] != "system").collect()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn without_a_prompt_every_line_is_a_task_of_one_conversation_with_one_memory() {
    let server = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        says("Stored."),
        call("memory_retrieve", r#"{"key":"color"}"#),
        says("It is blue."),
    ]);
    // Empty lines are no tasks, and the last one may end without a line's end.
    let ran = converse(&mut assistant(&server), "Store it.\n\n  \nWhich color?");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "Stored.\nIt is blue.\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("<- memory_retrieve blue"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("2 model calls, 100 tokens in").count(), 2, "{}", ran.stderr);

    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    let before = messages(&asked[1]);
    let second = messages(&asked[2]);
    assert_eq!(second[..before.len()], before);
    assert_eq!(second[before.len()]["content"], "Stored.");
    assert_eq!(second[before.len() + 1]["content"], "Which color?");
}

#[test]
fn a_task_that_fails_does_not_end_the_conversation_and_is_not_in_it() {
    let server = server(&[says("One."), "no JSON".to_owned(), says("Three.")]);
    let ran = converse(&mut assistant(&server), "First.\nSecond.\nThird.\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "One.\nThree.\n"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("continues without this task"), "{}", ran.stderr);

    let asked = server.asked();
    let said: Vec<&Value> =
        messages(asked.last().unwrap()).iter().map(|message| &message["content"]).collect();
    assert_eq!(said, ["First.", "One.", "Third."]);
}

#[test]
fn an_input_that_is_empty_is_a_conversation_that_is_over() {
    let server = server(&[says("Hello.")]);
    let ran = converse(&mut assistant(&server), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert!(server.asked().is_empty());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_task_and_then_the_conversation() {
    let server = server(&[String::new(), says("Hello.")]);
    let mut child = assistant(&server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Wait for ever.\n").unwrap();
    while server.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    let interrupt = || Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(interrupt().success());
    stdin.write_all(b"Say hello.\n").unwrap();
    let mut said = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"Hello.\n");
    // At the prompt, which stdin still keeps open.
    assert!(interrupt().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("cancelled after"), "{stderr}");
    assert_eq!(messages(&server.asked()[1]).len(), 1);
}

#[test]
fn json_is_an_event_a_line_and_the_result_last() {
    let server = server(&[
        call("memory_store", r#"{"key":"color","value":"blue\u001b"}"#),
        call("memory_retrieve", r#"{"keys":"color"}"#),
        says("Stored.\u{1b}[2J"),
    ]);
    let ran = run(assistant(&server).args(["--json", "Store it."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    let mut lines = lines(&ran.stdout);
    let last = lines.pop().unwrap();
    assert_eq!(lines.iter().filter(|line| line["event"].is_string()).count(), lines.len());
    let kinds: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    let round = ["model_replied", "tool_started", "tool_finished"];
    let expected: Vec<&str> =
        [&["started"][..], &round, &round, &["model_replied", "done"]].concat();
    assert_eq!(kinds, expected);

    let result = &last["result"];
    assert_eq!(result["answer"], "Stored.\u{1b}[2J");
    assert_eq!((&result["ending"], &result["limit"]), (&json!("answered"), &Value::Null));
    assert_eq!(result["iterations"], 2);
    assert_eq!(result["tools_used"], json!(["memory_store", "memory_retrieve"]));
    assert_eq!(result["spent"]["usage"]["input_tokens"], 150);
    assert_eq!(result["failures"][0]["call"]["name"], "memory_retrieve");
    assert!(result["failures"][0]["error"].as_str().unwrap().contains("$.key"));
}

#[test]
fn json_of_a_task_that_fails_ends_with_the_error() {
    let server = server(&["no JSON".to_owned(), says("Hello.")]);
    let ran = converse(assistant(&server).arg("--json"), "One.\nTwo.\n");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let lines = lines(&ran.stdout);
    let ends: Vec<&Value> = lines.iter().filter(|line| line["event"].is_null()).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0]["error"]["stage"], "decoding");
    assert_eq!(ends[0]["error"]["spent"]["model_calls"], 1);
    assert_eq!(ends[1]["result"]["answer"], "Hello.");
    assert_eq!(lines.last(), Some(ends[1]));
}

#[test]
fn json_says_so_too_where_there_is_no_model() {
    let ran = run(program("assistant").args(["--offline", "--json", "Sing."]));
    assert_eq!(ran.code, Some(1));
    let lines = lines(&ran.stdout);
    assert_eq!(lines[0]["error"]["stage"], "setup");
    assert!(lines[0]["error"]["text"].as_str().unwrap().starts_with("no model was found"));
    assert_eq!((lines.len(), ran.stderr.as_str()), (1, ""));
}

#[test]
fn a_call_that_cannot_be_undone_is_not_made_where_nobody_can_be_asked() {
    let calls = [
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        call("memory_clear", "{}"),
        says("Cleared."),
    ];
    let why = "`memory_clear` waits for a person's approval";
    let server_ = server(&calls);
    let ran = run(assistant(&server_).args(["--approve", "Store it and clear."]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("error: {why}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("-> memory_clear"), "{}", ran.stderr);
    assert_eq!(server_.asked().len(), 2);

    let server_ = server(&calls);
    let ran = run(assistant(&server_).args(["--approve", "--json", "Store it and clear."]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let lines = lines(&ran.stdout);
    let error = &lines.last().unwrap()["error"];
    assert_eq!(error["stage"], "approval");
    assert!(error["text"].as_str().unwrap().starts_with(why), "{error}");
    let waits = lines.iter().find(|line| line["event"] == "approval_awaited").unwrap();
    assert_eq!(waits["calls"][0]["name"], "memory_clear");

    // Without the switch it is made.
    let server_ = server(&calls);
    let ran = run(assistant(&server_).arg("Store it and clear."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Cleared.\n"), "{}", ran.stderr);
}

#[test]
fn a_selector_asks_for_selections_and_then_for_the_answer() {
    let server = server(&[
        says(
            r#"{"selection":{"action":"call_tool","tool_name":"memory_store","tool_input":{"key":"color","value":"blue"}}}"#,
        ),
        says(r#"{"selection":{"action":"finish"}}"#),
        says("Stored."),
    ]);
    let ran = run(assistant(&server).args(["--selector", "Store it."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store Stored memory 'color'"), "{}", ran.stderr);
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked["tools"].is_null()));
    assert_eq!(asked[0]["response_format"]["type"], "json_schema");
    assert!(asked[2]["response_format"].is_null());
}

#[test]
fn limits_hold_for_each_task_of_a_conversation() {
    let stores = call("memory_store", r#"{"key":"color","value":"blue"}"#);
    let server = server(&[stores.clone(), says("So far."), stores, says("Again.")]);
    let mut command = assistant(&server);
    let ran = converse(command.args(["--max-model-calls", "2"]), "One.\nTwo.\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "So far.\nAgain.\n"), "{}", ran.stderr);
    let said = "(the run ended at a limit: LimitReached, model calls)";
    assert_eq!(ran.stderr.matches(said).count(), 2, "{}", ran.stderr);

    let silent = Server::start(&[""]);
    let ran = run(assistant(&silent).args(["--max-time", "1", "Wait."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "\n"), "{}", ran.stderr);
    let said = "(the run ended at a limit: LimitReached, time)";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
fn a_history_is_for_conversations() {
    let ran = run(program("assistant").args(["--history", "lines.txt", "Hi."]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    let ran = run(program("assistant").args(["--max-model-calls", "0", "Hi."]));
    assert_eq!(ran.code, Some(2));
}

#[test]
fn the_toolsets_that_are_named_are_used_and_the_memory_stays_in_its_file() {
    let file = std::env::temp_dir().join(format!("assistant-{}.db", std::process::id()));
    let file = file.to_str().unwrap();
    let run_with = |replies: &[String], arguments: &[&str]| {
        let server = server(replies);
        let ran = run(assistant(&server).args(arguments).arg("Go."));
        let tools = server.asked().first().map(|asked| asked["tools"].as_array().unwrap().len());
        (ran, tools)
    };
    let replies = [
        call("text_wc", r#"{"text":"one two\nthree\n"}"#),
        call("memory_store", r#"{"key":"words","value":"3"}"#),
        says("Counted."),
    ];
    let (ran, tools) = run_with(&replies, &["--tools", "memory,text,github", "--memory", file]);
    assert_eq!((ran.code, tools), (Some(0), Some(9 + 8 + 7)), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- text_wc Lines: 2, Words: 3, Characters: 14"), "{}", ran.stderr);

    // Another process, with other tools besides.
    let replies = [call("memory_retrieve", r#"{"key":"words"}"#), says("There were three.")];
    let (ran, tools) = run_with(&replies, &["--memory", file]);
    assert_eq!((ran.code, tools), (Some(0), Some(9)), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_retrieve 3"), "{}", ran.stderr);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{file}{end}"));
    }

    for (arguments, advice) in [
        (["--tools", "memory,mail"], "[possible values: memory, text, github]"),
        (["--memory", "/proc/none/memory.db"], "/proc/none/memory.db"),
    ] {
        let (ran, _) = run_with(&[], &arguments);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(advice), "{}", ran.stderr);
    }
    let (ran, _) = run_with(&[], &["--tools", "text", "--memory", file]);
    assert!(ran.stderr.contains("--tools does not name memory"), "{}", ran.stderr);
}

/// The command of a server with a memory in this file, and where its number goes.
fn remembering(folder: &Path, name: &str) -> String {
    let memory = folder.join(name).with_extension("db");
    mcp::serve(&folder.join(name), &["--memory", memory.to_str().unwrap()])
}

/// The names of the tools that a model was told of.
fn told_of(asked: &Value) -> Vec<&str> {
    let tools = asked["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn servers_tools_are_called_and_a_name_that_is_taken_gets_the_servers_before_it() {
    let folder = TempDir::new().unwrap();
    let [first, second] = ["first", "second"].map(|name| remembering(folder.path(), name));
    let model = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        call("toolwright_memory_store", r#"{"key":"color","value":"red"}"#),
        call("memory_retrieve", r#"{"key":"color"}"#),
        call("toolwright_memory_retrieve", r#"{"key":"color"}"#),
        call("toolwright_memory_retrieve", r#"{"keys":"color"}"#),
        says("Two colors."),
    ]);
    let ran = run(assistant(&model).args([
        "--tools",
        "text",
        "--mcp",
        &first,
        "--mcp",
        &second,
        "Store them.",
    ]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Two colors.\n"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("9 tools of toolwright\n").count(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_retrieve blue"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- toolwright_memory_retrieve red"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- toolwright_memory_retrieve failed: "), "{}", ran.stderr);
    let asked = model.asked();
    let told = told_of(&asked[0]);
    assert_eq!(told.len(), 8 + 9 + 9);
    assert_eq!((told[8], told[17]), ("memory_store", "toolwright_memory_store"));
    for name in ["first", "second"] {
        mcp::ended(&folder.path().join(name));
    }

    // A third time the server's name says nothing, and a number does.
    let model = server(&[says("Hello.")]);
    let ran = run(assistant(&model).args(["--mcp", &first, "--mcp", &second, "Go."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    let asked = model.asked();
    assert!(told_of(&asked[0]).contains(&"toolwright_2_memory_store"));
    for name in ["first", "second"] {
        mcp::ended(&folder.path().join(name));
    }
}

#[test]
fn a_server_that_is_not_there_is_named_and_the_model_is_not_asked() {
    let folder = TempDir::new().unwrap();
    let there = remembering(folder.path(), "there");
    for (server, told) in [
        ("no-such-server --key hunter2", "no-such-server (2 of 2): `no-such-server` could not be"),
        (
            "sh -c 'echo no key >&2' hunter2",
            "sh (2 of 2): no MCP server responded at sh; its standard error was: no key",
        ),
        (
            "http://127.0.0.1:9/mcp?key=hunter2",
            "http://127.0.0.1:9/mcp (2 of 2): no MCP server responded",
        ),
        (
            "http://me:hunter2@127.0.0.1:9/mcp",
            "http://127.0.0.1:9/mcp (2 of 2): the server's address",
        ),
        ("https://", "URL (2 of 2): the server's address cannot be used"),
        ("'hunter2", "a quote that is not closed"),
        ("", "command of a server is empty"),
    ] {
        let model = self::server(&[says("Hello.")]);
        let servers = ["--tools", "text", "--mcp", &there, "--mcp", server, "Go."];
        let ran = run(assistant(&model).args(servers));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        assert!(model.asked().is_empty());
        let ran = run(assistant(&model).arg("--json").args(servers));
        let error = &lines(&ran.stdout)[0]["error"];
        assert_eq!((ran.code, &error["stage"]), (Some(1), &json!("setup")));
        assert!(error["text"].as_str().unwrap().contains(told), "{error}");
    }
    mcp::ended(&folder.path().join("there"));
}

#[test]
fn whatever_a_server_says_of_its_tools_a_person_is_asked() {
    let folder = TempDir::new().unwrap();
    let theirs = remembering(folder.path(), "theirs");
    // It says of itself that it only reads.
    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let servers = ["--tools", "text", "--mcp", &theirs];
    let ran = run(assistant(&model).args(servers).args(["--approve", "How many?"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let told = "error: `memory_count` waits for a person's approval";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(!ran.stderr.contains("-> memory_count"), "{}", ran.stderr);
    mcp::ended(&folder.path().join("theirs"));

    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let ran = run(assistant(&model).args(servers).arg("How many?"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "None.\n"), "{}", ran.stderr);
    // Its own are as they were.
    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let ran = run(assistant(&model).args(["--approve", "How many?"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "None.\n"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_server_that_dies_between_two_tasks_is_started_again() {
    let folder = TempDir::new().unwrap();
    let numbers = folder.path().join("theirs");
    let theirs = remembering(folder.path(), "theirs");
    let model = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        says("Stored."),
        // This one may be on its way before the end is seen: then its end is not known.
        call("memory_count", "{}"),
        call("memory_retrieve", r#"{"key":"color"}"#),
        says("It is blue."),
    ]);
    let mut child = assistant(&model)
        .args(["--tools", "text", "--mcp", &theirs])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    stdin.write_all(b"Store it.\n").unwrap();
    stdout.read_line(&mut said).unwrap();
    let first = mcp::numbers(&numbers)[0].to_string();
    assert!(Command::new("kill").args(["-KILL", &first]).status().unwrap().success());
    mcp::ended(&numbers);
    stdin.write_all(b"Which color?\n").unwrap();
    stdout.read_line(&mut said).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(0), "Stored.\nIt is blue.\n"),
        "{stderr}"
    );
    assert!(stderr.contains("<- memory_retrieve blue"), "{stderr}");
    assert_eq!(mcp::numbers(&numbers).len(), 2);
    mcp::ended(&numbers);
}

#[cfg(unix)]
#[test]
fn no_server_outlives_the_assistant_however_it_ends() {
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let folder = TempDir::new().unwrap();
        let numbers = folder.path().join("theirs");
        let theirs = remembering(folder.path(), "theirs");
        let model = server(&[String::new()]);
        let mut child = assistant(&model)
            .args(["--mcp", &theirs, "Wait for ever."])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while model.asked().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(mcp::is_there(mcp::numbers(&numbers)[0]));
        let number = child.id().to_string();
        assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code);
        mcp::ended(&numbers);
    }
}
