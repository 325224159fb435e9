//! A group of tools over Responses, without `async`: typed context goes in and comes out.

#[path = "common/blocking.rs"]
mod common;

use async_openai::types::responses::{CreateResponseArgs, EasyInputMessage, InputItem};
use common::{Client, GROUP_PROMPT, MODEL, group, show};
use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
use toolwright_group::blocking::{Context, Result};

fn main() -> Result<()> {
    let client = Client::new()?;
    let tools = group()?;
    let mut input = vec![InputItem::from(EasyInputMessage::from(GROUP_PROMPT))];
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
        let outcomes = tools.dispatch(&calls, &100, &Context::default())?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        input.extend(reply.to_input_with(&outcomes));
        for outcome in outcomes {
            match outcome.fail_reason {
                Some(reason) => println!("{reason}: {:.12}", outcome.content),
                None => println!("{:?}: {:.12}", outcome.context, outcome.content),
            }
            input.push(outcome.output_item().into());
        }
    }
}
