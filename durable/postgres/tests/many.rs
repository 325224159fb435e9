//! Lists, decisions and deletion.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use toolwright_journal::JournalError;
use toolwright_module::approval::Decision;
use toolwright_module::error::Stage;
use toolwright_module::event::Ending;
use toolwright_module::testing::Scripted;
use toolwright_module::{Cancellation, Context, Effect, Reply, Request, Tool};
use toolwright_orchestrator::perform::{Record, ReplayError};
use toolwright_orchestrator::{Agent, ApprovalPolicy, AwaitsApproval};
use toolwright_postgres::{RunStatus, Runs, RunsError};

use crate::support::{Look, TASK, World, calls, database, until};

/// Returns an agent whose write waits for a person.
fn asks(world: &World, effect: Effect) -> Agent {
    let writes = world.tidy().with_effect(effect);
    world
        .agent([world.look(), writes])
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap()
}

fn tenant(name: &str) -> Context {
    Context::default().with_run("", [("tenant", name)])
}

#[tokio::test]
async fn the_agents_of_a_database_are_listed_and_no_tables_are_created() {
    let Some(database) = database().await else { return };
    assert!(Runs::agents(&database.url).await.unwrap().is_empty());
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    assert_eq!(database.number(tables).await, 0);
    let world = World::default();
    for agent in ["b", "a", "never started"] {
        let runs = Runs::connect(&database.url, agent).await.unwrap();
        if agent != "never started" {
            runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
        }
    }
    assert_eq!(Runs::agents(&database.url).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn a_list_has_no_task_of_a_long_conversation_or_a_damaged_record() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let long = format!("{TASK} {}", "x".repeat(70_000));
    runs.start(&world.small(), "long", long, &Context::default()).await.unwrap();
    runs.start(&world.small(), "damaged", TASK, &Context::default()).await.unwrap();
    runs.start(&world.small(), "whole", TASK, &Context::default()).await.unwrap();
    database
        .execute(
            "UPDATE toolwright_records SET record = '{' WHERE run =
                (SELECT number FROM toolwright_runs WHERE id = 'damaged')",
        )
        .await;
    let listed = runs.runs().await.unwrap();
    let tasks: Vec<_> = listed.iter().map(|run| run.task.as_deref()).collect();
    assert_eq!(tasks, [None, None, Some(TASK)]);
    // A single run has the first words of any task.
    let task = runs.run("long").await.unwrap().task.unwrap();
    assert!(task.starts_with(TASK), "{task}");
    assert_eq!(runs.run("damaged").await.unwrap().task, None);
}

#[tokio::test]
async fn runs_are_listed_with_their_state_and_found_by_their_metadata() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    runs.drive(&world.small(), "first", TASK, &tenant("acme")).await.unwrap();
    runs.start(&world.small(), "second", TASK, &tenant("Ümläut 😀")).await.unwrap();
    let error = runs.drive(&asks(&world, Effect::Write), "third", TASK, &tenant("acme")).await;
    assert!(error.unwrap_err().downcast_ref::<AwaitsApproval>().is_some());
    let listed = runs.runs().await.unwrap();
    let states: Vec<_> = listed.iter().map(|run| (run.id.as_str(), run.status)).collect();
    let expected = [
        ("first", RunStatus::Finished),
        ("second", RunStatus::Open),
        ("third", RunStatus::Waiting),
    ];
    assert_eq!(states, expected);
    assert_eq!(listed[0].ending, Some(Ending::Answered));
    assert_eq!(listed[2].waiting[0].call.name, "tidy");
    assert!(listed.iter().all(|run| run.started <= run.changed && run.worker.is_none()));
    assert_eq!(runs.waiting().await.unwrap(), &listed[2..]);
    let acme = runs.runs_with("tenant", "acme").await.unwrap();
    assert_eq!(acme, [listed[0].clone(), listed[2].clone()]);
    assert_eq!(runs.runs_with("tenant", "Ümläut 😀").await.unwrap(), &listed[1..2]);
    assert!(runs.runs_with("acme", "tenant").await.unwrap().is_empty());
    assert!(runs.runs_with("tenant", "a\0").await.unwrap().is_empty());
    assert!(matches!(runs.run("fourth").await, Err(RunsError::NoSuchRun { .. })));
    // The metadata are in the context of each drive.
    assert_eq!(listed[0].metadata["tenant"], "acme");
    assert!(listed.iter().all(|run| run.task.as_deref() == Some(TASK)));
}

#[tokio::test]
async fn a_decision_lets_a_worker_go_on() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let agent = asks(&world, Effect::Write);
    runs.start(&agent, "run", TASK, &Context::default()).await.unwrap();
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let person = async {
        let waits = async || {
            let run = runs.run("run").await.unwrap();
            run.status == RunStatus::Waiting && run.worker.is_none()
        };
        until("the question", waits).await;
        // A worker leaves it alone.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(world.counts(), [2, 1, 0, 0]);
        let elsewhere = Runs::connect(&database.url, "agent").await.unwrap();
        let waiting = &elsewhere.waiting().await.unwrap()[0].waiting[0];
        elsewhere.decide("run", waiting, Decision::Approve).await.unwrap();
        let finished = async || runs.finished::<String>("run").await.unwrap().is_some();
        until("the end", finished).await;
        let error = elsewhere.decide("run", waiting, Decision::Approve).await.unwrap_err();
        let is_decided = matches!(error, RunsError::Journal(JournalError::Decided { .. }));
        assert!(is_decided, "{error}");
        cancellation.cancel();
    };
    tokio::join!(person, runs.work(&agent, 4, &cx));
    assert_eq!(world.counts(), [3, 1, 1, 0]);
    assert!(runs.waiting().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_decision_can_be_replaced_until_the_run_is_driven() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, cx) = (asks(&world, Effect::Write), Context::default());
    let error = runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval);
    let waiting = runs.run("run").await.unwrap().waiting;
    runs.decide("run", &waiting[0], Decision::Approve).await.unwrap();
    let no = Decision::deny("Not today.");
    runs.replace_decision("Kate", "run", &waiting[0], no.clone()).await.unwrap();
    let finished = runs.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), world.counts()), ("Done.", [3, 1, 0, 0]));
    let denied = serde_json::to_string(&finished.history).unwrap();
    assert!(denied.contains("Not today."), "{denied}");
    let error = runs.replace_decision("Kate", "run", &waiting[0], no).await.unwrap_err();
    assert!(error.to_string().contains("decided already by Kate"), "{error}");
}

#[tokio::test]
async fn a_call_with_a_very_long_id_can_wait() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    // Nothing that a database could make shorter.
    let id: String =
        (0..20_000_u32).map(|n| format!("{:x}\0", n.wrapping_mul(2_654_435_761))).collect();
    let said = [calls([(&id, "tidy", "the hall")]), Reply::text("Done.")];
    let agent = Agent::new(world.model(said), [world.tidy()])
        .unwrap()
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap();
    let cx = Context::default();
    runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = runs.run("run").await.unwrap().waiting;
    runs.decide("run", &waiting[0], Decision::Approve).await.unwrap();
    assert!(runs.waiting().await.unwrap().is_empty());
    assert_eq!(runs.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
}

#[tokio::test]
async fn a_decision_that_does_not_suit_is_refused() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let agent = world.agent([world.look(), world.tidy().with_effect(Effect::Irreversible)]);
    let cx = Context::default().with_approver(async |_| Ok(Decision::Approve));
    runs.drive(&agent, "run", TASK, &cx).await.unwrap();
    let kept = database
        .number("SELECT nth::bigint FROM toolwright_records WHERE record LIKE '{\"begun\"%'");
    // The worker died in the call.
    database.cut(usize::try_from(kept.await).unwrap() + 1).await;
    let error = runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval, "{error:#}");
    let waiting = runs.run("run").await.unwrap().waiting;
    assert!(waiting[0].unknown);
    let error = runs.decide("run", &waiting[0], Decision::Approve).await.unwrap_err();
    assert!(matches!(error, RunsError::Journal(JournalError::Decision { .. })), "{error}");
    let mut other = waiting[0].clone();
    other.call.arguments = r#"{"place": "elsewhere"}"#.into();
    let error = runs.decide("run", &other, Decision::CallAgain).await.unwrap_err();
    assert!(matches!(error, RunsError::Journal(JournalError::NotWaiting { .. })), "{error}");
    let error = runs.decide("another", &other, Decision::CallAgain).await.unwrap_err();
    assert!(matches!(error, RunsError::NoSuchRun { .. }), "{error}");
    let happened = Decision::Happened { result: "It was tidied.".into() };
    runs.decide("run", &waiting[0], happened).await.unwrap();
    let finished = runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap();
    assert_eq!((finished.answer.as_str(), world.counts()[2]), ("Done.", 1));
}

#[tokio::test]
async fn a_run_that_is_driven_is_not_decided_on_or_deleted() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await.with_worker("machine 7"), World::default());
    let agent = asks(&world, Effect::Write);
    // The approver takes its time.
    let cx = Context::default().with_approver(async |_| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Decision::Approve)
    });
    let drive = runs.drive(&agent, "run", TASK, &cx);
    let looks = async {
        let waits = async || match runs.run("run").await {
            Ok(run) => run.status == RunStatus::Waiting,
            Err(_) => false,
        };
        until("the question", waits).await;
        let run = runs.run("run").await.unwrap();
        assert_eq!(run.worker.as_deref(), Some("machine 7"));
        let decided = runs.decide("run", &run.waiting[0], Decision::Approve).await;
        let again = runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
        let again = again.downcast_ref::<RunsError>().unwrap();
        for error in [&decided.unwrap_err(), &runs.delete("run").await.unwrap_err(), again] {
            assert!(error.to_string().contains("machine 7"), "{error}");
            assert!(matches!(error, RunsError::Locked { .. }), "{error}");
        }
        assert!(runs.delete_ended(Duration::ZERO).await.unwrap().is_empty());
    };
    tokio::select! {
        _ = drive => panic!("it ended"),
        () = looks => {}
    }
    // If the worker is dead, a decision is possible, and what it would still write is not kept.
    database.end_leases().await;
    let waiting = runs.run("run").await.unwrap().waiting;
    runs.decide("run", &waiting[0], Decision::Approve).await.unwrap();
    runs.drive(&agent, "run", TASK, &Context::default()).await.unwrap();
}

#[tokio::test]
async fn ended_runs_are_deleted_by_age() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let said = [calls([("a", "look", "here")]), Reply::text("Done.")];
    let agent = Agent::new(world.model(said), [world.look()]).unwrap();
    for id in ["old", "new"] {
        let runs = database.runs().await.with_lease(Duration::MAX);
        runs.drive(&agent, id, TASK, &world.cx()).await.unwrap();
    }
    runs.start(&agent, "open", TASK, &world.cx()).await.unwrap();
    let old = "UPDATE toolwright_runs SET changed = changed - interval '2 hours'
        WHERE id IN ('old', 'open')";
    database.execute(old).await;
    assert!(runs.delete_ended(Duration::MAX).await.unwrap().is_empty());
    let deleted = runs.delete_ended(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(deleted, ["old"]);
    runs.delete("open").await.unwrap();
    assert!(matches!(runs.delete("open").await, Err(RunsError::NoSuchRun { .. })));
    let left = runs.runs().await.unwrap();
    assert_eq!(left.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["new"]);
    let records = database.number("SELECT count(*) FROM toolwright_records").await;
    assert_eq!(usize::try_from(records).unwrap(), left[0].records);
}

#[tokio::test]
async fn a_question_that_something_else_changed_is_not_shown_and_not_decided() {
    let Some(database) = database().await else { return };
    let (world, cx) = (World::default(), Context::default());
    let agent = asks(&world, Effect::Write);
    for change in [
        // Only what the person sees.
        "jsonb_set(record::jsonb, '{waiting,approval,call,arguments}', '\"{}\"')",
        // The key of another call.
        "jsonb_set(record::jsonb, '{waiting,key}', '\"[\\\"decide\\\",\\\"z\\\"]\"')",
    ] {
        let runs = database.runs().await;
        let id = format!("run {}", change.len());
        runs.drive(&agent, &id, TASK, &cx).await.unwrap_err();
        runs.drive(&agent, &format!("{id} b"), TASK, &cx).await.unwrap_err();
        let waiting = runs.run(&id).await.unwrap().waiting;
        let sql = format!(
            "UPDATE toolwright_records SET record = ({change})::text WHERE asks IS NOT NULL
                AND run = (SELECT number FROM toolwright_runs WHERE id = '{id}')"
        );
        database.execute(&sql).await;
        let run = runs.run(&id).await.unwrap();
        assert_eq!((run.status, run.waiting.len()), (RunStatus::Unreadable, 0));
        assert!(run.error.unwrap().contains("is damaged"));
        let error = runs.decide(&id, &waiting[0], Decision::Approve).await.unwrap_err();
        let is_damaged =
            matches!(error, RunsError::Journal(JournalError::Replay(ReplayError::Question { .. })));
        assert!(is_damaged, "{error}");
        // Another run of the list is as it was.
        let other = runs.run(&format!("{id} b")).await.unwrap();
        assert_eq!((other.status, other.waiting.len()), (RunStatus::Waiting, 1));
        runs.delete(&id).await.unwrap();
        runs.delete(&other.id).await.unwrap();
    }
    assert_eq!(world.counts()[2], 0);
}

#[tokio::test]
async fn runs_in_a_database_have_the_functions_of_a_journal() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, cx) = (asks(&world, Effect::Write), Context::default());
    runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(runs.tools("run").await.unwrap(), Some(agent.tool_set()));
    let waiting = runs.run("run").await.unwrap().waiting;
    runs.decide_as("Kate\0", "run", &waiting[0], Decision::Approve).await.unwrap();
    // The task is enough to go on.
    let task = runs.task("run").await.unwrap();
    assert_eq!(runs.drive(&agent, "run", task, &cx).await.unwrap().answer, "Done.");
    let entries = runs.entries("run").await.unwrap();
    assert!(matches!(entries[0].1, Record::Started(_)));
    assert!(matches!(entries.last().unwrap().1, Record::Finished { .. }));
    assert!(entries.is_sorted_by_key(|(at, _)| *at));
    assert_eq!(entries.len(), runs.run("run").await.unwrap().records);
    let by = runs.records("run").await.unwrap().into_iter().find_map(|record| match record {
        Record::Ended { outcome, .. } => outcome.by,
        _ => None,
    });
    assert_eq!(by.as_deref(), Some("Kate\0"));
    let error = runs.run("").await.unwrap_err();
    assert!(matches!(error, RunsError::Journal(JournalError::NoId)), "{error}");
    let error = runs.start(&agent, "", TASK, &cx).await.unwrap_err();
    let error = error.downcast_ref::<RunsError>();
    assert!(matches!(error, Some(RunsError::Journal(JournalError::NoId))), "{error:?}");
    for id in ["another", "a\0"] {
        let none = [
            runs.task(id).await.err(),
            runs.tools(id).await.err(),
            runs.entries(id).await.err(),
            runs.cancel(id).await.err(),
            runs.delete(id).await.err(),
            runs.finished::<String>(id).await.err(),
            runs.decide("another", &waiting[0], Decision::Approve).await.err(),
        ];
        for error in none {
            assert!(matches!(error, Some(RunsError::NoSuchRun { .. })), "{id:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn of_two_people_who_decide_at_once_the_second_hears_of_the_first() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, cx) = (asks(&world, Effect::Write), Context::default());
    runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = &runs.run("run").await.unwrap().waiting[0];
    let elsewhere = Runs::connect(&database.url, "agent").await.unwrap();
    let both = tokio::join!(
        runs.decide_as("Kate", "run", waiting, Decision::Approve),
        elsewhere.decide_as("Tom", "run", waiting, Decision::deny("No.")),
    );
    let (first, error) = match both {
        (Ok(()), Err(error)) => ("Kate", error),
        (Err(error), Ok(())) => ("Tom", error),
        both => panic!("{both:?}"),
    };
    let decided = matches!(
        &error,
        RunsError::Journal(JournalError::Decided { by: Some(by), .. }) if by == first
    );
    assert!(decided, "{error}");
    runs.drive(&agent, "run", TASK, &cx).await.unwrap();
    let error = runs.decide("run", waiting, Decision::Approve).await.unwrap_err();
    assert!(error.to_string().contains("decided already"), "{error}");
}

#[tokio::test]
async fn a_decision_does_not_reopen_a_run_that_was_cancelled() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let (agent, cx) = (asks(&world, Effect::Irreversible), Context::default());
    runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = runs.run("run").await.unwrap().waiting;
    runs.cancel("run").await.unwrap();
    let run = runs.run("run").await.unwrap();
    assert_eq!((run.status, run.waiting.len()), (RunStatus::Failed, 0));
    let error = runs.decide("run", &waiting[0], Decision::Approve).await.unwrap_err();
    assert!(error.to_string().contains("drive it again"), "{error}");
    assert_eq!(runs.run("run").await.unwrap(), run);
    for _ in 0..2 {
        runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
        let again = runs.run("run").await.unwrap();
        assert_eq!((again.status, &again.waiting), (RunStatus::Waiting, &waiting));
    }
    assert_eq!(world.counts()[2], 0);
    runs.decide("run", &waiting[0], Decision::Approve).await.unwrap();
    assert_eq!(runs.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
}

#[tokio::test]
async fn a_run_that_is_driven_elsewhere_can_be_cancelled() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await.with_lease(Duration::from_secs(3));
    let begun = Arc::new(Notify::new());
    let asked = Arc::clone(&begun);
    let model = Scripted::new(move |_: &Request| {
        asked.notify_one();
        Ok(calls([("a", "wait", "the hall")]))
    });
    let wait = toolwright_module::from_fn(async |_: Look| std::future::pending().await);
    let wait = Tool::new(wait.with_effect(Effect::Write)).unwrap().named("wait").unwrap();
    let agent = Agent::new(model, [wait]).unwrap();
    let cx = Context::default();
    let elsewhere = Runs::connect(&database.url, "agent").await.unwrap();
    let cancels = async {
        begun.notified().await;
        // The call is under way.
        let is_begun = async || runs.records("run").await.unwrap().len() > 1;
        until("the call", is_begun).await;
        elsewhere.cancel("run").await.unwrap();
    };
    let (driven, ()) = tokio::join!(runs.drive(&agent, "run", TASK, &cx), cancels);
    let error = driven.unwrap_err();
    assert_eq!(error.stage(), Stage::Cancelled, "{error:#}");
    assert!(error.to_string().contains("was cancelled"), "{error:#}");
    let run = runs.run("run").await.unwrap();
    assert_eq!((run.status, run.worker.as_deref()), (RunStatus::Failed, None));
    // It has ended, so that a second time changes nothing, and no worker takes it.
    elsewhere.cancel("run").await.unwrap();
    let cancellation = Cancellation::default();
    let worker = cx.clone().with_cancellation(cancellation.clone());
    let stops = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        cancellation.cancel();
    };
    tokio::join!(runs.work(&agent, 2, &worker), stops);
    assert_eq!(runs.run("run").await.unwrap(), run);
    // Driven again, a person is asked about the call that may have taken effect.
    let error = runs.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval, "{error:#}");
    assert!(runs.run("run").await.unwrap().waiting[0].unknown);
    // A run that waits is cancelled too.
    elsewhere.cancel("run").await.unwrap();
    assert!(runs.waiting().await.unwrap().is_empty());
}
