//! A workflow of Restate whose runs survive `kill -9`: each part of a run is a step.
//!
//! Start a Restate server and this program, register it, and start a run. Kill the program or the
//! server, and start it again: the run goes on where it was.
//!
//! ```text
//! cargo run -p toolwright-restate --example durable_restate
//! curl localhost:9070/deployments --json '{"uri": "http://localhost:9080"}'
//! curl localhost:8080/Agent/letter-1/run --json '{"effect": "write"}'
//! ```
//!
//! The model is a script, so that the program needs no key. Environment variables make the program
//! kill itself at a chosen moment; a test of durability sets them.

#![allow(missing_docs, reason = "the macro of the SDK makes clients without docs")]

use std::env;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use restate_sdk::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Dialect, Effect, LanguageModel, Message, Module, Reply, Request, Signature, Tool, ToolCall,
};
use toolwright_orchestrator::perform::{OutcomeKind, Record};
use toolwright_orchestrator::{ApprovalPolicy, ToolOrchestrator};
use toolwright_restate::{Decide, Events, Restate, Waiting};

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

    async fn call(
        &self,
        input: Echo,
        cx: &toolwright_module::Context,
    ) -> toolwright_module::Result<Value> {
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

    fn generate<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, toolwright_module::Result<Reply>> {
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

/// The input of a run.
#[derive(Deserialize)]
#[serde(default)]
struct Input {
    plan: Vec<Value>,
    /// The effect of the tool. Default: the variable `EFFECT`, or else `read`.
    effect: Option<Effect>,
    /// Whether a person decides on each call, with the handler `decide`.
    asks: bool,
    /// Whether the log has the id of the run, and a line for each record.
    logs_id: bool,
}

impl Default for Input {
    fn default() -> Self {
        let call = json!({"id": "a", "tool": "echo", "args": {"i": 1}});
        let plan = vec![json!({"Tools": [call]}), json!({"Answer": "The number is 1."})];
        Self { plan, effect: None, asks: false, logs_id: false }
    }
}

struct Agent;

#[restate_sdk::workflow]
impl Agent {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, input: Json<Input>) -> HandlerResult<String> {
        let Input { plan, effect, asks, logs_id } = input.0;
        let effect = effect.unwrap_or(match env::var("EFFECT").as_deref() {
            Ok("write") => Effect::Write,
            Ok("idempotent") => Effect::Idempotent,
            _ => Effect::Read,
        });
        let prefix = if logs_id { format!("{}/", ctx.key()) } else { String::new() };
        let tool = Tool::new(EchoModule { effect, prefix: prefix.clone() }).terminal()?;
        let model = Script { plan, prefix: prefix.clone() };
        let mut agent = ToolOrchestrator::new(model, [tool]).terminal()?;
        let mut cx = toolwright_module::Context::default();
        if asks {
            agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).terminal()?;
        } else {
            let prefix = prefix.clone();
            cx = cx.with_approver(move |asked| approve(prefix.clone(), asked));
        }
        let restate = Restate::default().with_listener(move |id, record| {
            let Some(name) = ended(record) else { return };
            die_at("after", &name);
            if logs_id {
                // A log that cannot be written shows in the test.
                let _ = log(&format!("after:{id}/{name}"));
            }
        });
        // Only this line differs from a run without Restate.
        let finished = restate.drive(&ctx, &agent, "Repeat the numbers.", &cx).await;
        die_at("after", "run");
        Ok(finished?.answer)
    }

    #[handler]
    async fn waiting(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Vec<Waiting>>> {
        Ok(Json(toolwright_restate::waiting(&ctx).await?))
    }

    #[handler]
    async fn decide(
        &self,
        ctx: SharedWorkflowContext<'_>,
        decide: Json<Decide>,
    ) -> HandlerResult<()> {
        toolwright_restate::decide(&ctx, decide.0).await
    }

    #[handler]
    async fn events(
        &self,
        ctx: SharedWorkflowContext<'_>,
        after: u64,
    ) -> HandlerResult<Json<Events>> {
        Ok(Json(toolwright_restate::events(&ctx, after).await?))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = env::var("PORT").ok().map_or(Ok(9080), |port| port.parse())?;
    // Short, because the program is killed often. A real one keeps Restate's own intervals.
    let options = toolwright_restate::options(Duration::from_secs(600))
        .retry_policy_initial_interval(Duration::from_millis(20))
        .retry_policy_max_interval(Duration::from_millis(200))
        .retry_policy_max_attempts(1_000_000);
    let endpoint =
        Endpoint::builder().bind(Agent.into_service_definition().options(options)).build();
    HttpServer::new(endpoint).listen_and_serve((Ipv4Addr::LOCALHOST, port).into()).await;
    Ok(())
}

/// Decides on a call that was under way when the program was killed. Here a program asks a person.
async fn approve(prefix: String, asked: Approval) -> toolwright_module::Result<Decision> {
    log(&format!("asked:{prefix}{}", asked.call.id))?;
    Ok(Decision::CallAgain)
}

/// The effect of a model or a tool: a line in a log, if there is one.
async fn does(prefix: &str, name: &str) -> toolwright_module::Result<()> {
    die_at("before", name);
    let milliseconds = env::var("STEP_MS").ok().and_then(|text| text.parse().ok());
    tokio::time::sleep(Duration::from_millis(milliseconds.unwrap_or(0))).await;
    log(&format!("{prefix}{name}"))?;
    die_at("effect", name);
    Ok(())
}

fn log(line: &str) -> toolwright_module::Result<()> {
    let Ok(path) = env::var("EXEC_LOG") else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    // One write, so that the lines of two calls do not mix.
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

/// Returns the name of the part whose outcome was just recorded.
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
