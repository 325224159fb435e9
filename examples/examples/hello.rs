//! An agent with one tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Signature, Tool, from_fn};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::ToolOrchestrator;

/// Say how the weather will be.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetWeather {
    /// City name, in English.
    city: String,
    /// Days from today.
    days: u8,
}

impl Signature for GetWeather {
    type Output = String;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> toolwright_module::Result<()> {
    let get_weather = from_fn(async |GetWeather { city, days }: GetWeather| {
        Ok(format!("Rain in {city} in {days} days."))
    });
    let tools = [Tool::new(get_weather)?];
    let agent = ToolOrchestrator::new(OpenAi::from_env("gpt-4.1-mini")?, tools)?;
    let finished = agent.run("Do I need an umbrella in Oslo?", &Context::default()).await?;
    println!("{}", finished.answer);
    Ok(())
}
