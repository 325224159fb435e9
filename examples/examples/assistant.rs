//! An assistant with a memory: streams its answer and shows every tool call.
//!
//! `cargo run -p toolwright-examples --example assistant -- "Store the key color with
//! value blue, then tell me what you have stored."`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use toolwright_examples::{ModelArgs, Screen, note, say, summary};
use toolwright_memory::Memory;
use toolwright_module::testing::Recording;
use toolwright_module::{Cancellation, Context, Ledger, Stage};
use toolwright_orchestrator::{Ending, Limits, ToolOrchestrator};

/// A run with a real model, for when there is none.
const RECORDING: &str = include_str!("../recordings/assistant.json");

/// An assistant with a memory, for one prompt.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// What to do
    #[arg(required = true)]
    prompt: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let prompt = args.prompt.join(" ");
    let recording = Recording::parse(RECORDING, "recordings/assistant.json")?;
    let chosen = args.model.choose(&prompt, recording).await?;
    note(&chosen.line);

    let agent = ToolOrchestrator::new(Arc::clone(&chosen.model), Memory::default().tools()?)?
        .with_limits(Limits::default().with_max_output_tokens(512))
        .with_streaming(!args.model.no_stream);

    let (cancellation, ledger) = (Cancellation::default(), Ledger::default());
    let screen = Screen::default();
    let cx = Context::default()
        .with_cancellation(cancellation.clone())
        .with_ledger(ledger.clone())
        .with_events(move |event| screen.show(event));
    let started = Instant::now();

    let mut running = std::pin::pin!(agent.run(prompt, &cx));
    let finished = tokio::select! {
        finished = &mut running => finished,
        _ = tokio::signal::ctrl_c() => {
            // The run ends where it stands, and says so itself.
            cancellation.cancel();
            running.await
        }
    };
    // However it ended: what was said so far has been paid for.
    if let Some(path) = chosen.save_recording()? {
        note(&format!("recorded in {}", path.display()));
    }
    let cost = summary(ledger.spent(), started.elapsed());
    match finished {
        Ok(finished) => {
            if args.model.no_stream {
                say(&finished.answer);
            }
            if finished.ending != Ending::Answered {
                note(&format!("(the run ended at a limit: {:?})", finished.ending));
            }
            note(&cost);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.stage() == Stage::Cancelled => {
            note(&format!("\ncancelled after {cost}"));
            Ok(ExitCode::from(130))
        }
        Err(error) => Err(format!("{error:#}").into()),
    }
}
