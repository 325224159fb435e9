//! Databases, agents and counters that the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, NoTls};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::ToolOrchestrator;
use toolwright_postgres::{Runs, RunsError};

/// The variable with the URL of a server.
pub(crate) const VARIABLE: &str = "TOOLWRIGHT_POSTGRES";

/// The task of most runs.
pub(crate) const TASK: &str = "Tidy up.";

/// A schema of its own in the database of the variable. It is dropped with this value.
pub(crate) struct Database {
    server: String,
    schema: String,
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

/// Look at a place.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Look {
    /// Where to look.
    pub(crate) place: String,
}

impl Signature for Look {
    type Output = String;
}

/// What really happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct World(Arc<[AtomicUsize; 4]>);

/// The number of questions, reads, writes and approvals.
pub(crate) type Counts = [usize; 4];

impl World {
    pub(crate) fn counts(&self) -> Counts {
        [0, 1, 2, 3].map(|what| self.0[what].load(Ordering::SeqCst))
    }

    pub(crate) fn add(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a model whose reply depends on the conversation, and not on how often it was asked.
    pub(crate) fn model<const N: usize>(&self, said: [Reply; N]) -> impl LanguageModel + use<N> {
        let world = self.clone();
        Scripted::new(move |request: &Request| {
            world.add(0);
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            Ok(said[request.messages.iter().filter(replied).count()].clone())
        })
    }

    /// Returns a tool that reads.
    pub(crate) fn look(&self) -> Tool {
        self.look_for(Duration::ZERO)
    }

    /// Returns a tool that reads for a while.
    pub(crate) fn look_for(&self, time: Duration) -> Tool {
        let world = self.clone();
        tool("look", Effect::Read, move |look| {
            world.add(1);
            async move {
                tokio::time::sleep(time).await;
                Ok(format!("{} is empty", look.place))
            }
        })
    }

    /// Returns a tool that writes.
    pub(crate) fn tidy(&self) -> Tool {
        let world = self.clone();
        tool("tidy", Effect::Write, move |look| {
            world.add(2);
            async move { Ok(format!("{} is tidy", look.place)) }
        })
    }

    /// Returns an agent with these tools that reads once and writes once.
    pub(crate) fn agent(&self, tools: [Tool; 2]) -> ToolOrchestrator {
        let said = [
            calls([("a", "look", "the hall")]),
            calls([("b", "tidy", "the hall")]),
            Reply::text("Done."),
        ];
        ToolOrchestrator::new(self.model(said), tools).unwrap()
    }

    /// Returns an agent that reads once and writes once.
    pub(crate) fn small(&self) -> ToolOrchestrator {
        self.agent([self.look(), self.tidy()])
    }

    /// Returns an agent with three reads side by side, two agents below side by side that read and
    /// write, and a write.
    pub(crate) fn house(&self) -> ToolOrchestrator {
        let below = |name: &str| {
            let said = [
                calls([("x", "look", name)]),
                calls([("y", "tidy", name)]),
                Reply::text(format!("The {name} is done.")),
            ];
            let agent =
                ToolOrchestrator::new(self.model(said), [self.look(), self.tidy()]).unwrap();
            // As one that reads, so that both run side by side.
            Tool::new(agent).unwrap().with_effect(Effect::Read).named(name).unwrap()
        };
        let task = |id: &str, name: &str| ToolCall::new(id, name, r#"{"task": "Do it."}"#);
        let said = [
            calls([("a", "look", "1"), ("b", "look", "2"), ("c", "look", "3")]),
            Reply::calls([task("h", "hall"), task("k", "kitchen")]),
            calls([("d", "tidy", "the rest")]),
            Reply::text("Done."),
        ];
        let tools = [self.look(), self.tidy(), below("hall"), below("kitchen")];
        ToolOrchestrator::new(self.model(said), tools).unwrap()
    }

    /// Returns a context whose approver lets calls be made again.
    pub(crate) fn cx(&self) -> Context {
        let world = self.clone();
        Context::default().with_approver(move |asked: Approval| {
            world.add(3);
            async move {
                assert!(asked.unknown);
                Ok(Decision::CallAgain)
            }
        })
    }
}

pub(crate) fn tool<F, Fut>(name: &str, effect: Effect, work: F) -> Tool
where
    F: Fn(Look) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    Tool::new(from_fn(work).with_effect(effect)).unwrap().named(name).unwrap()
}

pub(crate) fn calls<const N: usize>(calls: [(&str, &str, &str); N]) -> Reply {
    let call = |(id, name, place): (&str, &str, &str)| {
        ToolCall::new(id, name, serde_json::json!({ "place": place }).to_string())
    };
    Reply::calls(calls.map(call))
}

/// Returns the error of the runs in the error of a drive.
pub(crate) fn runs_error(error: &Error) -> &RunsError {
    error.downcast_ref().unwrap_or_else(|| panic!("{error:#}"))
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not happen");
}
