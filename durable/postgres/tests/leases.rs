//! Leases: who has a run, and what a worker can do that has lost it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Effect, Error, Reply};
use toolwright_orchestrator::Agent;
use toolwright_orchestrator::perform::{OutcomeKind, Record};
use toolwright_postgres::{RunStatus, Runs, RunsError};

use crate::support::{Database, Lateness, TASK, World, calls, database, runs_error, tool, until};

/// A worker on a task of its own, which ends with this value.
struct Worker {
    cancellation: Cancellation,
    task: tokio::task::JoinHandle<()>,
}

impl Worker {
    fn start(runs: &Runs, agent: Agent, cx: Context) -> Self {
        let (cancellation, runs) = (Cancellation::default(), runs.clone());
        let cx = cx.with_cancellation(cancellation.clone());
        let task = tokio::spawn(async move { runs.work(&agent, 8, &cx).await });
        Self { cancellation, task }
    }

    async fn stop(self) {
        self.cancellation.cancel();
        self.task.await.unwrap();
    }
}

async fn finished(runs: &Runs, id: &str) -> String {
    let mut answer = None;
    until("the end of the run", async || {
        answer = runs.finished::<String>(id).await.unwrap().map(|finished| finished.answer);
        answer.is_some()
    })
    .await;
    answer.unwrap()
}

#[tokio::test]
async fn a_queued_run_is_taken_by_a_worker_and_driven_once() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    for _ in 0..2 {
        runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
    }
    let run = runs.run("run").await.unwrap();
    assert_eq!((run.status, run.records, run.worker), (RunStatus::Open, 1, None));
    assert_eq!(runs.finished::<String>("run").await.unwrap(), None);
    let workers = [0, 1, 2].map(|_| Worker::start(&runs, world.small(), world.cx()));
    assert_eq!(finished(&runs, "run").await, "Done.");
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(world.counts(), [3, 1, 1, 0]);
}

#[tokio::test]
async fn many_runs_and_several_workers_do_each_part_once() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    for number in 0..100 {
        let id = format!("run {number}");
        runs.start(&world.small(), &id, TASK, &Context::default()).await.unwrap();
    }
    let workers = [0, 1, 2, 3].map(|_| Worker::start(&runs, world.small(), world.cx()));
    for number in 0..100 {
        assert_eq!(finished(&runs, &format!("run {number}")).await, "Done.");
    }
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(world.counts(), [300, 100, 100, 0]);
}

#[tokio::test]
async fn the_runs_of_another_agent_are_left_alone() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let others = Runs::connect(&database.url, "another").await.unwrap();
    runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
    let worker = Worker::start(&others, world.small(), world.cx());
    tokio::time::sleep(Duration::from_millis(600)).await;
    worker.stop().await;
    assert_eq!(world.counts(), [0; 4]);
    assert!(others.runs().await.unwrap().is_empty());
    assert!(matches!(others.run("run").await, Err(RunsError::NoSuchRun { .. })));
    // The same id is another run there.
    others.start(&world.small(), "run", "Something else.", &Context::default()).await.unwrap();
}

#[tokio::test]
async fn of_two_drives_at_once_one_works_and_the_other_fails_or_gets_the_answer() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await;
    for round in 0..20 {
        let (world, id) = (World::default(), format!("run {round}"));
        let drives = [0, 1].map(|_| {
            let (world, id, runs) = (world.clone(), id.clone(), runs.clone());
            tokio::spawn(async move { runs.drive(&world.house(), &id, TASK, &world.cx()).await })
        });
        let mut done = 0;
        for drive in drives {
            match drive.await.unwrap() {
                Ok(finished) => {
                    assert_eq!(finished.answer, "Done.");
                    done += 1;
                }
                Err(error) => {
                    let error = runs_error(&error);
                    assert!(matches!(error, RunsError::Locked { .. }), "{error}");
                }
            }
        }
        assert!(done > 0);
        assert_eq!(world.counts(), [10, 5, 3, 0]);
    }
}

#[tokio::test]
async fn a_long_call_keeps_its_run() {
    let Some(database) = database().await else { return };
    // A renewal may be late by two thirds of the lease, which a busy machine needs.
    let runs = database.runs().await.with_lease(Duration::from_secs(4));
    let world = World::default();
    let slow = || world.agent([world.look_for(Duration::from_secs(6)), world.tidy()]);
    let worker = Worker::start(&runs, world.small(), world.cx());
    let finished = runs.drive(&slow(), "run", TASK, &world.cx()).await.unwrap();
    worker.stop().await;
    assert_eq!((finished.answer.as_str(), world.counts()), ("Done.", [3, 1, 1, 0]));
}

#[tokio::test]
async fn a_worker_that_was_thought_dead_cannot_write_any_more() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    // The first worker stays in the write.
    let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let stays = {
        let (world, reached, go_on) = (world.clone(), Arc::clone(&reached), Arc::clone(&go_on));
        tool("tidy", Effect::Write, move |_| {
            let (reached, go_on) = (Arc::clone(&reached), Arc::clone(&go_on));
            world.add(2);
            async move {
                reached.notify_one();
                go_on.notified().await;
                Ok("by the first worker".to_owned())
            }
        })
    };
    let first = {
        let (runs, world) = (runs.clone(), world.clone());
        tokio::spawn(async move {
            let agent = world.agent([world.look(), stays]);
            runs.drive(&agent, "run", TASK, &world.cx()).await
        })
    };
    reached.notified().await;
    database.end_leases().await;
    // The second one asks a person about the write, and makes it.
    let finished = runs.drive(&world.small(), "run", TASK, &world.cx()).await.unwrap();
    assert_eq!((finished.answer.as_str(), world.counts()), ("Done.", [3, 1, 2, 1]));
    let records = runs.records("run").await.unwrap();
    go_on.notify_one();
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    assert!(matches!(runs_error(&error), RunsError::Lost { .. }), "{error:#}");
    assert_eq!(runs.records("run").await.unwrap(), records);
    let by_first = |record: &Record| match record {
        Record::Ended { outcome, .. } => match &outcome.kind {
            OutcomeKind::Called { result, .. } => result.text.contains("by the first worker"),
            _ => false,
        },
        _ => false,
    };
    assert!(!records.iter().any(by_first));
}

#[tokio::test]
async fn a_dropped_drive_frees_its_run_at_once() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let slow = world.agent([world.look_for(Duration::from_secs(60)), world.tidy()]);
    let cx = world.cx();
    let drive = runs.drive(&slow, "run", TASK, &cx);
    tokio::select! {
        _ = drive => panic!("it ended"),
        () = until("the call", async || world.counts()[1] == 1) => {}
    }
    let finished = runs.drive(&world.small(), "run", TASK, &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), world.counts()), ("Done.", [3, 2, 1, 0]));
}

#[tokio::test]
async fn a_cancelled_worker_gives_its_runs_to_others_at_once() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
    let slow = world.agent([world.look_for(Duration::from_secs(60)), world.tidy()]);
    let first = Worker::start(&runs, slow, world.cx());
    until("the call", async || world.counts()[1] == 1).await;
    let (began, lateness) = (Instant::now(), Lateness::measure());
    first.stop().await;
    let second = Worker::start(&runs, world.small(), world.cx());
    assert_eq!(finished(&runs, "run").await, "Done.");
    let most = Duration::from_secs(10) + lateness.longest();
    assert!(began.elapsed() < most, "{:?}", began.elapsed());
    second.stop().await;
    assert_eq!(world.counts(), [3, 2, 1, 0]);
}

#[tokio::test]
async fn a_failed_drive_is_tried_again_and_its_error_can_be_read() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let down = Arc::new(AtomicBool::new(true));
    let model = {
        let down = Arc::clone(&down);
        toolwright_module::testing::Scripted::new(move |_| match down.load(Ordering::SeqCst) {
            true => Err(Error::stop("the provider is down").at(Stage::Transport)),
            false => Ok(Reply::text("Done.")),
        })
    };
    let agent = Agent::new(model, []).unwrap();
    runs.start(&agent, "run", TASK, &Context::default()).await.unwrap();
    let worker = Worker::start(&runs, agent, world.cx());
    until("the error", async || runs.run("run").await.unwrap().error.is_some()).await;
    let run = runs.run("run").await.unwrap();
    assert!(run.error.unwrap().contains("the provider is down"));
    assert_eq!(run.status, RunStatus::Open);
    down.store(false, Ordering::SeqCst);
    assert_eq!(finished(&runs, "run").await, "Done.");
    worker.stop().await;
    assert_eq!(runs.run("run").await.unwrap().error, None);
}

#[tokio::test]
async fn a_run_that_ends_its_workers_is_taken_more_rarely() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
    let dead = |losses: u32, ago: u32| {
        format!(
            "UPDATE toolwright_runs SET worker = 'dead', losses = {losses},
                free_at = clock_timestamp() - interval '{ago} s'"
        )
    };
    // With a lease of 30 seconds, it rests for 8 leases.
    database.execute(&dead(5, 200)).await;
    let worker = Worker::start(&runs, world.small(), world.cx());
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(world.counts(), [0; 4]);
    database.execute(&dead(5, 300)).await;
    assert_eq!(finished(&runs, "run").await, "Done.");
    worker.stop().await;
    assert_eq!(database.number("SELECT losses::bigint FROM toolwright_runs").await, 0);
}

/// A way to the database that can be closed.
struct Way {
    url: String,
    is_open: watch::Sender<bool>,
}

async fn way(database: &Database) -> Way {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (is_open, opened) = watch::channel(true);
    let (before, after) = database.url.split_once("127.0.0.1:").expect("a server on 127.0.0.1");
    let digits = after.find(|character: char| !character.is_ascii_digit()).unwrap();
    let server: u16 = after[..digits].parse().unwrap();
    let url = format!("{before}127.0.0.1:{port}{}", &after[digits..]);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut opened = opened.clone();
            tokio::spawn(async move {
                if !*opened.borrow() {
                    return Ok(());
                }
                let mut far = TcpStream::connect(("127.0.0.1", server)).await?;
                tokio::select! {
                    copied = copy_bidirectional(&mut near, &mut far) => copied.map(drop),
                    _ = opened.wait_for(|open| !open) => Ok::<(), io::Error>(()),
                }
            });
        }
    });
    Way { url, is_open }
}

#[tokio::test]
async fn a_worker_without_its_database_stops_before_another_one_takes_the_run() {
    let Some(database) = database().await else { return };
    let (way, world) = (way(&database).await, World::default());
    let (lease, lateness) = (Duration::from_secs(3), Lateness::measure());
    let far = Runs::connect(&way.url, "agent").await.unwrap().with_lease(lease);
    let slow = world.agent([world.look_for(Duration::from_secs(60)), world.tidy()]);
    let drive = {
        let cx = world.cx();
        tokio::spawn(async move { far.drive(&slow, "run", TASK, &cx).await })
    };
    until("the call", async || world.counts()[1] == 1).await;
    way.is_open.send(false).unwrap();
    let cut = Instant::now();
    let error = drive.await.unwrap().unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    runs_error(&error);
    let most = lease + Duration::from_millis(300) + lateness.longest();
    assert!(cut.elapsed() <= most, "{:?} of {most:?}", cut.elapsed());
    let runs = database.runs().await;
    let worker = Worker::start(&runs, world.small(), world.cx());
    assert_eq!(finished(&runs, "run").await, "Done.");
    worker.stop().await;
    assert_eq!(world.counts(), [3, 2, 1, 0]);
}

#[tokio::test]
async fn a_drive_goes_on_after_a_short_failure_of_the_database() {
    let Some(database) = database().await else { return };
    let (way, world) = (way(&database).await, World::default());
    let far = Runs::connect(&way.url, "agent").await.unwrap();
    let reads = world.look_for(Duration::from_millis(300));
    let agent = world.agent([reads, world.tidy()]);
    let drive = {
        let cx = world.cx();
        tokio::spawn(async move { far.drive(&agent, "run", TASK, &cx).await })
    };
    until("the call", async || world.counts()[1] == 1).await;
    way.is_open.send(false).unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    way.is_open.send(true).unwrap();
    assert_eq!(drive.await.unwrap().unwrap().answer, "Done.");
    assert_eq!(world.counts(), [3, 1, 1, 0]);
    // No record is there twice.
    let records = database.runs().await.records("run").await.unwrap();
    assert_eq!(records.len(), 6);
}

#[tokio::test]
async fn records_at_the_same_time_share_a_statement() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let said = [
        calls([
            ("a", "look", "1"),
            ("b", "look", "2"),
            ("c", "look", "3"),
            ("d", "look", "4"),
            ("e", "look", "5"),
            ("f", "look", "6"),
        ]),
        Reply::text("Done."),
    ];
    let agent = Agent::new(world.model(said), [world.look()]).unwrap();
    runs.drive(&agent, "run", TASK, &world.cx()).await.unwrap();
    let sql = "SELECT count(DISTINCT xmin::text) FROM toolwright_records";
    let (transactions, records) = (
        database.number(sql).await,
        database.number("SELECT count(*) FROM toolwright_records").await,
    );
    assert_eq!(records, 10);
    assert!(transactions <= 7, "{transactions}");
}
