//! The assistant with a journal, which is killed and started again, and the program `runs`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_journal::{Journal, RunStatus};
use toolwright_module::approval::Decision;

use crate::common::{Ran, program, run};
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

fn runs(folder: &Path, arguments: &[&str]) -> Ran {
    run(program("runs").arg("--journal").arg(folder).args(arguments).stdin(Stdio::null()))
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

#[test]
fn runs_are_listed_shown_resumed_and_deleted() {
    let folder = folder();
    let open = cut_off(folder.path(), "Store it.");
    let calls = [call("memory_store", STORE), call("memory_clear", "{}"), says("Cleared.")];
    let model = server(&calls);
    let prompt = "Clear everything in the memory, please, and tell me when all of it is gone.";
    let ran = run(assistant(&model, folder.path()).args(["--approve", prompt]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains(" waits; resume it at a terminal to decide)"), "{}", ran.stderr);

    let journal = Journal::open(folder.path()).unwrap();
    let waiting = journal.runs().unwrap().pop().unwrap();
    let listed = runs(folder.path(), &["list"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!((listed.code, lines.len()), (Some(0), 2), "{}", listed.stderr);
    assert!(lines[0].starts_with(&open) && lines[0].contains("  open  "), "{lines:?}");
    assert!(lines[0].ends_with("  Store it."), "{lines:?}");
    assert!(lines[1].starts_with(&waiting.id) && lines[1].contains("  waiting "), "{lines:?}");
    assert!(lines[1].ends_with("please, and tell me when all…"), "{lines:?}");

    let shown = runs(folder.path(), &["show", &waiting.id]).stdout;
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    assert!(lines[1].starts_with("status  waiting, changed "), "{shown}");
    assert!(lines.last().unwrap().starts_with("2 model calls, 100 tokens in, 20 out, "), "{shown}");
    assert!(lines.last().unwrap().ends_with(" s, 1 tool calls"), "{shown}");
    lines.pop();
    lines.drain(..2);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    task    Clear everything in the memory, please, and tell me when all of it is gone.

    -> memory_store {"key":"color","value":"blue"} (call_memory_store)
    <- memory_store Stored memory 'color' successfully
    -> memory_clear {} (call_memory_clear)
    waits   memory_clear {}: allow it?
    "#);

    let asked = &waiting.waiting[0];
    journal.decide(&waiting.id, asked, Decision::Approve).unwrap();
    let server_ = ["--base-url", &model.base_url, "--model", "small", "--no-stream"];
    let resume = [&["resume", &waiting.id, "--approve"], &server_[..]].concat();
    let ran = runs(folder.path(), &resume);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Cleared.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("-> memory_clear"), "{}", ran.stderr);
    assert!(runs(folder.path(), &["list"]).stdout.contains("  answered  "));

    assert_eq!(runs(folder.path(), &["delete", &waiting.id]).code, Some(0));
    assert_eq!(journal.runs().unwrap().len(), 1);
    let gone = runs(folder.path(), &["show", &waiting.id]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("error: there is no run "), "{}", gone.stderr);
    let missing = runs(&folder.path().join("nothing"), &["list"]);
    assert_eq!(missing.code, Some(1));
    assert!(!folder.path().join("nothing").exists());
}

#[test]
fn a_run_is_shown_with_agents_below_decisions_and_lost_calls() {
    use toolwright_cli::runs::show;
    use toolwright_orchestrator::Task;
    use toolwright_orchestrator::perform::Record;

    let folder = folder();
    let id = cut_off(folder.path(), "Store\u{202e} it.");
    let journal = Journal::open(folder.path()).unwrap();
    let summary = journal.run(&id).unwrap();
    let record = |key: Value, kind: Value| -> Record {
        let ended = json!({"key": key.to_string(), "identity": 1, "outcome": {"kind": kind}});
        serde_json::from_value(json!({ "ended": ended })).unwrap()
    };
    let begun = json!({"begun": {"key": json!(["call", "p", "0"]).to_string(), "identity": 1}});
    let asks = json!({"call": {"id": "h", "name": "helper", "arguments": "{\"task\":\"Go.\"}"}});
    let ask = |parts: Value| json!({"reply": {"parts": parts, "usage": {"input_tokens": 0, "output_tokens": 0}, "finish": "stop"}});
    let result = |id: &str, text: &str| json!({"id": id, "name": "helper", "text": text});
    let records = [
        record(json!(["ask", "", "0"]), ask(json!([asks]))),
        record(json!(["decide", "h"]), json!({"decided": "approve"})),
        record(json!(["helper", "h", "ask", "", "0"]), ask(json!([{"text": "Two\nlines."}]))),
        record(json!(["run", "h"]), json!({"called": {"result": result("h", "Gone.")}})),
        record(
            json!(["call", "x", "0"]),
            json!({"called": {"result": result("x", "no"), "error": "It failed."}}),
        ),
        serde_json::from_value(begun).unwrap(),
    ];
    let shown = show(&summary, &Task::new("Store\u{202e} it."), &records);
    let lines: Vec<&str> = shown.lines().skip(2).collect();
    insta::assert_snapshot!(lines[..lines.len() - 1].join("\n"), @r#"
    task    Store\u202e it.

    -> helper {"task":"Go."} (h)
    !! h is approved
         Two
            lines.
    <- helper Gone.
    <- helper failed: It failed.
    ?? call p was begun and has no result
    "#);
}
