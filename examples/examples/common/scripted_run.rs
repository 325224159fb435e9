//! What the programs about durable runs share: a model that is a script, a tool whose effect is a
//! line in a log, and a program that kills itself at the moment that a test names.
//!
//! | variable | meaning |
//! |---|---|
//! | `PLAN` | the script: JSON with the calls of each reply, and the answer |
//! | `EFFECT` | the declared effect of the tool: `read`, `idempotent` or `write` |
//! | `EXEC_LOG` | the log |
//! | `STEP_MS` | how long each effect takes |
//! | `CRASH_AT` | `before:NAME`, `effect:NAME` or `after:NAME` |

#![allow(dead_code, reason = "no program needs all of it")]

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Module, Reply, Request, Result, Signature,
    ToolCall,
};
use toolwright_orchestrator::perform::{OutcomeKind, PartIdKind, Record};

/// Repeat a number.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Echo {
    /// The number.
    i: Value,
}

impl Signature for Echo {
    type Output = Value;
}

/// A tool whose effect is a line in a log, which has this text before the id of the call.
pub(crate) struct EchoModule {
    pub(crate) effect: Effect,
    pub(crate) prefix: String,
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

/// A model whose replies are a script: calls of tools, and an answer. The names in the log and the
/// answer begin with this prefix.
pub(crate) struct Script {
    pub(crate) plan: Vec<Value>,
    pub(crate) prefix: String,
}

impl LanguageModel for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(reply(&self.plan, request, &self.prefix, ""))
    }
}

/// Returns the next reply of a script. `before_ids` is put before the ids of its calls.
pub(crate) async fn reply(
    plan: &[Value],
    request: &Request,
    prefix: &str,
    before_ids: &str,
) -> Result<Reply> {
    let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
    let nth = request.messages.iter().filter(replied).count();
    does(prefix, &format!("llm-{nth}")).await?;
    let step = plan.get(nth).unwrap_or(&Value::Null);
    if let Some(answer) = step["Answer"].as_str() {
        return Ok(Reply::text(format!("{prefix}{answer}")));
    }
    let calls = step["Tools"].as_array().into_iter().flatten().map(|call| {
        let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let id = format!("{before_ids}{}", text("id"));
        ToolCall::new(id, text("tool"), call["args"].to_string())
    });
    Ok(Reply::calls(calls))
}

/// Returns the script of `PLAN`, or one with a call and an answer.
pub(crate) fn plan() -> serde_json::Result<Vec<Value>> {
    match env::var("PLAN") {
        Ok(plan) => serde_json::from_str(&plan),
        Err(_) => Ok(vec![
            json!({"Tools": [{"id": "a", "tool": "echo", "args": {"i": 1}}]}),
            json!({"Answer": "The number is 1."}),
        ]),
    }
}

/// Returns the effect of `EFFECT`.
pub(crate) fn effect() -> Effect {
    match env::var("EFFECT").as_deref() {
        Ok("write") => Effect::Write,
        Ok("idempotent") => Effect::Idempotent,
        _ => Effect::Read,
    }
}

/// Decides on a call that was under way when the program was killed. Here a program asks a person.
pub(crate) async fn approve(prefix: String, asked: Approval) -> Result<Decision> {
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

pub(crate) fn log(line: &str) -> Result<()> {
    let Ok(path) = env::var("EXEC_LOG") else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    // One write, so that the lines of two calls do not mix.
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

/// Returns the name of the part whose outcome was just stored.
pub(crate) fn ended(record: &Record) -> Option<String> {
    let Record::Ended { part, outcome, .. } = record else { return None };
    match &outcome.kind {
        OutcomeKind::Reply(_) => match part.kind {
            PartIdKind::Ask { nth, .. } => Some(format!("llm-{nth}")),
            _ => None,
        },
        OutcomeKind::Called { result, .. } => Some(result.id.clone()),
        _ => None,
    }
}

/// Kills this program as `kill -9` does, once, if a test asks for it at this moment.
pub(crate) fn die_at(when: &str, name: &str) {
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
