//! The command itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_cli::runs::{metadata, show};
use toolwright_journal::Journal;
use toolwright_memory::Memory;
use toolwright_module::approval::Decision;
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Message, Reply, Request, Tool, ToolCall};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, ApprovalPolicy, Task};

use crate::server::Server;
use crate::world::World;

pub(crate) const PROMPT: &str =
    "Clear everything in the memory, please, and tell me when all of it is gone.";

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    for (variable, _) in std::env::vars_os() {
        // A test can never spend money, and never leaves this machine.
        let name = variable.to_string_lossy().to_ascii_uppercase();
        if ["KEY", "TOKEN", "OPENAI"].iter().any(|part| name.contains(part))
            || name.ends_with("_PROXY")
        {
            command.env_remove(&variable);
        }
    }
    command.args(["runs", "--journal"]).arg(folder).args(arguments).stdin(Stdio::null());
    command
}

fn runs(folder: &Path, arguments: &[&str]) -> Ran {
    ran(&mut command(folder, arguments))
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn without_times(text: &str) -> String {
    let time = regex_lite::Regex::new(r"\b\d[\d.]* (?:ms|s)\b").unwrap();
    time.replace_all(text, "TIME").into_owned()
}

/// A run that stores something and then waits for a person.
async fn waiting(folder: &TempDir) -> Journal {
    let journal = Journal::open(folder.path()).unwrap();
    let store = ToolCall::new("call_store", "memory_store", r#"{"key":"color","value":"blue"}"#);
    let clear = ToolCall::new("call_clear", "memory_clear", "{}");
    let replies = [Reply::calls([store]), Reply::calls([clear])];
    let replies = replies.map(|reply| reply.with_usage(Usage::new(50, 10)));
    let agent = Agent::new(Scripted::replies(replies), Memory::default().tools().unwrap());
    let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
    let agent = agent.unwrap().with_approval(policy).unwrap();
    let cx = Context::default().with_run("clear", metadata(PROMPT));
    journal.drive(&agent, "clear", PROMPT, &cx).await.unwrap_err();
    journal
}

#[tokio::test]
async fn runs_are_listed_shown_resumed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let journal = waiting(&folder).await;
    World::new(folder.path(), Duration::ZERO).short().await;
    let listed = runs(folder.path(), &["list"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!((listed.code, lines.len()), (Some(0), 2), "{}", listed.stderr);
    assert!(lines[0].starts_with("clear  waiting "), "{lines:?}");
    assert!(lines[0].ends_with("please, and tell me when all…"), "{lines:?}");
    assert!(lines[1].starts_with("short  answered "), "{lines:?}");

    let shown = runs(folder.path(), &["show", "clear"]).stdout;
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    assert!(lines[1].starts_with("status  waiting, changed "), "{shown}");
    assert!(lines.last().unwrap().starts_with("2 model calls, 100 tokens in, 20 out, "), "{shown}");
    assert!(lines.last().unwrap().ends_with(" s, 1 tool calls"), "{shown}");
    lines.pop();
    lines.drain(..2);
    insta::assert_snapshot!(without_times(&lines.join("\n")), @r#"
    task    Clear everything in the memory, please, and tell me when all of it is gone.

    == model: TIME, 50 tokens in, 10 out, cost unknown
    -> memory_store {"key":"color","value":"blue"} (call_store)
    <- memory_store Stored memory 'color' successfully (TIME)
    == model: TIME, 50 tokens in, 10 out, cost unknown
    -> memory_clear {} (call_clear)
    waits   memory_clear {}: allow it?
    decide  toolwright runs decide clear --call 236bafedfe79 --approve
    "#);

    let asked = &journal.run("clear").unwrap().waiting[0];
    journal.decide("clear", asked, Decision::Approve).unwrap();
    let cleared = json!({
        "model": "small",
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Cleared."}}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 10},
    });
    let model = Server::start(&[&cleared.to_string()]);
    let ran = runs(
        folder.path(),
        &[
            "resume",
            "clear",
            "--ask",
            "--base-url",
            &model.base_url,
            "--model",
            "small",
            "--no-stream",
        ],
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Cleared.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("-> memory_clear"), "{}", ran.stderr);
    assert_eq!(model.asked().len(), 1);
    assert!(runs(folder.path(), &["list"]).stdout.starts_with("clear  answered "));
    let last = runs(folder.path(), &["show", "latest"]).stdout;
    assert!(
        last.starts_with("run     clear\n") && last.ends_with("tool calls (small)\n"),
        "{last}"
    );

    assert!(runs(folder.path(), &["cancel", "clear"]).stderr.contains("has ended already"));
    assert_eq!(runs(folder.path(), &["delete", "latest"]).code, Some(1));
    assert_eq!(runs(folder.path(), &["delete", "clear"]).code, Some(0));
    assert_eq!(journal.runs().unwrap().len(), 1);
    let gone = runs(folder.path(), &["show", "clear"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("error: there is no run "), "{}", gone.stderr);
    let missing = runs(&folder.path().join("nothing"), &["list"]);
    assert_eq!(missing.code, Some(1));
    assert!(!folder.path().join("nothing").exists());
}

#[tokio::test]
async fn a_list_has_the_task_and_the_cost_of_each_run_and_can_be_filtered() {
    let folder = tempfile::tempdir().unwrap();
    waiting(&folder).await;
    World::new(folder.path(), Duration::ZERO).short().await;
    let journal = Journal::open(folder.path()).unwrap();
    // A program without metadata for this command.
    let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), []).unwrap();
    let cx = Context::default().with_run("foreign", [("tenant", "acme"), ("kind", "greeting")]);
    journal.drive(&agent, "foreign", "Say\n\u{202e} hello.", &cx).await.unwrap();
    let list = |arguments: &[&str]| {
        let ran = runs(folder.path(), &[&["list"], arguments].concat());
        (ran.code, ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>(), ran.stderr)
    };
    let (code, lines, stderr) = list(&[]);
    assert_eq!((code, lines.len()), (Some(0), 3), "{stderr}");
    let line = |id: &str| lines.iter().find(|line| line.starts_with(id)).unwrap();
    assert!(line("foreign").ends_with("Say \\u202e hello."), "{lines:?}");
    // Only the run with prices has a known cost.
    let cost = regex_lite::Regex::new(r" s +\d\.\d+ USD  ").unwrap();
    let costs: Vec<bool> = lines.iter().map(|line| cost.is_match(line)).collect();
    assert_eq!(costs.iter().filter(|has| **has).count(), 1, "{lines:?}");
    assert!(cost.is_match(line("short")), "{lines:?}");
    assert!(line("clear").contains(" s       unknown  Clear"), "{lines:?}");
    let money = journal.run("short").unwrap().spent.unwrap().money;
    let shown = runs(folder.path(), &["show", "short"]).stdout;
    assert!(shown.lines().last().unwrap().contains(&format!(", cost {money}, ")), "{shown}");
    assert!(shown.contains("== acme-large-2: "), "{shown}");

    let ids = |arguments: &[&str]| {
        let (code, lines, stderr) = list(arguments);
        assert_eq!(code, Some(0), "{stderr}");
        let id = |line: String| line.split_whitespace().next().unwrap().to_owned();
        lines.into_iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--metadata", "tenant=acme"]), ["foreign"]);
    assert_eq!(ids(&["--metadata", "tenant=acme", "--metadata", "kind=greeting"]), ["foreign"]);
    assert!(ids(&["--metadata", "tenant=acme", "--metadata", "kind=other"]).is_empty());
    assert_eq!(ids(&["--status", "waiting"]), ["clear"]);
    assert_eq!(ids(&["--status", "finished"]), ["short", "foreign"]);
    assert_eq!(ids(&["--status", "answered", "--metadata", "tenant=acme"]), ["foreign"]);
    for wrong in [["--status", "done"], ["--metadata", "tenant"], ["--metadata", "=acme"]] {
        let (code, _, stderr) = list(&wrong);
        assert_eq!(code, Some(2), "{stderr}");
    }
    assert!(list(&["--status", "done"]).2.contains("waiting"));
}

#[tokio::test]
async fn a_decision_is_recorded_for_the_program_that_drives_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), Duration::ZERO);
    world.waiting("pay").await;
    let decide = |arguments: &[&str]| {
        let arguments = [&["decide", "pay"], arguments].concat();
        ran(command(folder.path(), &arguments).env("USER", "kate"))
    };
    let fails = |arguments: &[&str], code: i32, text: &str| {
        let ran = decide(arguments);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    };
    fails(&[], 2, "--approve|--edit <JSON>|--deny <REASON>");
    fails(&["--approve", "--deny", "No."], 2, "cannot be used with");
    // A decision names its call.
    fails(&["--approve"], 1, "name the call that you decide on with --call:\n| ");
    fails(&["--approve"], 1, " (c2): pay_back {");
    // A call that never began has no result.
    let told = "was not made, so it has no result; decide with --approve, --edit or --deny";
    fails(&["--happened", "Paid.", "--call", "c2"], 1, told);
    fails(&["--deny", "No."], 1, "waits for several calls; choose one with --call:\n| ");
    fails(&["--approve", "--call", "c9"], 1, "does not wait for the call c9; it waits for:\n| ");
    // What was shown as latest may be another run by now.
    for decision in
        [&["--approve"][..], &["--edit", "{}"], &["--call-again"], &["--happened", "Yes."]]
    {
        let ran = runs(folder.path(), &[&["decide", "latest", "--call", "c2"], decision].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("latest may be another run"), "{}", ran.stderr);
    }
    fails(&["--edit", r#"{"order": 1042}"#, "--call", "c2"], 1, "$.amount: this field is missing");
    let edit = r#"{"order":1042,"amount":20.0,"reason":"Two hinges broke."}"#;
    // The hash that was shown holds for this call only: its arguments are part of it.
    let shown = runs(folder.path(), &["show", "pay"]).stdout;
    let hashes: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("decide  toolwright runs decide pay --call "))
        .map(|rest| rest.strip_suffix(" --approve").unwrap())
        .collect();
    assert!(hashes.len() == 2 && hashes[0] != hashes[1] && hashes[0].len() == 12, "{shown}");
    let other = World::new(&folder.path().join("other"), Duration::ZERO);
    other.waiting_for("pay", 25.0).await;
    let wrong =
        runs(&folder.path().join("other"), &["decide", "pay", "--approve", "--call", hashes[0]]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("does not wait for the call"), "{}", wrong.stderr);
    let edited = decide(&["--edit", edit, "--call", hashes[0]]);
    assert_eq!(edited.code, Some(0), "{}", edited.stderr);
    // A denial of the only call that is left needs no name.
    assert_eq!(decide(&["--deny", "Postage is not paid back."]).code, Some(0));
    fails(&["--approve"], 1, "does not wait for a decision");
    let shown = runs(folder.path(), &["show", "pay"]).stdout;
    assert!(shown.contains("!! pay_back (c3): denied: Postage is not paid back."), "{shown}");
    world.go_on("pay", &[]).await;
    let page = toolwright_cli::runs::page(&world.journal, "pay", None).unwrap();
    assert!(page.contains("was approved with other arguments by <strong>kate</strong>"));
    assert!(page.contains("20.00 EUR paid back for order 1042"));
}

#[tokio::test]
async fn a_masked_call_is_decided_on_and_made_with_its_key() {
    const KEY: &str = "glpat-0123456789abcdefghij";
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let model = Scripted::new(|request| match request.messages.last().map(|said| &**said) {
        Some(Message::Tool(_)) => Ok(Reply::text("Stored.")),
        _ => {
            let arguments = json!({"key": "gitlab", "value": KEY}).to_string();
            Ok(Reply::calls([ToolCall::new("c1", "memory_store", arguments)]))
        }
    });
    let memory = Memory::default();
    let agent = Agent::new(model, memory.tools().unwrap()).unwrap();
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Idempotent)).unwrap();
    let task = format!("Store {KEY}.");
    let cx = Context::default().with_run("store", metadata(&task));
    journal.drive(&agent, "store", task.as_str(), &cx).await.unwrap_err();
    let shown = runs(folder.path(), &["show", "store"]).stdout;
    let listed = runs(folder.path(), &["list"]).stdout;
    let refused = runs(folder.path(), &["decide", "store", "--approve"]).stderr;
    for shown in [&shown, &listed, &refused] {
        assert!(!shown.contains("glpat-") && shown.contains("[secret]"), "{shown}");
    }
    let waits = r#"waits   memory_store {"key":"gitlab","value":"[secret]"}: allow it?"#;
    assert!(shown.lines().any(|line| line == waits), "{shown}");
    let hash = shown.split("--call ").nth(1).unwrap().split(' ').next().unwrap();
    // A person changes the arguments that were shown.
    let edit = r#"{"key":"gitlab-2","value":"[secret]"}"#;
    let refused = runs(folder.path(), &["decide", "store", "--call", hash, "--edit", edit]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("write the value itself"), "{}", refused.stderr);
    let decided = runs(folder.path(), &["decide", "store", "--call", hash, "--approve"]);
    assert_eq!(decided.code, Some(0), "{}", decided.stderr);
    journal.drive(&agent, "store", task.as_str(), &Context::default()).await.unwrap();
    let tool = agent.tools().iter().find(|tool| tool.name() == "memory_retrieve").unwrap();
    let got = tool.call(r#"{"key":"gitlab"}"#, &Context::default()).await.unwrap();
    assert!(format!("{got:?}").contains(KEY), "{got:?}");
}

/// An agent that calls another one twice. Each of its models gives its call the same id.
fn twice() -> Agent {
    let results = |request: &Request| {
        request.messages.iter().filter(|said| matches!(&***said, Message::Tool(_))).count()
    };
    let inner = Scripted::new(move |request| match results(request) {
        0 => Ok(Reply::calls([ToolCall::new("x", "memory_clear", "{}")])),
        _ => Ok(Reply::text("Cleared.")),
    });
    let outer = Scripted::new(move |request| match results(request) {
        done @ 0..2 => {
            Ok(Reply::calls([ToolCall::new(format!("o{done}"), "helper", r#"{"task": "Go."}"#)]))
        }
        _ => Ok(Reply::text("Cleared twice.")),
    });
    let policy = || ApprovalPolicy::from_effect(Effect::Irreversible);
    let inner = Agent::new(inner, Memory::default().tools().unwrap()).unwrap();
    let inner =
        Tool::new(inner.with_approval(policy()).unwrap()).unwrap().with_effect(Effect::Read);
    Agent::new(outer, [inner.named("helper").unwrap()]).unwrap()
}

#[tokio::test]
async fn an_id_that_a_model_uses_again_does_not_name_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let (agent, cx) = (twice(), Context::default());
    let decide =
        |call: &str| runs(folder.path(), &["decide", "clear", "--approve", "--call", call]);
    let hash = || {
        let shown = runs(folder.path(), &["show", "clear"]).stdout;
        shown.split("--call ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    journal.drive(&agent, "clear", PROMPT, &cx).await.unwrap_err();
    let first = hash();
    assert_eq!(decide("x").code, Some(0));
    journal.drive(&agent, "clear", PROMPT, &cx).await.unwrap_err();
    // The command that a person has from the first question.
    let second = hash();
    assert_ne!(first, second);
    let refused = decide("x");
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("several calls with the id x"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&second), "{}", refused.stderr);
    let old = decide(&first);
    assert!(old.stderr.contains("does not wait for the call"), "{}", old.stderr);
    assert_eq!(decide(&second).code, Some(0));
    let finished = journal.drive(&agent, "clear", PROMPT, &cx).await.unwrap();
    assert_eq!(finished.answer, "Cleared twice.");
}

#[tokio::test]
async fn an_id_is_one_word_of_the_commands_that_are_shown() {
    for id in ["x; rm -rf ~ #", "it's", "-x", "allow it? y(es)", "a\u{202e}b\nc", "`id`$(id)"] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), Duration::ZERO);
        world.waiting(id).await;
        let page = toolwright_cli::runs::page(&world.journal, id, None).unwrap();
        let page = page
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&");
        let shown = runs(folder.path(), &["show", "latest"]).stdout;
        let listed = runs(folder.path(), &["list"]).stdout;
        assert_eq!(listed.lines().count(), 1, "{listed}");
        assert!(!listed.starts_with("allow"), "{listed}");
        let line = shown.lines().find_map(|line| line.strip_prefix("decide  toolwright ")).unwrap();
        assert!(page.contains(&format!("toolwright {line}")), "{id}: {line}");
        // A shell gives the command the id as it is, and the call is the one that was shown.
        let script =
            format!("exec \"$0\" --journal \"$1\" {}", line.strip_prefix("runs ").unwrap());
        let script = script.replace("--journal", "runs --journal");
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_toolwright")).arg(folder.path());
        let decided = ran(shell.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()));
        assert_eq!(decided.code, Some(0), "{id}: {}", decided.stderr);
        assert_eq!(world.journal.run(id).unwrap().waiting.len(), 1);
    }
}

#[test]
fn the_default_folder_is_in_the_data_folder_of_the_user() {
    let data = tempfile::tempdir().unwrap();
    let list = |data: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwright"));
        ran(command.args(["runs", "list"]).env("XDG_DATA_HOME", data).stdin(Stdio::null()))
    };
    let missing = list(data.path());
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("there is no folder "), "{}", missing.stderr);
    std::fs::create_dir_all(data.path().join("toolwright/runs")).unwrap();
    assert_eq!(list(data.path()).code, Some(0));
}

#[tokio::test]
async fn a_page_goes_to_standard_output_or_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    World::new(folder.path(), Duration::ZERO).short().await;
    let printed = runs(folder.path(), &["page", "short"]);
    assert!(printed.stdout.starts_with("<!DOCTYPE html>"), "{}", printed.stderr);
    let file = folder.path().join("run.html");
    let output = file.to_str().unwrap();
    assert_eq!(runs(folder.path(), &["page", "short", "-o", output]).code, Some(0));
    let written = std::fs::read_to_string(&file).unwrap();
    let head = |page: &str| page.split("<footer>").next().unwrap().to_owned();
    assert_eq!(head(&written), head(&printed.stdout));
    // Nothing is left beside it.
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.ends_with(".new")));

    let alone = runs(folder.path(), &["page", "short", "--follow"]);
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
    assert_eq!(runs(folder.path(), &["page", "nothing"]).code, Some(1));
}

#[tokio::test]
async fn a_page_follows_its_run_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), Duration::ZERO);
    let asked = world.waiting("run").await;
    let file = folder.path().join("run.html");
    let mut follow =
        command(folder.path(), &["page", "run", "--follow", "-o", file.to_str().unwrap()]);
    let mut child = follow.stderr(Stdio::null()).spawn().unwrap();
    let reads = |part: &str| {
        let page = std::fs::read_to_string(&file).unwrap_or_default();
        page.contains("data-reload=") && page.contains(part)
    };
    let mut tries = 0;
    while !reads("Waits for a decision") {
        tries += 1;
        assert!(tries < 500, "the page did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.go_on("run", &asked).await;
    let status = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("Finished") && !page.contains("data-reload="));
}

#[test]
fn a_run_is_shown_with_agents_below_decisions_and_lost_calls() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let summary = runtime.block_on(waiting(&folder)).run("clear").unwrap();
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
    let lines: Vec<&str> = shown
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with("waits") && !line.starts_with("decide"))
        .collect();
    insta::assert_snapshot!(lines[..lines.len() - 1].join("\n"), @r#"
    task    Store\u202e it.

    == model: 0 ms, 0 tokens in, 0 out
    -> helper {"task":"Go."} (h)
    !! helper (h): approved
      == model: 0 ms, 0 tokens in, 0 out
         | Two
       | lines.
    <- helper Gone. (0 ms)
    <- helper failed: It failed. (0 ms)
    ?? call p was begun and has no result
    "#);
}

/// `--ask` decides nothing, so it needs no call. `--approve` belongs to `decide` only.
#[tokio::test]
async fn a_run_that_is_resumed_with_ask_makes_no_call_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let journal = waiting(&folder).await;
    let asked = journal.run("clear").unwrap().waiting;
    let model = Server::start(&[]);
    let refused = runs(folder.path(), &["resume", "clear", "--approve"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for more in [&["--ask"][..], &[], &["--ask", "--json"]] {
        let model = ["--base-url", &model.base_url, "--model", "small", "--no-stream"];
        let resumed = runs(folder.path(), &[&["resume", "clear"], more, &model].concat());
        assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
        let told = format!("{}{}", resumed.stdout, resumed.stderr);
        assert!(told.contains("`memory_clear` waits for a person's approval"), "{told}");
        assert!(!told.contains("tool_started") && !told.contains("-> memory_clear"), "{told}");
        assert_eq!(journal.run("clear").unwrap().waiting, asked);
    }
    assert!(model.asked().is_empty());
}
