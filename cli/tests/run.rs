//! `run`: one task, its options, and the servers that it uses.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{asking, call, lines, program, run, run_with, says, server};
use crate::mcp_process as mcp;
use crate::server::Server;

const TASK: &str = "Store the key color with value blue, then retrieve it.";

fn task(server: &Server) -> Command {
    asking("run", server)
}

#[test]
fn json_is_an_event_a_line_and_the_result_last() {
    let server = server(&[
        call("memory_store", r#"{"key":"color","value":"blue\u001b"}"#),
        call("memory_retrieve", r#"{"keys":"color"}"#),
        says("Stored.\u{1b}[2J"),
    ]);
    let ran = run(task(&server).args(["--json", "Store it."]));
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
fn keys_in_calls_and_results_are_not_printed_beside_the_answer() {
    const KEY: &str = "glpat-0123456789abcdefghij";
    let server = server(&[
        call("memory_store", &json!({"key": "gitlab", "value": KEY}).to_string()),
        call("memory_retrieve", r#"{"key":"gitlab"}"#),
        says(KEY),
    ]);
    let ran = run(task(&server).arg("Which key is it?"));
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{KEY}\n")), "{}", ran.stderr);
    assert!(!ran.stderr.contains(KEY), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("[secret]").count(), 2, "{}", ran.stderr);
    // The tool got the key, and the model its result.
    assert!(server.asked()[2].to_string().contains(KEY));
}

#[test]
fn json_says_so_too_where_there_is_no_model() {
    let ran = run(program("run").args(["--offline", "--json", "Sing."]));
    assert_eq!(ran.code, Some(1));
    let lines = lines(&ran.stdout);
    assert_eq!(lines[0]["error"]["stage"], "setup");
    assert!(lines[0]["error"]["text"].as_str().unwrap().starts_with("--offline asks no model"));
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
    let ran = run(task(&server_).args(["--ask", "Store it and clear."]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("error: {why}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("-> memory_clear"), "{}", ran.stderr);
    assert_eq!(server_.asked().len(), 2);

    let server_ = server(&calls);
    let ran = run(task(&server_).args(["--ask", "--json", "Store it and clear."]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let lines = lines(&ran.stdout);
    let error = &lines.last().unwrap()["error"];
    assert_eq!(error["stage"], "approval");
    assert!(error["text"].as_str().unwrap().starts_with(why), "{error}");
    let waits = lines.iter().find(|line| line["event"] == "approval_awaited").unwrap();
    assert_eq!(waits["calls"][0]["name"], "memory_clear");

    // Without the switch it is made.
    let server_ = server(&calls);
    let ran = run(task(&server_).arg("Store it and clear."));
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
    let ran = run(task(&server).args(["--selector", "Store it."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store Stored memory 'color'"), "{}", ran.stderr);
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked["tools"].is_null()));
    assert_eq!(asked[0]["response_format"]["type"], "json_schema");
    assert!(asked[2]["response_format"].is_null());
}

#[test]
fn the_toolsets_that_are_named_are_used_and_the_memory_stays_in_its_file() {
    let file = std::env::temp_dir().join(format!("assistant-{}.db", std::process::id()));
    let file = file.to_str().unwrap();
    let kept = format!("memory:{file}");
    let run_with = |replies: &[String], arguments: &[&str]| {
        let server = server(replies);
        let ran = run(task(&server).args(arguments).arg("Go."));
        let tools = server.asked().first().and_then(|asked| Some(asked["tools"].as_array()?.len()));
        (ran, tools)
    };
    let replies = [
        call("text_wc", r#"{"text":"one two\nthree\n"}"#),
        call("memory_store", r#"{"key":"words","value":"3"}"#),
        says("Counted."),
    ];
    let (ran, tools) = run_with(&replies, &["--tools", &format!("{kept},text,github")]);
    // With `read_result`.
    assert_eq!((ran.code, tools), (Some(0), Some(9 + 8 + 7 + 1)), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- text_wc Lines: 2, Words: 3, Characters: 14"), "{}", ran.stderr);

    // Another process, with other tools besides.
    let replies = [call("memory_retrieve", r#"{"key":"words"}"#), says("There were three.")];
    let (ran, tools) = run_with(&replies, &["--tools", &kept]);
    assert_eq!((ran.code, tools), (Some(0), Some(9 + 1)), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_retrieve 3"), "{}", ran.stderr);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{file}{end}"));
    }

    for (arguments, advice) in [
        ("memory,mail", "use memory, memory:FILE, text, github, files:FOLDER or none"),
        ("memory:/proc/none/memory.db", "/proc/none/memory.db"),
        ("memory:", "names no path after the colon"),
        ("files", "name the folder, as in `files:.`"),
        ("files:/proc/none/folder", "files:/proc/none/folder: No such file"),
        ("memory,memory:x.db", "memory and memory:x.db have the same tools"),
    ] {
        let (ran, _) = run_with(&[], &["--tools", arguments]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(advice), "{}", ran.stderr);
    }
    let (ran, tools) = run_with(&[says("Hello.")], &["--tools", "none"]);
    assert_eq!((ran.code, tools), (Some(0), None), "{}", ran.stderr);
}

/// The names of the tools that a model was told of.
fn told_of(asked: &Value) -> Vec<&str> {
    let tools = asked["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn servers_tools_are_called_and_a_name_that_is_taken_gets_the_servers_before_it() {
    let folder = TempDir::new().unwrap();
    let [first, second] = ["first", "second"].map(|name| mcp::remembering(folder.path(), name));
    let model = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        call("toolwright_memory_store", r#"{"key":"color","value":"red"}"#),
        call("memory_retrieve", r#"{"key":"color"}"#),
        call("toolwright_memory_retrieve", r#"{"key":"color"}"#),
        call("toolwright_memory_retrieve", r#"{"keys":"color"}"#),
        says("Two colors."),
    ]);
    let ran = run(task(&model).args([
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
    // With `read_result`.
    assert_eq!(told.len(), 8 + 9 + 9 + 1);
    assert_eq!((told[8], told[17]), ("memory_store", "toolwright_memory_store"));
    for name in ["first", "second"] {
        mcp::ended(&folder.path().join(name));
    }

    // A third time the server's name says nothing, and a number does.
    let model = server(&[says("Hello.")]);
    let ran = run(task(&model).args(["--mcp", &first, "--mcp", &second, "Go."]));
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
    let there = mcp::remembering(folder.path(), "there");
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
        let ran = run(task(&model).args(servers));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        assert!(model.asked().is_empty());
        let ran = run(task(&model).arg("--json").args(servers));
        let error = &lines(&ran.stdout)[0]["error"];
        assert_eq!((ran.code, &error["stage"]), (Some(1), &json!("setup")));
        assert!(error["text"].as_str().unwrap().contains(told), "{error}");
    }
    mcp::ended(&folder.path().join("there"));
}

#[test]
fn whatever_a_server_says_of_its_tools_a_person_is_asked() {
    let folder = TempDir::new().unwrap();
    let theirs = mcp::remembering(folder.path(), "theirs");
    // It says of itself that it only reads.
    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let servers = ["--tools", "text", "--mcp", &theirs];
    let ran = run(task(&model).args(servers).args(["--ask", "How many?"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let told = "error: `memory_count` waits for a person's approval";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(!ran.stderr.contains("-> memory_count"), "{}", ran.stderr);
    mcp::ended(&folder.path().join("theirs"));

    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let ran = run(task(&model).args(servers).arg("How many?"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "None.\n"), "{}", ran.stderr);
    // Its own are as they were.
    let model = server(&[call("memory_count", "{}"), says("None.")]);
    let ran = run(task(&model).args(["--ask", "How many?"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "None.\n"), "{}", ran.stderr);
}

#[test]
fn after_text_of_a_server_a_call_that_changes_something_waits_and_says_why() {
    let folder = TempDir::new().unwrap();
    let theirs = mcp::remembering(folder.path(), "theirs");
    let replies = [call("memory_count", "{}"), call("memory_clear", "{}"), says("Done.")];
    let model = server(&replies);
    let servers = ["--tools", "text", "--mcp", &theirs];
    let ran = run(task(&model).args(servers).args(["--ask-after-untrusted", "How many?"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_count 0"), "{}", ran.stderr);
    let told = "error: `memory_clear` waits for a person's approval (the model wrote it after text of \
                strangers from `memory_count`); the command asks for it only at a terminal";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    mcp::ended(&folder.path().join("theirs"));

    // Nor can a text replace a file, although that call may be repeated.
    let text = json!({"path": "a.txt", "text": "a"}).to_string();
    let model = server(&[call("memory_count", "{}"), call("file_write", &text)]);
    let files = format!("files:{}", folder.path().display());
    let args = ["--tools", &files, "--mcp", &theirs, "--ask-after-untrusted", "How many?"];
    let ran = run(task(&model).args(args));
    let told = "error: `file_write` waits for a person's approval";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(!folder.path().join("a.txt").exists());
    mcp::ended(&folder.path().join("theirs"));

    // Without it nothing waits, and nothing does after text of a toolset.
    let model = server(&replies);
    let ran = run(task(&model).args(servers).arg("How many?"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Done.\n"), "{}", ran.stderr);
    mcp::ended(&folder.path().join("theirs"));
    let model = server(&replies);
    let ran = run(task(&model).args(["--ask-after-untrusted", "How many?"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Done.\n"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn no_server_outlives_the_program_however_it_ends() {
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let folder = TempDir::new().unwrap();
        let numbers = folder.path().join("theirs");
        let theirs = mcp::remembering(folder.path(), "theirs");
        let model = server(&[String::new()]);
        let mut child = task(&model)
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

#[test]
fn a_limit_of_time_ends_the_task() {
    let silent = Server::start(&[""]);
    let ran = run(task(&silent).args(["--max-time", "1", "Wait."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "\n"), "{}", ran.stderr);
    let said = "(the run reached its limit of time; the answer may be incomplete)";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
fn model_calls_are_limited_as_the_user_says() {
    let mut replies: Vec<String> = (0..12).map(|_| call("memory_count", "{}")).collect();
    replies.push(says("None."));
    let model = server(&replies);
    let ran = run(task(&model).arg("Count."));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("(--max-model-calls allows more)"), "{}", ran.stderr);
    let model = server(&replies);
    let ran = run(task(&model).args(["--max-model-calls", "20", "Count."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "None.\n"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_not() {
    use std::fs::OpenOptions;
    use std::process::Stdio;

    for arguments in [&["--json", "Hi."][..], &["Hi."]] {
        let model = server(&[says("Hello.")]);
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = task(&model);
        let ran = command.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("error: the output is not complete: No space left"), "{stderr}");

        let model = server(&[says("Hello.")]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = task(&model);
        let ran = command.args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn without_a_model_the_recorded_run_is_replayed_and_its_tools_really_run() {
    let ran = run(program("run").args(["--offline", "--no-journal", TASK]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("replaying a run recorded with SmolLM2"), "{}", ran.stderr);
    for part in [
        r#"-> memory_store {"key":"color","value":"blue"}"#,
        "<- memory_store Stored memory 'color' successfully",
        r#"-> memory_retrieve {"key":"color"}"#,
        "<- memory_retrieve blue",
        "4 model calls",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(ran.stdout.contains("color") && ran.stdout.lines().count() == 1, "{}", ran.stdout);
}

#[test]
fn for_another_task_it_says_how_to_get_a_model() {
    let ran = run(program("run").args(["--offline", "--no-journal", "Sing."]));
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn what_is_missing_on_the_command_line_is_said() {
    let told = |arguments: &[&str], code: i32| {
        let ran = run(program("run").arg("--no-journal").args(arguments));
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        ran.stderr
    };
    let url = ["--base-url", "http://127.0.0.1:9/v1"];
    assert!(told(&[url[0], url[1], "Hi."], 1).contains("name the server's model with --model"));
    assert!(told(&["--key-env", "SOME_KEY", "Hi."], 2).contains("--base-url <URL>"));
    assert!(told(&["--api", "telepathy", "Hi."], 2).contains("use `chat` or `responses`"));
    assert!(told(&["--model", "groq", "Hi."], 2).contains("as in `groq:NAME`"));
    assert!(told(&["--max-model-calls", "0", "Hi."], 2).contains("--max-model-calls"));
    assert!(told(&["--schema", "age itn", "Hi."], 2).contains("expected a type: text, int"));
    assert!(told(&["--seed", "-1", "Hi."], 2).contains("invalid value '-1' for '--seed"));
    for temperature in ["-5", "NaN", "inf", "warm"] {
        let said = told(&["--temperature", temperature, "Hi."], 2);
        assert!(said.contains("write a number of at least 0, such as 0.7"), "{said}");
    }
    let tools = told(&["--offline", "--tools", "none,memory", TASK], 1);
    assert!(tools.contains("--tools: none and memory exclude each other"), "{tools}");
    assert!(told(&[], 2).contains("<TASK>"));
    let plain = ["--model", "m", "--base-url", "http://192.0.2.1/v1", "--key-env", "HOME", "Hi."];
    assert!(told(&plain, 1).contains("use https, or --plain-http if nobody else"));
    let told = told(&["--model", "anthropic:claude-haiku-4-5", "Hi."], 1);
    assert!(told.contains("ANTHROPIC_API_KEY"), "{told}");
}

#[test]
fn it_says_when_no_server_answers() {
    let arguments = ["--base-url", "http://127.0.0.1:9/v1", "--model", "none", "Hi."];
    let ran = run(program("run").arg("--no-journal").args(arguments));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
}

#[test]
fn a_provider_of_a_server_is_named_with_the_model() {
    let reply = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "small",
        "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let server = Server::start(&[&reply.to_string()]);
    let ran = run(program("run").args(["--base-url", &server.base_url, "--no-stream"]).args([
        "--model",
        "anthropic:small",
        "--no-journal",
        "--system",
        "Be brief.",
        "--temperature",
        "0.5",
        "--max-output-tokens",
        "99",
        "Hi.",
    ]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    let asked = server.asked();
    assert_eq!((&asked[0]["model"], &asked[0]["max_tokens"]), (&json!("small"), &json!(99)));
    assert!(asked[0]["system"].to_string().contains("Be brief."), "{}", asked[0]);
    assert_eq!(asked[0]["temperature"], json!(0.5));
}

#[test]
fn the_task_can_come_from_standard_input() {
    let server = server(&[says("Two.")]);
    let ran = run_with(task(&server).arg("-"), "How many lines?\nThese.\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Two.\n"), "{}", ran.stderr);
    let asked = server.asked();
    let said = asked[0]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(said["content"], "How many lines?\nThese.");
    let ran = run_with(task(&server).arg("-"), " \n");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "error: standard input has no task\n"));
}

#[test]
fn an_answer_with_a_schema_is_json_and_a_wrong_one_is_sent_back() {
    let replies = [
        call("finish", r#"{"name": "Ada", "age": "young"}"#),
        call("finish", r#"{"name": "Ada", "age": "36"}"#),
    ];
    let wanted = ["--schema", "name, age int, tags list of text?", "--tools", "none"];
    let model = server(&replies);
    let ran = run(task(&model).args(wanted).arg("Who?"));
    let answer = "{\"name\":\"Ada\",\"age\":36}\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), answer), "{}", ran.stderr);
    let asked = model.asked();
    let finish = &asked[0]["tools"][0]["function"];
    assert_eq!(finish["name"], "finish");
    assert_eq!(finish["parameters"]["properties"]["age"]["type"], "integer");
    assert!(asked[1]["messages"].to_string().contains("$.age"), "{}", asked[1]);

    let model = server(&replies[1..]);
    let ran = run(task(&model).args(wanted).args(["--json", "Who?"]));
    let last = lines(&ran.stdout).pop().unwrap();
    assert_eq!(last["result"]["output"], json!({"name": "Ada", "age": 36}), "{last}");

    // A limit is a failure, because there is no answer of this form.
    let model = server(&[call("memory_count", "{}")]);
    let wanted = ["--schema", "list of text", "--max-model-calls", "1", "Who?"];
    let ran = run(task(&model).args(wanted));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("without an answer"), "{}", ran.stderr);
}

#[test]
fn calls_results_and_usage_are_shown_and_no_control_characters() {
    let stored = call("memory_store", r#"{"key":"color","value":"blue"}"#);
    let server = server(&[stored, says("Stored.\u{1b}[2J")]);
    let ran = run(task(&server).arg(TASK));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.[2J\n"), "{}", ran.stderr);
    let called = r#"-> memory_store {"key":"color","value":"blue"}"#;
    assert!(ran.stderr.contains(called), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 model calls, 100 tokens in, 20 out"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

/// Nobody knows the prices of a server on this machine, unless the user says them.
#[test]
fn the_cost_is_unknown_unless_a_file_has_the_price() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ran = run(task(&server(&[says("Hello.")])).arg("Hi."));
    assert!(ran.stderr.contains(" 10 out, cost unknown, "), "{}", ran.stderr);

    let prices = file("prices.json", r#"{"models": [{"names": ["*"], "input": 1, "output": 10}]}"#);
    let priced = |model: &Server| {
        let mut command = task(model);
        command.arg("--prices").arg(&prices);
        command
    };
    let ran = run(priced(&server(&[says("Hello.")])).arg("Hi."));
    assert!(ran.stderr.contains(" 10 out, cost 0.00015 USD, "), "{}", ran.stderr);
    let ran = run(priced(&server(&[says("Hello.")])).args(["--json", "Hi."]));
    let lines = lines(&ran.stdout);
    let replied = lines.iter().find(|line| line.to_string().contains("model_replied")).unwrap();
    assert!(replied.to_string().contains(r#""money":150"#), "{replied}");
    assert_eq!(lines.last().unwrap()["result"]["cost"], "0.00015 USD");

    let wrong = file("wrong.json", r#"{"models": [{"names": ["a"], "input": 0, "output": 1}]}"#);
    for (path, error) in [
        (wrong, "the price of `a` cannot be read: `input` is zero"),
        (folder.path().join("none.json"), "--prices "),
    ] {
        let ran = run(task(&server(&[])).arg("--prices").arg(path).arg("Hi."));
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(error), "{}", ran.stderr);
    }

    // A replay asks no model, so nobody is paid.
    let ran = run(program("run").args(["--offline", "--no-journal", TASK]));
    assert!(ran.stderr.contains(", cost 0.00 USD, "), "{}", ran.stderr);
}

#[test]
fn a_servers_names_do_not_steer_the_terminal() {
    let name = "\u{1b}]0;owned\u{7}small";
    let arguments = ["--base-url", "http://127.0.0.1:9/v1", "--model", name, "Hi."];
    let ran = run(program("run").arg("--no-journal").args(arguments));
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_no_reason_to_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = program("run");
    let command = command.args(["--offline", "--no-journal", TASK]).stdout(full()).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(1));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_task_with_its_cost() {
    let server = server(&[String::new()]);
    let child = task(&server).arg(TASK).stderr(Stdio::piped()).spawn().unwrap();
    while server.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    // The model had read the task, and nobody says how many tokens that were.
    let said = "cancelled after 1 model calls, at least 0 tokens in, at least 0 out, cost unknown";
    assert!(stderr.contains(said), "{stderr}");
}

/// A read of a pipe blocks its thread, so a signal must not wait for it.
#[cfg(unix)]
#[test]
fn a_signal_ends_a_command_that_reads_a_pipe() {
    use std::os::unix::process::ExitStatusExt;
    for _ in 0..4 {
        let mut command = program("run");
        command.args(["--offline", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > Duration::from_secs(30) => {
                    child.kill().unwrap();
                    panic!("the signal was lost");
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // The signal itself, if it came before the program listens.
        assert!(status.code() == Some(143) || status.signal() == Some(15), "{status:?}");
    }
}

#[test]
fn an_error_shows_no_key() {
    let model = server(&[says("Hello.")]);
    let key = "sk-0123456789abcdefghij";
    for arguments in [["--key-env", key], ["--mcp", key]] {
        let ran = run(task(&model).args(arguments).arg("Hi."));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(!ran.stderr.contains(key) && ran.stderr.contains("[secret]"), "{}", ran.stderr);
    }
}

#[test]
fn a_task_that_is_not_utf8_is_an_error() {
    let model = server(&[says("Hello.")]);
    let mut command = task(&model);
    command.arg("-").stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"caf\xe9").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("is not UTF-8 text: byte 4 is 0xe9"), "{stderr}");
    assert!(model.asked().is_empty());

    let folder = TempDir::new().unwrap();
    let schema = folder.path().join("s.json");
    std::fs::write(&schema, b"{\"type\": \"caf\xe9\"}").unwrap();
    let ran = run(task(&model).arg("--schema").arg(&schema).arg("Hi."));
    assert!(ran.stderr.contains("is not UTF-8 text"), "{}", ran.stderr);
}

#[test]
fn no_key_is_printed_that_was_given_to_the_wrong_option() {
    // With and without a well-known form.
    for key in ["sk-0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE", "correct-horse-battery"] {
        for arguments in [
            &["run", "--tools", key, "Hi."][..],
            &["run", "--tools", &format!("text,{key}"), "Hi."],
            &["run", "--api", key, "Hi."],
            &["run", "--timeout", key, "Hi."],
            &["run", "--temperature", key, "Hi."],
            &["run", "--schema", &format!("{key}{{"), "Hi."],
            &[
                "run",
                "--key-env",
                key,
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--model",
                "m",
                "Hi.",
            ],
            &["chat", key],
            &["contract", "lower", "--dialect", key],
            &["contract", "diff", "a", "b", "--format", key],
            &["mcp", "serve", "--http", key],
            &["mcp", "list", "http://127.0.0.1:9/mcp", "--token-env", key],
            &["completions", key],
            &["runs", "list", key],
        ] {
            let ran = run(program(arguments[0]).args(&arguments[1..]).env("XDG_DATA_HOME", "/"));
            assert_ne!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
            assert!(!(ran.stdout + &ran.stderr).contains(key), "{arguments:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("error:"), "{arguments:?}: {}", ran.stderr);
        }
    }
    // Help and version are no errors, and a wrong name of an option is shown.
    let ran = run(program("run").args(["--modle", "m", "Hi."]));
    assert!(ran.stderr.contains("'--modle'") && ran.stderr.contains("--model"), "{}", ran.stderr);
}

#[test]
fn a_comma_can_be_part_of_a_path() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("a,b");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("x.txt"), "X").unwrap();
    let tools = format!("text,files:{}", inner.display());
    let list = |tools: &str| run(program("tools").args(["call", "file_list", "--tools", tools]));
    let ran = list(&tools);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains(r"write a comma in a path as `\,`"), "{}", ran.stderr);
    let ran = list(&tools.replace("a,b", r"a\,b"));
    assert!(ran.stdout.contains("x.txt"), "{}", ran.stderr);
}

#[test]
fn half_a_character_in_a_reply_is_replaced_and_two_halves_are_joined() {
    let whole = r#"{"model":"small","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Cut \ud83d."}}]}"#;
    let ran = run(task(&server(&[whole.to_owned()])).arg("Go."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Cut \u{fffd}.\n"), "{}", ran.stderr);
    let piece = |text: &str, end: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":{end}}}]}}\n\n"
        )
    };
    let pieces =
        [piece("Whole \\ud83d", "null"), piece("\\ude00, cut \\ud83d", "\"stop\"")].concat();
    let model = server(&[pieces + "data: [DONE]\n\n"]);
    let mut command = program("run");
    command.args(["--base-url", &model.base_url, "--model", "small", "--no-journal", "Go."]);
    let ran = run(&mut command);
    let expected = "Whole \u{1f600}, cut \u{fffd}\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
}

#[test]
fn a_fault_of_a_schema_names_its_place() {
    for (text, fault) in [
        ("", "there is no field"),
        (
            "name, age itn",
            "expected a type: text, int, number, bool, list of …, one|another or {fields} at `itn`",
        ),
        ("name age int", "expected a type"),
        ("name int bool", "expected a comma at `bool`"),
        ("tags list text", "expected `of` after `list`"),
        ("a {b", "expected `}` at the end"),
        ("a {}", "there is no field"),
        ("a, a", "the field `a` is there twice"),
        ("size small|", "expected a word on both sides of `|`"),
        ("a}", "expected a comma at `}`"),
        (&format!("a {}", "list of ".repeat(30)), "more than 20 levels"),
    ] {
        let ran = run(program("run").args(["--schema", text, "Hi."]));
        assert_eq!(ran.code, Some(2), "{text}");
        assert!(ran.stderr.contains(fault), "{text}: {}", ran.stderr);
    }
}
