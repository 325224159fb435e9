//! A worker whose runs survive `kill -9`: a database has every part of them.
//!
//! Start it, kill it, and start it again, or start two and kill one: the run goes on when the lease
//! of the dead worker has ended. A call that was under way and that changes something is asked about.
//!
//! ```text
//! export TOOLWRIGHT_POSTGRES=postgres://user:password@127.0.0.1/database
//! cargo run -p toolwright-postgres --example durable_postgres -- letter
//! ```
//!
//! The argument is the id of the run. The model is a script, so that the program needs no key.
//! Environment variables make the program kill itself at a chosen moment, or start many runs; tests
//! of durability set them.

#[path = "../../../examples/examples/common/scripted_run.rs"]
mod scripted_run;

use std::env;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scripted_run::{EchoModule, approve, die_at, effect, ended, log, plan, reply};
use serde_json::{Value, json};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Cancellation, Context, Dialect, Effect, LanguageModel, Reply, Request, Result, Tool,
};
use toolwright_orchestrator::Agent;
use toolwright_postgres::{Options, Runs};

const TASK: &str = "Repeat the numbers";

/// A model whose replies are a script. It serves many runs, so the names of a run's parts begin with
/// the id that stands in the task.
struct Script(Arc<[Value]>);

impl LanguageModel for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let task = serde_json::to_string(&request.messages)?;
            let id = task.split(TASK).nth(1).and_then(|rest| rest.split(['<', '>']).nth(1));
            let prefix = id.map(|id| format!("{id}/")).unwrap_or_default();
            reply(&self.0, request, &prefix, &prefix).await
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let id = env::args().nth(1).or_else(|| env::var("WF").ok());
    let id = id.ok_or("give the id of the run, such as letter")?;
    // A test gives the name of a file.
    let id = Path::new(&id).file_stem().and_then(|id| id.to_str()).ok_or("the id is no text")?;
    let url = env::var("TOOLWRIGHT_POSTGRES").map_err(|_| "set TOOLWRIGHT_POSTGRES to a URL")?;
    let plan = plan()?;
    let lease = env::var("LEASE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let lease = Duration::from_millis(lease);
    match count() {
        None => {
            let effect = effect();
            let runs = Runs::connect(&url, &format!("letters {effect:?}")).await?.with_lease(lease);
            let task = format!("{TASK}.");
            work(runs, effect, &plan, vec![(id.to_owned(), task)]).await
        }
        Some(count) => {
            // Workers for three agents, in one process.
            let effects = [Effect::Read, Effect::Idempotent, Effect::Write];
            let mut all = Vec::new();
            for effect in effects {
                all.push(Runs::connect(&url, &format!("{effect:?}")).await?.with_lease(lease));
            }
            let mut workers = tokio::task::JoinSet::new();
            for (place, (effect, runs)) in effects.into_iter().zip(all).enumerate() {
                let ids = (place..count).step_by(3).map(|number| format!("{id}-{number}"));
                let tasks = ids.map(|id| (id.clone(), format!("{TASK} of <{id}>."))).collect();
                let plan = plan.clone();
                workers.spawn(async move {
                    let worked = work(runs, effect, &plan, tasks).await;
                    worked.map_err(|error| error.to_string())
                });
            }
            while let Some(worked) = workers.join_next().await {
                worked??;
            }
            Ok(())
        }
    }
}

/// Starts runs, works until all of them have finished, and prints their answers.
async fn work(
    runs: Runs,
    effect: Effect,
    plan: &[Value],
    tasks: Vec<(String, String)>,
) -> Result<(), Box<dyn Error>> {
    let runs = runs.with_options(Options {
        listener: Some(Arc::new(|id, _, record| {
            let Some(mut name) = ended(record) else { return };
            die_at("after", &name);
            if count().is_some() {
                // The ids of calls have the id of the run already.
                if name.starts_with("llm-") {
                    name = format!("{id}/{name}");
                }
                // A log that cannot be written shows in the test.
                let _ = log(&format!("after:{name}"));
            }
        })),
        ..Options::default()
    });
    let tool = Tool::new(EchoModule { effect, prefix: String::new() })?;
    let agent = Agent::new(Script(plan.into()), [tool])?;
    let cancellation = Cancellation::default();
    let cx = Context::default()
        .with_cancellation(cancellation.clone())
        .with_approver(|asked| approve(String::new(), asked));
    for (id, task) in &tasks {
        // If the database is away, nobody knows whether the run was started. To start it again
        // changes nothing.
        let mut tries = 0;
        while let Err(error) = runs.start(&agent, id, task.as_str(), &cx).await {
            tries += 1;
            if tries == 1_000 || count().is_none() {
                return Err(error.into_std().into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let ends = async {
        let mut answers = Vec::new();
        for (id, _) in &tasks {
            loop {
                // While the database restarts, it is asked again.
                if let Ok(Some(finished)) = runs.finished::<String>(id).await {
                    answers.push((id.clone(), finished.answer));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        cancellation.cancel();
        answers
    };
    let (answers, ()) = tokio::join!(ends, runs.work(&agent, 32, &cx));
    for (id, answer) in answers {
        let line = if count().is_none() { json!(answer) } else { json!([id, answer]) };
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

/// The number of runs, if there are many.
fn count() -> Option<usize> {
    env::var("RUNS").ok()?.parse().ok()
}
