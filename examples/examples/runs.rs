//! The runs of a journal: lists and shows them, and resumes or deletes one.
//!
//! ```text
//! cargo run -p toolwright-examples --example runs -- --journal runs list
//! cargo run -p toolwright-examples --example runs -- --journal runs show 20261123-150102-4711-1
//! ```
//!
//! `resume` drives the run with the agent of the example `assistant`.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use toolwright_cli::{AgentArgs, Input, note, runs, say, terminated};
use toolwright_journal::Journal;

/// The runs of a journal.
#[derive(Parser)]
struct Args {
    /// The folder of the journal
    #[arg(long, value_name = "FOLDER")]
    journal: PathBuf,

    #[command(subcommand)]
    does: Does,
}

#[derive(Subcommand)]
enum Does {
    /// List all runs: id, status, time since the last change, first words of the task
    List,
    /// Show a run: its steps with calls and results, what waits, and its cost
    Show {
        /// The id of the run
        id: String,
    },
    /// Go on with a run. At a terminal, it asks for the decisions that the run waits for
    Resume {
        /// The id of the run
        id: String,

        #[command(flatten)]
        agent: Box<AgentArgs>,
    },
    /// Delete a run. Its calls are not undone
    Delete {
        /// The id of the run
        id: String,
    },
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
    if !args.journal.is_dir() {
        return Err(format!("there is no folder {}", args.journal.display()).into());
    }
    let journal = Journal::open(&args.journal)?;
    match args.does {
        Does::List => {
            // Write errors are ignored: closed output is not an error of the journal.
            let _ = write!(io::stdout(), "{}", runs::list(&journal.runs()?));
        }
        Does::Show { id } => {
            let (run, records) = (journal.run(&id)?, journal.records(&id)?);
            say(runs::show(&run, &journal.task(&id)?, &records).trim_end());
        }
        Does::Delete { id } => {
            journal.delete(&id)?;
            note(&format!("deleted {id}"));
        }
        Does::Resume { id, agent } => {
            let asks = io::stdin().is_terminal() && !agent.json;
            let input = asks.then(|| Input::terminal(None)).transpose()?;
            let prompt = runs::text(&journal.task(&id)?);
            let agent = agent.of_run(&journal.run(&id)?)?;
            let assistant = agent.assistant(Some(&prompt), asks, Some(&args.journal)).await?;
            let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
            let end = assistant.resume(&id, input.as_ref()).await;
            assistant.close().await;
            return Ok(end?.code());
        }
    }
    Ok(ExitCode::SUCCESS)
}
