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

use std::env;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::approval::{Approval, Decision};

use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Cancellation, Context, Dialect, Effect, LanguageModel, Message, Module, Reply, Request, Result,
    Signature, Tool, ToolCall,
};
use toolwright_orchestrator::ToolOrchestrator;
use toolwright_orchestrator::perform::{OutcomeKind, Record};
use toolwright_postgres::Runs;

const TASK: &str = "Repeat the numbers";

/// Repeat a number.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Echo {
    /// The number.
    i: Value,
}

impl Signature for Echo {
    type Output = Value;
}

/// A tool whose effect is a line in a log.
struct EchoModule(Effect);

impl Module for EchoModule {
    type Signature = Echo;

    async fn call(&self, input: Echo, cx: &Context) -> Result<Value> {
        let id = cx.path().pop().map_or_else(String::new, |call| call.id);
        does(&id).await?;
        Ok(input.i)
    }

    fn effect(&self) -> Effect {
        self.0
    }
}

/// A model whose replies are a script: calls of tools, and an answer.
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
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            let nth = request.messages.iter().filter(replied).count();
            let task = serde_json::to_string(&request.messages)?;
            let id = task.split(TASK).nth(1).and_then(|rest| rest.split(['<', '>']).nth(1));
            let prefix = id.map(|id| format!("{id}/")).unwrap_or_default();
            does(&format!("{prefix}llm-{nth}")).await?;
            let step = self.0.get(nth).unwrap_or(&Value::Null);
            if let Some(answer) = step["Answer"].as_str() {
                return Ok(Reply::text(format!("{prefix}{answer}")));
            }
            let calls = step["Tools"].as_array().into_iter().flatten().map(|call| {
                let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
                let id = format!("{prefix}{}", text("id"));
                ToolCall::new(id, text("tool"), call["args"].to_string())
            });
            Ok(Reply::calls(calls))
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
    let plan: Vec<Value> = match env::var("PLAN") {
        Ok(plan) => serde_json::from_str(&plan)?,
        Err(_) => vec![
            json!({"Tools": [{"id": "a", "tool": "echo", "args": {"i": 1}}]}),
            json!({"Answer": "The number is 1."}),
        ],
    };
    let lease = env::var("LEASE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let lease = Duration::from_millis(lease);
    match count() {
        None => {
            let effect = match env::var("EFFECT").as_deref() {
                Ok("write") => Effect::Write,
                Ok("idempotent") => Effect::Idempotent,
                _ => Effect::Read,
            };
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
    let runs = runs.with_listener(|id, record| {
        if let Some(name) = ended(id, record) {
            die_at("after", &name);
            if count().is_some() {
                // A log that cannot be written shows in the test.
                let _ = log(&format!("after:{name}"));
            }
        }
    });
    let tool = Tool::new(EchoModule(effect))?;
    let agent = ToolOrchestrator::new(Script(plan.into()), [tool])?;
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone()).with_approver(approve);
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

/// Decides on a call that was under way when a worker was killed. Here a program asks a person.
async fn approve(asked: Approval) -> Result<Decision> {
    log(&format!("asked:{}", asked.call.id))?;
    Ok(Decision::CallAgain)
}

/// The effect of a model or a tool: a line in a log, if there is one.
async fn does(name: &str) -> Result<()> {
    die_at("before", name);
    let milliseconds = env::var("STEP_MS").ok().and_then(|text| text.parse().ok());
    tokio::time::sleep(Duration::from_millis(milliseconds.unwrap_or(0))).await;
    log(name)?;
    die_at("effect", name);
    Ok(())
}

fn log(line: &str) -> Result<()> {
    let Ok(path) = env::var("EXEC_LOG") else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    // One write, so that the lines of two calls do not mix.
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

/// The number of runs, if there are many.
fn count() -> Option<usize> {
    env::var("RUNS").ok()?.parse().ok()
}

/// Returns the name of the part whose outcome was just stored.
fn ended(run: &str, record: &Record) -> Option<String> {
    let Record::Ended { key, outcome, .. } = record else { return None };
    match &outcome.kind {
        OutcomeKind::Reply(_) => {
            let names: Vec<String> = serde_json::from_str(key).ok()?;
            let name = format!("llm-{}", names.last()?);
            Some(if count().is_some() { format!("{run}/{name}") } else { name })
        }
        OutcomeKind::Called { result, .. } => Some(result.id.clone()),
        _ => None,
    }
}

/// Kills this program as `kill -9` does, once, if a test asks for it at this moment.
fn die_at(when: &str, name: &str) {
    let (Ok(at), Ok(log)) = (env::var("CRASH_AT"), env::var("EXEC_LOG")) else { return };
    let first = || OpenOptions::new().write(true).create_new(true).open(format!("{log}.crashed"));
    if at != format!("{when}:{name}") || first().is_err() {
        return;
    }
    let killed = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    // The signal arrives while this thread sleeps.
    drop(killed);
    std::thread::sleep(Duration::from_secs(60));
}
