//! Runs that are started, continued and repeated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_journal::JournalError;
use toolwright_module::error::Stage;
use toolwright_module::model::Finish;
use toolwright_module::testing::Scripted;
use toolwright_module::{Cancellation, Context, Effect, Message, Reply, Signature, ToolCall};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Limits, ReAct, Task, Unfinished};
use toolwright_postgres::{Options, RunStatus, Runs, RunsError};

use crate::support::{Counts, TASK, World, calls, database, runs_error, tool, until};

#[tokio::test]
async fn the_same_id_and_task_give_the_same_answer_and_another_task_is_an_error() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, cx) = (world.small(), world.cx());
    let first = runs.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!((first.answer.as_str(), world.counts()), ("Done.", [3, 1, 1, 0]));
    let (world, reworded) = (World::default(), world.small().with_instructions("Be quick."));
    assert_eq!(runs.drive(&agent, "run", TASK, &cx).await.unwrap(), first);
    // Other instructions are the same task: a deploy may reword them.
    assert_eq!(runs.drive(&reworded, "run", TASK, &cx).await.unwrap(), first);
    runs.start(&agent, "run", TASK, &cx).await.unwrap();

    let with_history =
        Task::new(TASK).with_history([Message::user("Hi."), Message::assistant("Hello.")]);
    for task in [Task::new("Something else."), with_history] {
        let drive = runs.drive(&agent, "run", task.clone(), &cx).await.unwrap_err();
        let start = runs.start(&agent, "run", task, &cx).await.unwrap_err();
        for error in [drive, start] {
            assert_eq!(error.stage(), Stage::Journal);
            let error = runs_error(&error);
            assert!(matches!(error, RunsError::Journal(JournalError::OtherTask { .. })), "{error}");
        }
    }
    assert_eq!(world.counts(), [0; 4]);
}

#[tokio::test]
async fn what_the_database_cannot_hold_is_refused_before_anything_happens() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, long) = (world.small(), "i".repeat(1_001));
    let error = runs.drive(&agent, "", TASK, &world.cx()).await.unwrap_err();
    assert!(matches!(runs_error(&error), RunsError::Journal(JournalError::NoId)), "{error:#}");
    for id in ["a\0b", &long] {
        let error = runs.drive(&agent, id, TASK, &world.cx()).await.unwrap_err();
        assert!(matches!(runs_error(&error), RunsError::Text { what: "id", .. }), "{error:#}");
    }
    let cx = world.cx().with_run("run", [("tenant", "a\0b")]);
    let error = runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert!(matches!(runs_error(&error), RunsError::Text { what: "metadata", .. }), "{error:#}");
    assert_eq!(world.counts(), [0; 4]);
    assert!(runs.runs().await.unwrap().is_empty());
}

#[tokio::test]
async fn any_other_text_is_kept_as_it_is() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await;
    let odd = "NUL \0, \u{2028}, \"\\ 'quoted', 😀, %s $1";
    let ids = ["Run", "run", "../etc/passwd", "😀", &"i".repeat(1_000), "'; DROP TABLE runs"];
    for id in ids {
        let said = [calls([("a\0b", "look", odd)]), Reply::text(odd)];
        let world = World::default();
        let agent = Agent::new(world.model(said), [world.look()]).unwrap();
        let finished = runs.drive(&agent, id, odd, &world.cx()).await.unwrap();
        assert_eq!(finished.answer, odd);
        assert_eq!(runs.drive(&agent, id, odd, &world.cx()).await.unwrap(), finished);
        assert_eq!(runs.finished(id).await.unwrap(), Some(finished));
        assert_eq!(world.counts(), [2, 1, 0, 0]);
    }
    assert_eq!(runs.runs().await.unwrap().len(), ids.len());
}

/// Add two numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// Say two numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Name {
    a: i64,
    b: i64,
}

impl Signature for Name {
    type Output = String;
}

#[tokio::test]
async fn a_typed_run_has_its_output_again_and_typed_workers_drive_it() {
    let Some(database) = database().await else { return };
    let (runs, cx) = (database.runs().await, Context::default());
    let sum = || Ok(Reply::calls([ToolCall::new("1", "finish", r#"{"result": 5}"#)]));
    let add = Add { a: 2, b: 3 };
    let react = Agent::new(Scripted::new(move |_| sum()), []).unwrap();
    let react = ReAct::<Add>::new(react).unwrap();
    let (agent, task) = (react.agent(), react.task(&add).unwrap());
    assert_eq!(runs.drive(agent, "sum", task.clone(), &cx).await.unwrap().answer, 5);
    assert_eq!(runs.drive(agent, "sum", task.clone(), &cx).await.unwrap().answer, 5);

    let name = Agent::new(Scripted::replies([]), []).unwrap();
    let name = ReAct::<Name>::new(name).unwrap();
    let other = name.task(&Name { a: 2, b: 3 }).unwrap();
    let error = runs.drive(name.agent(), "sum", other, &cx).await.unwrap_err();
    let is_other =
        |error: &RunsError| matches!(error, RunsError::Journal(JournalError::OtherTask { .. }));
    assert!(is_other(runs_error(&error)), "{error:#}");
    let plain = Agent::new(Scripted::replies([]), []).unwrap();
    let error = runs.drive(&plain, "sum", task.clone(), &cx).await.unwrap_err();
    assert!(is_other(runs_error(&error)), "{error:#}");

    runs.start(agent, "queued", task, &cx).await.unwrap();
    let cancellation = Cancellation::default();
    let worker = cx.clone().with_cancellation(cancellation.clone());
    let ends = async {
        until("the end", async || runs.finished::<i64>("queued").await.unwrap().is_some()).await;
        cancellation.cancel();
    };
    tokio::join!(ends, runs.work(agent, 2, &worker));
    assert_eq!(runs.finished::<i64>("queued").await.unwrap().unwrap().answer, 5);
    let error = runs.finished::<Vec<String>>("queued").await.unwrap_err();
    assert!(matches!(error, RunsError::Journal(JournalError::OtherOutput { .. })), "{error}");
}

/// Returns what a drive from these records has to do, if `all` are the records of the whole run.
fn left(records: &[Record], all: &[Record]) -> Counts {
    use toolwright_orchestrator::perform::{OutcomeKind, PartId};
    let has = |wanted: &PartId, ended: bool| {
        records.iter().any(|record| match record {
            Record::Ended { part, .. } => ended && part == wanted,
            Record::Begun { part, .. } => !ended && part == wanted,
            _ => false,
        })
    };
    let mut counts = [0; 4];
    for record in all {
        let Record::Ended { part, outcome, .. } = record else { continue };
        if has(part, true) {
            continue;
        }
        match &outcome.kind {
            OutcomeKind::Reply(_) => counts[0] += 1,
            OutcomeKind::Called { result, .. } if result.name == "look" => counts[1] += 1,
            OutcomeKind::Called { result, .. } if result.name == "tidy" => {
                counts[2] += 1;
                counts[3] += usize::from(has(part, false));
            }
            _ => {}
        }
    }
    counts
}

#[tokio::test]
async fn a_run_goes_on_after_each_of_its_records() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let finished = runs.drive(&world.house(), "run", TASK, &world.cx()).await.unwrap();
    let all = runs.records("run").await.unwrap();
    // The first record is the start, and the last one the end.
    for records in (1..all.len() + 2).rev() {
        database.cut(records).await;
        let kept = runs.records("run").await.unwrap();
        let world = World::default();
        let again = runs.drive(&world.house(), "run", TASK, &world.cx()).await.unwrap();
        assert_eq!((&again.answer, &again.history), (&finished.answer, &finished.history));
        assert_eq!(world.counts(), left(&kept, &all), "after {records} records");
        database.cut(records).await;
    }
}

#[tokio::test]
async fn a_refused_task_has_failed_and_a_worker_leaves_it_alone() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await;
    let refused = || Ok(Reply::text("No.").with_finish(Finish::Refused));
    let agent = Agent::new(Scripted::new(move |_| refused()), []).unwrap();
    for _ in 0..2 {
        let error = runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
        assert!(error.downcast_ref::<Unfinished>().is_some(), "{error:#}");
        let run = runs.run("run").await.unwrap();
        // The start, the reply and the failure, once.
        assert_eq!((run.status, run.records, run.worker), (RunStatus::Failed, 3, None));
        assert!(run.error.is_some());
    }
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let ends = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        cancellation.cancel();
    };
    tokio::join!(ends, runs.work(&agent, 1, &cx));
    assert_eq!(runs.run("run").await.unwrap().records, 3);
}

#[tokio::test]
async fn a_result_over_the_limit_is_not_written_and_the_model_reads_why() {
    let Some(database) = database().await else { return };
    let runs = database
        .runs()
        .await
        .with_options(Options { max_result_bytes: 1_000, ..Options::default() });
    let long = tool("look", Effect::Read, async |_| Ok("x".repeat(2_000)));
    let model = Scripted::replies([calls([("a", "look", "here")]), Reply::text("Done.")]);
    let agent = Agent::new(model, [long]).unwrap();
    let finished = runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap();
    let Message::Tool(result) = &*finished.history[2] else { panic!("{:?}", finished.history) };
    assert!(result.text.contains("keeps at most 1000 bytes"), "{}", result.text);
    assert!(runs.run("run").await.unwrap().bytes < 6_000);
}

#[tokio::test]
async fn a_whole_text_comes_back_and_its_end_is_read() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await;
    let runs = runs.with_options(Options { max_result_bytes: 2_000, ..Options::default() });
    let text = "a \"line\"\u{1}\0 of the lög\n".repeat(100_000);
    let agent = || {
        let last = format!(r#"{{"id": "a", "from": {}}}"#, text.len() - 10);
        let text = text.clone();
        let long = tool("look", Effect::Read, move |_| {
            let text = text.clone();
            async move { Ok(text) }
        });
        let model = Scripted::replies([
            calls([("a", "look", "here")]),
            Reply::calls([ToolCall::new("b", "read_result", last)]),
            Reply::text("Done."),
        ]);
        let agent = Agent::new(model, [long]).unwrap().with_result_reading().unwrap();
        agent.with_limits(Limits { max_result_bytes: 500, ..Limits::default() })
    };
    let finished = runs.drive(&agent(), "run", TASK, &Context::default()).await.unwrap();
    let Message::Tool(result) = &*finished.history[2] else { panic!("{:?}", finished.history) };
    assert!(!result.failed && result.whole.as_deref() == Some(&*text), "{}", result.text);
    let Message::Tool(result) = &*finished.history[4] else { panic!("{:?}", finished.history) };
    assert!(result.text.starts_with(&text[text.len() - 10..]), "{}", result.text);
    let again = runs.drive(&agent(), "run", TASK, &Context::default()).await.unwrap();
    assert!(again == finished);
}

#[tokio::test]
async fn a_recorded_call_of_a_tool_that_is_gone_keeps_its_result_and_an_open_one_stops_the_drive() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let changes = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&changes);
    let runs = runs.with_options(Options {
        change_listener: Some(Arc::new(move |id, change| {
            told.lock().unwrap().push(format!("{id}: {change}"));
        })),
        ..Options::default()
    });
    let new_agent = |world: &World| {
        let said = [Reply::text("Not asked."), Reply::text("Nothing to do.")];
        Agent::new(world.model(said), [world.tidy()]).unwrap()
    };
    // Only the start and the reply are left: its call is open.
    runs.drive(&world.small(), "run", TASK, &world.cx()).await.unwrap();
    database.cut(2).await;
    let world = World::default();
    let error = runs.drive(&new_agent(&world), "run", TASK, &world.cx()).await.unwrap_err();
    let found = runs_error(&error);
    assert!(matches!(found, RunsError::Journal(JournalError::OpenCall { .. })), "{error:#}");
    assert_eq!(world.counts(), [0; 4]);
    // The previous version of the agent continues.
    let finished = runs.drive(&world.small(), "run", TASK, &world.cx()).await.unwrap();
    assert_eq!(finished.answer.as_str(), "Done.");

    // With the result of the call, the new agent goes on.
    database.cut(3).await;
    let world = World::default();
    let finished = runs.drive(&new_agent(&world), "run", TASK, &world.cx()).await.unwrap();
    assert_eq!(finished.answer.as_str(), "Nothing to do.");
    assert!(changes.lock().unwrap().iter().any(|change| change == "run: `look`: removed"));
}

#[tokio::test]
async fn a_record_that_something_else_wrote_is_an_error_and_no_run_is_lost_by_it() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    for id in ["run", "another"] {
        runs.start(&world.small(), id, TASK, &world.cx()).await.unwrap();
    }
    let damage = "UPDATE toolwright_records SET record = left(record, 40) WHERE run =
        (SELECT number FROM toolwright_runs WHERE id = 'run')";
    database.execute(damage).await;
    let error = runs.drive(&world.small(), "run", TASK, &world.cx()).await.unwrap_err();
    let found = runs_error(&error);
    assert!(matches!(found, RunsError::Damaged { nth: 0, .. }), "{error:#}");
    let (cancellation, agent) = (Cancellation::default(), world.small());
    let cx = world.cx().with_cancellation(cancellation.clone());
    let ends = async {
        let finished = async || runs.finished::<String>("another").await.unwrap().is_some();
        until("the other run", finished).await;
        until("the error", async || runs.run("run").await.unwrap().error.is_some()).await;
        cancellation.cancel();
    };
    tokio::join!(ends, runs.work(&agent, 1, &cx));
    assert_eq!(runs.run("run").await.unwrap().status, RunStatus::Open);
}

#[tokio::test]
async fn an_unreachable_server_and_other_tables_are_clear_errors() {
    let Some(database) = database().await else { return };
    let error = toolwright_postgres::Runs::connect("nonsense:secret", "agent").await.unwrap_err();
    assert!(matches!(error, RunsError::Text { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"));
    let nowhere = "postgres://user:secret@127.0.0.1:1/none";
    let error = toolwright_postgres::Runs::connect(nowhere, "agent").await.unwrap_err();
    assert!(matches!(error, RunsError::Connection { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"));
    // It says why.
    assert!(error.to_string().contains("refused"), "{error}");

    let runs = database.runs().await;
    database.execute("UPDATE toolwright_runs_version SET version = 99").await;
    let error = toolwright_postgres::Runs::connect(&database.url, "agent").await.unwrap_err();
    assert!(matches!(error, RunsError::Version { found: 99, known: 3 }), "{error}");
    // An error of a statement has no values of it.
    database.execute("ALTER TABLE toolwright_runs DROP COLUMN losses").await;
    let world = World::default();
    let error = runs.drive(&world.small(), "my secret", TASK, &world.cx()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    assert_eq!(world.counts()[1..], [0; 3]);
    assert!(matches!(runs_error(&error), RunsError::Database { .. }), "{error:#}");
}

/// A process that waits to create the tables, while another one creates them and its worker writes.
#[tokio::test]
async fn tables_that_are_there_meanwhile_are_not_locked() {
    let (Some(database), Some(model)) = (database().await, database().await) else { return };
    model.runs().await;
    let lock = 4_919_131_752_989_213_764_i64;
    let other = database.client().await;
    other.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.unwrap();
    let url = database.url.clone();
    let connecting = tokio::spawn(async move { Runs::connect(&url, "agent").await.map(drop) });
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until("a wait", async || !other.query(waits, &[]).await.unwrap().is_empty()).await;

    for table in ["runs", "records", "tools", "runs_version"] {
        let from = format!("{}.toolwright_{table}", model.schema);
        let create = format!("CREATE TABLE toolwright_{table} (LIKE {from} INCLUDING ALL)");
        other.batch_execute(&create).await.unwrap();
    }
    let version = format!("SELECT version FROM {}.toolwright_runs_version", model.schema);
    let insert = format!("INSERT INTO toolwright_runs_version {version}");
    other.batch_execute(&insert).await.unwrap();
    // What a worker holds while it appends a record.
    let writes = "BEGIN; LOCK TABLE toolwright_runs, toolwright_records IN ROW EXCLUSIVE MODE";
    other.batch_execute(writes).await.unwrap();
    other.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await.unwrap();
    let connected = tokio::time::timeout(Duration::from_secs(20), connecting).await;
    connected.expect("it waits for the one who writes").unwrap().unwrap();
    other.batch_execute("COMMIT").await.unwrap();
}
