//! The cost of a database: a run of five steps with and without it, and many runs at once.
//!
//! `COMMAND="cargo bench -p toolwright-postgres" durable/postgres/tests/server.sh`
//!
//! The model and the tool cost nothing, so the rest is the loop and the database. The floor is one
//! inserted row in the same database, in a transaction of its own.

// A benchmark may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Cancellation, Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Result,
    Signature, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::Agent;
use toolwright_postgres::Runs;

const STEPS: usize = 5;
const ROUNDS: usize = 15;
/// Runs in a turn.
const RUNS: usize = 20;
const AT_ONCE: usize = 64;

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// A model that costs nothing: it asks for a sum in each step but the last.
struct Adds;

impl LanguageModel for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        let nth = request.messages.iter().filter(replied).count();
        let reply = if nth < STEPS {
            Reply::calls([ToolCall::new(format!("{nth}"), "add", r#"{"a": 2, "b": 3}"#)])
        } else {
            Reply::text("Done.")
        };
        Box::pin(async move { Ok(reply) })
    }
}

fn agent(effect: Effect) -> Agent {
    let add = from_fn(async |add: Add| Ok(add.a + add.b)).with_effect(effect);
    Agent::new(Adds, [Tool::new(add).unwrap()]).unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let Ok(url) = std::env::var("TOOLWRIGHT_POSTGRES") else {
        println!("skipped: set TOOLWRIGHT_POSTGRES to the URL of a server");
        return;
    };
    let name = format!("bench {}", std::process::id());
    let runs = Runs::connect(&url, &name).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE IF NOT EXISTS bench_floor (record text)").await.unwrap();
    let insert = client.prepare("INSERT INTO bench_floor VALUES ($1)").await.unwrap();
    let (record, cx) = ("r".repeat(300), Context::default());
    let (mut floors, mut plain) = (Vec::new(), Vec::new());
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut next = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..RUNS {
            client.execute(&insert, &[&record]).await.unwrap();
        }
        floors.push(began.elapsed() / u32::try_from(RUNS).unwrap());
        let agents = [agent(Effect::Read), agent(Effect::Write)];
        let began = Instant::now();
        for _ in 0..RUNS {
            agents[0].run("Add.", &cx).await.unwrap();
        }
        plain.push(began.elapsed() / u32::try_from(RUNS).unwrap());
        for (agent, times) in agents.iter().zip([&mut reads, &mut writes]) {
            let began = Instant::now();
            for _ in 0..RUNS {
                next += 1;
                runs.drive(agent, &format!("run {next}"), "Add.", &cx).await.unwrap();
            }
            times.push(began.elapsed() / u32::try_from(RUNS).unwrap());
        }
    }
    let (floor, plain, read, write) =
        (median(floors), median(plain), median(reads), median(writes));
    println!("{STEPS} steps without a database: {plain:.1?}");
    let ratio = |time: Duration| time.as_secs_f64() / floor.as_secs_f64();
    println!("one inserted row (floor): {floor:.1?}");
    println!("{STEPS} steps, calls that read: {read:.1?}, {:.1} floors", ratio(read));
    println!("{STEPS} steps, calls that write: {write:.1?}, {:.1} floors", ratio(write));

    for effect in [Effect::Read, Effect::Write] {
        let id = format!("counted {effect:?}");
        runs.drive(&agent(effect), &id, "Add.", &cx).await.unwrap();
        // Each statement is a transaction, and appends records.
        let sql = "SELECT count(DISTINCT toolwright_records.xmin::text), count(*)
            FROM toolwright_records JOIN toolwright_runs ON run = number
            WHERE agent = $1 AND id = $2";
        let row = client.query_one(sql, &[&name, &id]).await.unwrap();
        let (statements, records): (i64, i64) = (row.get(0), row.get(1));
        println!("{STEPS} steps, {effect:?}: {statements} statements, {records} records");
    }

    let began = Instant::now();
    let mut drives = JoinSet::new();
    for number in 0..AT_ONCE * 8 {
        let (runs, agent) = (runs.clone(), agent(Effect::Read));
        drives.spawn(async move {
            let id = format!("at once {number}");
            runs.drive(&agent, &id, "Add.", &Context::default()).await.unwrap();
        });
    }
    drives.join_all().await;
    let each = began.elapsed() / u32::try_from(AT_ONCE * 8).unwrap();
    println!("{} runs at once: {each:.1?} for each", AT_ONCE * 8);

    let agent = agent(Effect::Read);
    for number in 0..AT_ONCE * 8 {
        runs.start(&agent, &format!("queued {number}"), "Add.", &cx).await.unwrap();
    }
    let cancellation = Cancellation::default();
    let worker = cx.clone().with_cancellation(cancellation.clone());
    let began = Instant::now();
    let ends = async {
        let sql = "SELECT count(*) FROM toolwright_runs WHERE agent = $1 AND status = 'open'";
        while client.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let each = began.elapsed() / u32::try_from(AT_ONCE * 8).unwrap();
        println!("a worker with {AT_ONCE} runs at a time: {each:.1?} for each");
        cancellation.cancel();
    };
    tokio::join!(ends, runs.work(&agent, AT_ONCE, &worker));
    let began = Instant::now();
    let listed = runs.runs().await.unwrap().len();
    println!("listing {listed} runs: {:.1?}", began.elapsed());
}
