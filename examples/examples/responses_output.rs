//! Structured output over Responses: errors go back to the model.

mod common;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::responses::{CreateResponseArgs, EasyInputMessage, InputItem};
use common::{EntitiesResponse, MODEL, OUTPUT_PROMPT, StrictEntitiesResponse, show};
use serde::de::DeserializeOwned;
use toolwright_group::Definition;
use toolwright_group::async_openai::{DefinitionExt, ReplyExt};
use toolwright_module::{Error, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new();
    let plain = Definition::output::<EntitiesResponse>()?;
    let entities: EntitiesResponse = extract(&client, &plain).await?;
    println!("{entities:?}");
    let strict = Definition::output::<StrictEntitiesResponse>()?.with_strict(true);
    let entities: StrictEntitiesResponse = extract(&client, &strict).await?;
    println!("{entities:?}");
    Ok(())
}

/// Asks until the reply is valid, at most three times.
async fn extract<T: DeserializeOwned>(
    client: &Client<OpenAIConfig>,
    format: &Definition,
) -> Result<T> {
    let mut input = vec![InputItem::from(EasyInputMessage::from(OUTPUT_PROMPT))];
    for _ in 0..3 {
        let request = CreateResponseArgs::default()
            .model(MODEL)
            .input(input.clone())
            .text(format.text_format()?)
            .build()?;
        let reply = client.responses().create(request).await?;
        show(&reply);
        input.extend(reply.to_input());
        match format.read(&reply.text().unwrap_or_default()) {
            Ok(entities) => return Ok(entities),
            Err(error) => {
                let message = error.for_model().into_owned();
                println!("to the model: {message}");
                input.push(EasyInputMessage::from(message).into());
            }
        }
    }
    Err(Error::other("no reply is valid"))
}
