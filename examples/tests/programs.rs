//! Every program runs, and the README shows what runs.

use std::collections::BTreeSet;

use crate::common::{program, run};
use crate::server::Server;

const PROMPT: &str = "Store the key color with value blue, then tell me what you have stored.";

#[test]
fn the_assistant_replays_its_recording_where_there_is_no_model() {
    let ran = run(program("assistant").args(["--offline", PROMPT]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("replaying a run recorded with SmolLM2"), "{}", ran.stderr);
    assert!(ran.stderr.contains("-> memory_store"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store Stored memory '"), "{}", ran.stderr);
    assert!(ran.stderr.contains("model calls"), "{}", ran.stderr);
    assert!(!ran.stdout.trim().is_empty());
}

#[test]
fn a_provider_of_ones_own_runs_an_agent_whole_and_streamed() {
    let ran = run(&mut program("own_provider"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = "whole: The tool says: Rain in Oslo.\nstreamed: The tool says: Rain in Oslo.\n";
    assert_eq!(ran.stdout, said);
    let source = include_str!("../examples/own_provider/small.rs");
    assert!(source.lines().count() < 150, "the page says that it is short");
}

#[test]
fn for_another_prompt_the_assistant_says_how_to_get_a_model() {
    let ran = run(program("assistant").args(["--offline", "Sing."]));
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn what_is_missing_on_the_command_line_is_said() {
    let ran = run(program("assistant").args(["--base-url", "http://127.0.0.1:9/v1", "Hi."]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--model <NAME>"), "{}", ran.stderr);
    let ran = run(program("assistant").args(["--key-env", "SOME_KEY", "Hi."]));
    assert!(ran.stderr.contains("--base-url <URL>"), "{}", ran.stderr);
    let ran = run(program("assistant").args(["--offline", "--record", "x.json", "Hi."]));
    assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    let ran = run(program("assistant").args(["--api", "telepathy", "Hi."]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("use `chat` or `responses`"), "{}", ran.stderr);
}

#[test]
fn the_assistant_says_when_nobody_answers() {
    let arguments = ["--base-url", "http://127.0.0.1:9/v1", "--model", "none", "Hi."];
    let ran = run(program("assistant").args(arguments));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
}

const CALL: &str = r#"{"model":"small","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"memory_store","arguments":"{\"key\":\"color\",\"value\":\"blue\"}"}}]}}],"usage":{"prompt_tokens":50,"completion_tokens":10}}"#;
const ANSWER: &str = r#"{"model":"small","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Stored.\u001b[2J"}}],"usage":{"prompt_tokens":70,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":40}}}"#;

#[test]
fn the_assistant_shows_calls_results_and_usage_and_no_control_characters() {
    let server = Server::start(&[CALL, ANSWER]);
    let arguments = ["--base-url", &server.base_url, "--model", "small", "--no-stream", PROMPT];
    let ran = run(program("assistant").args(arguments));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "Stored.[2J\n");
    assert!(
        ran.stderr.contains(r#"-> memory_store {"key":"color","value":"blue"}"#),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("2 model calls, 120 tokens in (40 cached), 15 out"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_key_is_sent_to_the_address_it_was_given_for_and_written_nowhere() {
    let server = Server::start(&[ANSWER]);
    let key = "sk-test-0123456789abcdefghij";
    let file = std::env::temp_dir().join(format!("toolwright-{}.json", std::process::id()));
    let ran = run(program("assistant")
        .env("SOME_KEY", key)
        .args(["--base-url", &server.base_url, "--model", "small", "--key-env", "SOME_KEY"])
        .arg("--record")
        .arg(&file)
        .args(["--no-stream", "My key is sk-test-0123456789abcdefghij."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(written.contains("My key is [secret]."), "{written}");
    assert!(!written.contains(key) && !ran.stderr.contains(key));
}

#[test]
fn a_recording_that_cannot_be_written_is_found_out_before_the_model_is_asked() {
    let server = Server::start(&[ANSWER]);
    let ran = run(program("assistant")
        .args(["--base-url", &server.base_url, "--model", "small", "Hi."])
        .args(["--record", "no/such/folder/run.json"]));
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stderr, "error: --record: there is no folder no/such/folder\n");
    assert!(server.asked().is_empty());
}

#[test]
fn a_run_that_fails_is_recorded_as_far_as_it_came() {
    let server = Server::start(&[CALL, "no JSON"]);
    let file = std::env::temp_dir().join(format!("toolwright-half-{}.json", std::process::id()));
    let ran = run(program("assistant")
        .args(["--base-url", &server.base_url, "--model", "small", "--no-stream", PROMPT])
        .arg("--record")
        .arg(&file));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(written.contains("memory_store"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_whose_output_nobody_reads_does_not_panic() {
    for arguments in [&["search"][..], &["by_hand"], &["assistant", "--offline", PROMPT]] {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = program(arguments[0])
            .args(&arguments[1..])
            .stdout(full())
            .stderr(full())
            .spawn()
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_servers_names_do_not_steer_the_terminal() {
    let ran = run(program("assistant").args([
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "\u{1b}]0;owned\u{7}small",
        "Hi.",
    ]));
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[test]
fn a_loop_by_hand_stores_every_step_and_goes_on() {
    let ran = run(&mut program("by_hand"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_assistant_cleanly() {
    use std::io::Read;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    // A server that takes the question and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut child = program("assistant")
        .args(["--base-url", &base_url, "--model", "silent", PROMPT])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let mut first = [0];
    connection.read_exact(&mut first).unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());

    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    assert!(stderr.contains("cancelled after"), "{stderr}");
}

#[test]
fn the_readme_shows_the_hello_program_and_the_program_runs() {
    let readme = include_str!("../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(shown, Some(include_str!("../examples/hello.rs")));

    let call = CALL
        .replace("memory_store", "get_weather")
        .replace(r#"{\"key\":\"color\",\"value\":\"blue\"}"#, r#"{\"city\":\"Oslo\"}"#);
    let server = Server::start(&[&call, ANSWER]);
    let ran = run(program("hello")
        .env("OPENAI_BASE_URL", &server.base_url)
        .env("OPENAI_API_KEY", "none"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Stored."));
    let asked = server.asked();
    assert_eq!(asked[1]["messages"][2]["content"], "Rain in Oslo.");
}

#[test]
fn the_readme_names_every_program_and_no_other() {
    let readme = include_str!("../../README.md");
    let table = readme.split("## Programs").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = table.unwrap().lines().filter_map(|line| line.strip_prefix("| `")).skip(1);
    let named: BTreeSet<&str> = rows.filter_map(|row| row.split([' ', '`']).next()).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    let there: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".rs")).collect();
    assert_eq!(named, there);
    there.into_iter().for_each(|name| drop(program(name)));
}

#[test]
fn the_seeds_tools_run_and_refuse_what_does_not_fit() {
    let ran = run(&mut program("tasks"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn three_modules_answer_one_caller() {
    let ran = run(&mut program("search"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn streaming_shows_fields_as_they_come_and_discards_a_wrong_answer() {
    let ran = run(&mut program("streaming"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "It is cold up there.\nTo the top: a warm coat, tea\n");
    let (wrong, right) = ran.stderr.split_once("(invalid reply: asking again)").unwrap();
    assert!(wrong.contains("It is cold  | "), "{wrong}");
    assert!(right.contains("To the top | a warm \n"), "{right}");
}

#[test]
fn three_tools_with_three_models_run() {
    let ran = run(&mut program("research"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let used = "tools used: search_documents, summarize_document, classify_document";
    assert!(ran.stdout.contains(used), "{}", ran.stdout);
}

#[test]
fn the_tools_of_an_agent_export_as_mcp_shows_them() {
    let ran = run(program("research").arg("--mcp"));
    insta::assert_snapshot!(ran.stdout);
}
