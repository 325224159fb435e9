//! Structured output over Responses, without `async`: errors go back to the model.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::responses::{CreateResponseArgs, EasyInputMessage, InputItem};
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
    let mut input = vec![InputItem::from(EasyInputMessage::from(OUTPUT_PROMPT))];
    for _ in 0..3 {
        let request = CreateResponseArgs::default()
            .model(MODEL)
            .input(input.clone())
            .text(format.text_format()?)
            .build()?;
        let reply = client.respond(request)?;
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
