//! One tool over Chat Completions, without `async`, until the model stops calling it.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
use common::{Client, MODEL, SayHello, TOOL_PROMPT, show};
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_group::blocking::{Context, Result, ToolGroup};

fn main() -> Result<()> {
    let client = Client::new()?;
    let tools = ToolGroup::new().handler::<SayHello>()?;
    let mut messages = vec![ChatCompletionRequestUserMessage::from(TOOL_PROMPT).into()];
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
        messages.extend(reply.to_input());
        for outcome in tools.dispatch(&calls, &(), &Context::default())? {
            let outcome = outcome?;
            println!("to the model: {}", outcome.content);
            messages.push(outcome.tool_message());
        }
    }
}
