//! Prints every contract of the toolsets in one provider's shape, as a JSON array.
//!
//! `cargo run -p toolwright-examples --example contracts -- --dialect openai-strict`

use std::error::Error;

use clap::Parser;
use toolwright_examples::{note, say};
use toolwright_memory::Memory;
use toolwright_signature::Dialect;

/// Prints every contract of the toolsets as a JSON array.
#[derive(Parser)]
struct Args {
    /// json-schema, openai-strict, openai-loose, anthropic, gemini or mcp
    #[arg(long, default_value = "json-schema")]
    dialect: Dialect,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let mut tools = Vec::new();
    for tool in Memory::default().tools()? {
        let contract = tool.contract();
        for loss in &contract.lower(args.dialect)?.losses {
            note(&format!("{}: {loss}", contract.name()));
        }
        tools.push(contract.tool(args.dialect)?);
    }
    say(&serde_json::to_string_pretty(&tools)?);
    Ok(())
}
