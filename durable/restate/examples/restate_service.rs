#![allow(missing_docs, reason = "the macro of the SDK makes clients without docs")]

use std::time::Duration;

use restate_sdk::prelude::*;
use toolwright_module::testing::Scripted;
use toolwright_module::{Effect, Reply};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Finished};
use toolwright_restate::{Decide, Events, Restate, Waiting};

struct Assistant {
    agent: Agent,
    restate: Restate,
}

#[restate_sdk::workflow]
impl Assistant {
    /// The id of the workflow is the id of the run.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, task: String) -> HandlerResult<Json<Finished>> {
        let cx = toolwright_module::Context::default();
        Ok(Json(self.restate.drive(&ctx, &self.agent, task, &cx).await?))
    }

    /// The calls that wait for a person.
    #[handler]
    async fn waiting(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Vec<Waiting>>> {
        Ok(Json(toolwright_restate::waiting(&ctx).await?))
    }

    /// A person's decision on one of them.
    #[handler]
    async fn decide(&self, ctx: SharedWorkflowContext<'_>, it: Json<Decide>) -> HandlerResult<()> {
        toolwright_restate::decide(&ctx, it.0).await
    }

    /// The events from a place on.
    #[handler]
    async fn events(
        &self,
        ctx: SharedWorkflowContext<'_>,
        from: u64,
    ) -> HandlerResult<Json<Events>> {
        Ok(Json(toolwright_restate::events(&ctx, from).await?))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The agent is the same as without Restate. This one has a model without a network.
    let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Done."))), [])?
        .with_approval(ApprovalPolicy::from_effect(Effect::Irreversible))?;
    let assistant = Assistant { agent, restate: Restate::default() };
    // No request to the model and no call takes longer than ten minutes.
    let options = toolwright_restate::options(Duration::from_secs(600));
    let service = assistant.into_service_definition().options(options);
    HttpServer::new(Endpoint::builder().bind(service).build())
        .listen_and_serve("127.0.0.1:9080".parse()?)
        .await;
    Ok(())
}
