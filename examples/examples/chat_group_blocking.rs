//! A group of tools over Chat Completions, without `async`: typed context goes in and comes out.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
use common::{Client, GROUP_PROMPT, MODEL, group, show};
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_group::blocking::{Context, Result};

fn main() -> Result<()> {
    let client = Client::new()?;
    let tools = group()?;
    let mut messages = vec![ChatCompletionRequestUserMessage::from(GROUP_PROMPT).into()];
    loop {
        let request = CreateChatCompletionRequestArgs::default()
            .model(MODEL)
            .messages(messages.clone())
            .tools(tools.chat_tools()?)
            .build()?;
        let reply = client.chat(request)?;
        show(&reply);
        let calls = reply.calls();
        if calls.is_empty() {
            return Ok(());
        }
        let outcomes = tools.dispatch(&calls, &100, &Context::default())?;
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
