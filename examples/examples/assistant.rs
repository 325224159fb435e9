//! An assistant with tools: streams its answer and shows every tool call.
//!
//! `cargo run -p toolwright-examples --example assistant -- "Store the key color with
//! value blue, then tell me what you have stored."`
//!
//! Without a prompt it holds a conversation: each line of the input is a task. With `--journal runs`
//! each task is kept in the folder `runs`, and the next start goes on with what was cut off.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use toolwright_cli::{AgentArgs, Input, note, tell, terminated};
use toolwright_module::error::Stage;

/// An assistant with tools, for one prompt or for a conversation.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    agent: AgentArgs,

    /// Keep each task as a run in this folder. A run that was cut off goes on: without a prompt each
    /// one, with a prompt the one with this task. The example `runs` lists them
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Keep the lines of a conversation in this file, as the history for the next one
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    history: Option<PathBuf>,

    /// The task. Default: each line of the input is a task, all in one conversation
    prompt: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let json = args.agent.json;
    let ended = tokio::select! {
        ended = run(args) => ended,
        // This drops the run, which also ends the servers that it started.
        () = terminated() => return ExitCode::from(143),
    };
    ended.unwrap_or_else(|error| {
        if json {
            tell(&json!({"error": {"stage": Stage::Setup, "text": error.to_string()}}));
        } else {
            note(&format!("error: {error}"));
        }
        ExitCode::FAILURE
    })
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let prompt = (!args.prompt.is_empty()).then(|| args.prompt.join(" "));
    let terminal = io::stdin().is_terminal();
    let asks = args.agent.approve || args.journal.is_some();
    let approves = asks && terminal && !args.agent.json;
    let input = match terminal {
        true if prompt.is_none() || approves => Some(Input::terminal(args.history.as_deref())?),
        false if prompt.is_none() => Some(Input::pipe()),
        _ => None,
    };
    let journal = args.journal.as_deref();
    let assistant = args.agent.assistant(prompt.as_deref(), approves, journal).await?;
    let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
    let ended = match (prompt, input) {
        (Some(prompt), input) => assistant.once(prompt, input.as_ref()).await.map(|end| end.code()),
        (None, Some(input)) => assistant.converse(&input).await,
        (None, None) => Ok(ExitCode::SUCCESS),
    };
    assistant.close().await;
    ended
}
