//! The command on the runs of a PostgreSQL database. Without a server, these tests end early.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::{Client, Config, NoTls};
use toolwright_cli::runs::metadata;
use toolwright_journal::{Journal, RunStatus};
use toolwright_memory::Memory;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Reply, ToolCall};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_postgres::Runs;

use crate::command::{PROMPT, Ran, ran, without_times};

/// A schema of its own in the database of a server.
struct Database {
    url: String,
    password: String,
    client: Client,
    schema: String,
}

impl Database {
    async fn new() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let Ok(server) = std::env::var("TOOLWRIGHT_POSTGRES") else {
            assert!(std::env::var("TOOLWRIGHT_POSTGRES_REQUIRED").is_err());
            println!("skipped: set TOOLWRIGHT_POSTGRES, or run durable/postgres/tests/server.sh");
            return None;
        };
        let (process, nth) = (std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let schema = format!("toolwright_cli_{process}_{nth}");
        let url = format!("{server}?options=-csearch_path%3D{schema}");
        let config: Config = url.parse().unwrap();
        let password = String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
        Some(Self { url, password, client, schema })
    }

    /// Runs the command as kate. Nothing that it prints has the password.
    fn runs(&self, arguments: &[&str]) -> Ran {
        let ran = ran(command(&self.url, arguments).env("USER", "kate"));
        assert!(!ran.stdout.contains(&self.password), "{}", ran.stdout);
        assert!(!ran.stderr.contains(&self.password), "{}", ran.stderr);
        ran
    }

    fn fails(&self, arguments: &[&str], text: &str) {
        let ran = self.runs(arguments);
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{arguments:?}: {}", ran.stderr);
    }

    async fn drop(self) {
        self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await.unwrap();
    }
}

fn command(place: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    command.args(["runs", "--journal", place]).args(arguments).stdin(Stdio::null());
    command
}

/// An agent that asks before it clears the memory.
fn agent() -> Agent {
    let clear = ToolCall::new("call_clear", "memory_clear", "{}");
    let replies = [Reply::calls([clear]), Reply::text("Cleared.")];
    let agent = Agent::new(Scripted::replies(replies), Memory::default().tools().unwrap());
    let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
    agent.unwrap().with_approval(policy).unwrap()
}

#[tokio::test]
async fn runs_in_a_database_are_shown_and_decided_as_those_in_a_folder() {
    let Some(database) = Database::new().await else { return };
    database.fails(&["list"], "the database has no runs");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    let tables: i64 = database.client.query_one(tables, &[]).await.unwrap().get(0);
    assert_eq!(tables, 0);

    let cx = Context::default().with_run("clear", metadata(PROMPT));
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    journal.drive(&agent(), "clear", PROMPT, &cx).await.unwrap_err();
    let runs = Runs::connect(&database.url, "greeter").await.unwrap();
    runs.drive(&agent(), "clear", PROMPT, &cx).await.unwrap_err();
    for arguments in [&["list"][..], &["show", "clear"], &["show", "latest"]] {
        let place = folder.path().to_str().unwrap();
        let expected = without_times(&ran(&mut command(place, arguments)).stdout);
        let shown = database.runs(arguments);
        assert_eq!(without_times(&shown.stdout), expected, "{}", shown.stderr);
        assert!(expected.contains("Clear everything"), "{expected}");
    }
    let page = database.runs(&["page", "clear"]).stdout;
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("memory_clear"));

    let shown = database.runs(&["show", "clear"]).stdout;
    let hash = shown.split("--call ").nth(1).unwrap().split(' ').next().unwrap();
    database.fails(&["decide", "latest", "--call", hash, "--approve"], "latest may be another run");
    database.fails(&["decide", "clear", "--approve"], "name the call that you decide on");
    let other = ["decide", "clear", "--call", "236bafedfe70", "--approve"];
    database.fails(&other, "does not wait for the call");
    let edited = ["decide", "clear", "--call", hash, "--edit", "[]"];
    database.fails(&edited, "expected an object");
    database.fails(&["resume", "clear"], "goes on with the program's workers");
    let decided = database.runs(&["decide", "clear", "--call", hash, "--approve"]);
    assert_eq!(decided.code, Some(0), "{}", decided.stderr);
    database
        .fails(&["decide", "clear", "--call", hash, "--approve"], "does not wait for a decision");
    let page = database.runs(&["page", "clear"]).stdout;
    assert!(page.contains("<strong>kate</strong>"));

    assert_eq!(database.runs(&["cancel", "clear"]).code, Some(0));
    assert_eq!(runs.run("clear").await.unwrap().status, RunStatus::Failed);
    database.fails(&["cancel", "clear"], "has ended already");
    assert_eq!(database.runs(&["delete", "clear"]).code, Some(0));
    database.fails(&["list"], "the database has no runs");
    database.drop().await;
}

#[tokio::test]
async fn a_question_of_a_database_that_was_changed_is_not_approved() {
    let Some(database) = Database::new().await else { return };
    let runs = Runs::connect(&database.url, "greeter").await.unwrap();
    runs.drive(&agent(), "clear", PROMPT, &Context::default()).await.unwrap_err();
    let shown = database.runs(&["show", "clear"]).stdout;
    let hash = shown.split("--call ").nth(1).unwrap().split(' ').next().unwrap();
    // The model asked for another call than the question that the person saw.
    let forged = "UPDATE toolwright_records
        SET record = replace(record, '\"name\":\"memory_clear\"', '\"name\":\"memory_delete\"')
        WHERE asks IS NULL AND record LIKE '%call_clear%'";
    assert_eq!(database.client.execute(forged, &[]).await.unwrap(), 1);
    database.fails(&["decide", "clear", "--call", hash, "--approve"], "another call");
    let shown = database.runs(&["show", "clear"]);
    assert!(!shown.stdout.contains("--approve"), "{}", shown.stdout);
    assert!(shown.stdout.contains("another call"), "{}", shown.stdout);
    // The question itself was changed.
    let forged = "UPDATE toolwright_records
        SET record = replace(record, '\"name\":\"memory_clear\"', '\"name\":\"memory_list\"')
        WHERE asks IS NOT NULL";
    assert_eq!(database.client.execute(forged, &[]).await.unwrap(), 1);
    let shown = database.runs(&["show", "clear"]);
    assert!(!shown.stdout.contains("--approve"), "{}", shown.stdout);
    assert!(database.runs(&["list"]).stdout.contains("unreadable"));
    database.drop().await;
}

#[tokio::test]
async fn the_agent_of_a_database_is_named_unless_it_is_the_only_one() {
    let Some(database) = Database::new().await else { return };
    for (name, id) in [("greeter", "hello"), ("clearer", "clear")] {
        let runs = Runs::connect(&database.url, name).await.unwrap();
        runs.start(&agent(), id, PROMPT, &Context::default()).await.unwrap();
    }
    database.fails(&["list"], "choose one with --agent: clearer, greeter");
    database.fails(&["list", "--agent", "nobody"], "no runs of the agent nobody; it has those of");
    let listed = database.runs(&["list", "--agent", "greeter"]);
    assert!(listed.stdout.starts_with("hello  open "), "{}{}", listed.stdout, listed.stderr);
    // Without metadata the task is that of the run.
    assert!(listed.stdout.contains("Clear everything"), "{}", listed.stdout);

    // The password may come from the environment.
    let without = database.url.replacen(&format!(":{}@", database.password), "@", 1);
    let list = ["list", "--agent", "greeter"];
    let listed = ran(command(&without, &list).env("PGPASSWORD", &database.password));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let refused = ran(command(&without, &list).env("PGPASSWORD", "Wrong-One-77"));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("password authentication failed"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("Wrong-One-77"), "{}", refused.stderr);
    database.drop().await;
}

#[test]
fn errors_of_a_database_have_no_password() {
    let folder = tempfile::tempdir().unwrap();
    for (url, text) in [
        ("postgres://kate:Secret-77@127.0.0.1:1/d", "no connection to the database"),
        ("postgresql://kate:Secret-77@127.0.0.1:1/d?sslmode=verify-full", "sslmode=verify-full"),
        ("postgres://kate:Secret-77@127.0.0.1:port/d", "the form"),
        ("mysql://kate:Secret-77@127.0.0.1/d", "postgres://USER@HOST:PORT/DATABASE"),
    ] {
        let ran = ran(command(url, &["list"]).current_dir(folder.path()));
        assert_eq!(ran.code, Some(1), "{url}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{url}: {}", ran.stderr);
        assert!(!ran.stderr.contains("Secret-77"), "{url}: {}", ran.stderr);
    }
    assert_eq!(files(folder.path()), 0);
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}
