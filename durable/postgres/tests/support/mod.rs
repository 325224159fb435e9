//! Databases that the tests share, and the [`World`] of all homes.

#[path = "../../../journal/tests/support/endless.rs"]
pub(crate) mod endless;
#[path = "../../../journal/tests/support/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};
use toolwright_module::Error;
use toolwright_postgres::{Runs, RunsError};

pub(crate) use self::world::*;

/// The variable with the URL of a server.
pub(crate) const VARIABLE: &str = "TOOLWRIGHT_POSTGRES";

/// A schema of its own in the database of the variable. It is dropped with this value.
pub(crate) struct Database {
    server: String,
    pub(crate) schema: String,
    pub(crate) url: String,
}

/// Returns a new schema. If no server is named, it is `None`, and the test ends early.
pub(crate) async fn database() -> Option<Database> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let Ok(server) = std::env::var(VARIABLE) else {
        assert!(std::env::var("TOOLWRIGHT_POSTGRES_REQUIRED").is_err(), "{VARIABLE} is not set");
        println!("skipped: set {VARIABLE} to the URL of a server, or run tests/server.sh");
        return None;
    };
    let count = COUNT.fetch_add(1, Ordering::SeqCst);
    let schema = format!("toolwright_test_{}_{count}", std::process::id());
    let and = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{and}options=-csearch_path%3D{schema}");
    let database = Database { server, schema, url };
    database
        .client()
        .await
        .batch_execute(&format!("CREATE SCHEMA {}", database.schema))
        .await
        .unwrap();
    Some(database)
}

impl Database {
    pub(crate) async fn runs(&self) -> Runs {
        Runs::connect(&self.url, "agent").await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap();
    }

    /// Ends the leases of all runs, as if their workers were dead.
    pub(crate) async fn end_leases(&self) {
        let past = "UPDATE toolwright_runs SET free_at = clock_timestamp() - interval '1 s'
            WHERE worker IS NOT NULL";
        self.execute(past).await;
    }

    /// Makes the run as it was when it had its first records only, and its worker had died.
    pub(crate) async fn cut(&self, records: usize) {
        self.execute(&format!(
            "DELETE FROM toolwright_records WHERE nth >= {records};
            UPDATE toolwright_runs SET records = {records}, status = 'open', ending = NULL,
                worker = 'dead', free_at = clock_timestamp() - interval '1 s', losses = 0"
        ))
        .await;
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client().await.query_one(sql, &[]).await.unwrap().get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, sql) = (self.server.clone(), format!("DROP SCHEMA {} CASCADE", self.schema));
        // On a thread of its own, because the test has a runtime here.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
                tokio::spawn(connection);
                let dropped = client.batch_execute(&sql);
                let _ = tokio::time::timeout(Duration::from_secs(10), dropped).await;
            });
        });
        let _ = dropped.join();
    }
}

/// Returns the error of the runs in the error of a drive.
pub(crate) fn runs_error(error: &Error) -> &RunsError {
    error.downcast_ref().unwrap_or_else(|| panic!("{error:#}"))
}

/// Waits until something holds. The time is far beyond that of any work on a busy machine.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..12_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not happen");
}

/// The longest time by which a timer of this process was late, which shows how busy the machine is.
/// A limit of a test has to be that much longer.
pub(crate) struct Lateness {
    longest: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Lateness {
    pub(crate) fn measure() -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let late = Arc::clone(&longest);
        let task = tokio::spawn(async move {
            const TICK: Duration = Duration::from_millis(10);
            loop {
                let began = Instant::now();
                tokio::time::sleep(TICK).await;
                let by = began.elapsed().saturating_sub(TICK).as_millis();
                late.fetch_max(u64::try_from(by).unwrap(), Ordering::SeqCst);
            }
        });
        Self { longest, task }
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::SeqCst))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.task.abort();
    }
}
