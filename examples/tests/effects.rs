//! The toolsets of this workspace together in one agent: what runs side by side, and what
//! waits for a person.

use std::fs;
use std::sync::{Arc, Condvar, Mutex};

use crate::api_client::Api;
use crate::toolset_server::{Server, answer};
use crate::toolset_support::{LONGEST, cities, said};
use serde_json::json;
use tempfile::TempDir;
use toolwright_cli::files::Files;
use toolwright_github::GitHub;
use toolwright_memory::{Memory, MemoryStore};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Module, Reply, Tool, ToolCall};
use toolwright_orchestrator::{Agent, ApprovalPolicy, AwaitsApproval, Finished};
use toolwright_text::Text;

/// The toolsets of this workspace in one list, and what they work on.
struct World {
    folder: TempDir,
    memory: Memory,
    tools: Vec<Tool>,
}

impl World {
    fn new(url: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let database = cities(&folder).with_writes();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a.txt"), "Rain.").unwrap();
        let github = GitHub::new().unwrap().with_base_url(url).unwrap();
        let github = github.with_repo("octocat/hello-world").unwrap().with_retries(0);
        let memory = Memory::default();
        let tools = [
            memory.tools().unwrap(),
            Text::default().tools().unwrap(),
            github.tools().unwrap(),
            Files::new(&root).unwrap().tools().unwrap(),
            Api::new(url, LONGEST).unwrap().tools().unwrap(),
            database.tools().unwrap(),
        ]
        .concat();
        Self { folder, memory, tools }
    }

    /// An agent with all of them whose model makes these calls in one turn.
    fn agent(&self, calls: &[(&str, &str)]) -> Agent {
        let calls = calls.iter().enumerate();
        let calls =
            calls.map(|(id, (name, arguments))| ToolCall::new(id.to_string(), *name, *arguments));
        let script = [Reply::calls(calls), Reply::text("done")];
        Agent::new(Scripted::replies(script), self.tools.clone()).unwrap()
    }
}

#[tokio::test]
async fn reads_of_several_toolsets_run_side_by_side_in_one_turn() {
    // Nobody is answered before everybody has asked.
    let waiting = Arc::new((Mutex::new(0), Condvar::new()));
    let server = Server::start(move |_| {
        let (count, all) = &*waiting;
        let mut count = count.lock().unwrap();
        *count += 1;
        all.notify_all();
        let (count, timeout) =
            all.wait_timeout_while(count, LONGEST / 2, |count| *count < 3).unwrap();
        drop(count);
        let status = if timeout.timed_out() { 500 } else { 200 };
        answer(status, "content-type: application/json\r\n", r#"{"number": 1, "title": "Rain"}"#)
    });
    let world = World::new(&server.url);
    let agent = world.agent(&[
        ("api_get", r#"{"path": "things"}"#),
        ("memory_count", "{}"),
        ("github_get_issue", r#"{"issue_number": 1}"#),
        ("text_wc", r#"{"text": "a b"}"#),
        ("file_read", r#"{"path": "a.txt"}"#),
        ("db_query", r#"{"sql": "SELECT count(*) FROM cities"}"#),
        ("github_get_pr", r#"{"pr_number": 1}"#),
    ]);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let cx = Context::default().with_events(move |event| match &event.kind {
        EventKind::ToolStarted { call } => log.lock().unwrap().push(format!("+{}", call.name)),
        EventKind::ToolFinished { call, error, text, .. } => {
            assert!(error.is_none() && !text.contains("500"), "{} {error:?} {text}", call.name);
            log.lock().unwrap().push(format!("-{}", call.name));
        }
        _ => {}
    });
    agent.run("Go.", &cx).await.unwrap();
    let heard = heard.lock().unwrap();
    let place = |event: &str| heard.iter().position(|heard| heard == event).unwrap();
    // The first waits for the last, and what is between them is long done.
    assert!(place("+github_get_pr") < place("-api_get"), "{heard:?}");
    assert!(place("-memory_count") < place("-api_get"), "{heard:?}");
    assert!(place("-text_wc") < place("-github_get_issue"), "{heard:?}");
}

async fn remember(world: &World) {
    let (key, value) = ("color".to_owned(), "blue".to_owned());
    MemoryStore::module(&world.memory)
        .call(MemoryStore { key, value, tags: None }, &Context::default())
        .await
        .unwrap();
}

async fn entries(world: &World) -> String {
    said(&world.tools, "memory_count", json!({})).await
}

fn careful(world: &World, calls: &[(&str, &str)]) -> Agent {
    world.agent(calls).with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap()
}

#[tokio::test]
async fn clearing_the_memory_waits_for_approval_where_it_is_asked_for() {
    let world = World::new("http://127.0.0.1:9");
    let clear = [("memory_clear", "{}")];
    let decided = |decision: Decision| {
        Context::default().with_approver(move |_: Approval| {
            let decision = decision.clone();
            async move { Ok(decision) }
        })
    };
    remember(&world).await;
    let agent = careful(&world, &clear);
    let mut run = agent.start("Go.").unwrap();
    let error = agent.drive(&mut run, &Context::default()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Approval, Audience::Run));
    let awaits: &AwaitsApproval = error.downcast_ref().unwrap();
    assert_eq!(awaits.calls[0].name, "memory_clear");
    assert_eq!(entries(&world).await, "1");

    let denied = decided(Decision::deny("We still need it."));
    let finished = careful(&world, &clear).run("Go.", &denied).await.unwrap();
    assert!(format!("{:?}", finished.history).contains("We still need it."));
    assert_eq!(entries(&world).await, "1");

    // The run that waited goes on.
    agent.drive(&mut run, &decided(Decision::Approve)).await.unwrap();
    assert_eq!(entries(&world).await, "0");

    // Without a policy nobody is asked.
    remember(&world).await;
    world.agent(&clear).run("Go.", &Context::default()).await.unwrap();
    assert_eq!(entries(&world).await, "0");
}

#[tokio::test]
async fn of_all_toolsets_exactly_the_tools_that_cannot_be_taken_back_wait() {
    let server = Server::start(|_| answer(200, "", "{}"));
    let world = World::new(&server.url);
    let final_ones: Vec<_> = world
        .tools
        .iter()
        .filter(|tool| tool.effect() == Effect::Irreversible)
        .map(|tool| tool.name().to_owned())
        .collect();
    let expected = ["memory_delete", "memory_clear", "file_delete", "api_delete", "db_delete"];
    assert_eq!(final_ones, expected);

    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let cx = Context::default().with_approver(move |approval: Approval| {
        log.lock().unwrap().push(approval.call.name.clone());
        async { Ok(Decision::deny("No.")) }
    });
    let calls = [
        ("memory_store", r#"{"key": "color", "value": "blue"}"#),
        ("memory_delete", r#"{"key": "color"}"#),
        ("memory_clear", "{}"),
        ("file_delete", r#"{"path": "a.txt"}"#),
        ("file_read", r#"{"path": "a.txt"}"#),
        ("api_delete", r#"{"path": "things"}"#),
        ("db_delete", r#"{"table": "cities", "rows": {"name": "Oslo"}}"#),
    ];
    let finished: Finished = careful(&world, &calls).run("Go.", &cx).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(format!("{:?}", finished.history).matches("failed: true").count(), 5);
    assert_eq!(entries(&world).await, "1");
    assert!(world.folder.path().join("root/a.txt").exists());
    assert!(server.take().is_empty());
    let oslo = json!({"sql": "SELECT * FROM cities WHERE name = 'Oslo'"});
    assert!(said(&world.tools, "db_query", oslo).await.contains("rain"));
}
