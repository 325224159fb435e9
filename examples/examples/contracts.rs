//! Prints every contract of the toolsets in the form of one provider, as a JSON array. Rules that
//! the provider does not support go to standard error.
//!
//! `cargo run -p toolwright-examples --example contracts -- --dialect openai-strict`

use std::error::Error;

use clap::Parser;
use toolwright_cli::{note, say};
use toolwright_github::GitHub;
use toolwright_memory::Memory;
use toolwright_signature::Dialect;
use toolwright_text::Text;

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
    // The MCP toolset has no contracts of its own.
    let toolsets = [Memory::default().tools()?, Text::default().tools()?, GitHub::new()?.tools()?];
    for tool in toolsets.iter().flatten() {
        let contract = tool.contract();
        for loss in &contract.lower(args.dialect)?.losses {
            note(&format!("{}: {loss}", contract.name()));
        }
        tools.push(contract.tool(args.dialect)?);
    }
    say(&serde_json::to_string_pretty(&tools)?);
    Ok(())
}
