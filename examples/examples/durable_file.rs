//! A run that survives `kill -9`: a journal has every part of it, in a file.
//!
//! Start it, kill it, and start it again with the same file: the run goes on where it was. A call
//! that was under way and that changes something is asked about.
//!
//! ```text
//! cargo run -p toolwright-examples --example durable_file -- runs/letter.journal
//! ```
//!
//! The name of the file is the id of the run. The model is a script, so that the program needs no
//! key. Environment variables make the program kill itself at a chosen moment, or drive many runs
//! at once; a test of durability sets them.

use std::env;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_examples::say;
use toolwright_journal::Journal;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Module, Reply, Request, Result, Signature,
    Tool, ToolCall,
};
use toolwright_orchestrator::ToolOrchestrator;
use toolwright_orchestrator::perform::{OutcomeKind, Record};

/// Repeat a number.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Echo {
    /// The number.
    i: Value,
}

impl Signature for Echo {
    type Output = Value;
}

/// A tool whose effect is a line in a log, which has this text before the id of the call.
struct EchoModule {
    effect: Effect,
    prefix: String,
}

impl Module for EchoModule {
    type Signature = Echo;

    async fn call(&self, input: Echo, cx: &Context) -> Result<Value> {
        let id = cx.path().pop().map_or_else(String::new, |call| call.id);
        does(&self.prefix, &id).await?;
        Ok(input.i)
    }

    fn effect(&self) -> Effect {
        self.effect
    }
}

/// A model whose replies are a script: calls of tools, and an answer.
struct Script {
    plan: Vec<Value>,
    prefix: String,
}

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
            does(&self.prefix, &format!("llm-{nth}")).await?;
            let step = self.plan.get(nth).unwrap_or(&Value::Null);
            if let Some(answer) = step["Answer"].as_str() {
                return Ok(Reply::text(format!("{}{answer}", self.prefix)));
            }
            let calls = step["Tools"].as_array().into_iter().flatten().map(|call| {
                let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
                ToolCall::new(text("id"), text("tool"), call["args"].to_string())
            });
            Ok(Reply::calls(calls))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).or_else(|| env::var("WF").ok());
    let file = PathBuf::from(file.ok_or("give the file of the run, such as runs/letter.journal")?);
    let id = file.file_stem().and_then(|name| name.to_str()).ok_or("the file has no name")?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let plan = match env::var("PLAN") {
        Ok(plan) => serde_json::from_str(&plan)?,
        Err(_) => vec![
            json!({"Tools": [{"id": "a", "tool": "echo", "args": {"i": 1}}]}),
            json!({"Answer": "The number is 1."}),
        ],
    };
    let journal = Journal::open(folder.unwrap_or(Path::new(".")))?;
    match env::var("RUNS").ok().and_then(|count| count.parse().ok()) {
        None => drive_one(journal, id, plan).await,
        Some(count) => drive_many(journal, id, &plan, count).await,
    }
}

async fn drive_one(journal: Journal, id: &str, plan: Vec<Value>) -> Result<(), Box<dyn Error>> {
    let effect = match env::var("EFFECT").as_deref() {
        Ok("write") => Effect::Write,
        Ok("idempotent") => Effect::Idempotent,
        _ => Effect::Read,
    };
    let prefix = String::new();
    let tool = Tool::new(EchoModule { effect, prefix: prefix.clone() })?;
    let agent = ToolOrchestrator::new(Script { plan, prefix }, [tool])?;
    let journal = journal.with_listener(|_, record| {
        if let Some(name) = ended(record) {
            die_at("after", &name);
        }
    });
    let cx = Context::default().with_approver(|asked| approve(String::new(), asked));
    // Only this line differs from a run without a journal.
    let finished = journal.drive(&agent, id, "Repeat the numbers.", &cx).await?;
    say(&serde_json::to_string(&finished.answer)?);
    Ok(())
}

/// Drives runs with each kind of effect at once. The log has a line for each record, too.
async fn drive_many(
    journal: Journal,
    id: &str,
    plan: &[Value],
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let journal = journal.with_listener(|id, record| {
        if let Some(name) = ended(record) {
            // A log that cannot be written shows in the test.
            let _ = log(&format!("after:{id}/{name}"));
        }
    });
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..count {
        let effect = [Effect::Read, Effect::Idempotent, Effect::Write][number % 3];
        let id = format!("{id}-{number}");
        let prefix = format!("{id}/");
        let tool = Tool::new(EchoModule { effect, prefix: prefix.clone() })?;
        let model = Script { plan: plan.to_vec(), prefix: prefix.clone() };
        let agent = ToolOrchestrator::new(model, [tool])?;
        let journal = journal.clone();
        let cx = Context::default().with_approver(move |asked| approve(prefix.clone(), asked));
        runs.spawn(async move {
            let finished = journal.drive(&agent, &id, "Repeat the numbers.", &cx).await?;
            Ok::<_, toolwright_module::Error>((id, finished.answer))
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (id, answer) = ended?.map_err(toolwright_module::Error::into_std)?;
        say(&serde_json::to_string(&(id, answer))?);
    }
    Ok(())
}

/// Decides on a call that was under way when the program was killed. Here a program asks a person.
async fn approve(prefix: String, asked: Approval) -> Result<Decision> {
    log(&format!("asked:{prefix}{}", asked.call.id))?;
    Ok(Decision::CallAgain)
}

/// The effect of a model or a tool: a line in a log, if there is one.
async fn does(prefix: &str, name: &str) -> Result<()> {
    die_at("before", name);
    let milliseconds = env::var("STEP_MS").ok().and_then(|text| text.parse().ok());
    tokio::time::sleep(Duration::from_millis(milliseconds.unwrap_or(0))).await;
    log(&format!("{prefix}{name}"))?;
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

/// Returns the name of the part whose outcome was just stored.
fn ended(record: &Record) -> Option<String> {
    let Record::Ended { key, outcome, .. } = record else { return None };
    match &outcome.kind {
        OutcomeKind::Reply(_) => {
            let names: Vec<String> = serde_json::from_str(key).ok()?;
            Some(format!("llm-{}", names.last()?))
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
