//! A group of tools over Chat Completions: typed context goes in and comes out.

mod common;

use async_openai::Client;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
use common::{GROUP_PROMPT, MODEL, group, show};
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_module::{Context, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new();
    let tools = group()?;
    let mut messages = vec![ChatCompletionRequestUserMessage::from(GROUP_PROMPT).into()];
    loop {
        let request = CreateChatCompletionRequestArgs::default()
            .model(MODEL)
            .messages(messages.clone())
            .tools(tools.chat_tools()?)
            .build()?;
        let reply = client.chat().create(request).await?;
        show(&reply);
        let calls = reply.calls();
        if calls.is_empty() {
            return Ok(());
        }
        let outcomes = tools.dispatch(&calls, &100, &Context::default()).await;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        messages.extend(reply.to_input_with(&outcomes));
        for outcome in outcomes {
            match outcome.fail_reason {
                Some(reason) => println!("{reason}: {:.12}", outcome.content),
                None => println!("{:?}: {:.12}", outcome.context, outcome.content),
            }
            messages.push(outcome.tool_message());
        }
    }
}
