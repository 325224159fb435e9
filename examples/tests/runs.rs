//! The assistant with a journal, which is killed and started again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_journal::{Journal, RunStatus};

use crate::common::{program, run};
use crate::server::Server;

const STORE: &str = r#"{"key":"color","value":"blue"}"#;

fn call(name: &str, arguments: &str) -> String {
    let call = json!({"name": name, "arguments": arguments});
    reply(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": format!("call_{name}"), "type": "function", "function": call},
    ]}))
}

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

fn assistant(server: &Server, folder: &Path) -> Command {
    let mut command = program("assistant");
    command.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    command.arg("--journal").arg(folder).stdin(Stdio::null());
    command
}

/// Starts an assistant that stores a color, and kills it at its next question. Returns the id of the
/// run.
fn cut_off(folder: &Path, prompt: &str) -> String {
    let silent = server(&[call("memory_store", STORE), String::new()]);
    let mut command = assistant(&silent, folder);
    let mut child = command.arg(prompt).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..1_000 {
        if silent.asked().len() == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(silent.asked().len(), 2, "the second question did not come");
    child.kill().unwrap();
    child.wait().unwrap();
    let journal = Journal::open(folder).unwrap();
    journal.runs().unwrap().last().unwrap().id.clone()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_killed_assistant_goes_on_with_the_run_of_the_prompt() {
    let folder = folder();
    let id = cut_off(folder.path(), "Store it.");
    let other = cut_off(folder.path(), "Store something else.");
    assert_ne!(id, other);

    let model = server(&[says("Stored.")]);
    let ran = run(assistant(&model, folder.path()).arg("Store it."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("(run {id} goes on)")), "{}", ran.stderr);
    // The call has its result, so it is not made again.
    assert!(!ran.stderr.contains("memory_store"), "{}", ran.stderr);
    let asked = model.asked();
    let said = asked[0]["messages"].as_array().unwrap();
    assert_eq!((asked.len(), &said.last().unwrap()["role"]), (1, &json!("tool")));

    // The same prompt again is a new run.
    let model = server(&[says("Again.")]);
    let ran = run(assistant(&model, folder.path()).arg("Store it."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Again.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("(open runs: {other}; ")), "{}", ran.stderr);
    assert_eq!(Journal::open(folder.path()).unwrap().runs().unwrap().len(), 3);
}

#[test]
fn without_a_prompt_all_open_runs_go_on_and_then_the_conversation() {
    let folder = folder();
    cut_off(folder.path(), "Store it.");
    cut_off(folder.path(), "Store something else.");
    let model = server(&[says("One."), says("Two."), says("Three.")]);
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "What did I say?\nAnd now?\n").unwrap();
    let input = std::fs::File::open(&lines).unwrap();
    let ran = run(assistant(&model, folder.path()).stdin(input));
    let said = "One.\nTwo.\nThree.\nThree.\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), said), "{}", ran.stderr);
    // The conversation goes on after the last run.
    let asked = model.asked();
    let text = asked[3]["messages"].to_string();
    for part in ["Store something else.", "Two.", "What did I say?", "And now?"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("One."), "{text}");
    let runs = Journal::open(folder.path()).unwrap().runs().unwrap();
    assert!(runs.iter().all(|run| run.status == RunStatus::Finished), "{runs:?}");
    assert_eq!(runs.len(), 4);
}

#[test]
fn json_names_the_run_first() {
    let folder = folder();
    let model = server(&[says("Hello.")]);
    let ran = run(assistant(&model, folder.path()).args(["--json", "Say hello."]));
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    assert_eq!(first["run"], journal.runs().unwrap()[0].id);
}
