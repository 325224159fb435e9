//! Tests of the store in a database. `tests/server.sh` starts a server and runs them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::NoTls;
use toolwright_memory::{Memory, MemoryLimits};
use toolwright_module::error::{Audience, Stage};

use crate::store::{children, runtime, suite};
use crate::support::{call, metadata, retrieve, store, text};

const URL: &str = "MEMORY_TEST_URL";

fn url() -> String {
    std::env::var(URL).unwrap_or_else(|_| panic!("{URL} is not set; run tests/server.sh"))
}

/// Sends `sql` on a new connection.
async fn send(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Creates a schema for one test and returns its URL.
async fn schema() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("memory_{}_{number}", std::process::id());
    send(&url(), &format!("CREATE SCHEMA {name}")).await;
    format!("{}?options=-csearch_path%3D{name}", url())
}

#[test]
#[ignore = "needs a server: tests/server.sh"]
fn a_database_passes_the_suite() {
    let runtime = runtime();
    suite::pass(&runtime, || {
        runtime.block_on(async { Memory::connect(&schema().await).await.unwrap() })
    });
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn two_memories_of_one_schema_share_entries_and_others_do_not() {
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
async fn limits_hold_for_two_connection_pools() {
    let url = schema().await;
    let limits = MemoryLimits { entries: 20, ..MemoryLimits::default() };
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
async fn several_processes_share_a_database() {
    children::share(&schema().await).await;
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn acknowledged_changes_in_a_database_survive_kill_9() {
    let acknowledged = children::survive(&schema().await).await;
    println!("{acknowledged} acknowledged writes, 5 kills, 0 lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: tests/server.sh"]
async fn many_tasks_can_create_the_same_tables() {
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

/// After the server ends a connection, the next call opens a new one. The interrupted call is
/// retryable.
#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn a_lost_connection_is_opened_again() {
    let url = schema().await;
    // The name distinguishes this test's connections.
    let memory = Memory::connect(&format!("{url}&application_name=lost")).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'lost'";
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    // The table is locked, so the call waits and is ended while it waits.
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
    // A lost idle connection is noticed only at its next use.
    let found = loop {
        match call(&memory, "memory_retrieve", r#"{"key": "color"}"#).await {
            Err(error) if error.is_retryable() => {}
            found => break found.unwrap(),
        }
    };
    assert_eq!(found.text, "blue");
    assert_eq!(metadata(&memory, "color").await.unwrap().access_count, 1);
}

/// If another process holds the lock, a change fails after the server's lock timeout.
#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn waiting_for_a_lock_has_a_timeout() {
    let url = schema().await;
    // The tables are created first, because that may wait for other tests.
    drop(Memory::connect(&url).await.unwrap());
    let memory = Memory::connect(&format!("{url}%20-clock_timeout%3D50ms")).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "BEGIN; SELECT * FROM toolwright_memory_held FOR UPDATE";
    client.batch_execute(lock).await.unwrap();
    let error = call(&memory, "memory_clear", "{}").await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("55P03"), "{error}");
    // Reads do not need the lock.
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("blue"));
    assert_eq!(text(&memory, "memory_count", "{}").await, "1");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(text(&memory, "memory_clear", "{}").await, "Cleared 1 memories");
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn tables_of_a_newer_version_are_rejected() {
    let url = schema().await;
    drop(Memory::connect(&url).await.unwrap());
    send(&url, "UPDATE toolwright_memory_held SET version = 2").await;
    let error = Memory::connect(&url).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    assert_eq!(
        error.to_string(),
        "the memory in the database was written by a newer version of Toolwright; use that version",
    );
}

#[tokio::test]
#[ignore = "needs a server: tests/server.sh"]
async fn a_user_who_cannot_create_tables_can_use_existing_ones() {
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

    // A wrong password is rejected, and the error contains no password.
    let wrong = format!("postgres://{user}:hunter3{}", &url[at..]);
    let error = Memory::connect(&wrong).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    let said = format!("{error} {error:#} {error:?} {memory:?}");
    assert!(said.contains("28P01") && !said.contains("hunter"), "{said}");
}

/// This test needs no server.
#[tokio::test]
async fn no_error_contains_a_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        format!("postgres://me:hunter2@{closed}/memory?connect_timeout=1"),
        "postgres://me:hunter2@127.0.0.1:port/memory".to_owned(),
        "postgres://me:hunter2%@127.0.0.1/memory".to_owned(),
        "postgres://127.0.0.1/?color=hunter2".to_owned(),
        "postgres://me:a?hunter2=1@127.0.0.1/memory".to_owned(),
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
async fn debug_output_hides_the_path_or_url() {
    let memory = Memory::connect(&schema().await).await.unwrap();
    let shown = format!("{memory:?}");
    assert!(!shown.contains("postgres") && !shown.contains("127.0.0.1"), "{shown}");
}
