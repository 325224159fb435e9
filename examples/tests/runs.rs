//! The program `runs`, on runs that were cut off or wait.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_journal::Journal;
use toolwright_memory::Memory;
use toolwright_module::approval::Decision;
use toolwright_module::model::Settings;
use toolwright_module::{Context, Effect};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::{ApprovalPolicy, ToolOrchestrator};

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

fn runs(folder: &Path, arguments: &[&str]) -> Ran {
    run(program("runs").arg("--journal").arg(folder).args(arguments).stdin(Stdio::null()))
}

/// The agent of the command, which asks before irreversible calls.
fn agent(server: &Server) -> ToolOrchestrator {
    let model = OpenAi::at(&server.base_url, "small").unwrap();
    let settings = Settings::default().with_max_output_tokens(4096);
    ToolOrchestrator::new(model, Memory::default().tools().unwrap())
        .unwrap()
        .with_settings(settings)
        .unwrap()
        .with_approval(ApprovalPolicy::from_effect(Effect::Irreversible))
        .unwrap()
}

fn context(task: &str) -> Context {
    let metadata = toolwright_cli::runs::metadata(task);
    Context::default().with_run("", metadata)
}

/// Begins a run that stores a color, and drops it at its next question.
async fn cut_off(folder: &Path, id: &str, task: &str) {
    let silent = server(&[call("memory_store", STORE), String::new()]);
    let (journal, agent, cx) = (Journal::open(folder).unwrap(), agent(&silent), context(task));
    let second = async {
        while silent.asked().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = journal.drive(&agent, id, task, &cx) => panic!("{ended:?}"),
        () = second => {}
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_shown_resumed_and_deleted() {
    let folder = folder();
    let open = "1-open".to_owned();
    cut_off(folder.path(), &open, "Store it.").await;
    let calls = [call("memory_store", STORE), call("memory_clear", "{}"), says("Cleared.")];
    let model = server(&calls);
    let prompt = "Clear everything in the memory, please, and tell me when all of it is gone.";
    let journal = Journal::open(folder.path()).unwrap();
    let ended = journal.drive(&agent(&model), "2-waiting", prompt, &context(prompt)).await;
    assert!(ended.is_err());
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

#[tokio::test]
async fn a_run_is_shown_with_agents_below_decisions_and_lost_calls() {
    use toolwright_cli::runs::show;
    use toolwright_orchestrator::Task;
    use toolwright_orchestrator::perform::Record;

    let folder = folder();
    let id = "1-open".to_owned();
    cut_off(folder.path(), &id, "Store\u{202e} it.").await;
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
