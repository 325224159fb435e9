//! An agent on a provider of its own. `small.rs` is the provider, `server.rs` the API.

mod server;
mod small;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Signature, Tool, from_fn};
use toolwright_orchestrator::Agent;
use toolwright_provider::{Connection, Kept};

/// Say how the weather is.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetWeather {
    city: String,
}

impl Signature for GetWeather {
    type Output = String;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A key is a header of the endpoint: `.with_endpoint(|endpoint| endpoint.with_bearer(…))`.
    let connection = Connection::at(&server::start().await?)?;
    let model = small::Small { connection, written: Kept::default() };
    let get_weather = from_fn(async |ask: GetWeather| Ok(format!("Rain in {}.", ask.city)));
    let agent = Agent::new(model, [Tool::new(get_weather)?])?;
    // With a listener, replies are streamed.
    let contexts = [Context::default(), Context::default().with_events(|_| {})];
    for (context, how) in contexts.iter().zip(["whole", "streamed"]) {
        let finished = agent.run("How is the weather in Oslo?", context).await?;
        println!("{how}: {}", finished.answer);
    }
    Ok(())
}
