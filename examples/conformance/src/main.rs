//! Plays the suite. See the documentation of the library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use toolwright_conformance::play;

/// Plays every script on every provider, whole and streamed
#[derive(Parser)]
struct Arguments {
    /// The contract server, a Python program that needs the package `jsonschema`
    #[arg(value_name = "CONTRACT_SERVER.py")]
    server: PathBuf,

    /// Play only the scripts whose name contains this text
    #[arg(default_value = "")]
    filter: String,

    /// Print the Markdown table of what each provider can do
    #[arg(long)]
    table: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { server, filter, table } = Arguments::parse();
    let results = play(&server, &filter, |played| {
        for fault in &played.faults {
            eprintln!("{}, {}: {fault}", played.script, played.provider);
        }
    })
    .await;
    println!("{}", if table { results.to_markdown() } else { results.to_text() });
    let (played, is_clean) = (&results.played, results.is_clean());
    let requests: usize = played.iter().map(|played| played.requests).sum();
    let failed = played.iter().filter(|played| !played.faults.is_empty()).count();
    let slowest = played.iter().max_by_key(|played| played.took);
    let slowest = slowest.map_or(String::new(), |played| {
        format!(", the slowest took {:.1} s ({})", played.took.as_secs_f64(), played.script)
    });
    eprintln!("{} played, {requests} requests checked, {failed} failed{slowest}", played.len());
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
