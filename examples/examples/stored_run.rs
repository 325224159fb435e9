//! A run that survives `kill -9`: every part of it is a row in a table of SQLite.
//!
//! Start it, kill it, and start it again with the same file: the run goes on where it was. A call
//! that was under way and that changes something is asked about.
//!
//! ```text
//! cargo run -p toolwright-examples --example stored_run -- run.db
//! ```
//!
//! The model is a script, so that the program needs no key. Environment variables make the
//! program kill itself at a chosen moment; a test of durability sets them.

use std::env;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_examples::say;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Module, Reply, Request, Result, Signature,
    Tool, ToolCall,
};
use toolwright_orchestrator::ToolOrchestrator;
use toolwright_orchestrator::perform::{Append, Open, OutcomeKind, Record, Replay, with_performer};

/// The table of records. A row is on disk when its transaction has ended.
struct Table(Mutex<Connection>);

impl Table {
    fn open(path: &str) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch("CREATE TABLE IF NOT EXISTS records (record TEXT NOT NULL)")?;
        Ok(Self(Mutex::new(db)))
    }

    fn records(&self) -> Result<Vec<Record>, Box<dyn Error>> {
        let db = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = db.prepare("SELECT record FROM records ORDER BY rowid")?;
        let texts = rows.query_map((), |row| row.get::<_, String>(0))?;
        texts.map(|text| Ok(serde_json::from_str(&text?)?)).collect()
    }
}

impl Append for Table {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            let text = serde_json::to_string(record)?;
            let db = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            db.execute("INSERT INTO records (record) VALUES (?1)", [text])?;
            drop(db);
            if let Some(name) = ended(record) {
                die_at("after", &name);
            }
            Ok(())
        })
    }
}

/// Repeat a number.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Echo {
    /// The number.
    i: Value,
}

impl Signature for Echo {
    type Output = Value;
}

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
struct Script(Vec<Value>);

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
            does(&format!("llm-{nth}")).await?;
            let step = self.0.get(nth).unwrap_or(&Value::Null);
            if let Some(answer) = step["Answer"].as_str() {
                return Ok(Reply::text(answer));
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
    let table = Table::open(&file.ok_or("give the file of the run, such as run.db")?)?;
    let effect = match env::var("EFFECT").as_deref() {
        Ok("write") => Effect::Write,
        Ok("idempotent") => Effect::Idempotent,
        _ => Effect::Read,
    };
    let plan = match env::var("PLAN") {
        Ok(plan) => serde_json::from_str(&plan)?,
        Err(_) => vec![
            json!({"Tools": [{"id": "a", "tool": "echo", "args": {"i": 1}}]}),
            json!({"Answer": "The number is 1."}),
        ],
    };
    let agent = ToolOrchestrator::new(Script(plan), [Tool::new(EchoModule(effect))?])?;

    // The outcomes so far come from the table, and new ones go to it. The rest is as without it.
    let replay = Replay::new(table.records()?, table);
    let cx = with_performer(&Context::default(), replay).with_approver(approve);
    let finished = agent.run("Repeat the numbers.", &cx).await?;
    say(&serde_json::to_string(&finished.answer)?);
    Ok(())
}

/// Decides on a call that was under way when the program was killed. Here a program asks a person.
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
