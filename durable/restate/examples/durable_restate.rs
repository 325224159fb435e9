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

#[path = "../../../examples/examples/common/scripted_run.rs"]
mod scripted_run;

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use restate_sdk::prelude::*;
use scripted_run::{EchoModule, Script, approve, die_at, ended, log};
use serde::Deserialize;
use serde_json::Value;
use toolwright_module::{Effect, Tool};
use toolwright_orchestrator::ApprovalPolicy;
use toolwright_restate::{Decide, Events, Restate, Waiting};

/// The input of a run.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Input {
    /// Default: one call and an answer.
    plan: Option<Vec<Value>>,
    /// The effect of the tool. Default: the variable `EFFECT`, or else `read`.
    effect: Option<Effect>,
    /// Whether a person decides on each call, with the handler `decide`.
    asks: bool,
    /// Whether the log has the id of the run, and a line for each record.
    logs_id: bool,
}

struct Agent;

#[restate_sdk::workflow]
impl Agent {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, input: Json<Input>) -> HandlerResult<String> {
        let Input { plan, effect, asks, logs_id } = input.0;
        let effect = effect.unwrap_or_else(scripted_run::effect);
        let plan = plan.map_or_else(scripted_run::plan, Ok).terminal()?;
        let prefix = if logs_id { format!("{}/", ctx.key()) } else { String::new() };
        let tool = Tool::new(EchoModule { effect, prefix: prefix.clone() }).terminal()?;
        let model = Script { plan, prefix: prefix.clone() };
        let mut agent = toolwright_orchestrator::Agent::new(model, [tool]).terminal()?;
        let mut cx = toolwright_module::Context::default();
        if asks {
            agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).terminal()?;
        } else {
            let prefix = prefix.clone();
            cx = cx.with_approver(move |asked| approve(prefix.clone(), asked));
        }
        let restate = Restate {
            listener: Some(Arc::new(move |id, record| {
                let Some(name) = ended(record) else { return };
                die_at("after", &name);
                if logs_id {
                    // A log that cannot be written shows in the test.
                    let _ = log(&format!("after:{id}/{name}"));
                }
            })),
            ..Restate::default()
        };
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
