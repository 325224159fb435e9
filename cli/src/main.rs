//! The command `toolwright`.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use toolwright_cli::runs::RunsArgs;
use toolwright_cli::{AgentArgs, Input, note, terminated};

/// Agents, tools, contracts and runs at a terminal.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Carry out one task
    Run {
        #[command(flatten)]
        agent: Box<AgentArgs>,

        /// The task
        #[arg(required = true)]
        task: Vec<String>,
    },
    /// List, show, resume and delete the runs of a journal, or write one as a page
    Runs(RunsArgs),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = tokio::select! {
        ended = run(Args::parse()) => ended,
        () = terminated() => return ExitCode::from(143),
    };
    ended.unwrap_or_else(|error| {
        note(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    match args.command {
        Command::Runs(runs) => runs.run().await,
        Command::Run { agent, task } => {
            let task = task.join(" ");
            let asks = agent.approve && io::stdin().is_terminal() && !agent.json;
            let input = asks.then(|| Input::terminal(None)).transpose()?;
            let assistant = agent.assistant(Some(&task), asks, None).await?;
            let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
            let end = assistant.once(task, input.as_ref()).await;
            assistant.close().await;
            Ok(end?.code())
        }
    }
}
