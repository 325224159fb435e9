//! Structured output over Chat Completions: errors go back to the model.

mod common;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
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
    let mut messages = vec![ChatCompletionRequestUserMessage::from(OUTPUT_PROMPT).into()];
    for _ in 0..3 {
        let request = CreateChatCompletionRequestArgs::default()
            .model(MODEL)
            .messages(messages.clone())
            .response_format(format.response_format()?)
            .build()?;
        let reply = client.chat().create(request).await?;
        show(&reply);
        messages.extend(reply.to_input());
        match format.read(&reply.text().unwrap_or_default()) {
            Ok(entities) => return Ok(entities),
            Err(error) => {
                let message = error.for_model().into_owned();
                println!("to the model: {message}");
                messages.push(ChatCompletionRequestUserMessage::from(message).into());
            }
        }
    }
    Err(Error::other("no reply is valid"))
}
