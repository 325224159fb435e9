use toolwright::{openai::OpenAi, prelude::*};

/// Say how the weather will be.
#[tool]
fn get_weather(
    /// City name, in English.
    city: &str,
) -> String {
    format!("Rain in {city}.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let agent = Agent::new(OpenAi::from_env("gpt-4.1-mini")?, [GetWeather::tool()?])?;
    println!("{}", agent.run("Does it rain in Oslo?", &Context::default()).await?.answer);
    Ok(())
}
