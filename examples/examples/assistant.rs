//! An assistant with a memory: each line of the input is a task, all in one conversation. The model's
//! text is streamed, and every call is shown.
//!
//! `OPENAI_API_KEY=… cargo run -p toolwright-examples --example assistant`
//!
//! The command `toolwright chat` is this with a choice of models and tools, a journal, approvals and
//! line editing.

use std::io::{self, Write};

use toolwright::agent::Task;
use toolwright::memory::Memory;
use toolwright::module::event::{Event, EventKind};
use toolwright::{openai::OpenAi, prelude::*};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let agent = Agent::new(OpenAi::from_env("gpt-4.1-mini")?, Memory::default().tools()?)?;
    let cx = Context::default().with_events(show);
    let mut said = Vec::new();
    for line in io::stdin().lines() {
        let task = Task::new(line?).with_history(said);
        said = agent.run(task, &cx).await?.history;
    }
    Ok(())
}

fn show(event: &Event) {
    match &event.kind {
        EventKind::TextDelta { text } => {
            print!("{text}");
            // Write errors are ignored: closed output is not a reason to end the run.
            let _ = io::stdout().flush();
        }
        EventKind::ToolStarted { call } => eprintln!("-> {} {}", call.name, call.arguments),
        EventKind::ToolFinished { call, text, .. } => eprintln!("<- {} {text}", call.name),
        EventKind::Done { .. } => println!(),
        _ => {}
    }
}
