//! Structured output over Chat Completions, without `async`: errors go back to the model.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
use common::{Client, EntitiesResponse, MODEL, OUTPUT_PROMPT, StrictEntitiesResponse, show};
use serde::de::DeserializeOwned;
use toolwright_group::async_openai::{DefinitionExt, ReplyExt};
use toolwright_group::blocking::{Definition, Error, Result};

fn main() -> Result<()> {
    let client = Client::new()?;
    let plain = Definition::output::<EntitiesResponse>()?;
    let entities: EntitiesResponse = extract(&client, &plain)?;
    println!("{entities:?}");
    let strict = Definition::output::<StrictEntitiesResponse>()?.with_strict(true);
    let entities: StrictEntitiesResponse = extract(&client, &strict)?;
    println!("{entities:?}");
    Ok(())
}

/// Asks until the reply is valid, at most three times.
fn extract<T: DeserializeOwned>(client: &Client, format: &Definition) -> Result<T> {
    let mut messages = vec![ChatCompletionRequestUserMessage::from(OUTPUT_PROMPT).into()];
    for _ in 0..3 {
        let request = CreateChatCompletionRequestArgs::default()
            .model(MODEL)
            .messages(messages.clone())
            .response_format(format.response_format()?)
            .build()?;
        let reply = client.chat(request)?;
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
