//! What is new in runs, for programs that show them while other workers drive them.

use toolwright_module::{Context, Error};
use toolwright_postgres::{RunStatus, Seen};

use crate::support::{TASK, World, database};

fn seen(id: &str, records: usize, live: (i64, i64)) -> Seen {
    Seen { id: id.to_owned(), records, live }
}

#[tokio::test]
async fn what_is_new_is_returned_once_and_the_end_comes_with_its_record() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    assert_eq!(runs.news(&[seen("run", 0, (0, -1))]).await.unwrap(), []);
    let cx = Context::default().with_run("run", [("user", "kate"), ("tenant", "acme")]);
    runs.start(&world.small(), "run", TASK, &cx).await.unwrap();
    assert_eq!(runs.ids_with(&[("user", "kate"), ("tenant", "acme")]).await.unwrap(), ["run"]);
    assert!(runs.ids_with(&[("user", "kate"), ("tenant", "other")]).await.unwrap().is_empty());
    let new = runs.news(&[seen("run", 0, (0, -1)), seen("other", 0, (0, -1))]).await.unwrap();
    let [new] = &new[..] else { panic!("{new:?}") };
    assert_eq!((new.status, new.is_driven, new.records.len()), (RunStatus::Open, false, 1));

    runs.drive(&world.small(), "run", TASK, &world.cx()).await.unwrap();
    let all = runs.entries("run").await.unwrap().len();
    let new = &runs.news(&[seen("run", 1, (0, -1))]).await.unwrap()[0];
    assert_eq!((new.status, new.records.len()), (RunStatus::Finished, all - 1));
    assert_eq!(runs.news(&[seen("run", all, (0, -1))]).await.unwrap()[0].records, []);
}

#[tokio::test]
async fn live_texts_are_those_of_the_worker_that_drives_the_run() {
    let Some(database) = database().await else { return };
    let world = World::default();
    let runs = database.runs().await.with_worker("one");
    let other = database.runs().await.with_worker("two");
    runs.start(&world.small(), "run", TASK, &Context::default()).await.unwrap();
    // Nobody drives it.
    runs.put_live("run", 0, "early").await.unwrap();
    let taken = runs.take_free(1).await.unwrap().pop().unwrap();
    assert_eq!(taken.id(), "run");
    other.put_live("run", 0, "foreign").await.unwrap();
    runs.put_live("run", 0, "a").await.unwrap();
    runs.put_live("run", 1, "b\u{0}").await.unwrap_err();
    runs.put_live("run", 1, "b").await.unwrap();
    let new = &other.news(&[seen("run", 1, (0, -1))]).await.unwrap()[0];
    assert!(new.is_driven);
    assert_eq!(new.live, [(0, "a".to_owned()), (1, "b".to_owned())]);
    let drive = new.drive;
    let new = &other.news(&[seen("run", 1, (drive, 0))]).await.unwrap()[0];
    assert_eq!(new.live, [(1, "b".to_owned())]);

    // The next drive has texts of its own.
    drop(taken);
    let mut again = Vec::new();
    crate::support::until("the run is free", async || {
        again = other.take_free(1).await.unwrap();
        !again.is_empty()
    })
    .await;
    let new = &runs.news(&[seen("run", 1, (drive, 1))]).await.unwrap()[0];
    assert!(new.drive > drive);
    assert_eq!(new.live, []);
    other.put_live("run", 0, "c").await.unwrap();
    assert_eq!(runs.news(&[seen("run", 1, (drive, 1))]).await.unwrap()[0].live.len(), 1);
    other.clear_live("run").await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM toolwright_live").await, 0);
}

#[tokio::test]
async fn a_taken_run_is_driven_with_a_context_of_its_own() {
    let Some(database) = database().await else { return };
    let (runs, world) = (database.runs().await, World::default());
    let cx = Context::default().with_run("run", [("user", "kate")]);
    runs.start(&world.small(), "run", TASK, &cx).await.unwrap();
    let taken = runs.take_free(8).await.unwrap().pop().unwrap();
    let (own, agent) = (world.cx(), world.small());
    let finished = taken.drive(&agent, async |started| {
        assert_eq!(started.metadata["user"], "kate");
        Ok(own)
    });
    assert_eq!(finished.await.unwrap().answer, "Done.");

    // A context that cannot be made is a drive that failed.
    runs.start(&world.small(), "second", TASK, &cx).await.unwrap();
    let taken = runs.take_free(8).await.unwrap().pop().unwrap();
    let failed = taken.drive(&agent, async |_| Err(Error::stop("no database")));
    assert_eq!(failed.await.unwrap_err().to_string(), "no database");
    let run = runs.run("second").await.unwrap();
    assert_eq!((run.status, run.worker), (RunStatus::Open, None));
    assert!(run.error.unwrap().contains("no database"));
    assert!(runs.take_free(8).await.unwrap().is_empty(), "it rests");
}
