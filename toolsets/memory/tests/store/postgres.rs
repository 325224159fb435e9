//! What holds of databases only. `tests/server.sh` starts a server and runs these.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::NoTls;
use toolwright_memory::{Limits, Memory, MemoryStoreModule};
use toolwright_module::error::{Audience, Stage};

use crate::support::{call, metadata, retrieve, store, text};
use crate::{children, runtime, suite};

const URL: &str = "MEMORY_TEST_URL";

fn url() -> String {
    std::env::var(URL).unwrap_or_else(|_| panic!("{URL} is not set; run tests/server.sh"))
}

/// Sends `sql` on a connection of its own.
async fn send(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

/// The URL of a schema that no other test has.
async fn schema() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("memory_{}_{number}", std::process::id());
    send(&url(), &format!("CREATE SCHEMA {name}")).await;
    format!("{}?options=-csearch_path%3D{name}", url())
}

#[test]
#[ignore = "needs a server: tests/server.sh"]
fn s66_a_database_passes_the_suite() {
    let runtime = runtime();
    suite::pass(&runtime, || {
        runtime.block_on(async { Memory::connect(&schema().await).await.unwrap() })
    });
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn s66_two_memories_share_a_database_and_others_do_not() {
    let (mine, theirs) = (schema().await, schema().await);
    let (one, two) = (Memory::connect(&mine).await.unwrap(), Memory::connect(&mine).await.unwrap());
    store(&one, "color", "blue", &["taste"]).await;
    retrieve(&two, "color").await;
    assert_eq!(metadata(&one, "color").await.unwrap().access_count, 1);
    drop((one, two));
    let again = Memory::connect(&mine).await.unwrap();
    assert_eq!(retrieve(&again, "color").await.as_deref(), Some("blue"));
    let other = Memory::connect(&theirs).await.unwrap();
    assert_eq!(text(&other, "memory_count", "{}").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: tests/server.sh"]
async fn s51_limits_hold_for_two_pools_at_once() {
    let url = schema().await;
    let limits = Limits::default().with_entries(20);
    let pools = [Memory::connect(&url).await.unwrap(), Memory::connect(&url).await.unwrap()];
    let tasks: Vec<_> = (0..64)
        .map(|task: usize| {
            let memory = pools[task % 2].clone().with_limits(limits);
            let arguments = format!(r#"{{"key": "{task}", "value": ""}}"#);
            tokio::spawn(async move { call(&memory, "memory_store", &arguments).await.is_ok() })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += usize::from(task.await.unwrap());
    }
    assert_eq!(stored, 20);
    assert_eq!(text(&pools[0], "memory_count", "{}").await, "20");
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn s51_s52_several_processes_share_a_database() {
    children::share(&schema().await).await;
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn s51_what_a_database_acknowledged_survives_kill_9() {
    let acknowledged = children::survive(&schema().await).await;
    println!("{acknowledged} acknowledged writes, 5 kills, none lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: tests/server.sh"]
async fn many_may_make_the_same_tables_at_once() {
    let url = schema().await;
    let memories: Vec<_> = (0..16)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Memory::connect(&url).await.unwrap() })
        })
        .collect();
    for (number, memory) in memories.into_iter().enumerate() {
        store(&memory.await.unwrap(), &number.to_string(), "", &[]).await;
    }
    let memory = Memory::connect(&url).await.unwrap();
    assert_eq!(text(&memory, "memory_count", "{}").await, "16");
}

/// A connection that the server ended is made again; the call it was ended under may be
/// repeated.
#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn lost_connections_are_made_again() {
    let url = schema().await;
    // By this name other tests' connections are told apart.
    let memory = Memory::connect(&format!("{url}&application_name=lost")).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'lost'";
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    // Another's table: a call waits, is ended while it waits, and says it may be repeated.
    client.batch_execute("BEGIN; LOCK TABLE toolwright_memory").await.unwrap();
    let waiting = {
        let memory = memory.clone();
        tokio::spawn(async move { call(&memory, "memory_retrieve", r#"{"key": "color"}"#).await })
    };
    loop {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND application_name = 'lost'";
        let row = client.query_one(sql, &[]).await.unwrap();
        if row.get::<_, i64>(0) > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    client.batch_execute(others).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Module));
    assert_eq!(error.for_model(), "The tool failed. The reason is not shown to you.");
    client.batch_execute("COMMIT").await.unwrap();
    // One that is idle may be lost too, and nobody notices before it is used.
    let found = loop {
        match call(&memory, "memory_retrieve", r#"{"key": "color"}"#).await {
            Err(error) if error.is_retryable() => {}
            found => break found.unwrap(),
        }
    };
    assert_eq!(found.text(), "blue");
    assert_eq!(metadata(&memory, "color").await.unwrap().access_count, 1);
}

/// Another process stands still in the middle of a change: the others are told, and wait no
/// longer than the server is set to let them.
#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn nobody_waits_for_ever_for_a_lock() {
    let url = schema().await;
    // Making the tables may wait for other tests that do.
    drop(Memory::connect(&url).await.unwrap());
    let memory = Memory::connect(&format!("{url}%20-clock_timeout%3D50ms")).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "BEGIN; SELECT * FROM toolwright_memory_held FOR UPDATE";
    client.batch_execute(lock).await.unwrap();
    let error = call(&memory, "memory_clear", "{}").await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("55P03"), "{error}");
    // Who only reads does not need it.
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("blue"));
    assert_eq!(text(&memory, "memory_count", "{}").await, "1");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(text(&memory, "memory_clear", "{}").await, "Cleared 1 memories");
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn a_newer_form_of_the_tables_is_refused() {
    let url = schema().await;
    drop(Memory::connect(&url).await.unwrap());
    send(&url, "UPDATE toolwright_memory_held SET version = 2").await;
    let error = Memory::connect(&url).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    assert_eq!(
        error.to_string(),
        "the memory in the database was written by a newer version of Toolwright; use that one",
    );
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn who_may_not_make_tables_can_use_them() {
    let url = schema().await;
    let name = url.rsplit("%3D").next().unwrap();
    drop(Memory::connect(&url).await.unwrap());
    let user = format!("{name}_user");
    send(
        &url,
        &format!(
            "CREATE ROLE {user} LOGIN PASSWORD 'hunter2'; GRANT USAGE ON SCHEMA {name} TO {user};
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {user}"
        ),
    )
    .await;
    let at = url.find('@').unwrap();
    let limited = format!("postgres://{user}:hunter2{}", &url[at..]);
    let memory = Memory::connect(&limited).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("blue"));

    // With a wrong password nobody gets in, and nobody is told either of them.
    let wrong = format!("postgres://{user}:hunter3{}", &url[at..]);
    let error = Memory::connect(&wrong).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    let said = format!("{error} {error:#} {error:?} {memory:?}");
    assert!(said.contains("28P01") && !said.contains("hunter"), "{said}");
}

/// These need no server.
#[tokio::test]
async fn no_error_tells_a_password() {
    let none = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        format!("postgres://me:hunter2@{none}/memory?connect_timeout=1"),
        "postgres://me:hunter2@127.0.0.1:port/memory".to_owned(),
        "postgres://me:hunter2%@127.0.0.1/memory".to_owned(),
        "postgres://127.0.0.1/?hunter2=1".to_owned(),
        "host=127.0.0.1 password=a hunter2=1".to_owned(),
        "hunter2".to_owned(),
    ] {
        let error = Memory::connect(&url).await.unwrap_err();
        assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Setup), "{url}");
        let said = format!("{error} {error:#} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn where_a_memory_is_does_not_show() {
    let memory = Memory::connect(&schema().await).await.unwrap();
    let shown = format!("{memory:?} {:?}", MemoryStoreModule::new(&memory));
    assert!(!shown.contains("postgres") && !shown.contains("127.0.0.1"), "{shown}");
}
