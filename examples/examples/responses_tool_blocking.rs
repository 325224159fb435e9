//! One tool over Responses, without `async`, until the model stops calling it.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::responses::{CreateResponseArgs, EasyInputMessage, InputItem};
use common::{Client, MODEL, SayHello, TOOL_PROMPT, show};
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_group::blocking::{Context, Result, ToolGroup};

fn main() -> Result<()> {
    let client = Client::new()?;
    let tools = ToolGroup::new().handler::<SayHello>()?;
    let mut input = vec![InputItem::from(EasyInputMessage::from(TOOL_PROMPT))];
    loop {
        let request = CreateResponseArgs::default()
            .model(MODEL)
            .input(input.clone())
            .tools(tools.responses_tools()?)
            .build()?;
        let reply = client.respond(request)?;
        show(&reply);
        let calls = reply.calls();
        if calls.is_empty() {
            return Ok(());
        }
        input.extend(reply.to_input());
        for outcome in tools.dispatch(&calls, &(), &Context::default())? {
            let outcome = outcome?;
            println!("to the model: {}", outcome.content);
            input.push(outcome.output_item().into());
        }
    }
}
