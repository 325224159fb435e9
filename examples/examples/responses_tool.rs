//! One tool over Responses, until the model stops calling it.

mod common;

use async_openai::Client;
use async_openai::types::responses::{CreateResponseArgs, EasyInputMessage, InputItem};
use common::{MODEL, SayHello, TOOL_PROMPT, show};
use toolwright_group::ToolGroup;
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_module::{Context, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new();
    let tools = ToolGroup::new().handler::<SayHello>()?;
    let mut input = vec![InputItem::from(EasyInputMessage::from(TOOL_PROMPT))];
    loop {
        let request = CreateResponseArgs::default()
            .model(MODEL)
            .input(input.clone())
            .tools(tools.responses_tools()?)
            .build()?;
        let reply = client.responses().create(request).await?;
        show(&reply);
        let calls = reply.calls();
        if calls.is_empty() {
            return Ok(());
        }
        input.extend(reply.to_input());
        for outcome in tools.dispatch(&calls, &(), &Context::default()).await {
            let outcome = outcome?;
            println!("to the model: {}", outcome.content);
            input.push(outcome.output_item().into());
        }
    }
}
