//! The command `contract`: shows contracts, lowers them, and compares two versions of them.
//!
//! `sources` reads contracts from files and servers, `clients` says what MCP clients do with a tool,
//! `versions` compares two lists, `report` writes the comparison for people and programs.

mod clients;
mod report;
mod sources;
mod versions;

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect};

use self::report::Report;
use self::sources::{Source, SourceArgs, Version};
use self::versions::Comparison;
use crate::described;
use crate::show::{note, put, say_theirs, tell, visible};

/// Arguments of the command `contract`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright contract show --tools memory,text --json > contracts.json
  toolwright contract lower --dialect openai-strict contracts.json
  toolwright contract diff contracts.json 'mcp:npx -y @modelcontextprotocol/server-memory'")]
pub(crate) struct ContractArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print contracts: names, descriptions, inputs and outputs
    Show {
        #[command(flatten)]
        source: SourceArgs,

        /// Print the file that `assert_unchanged!` keeps and that `diff` reads
        #[arg(long)]
        json: bool,
    },
    /// Print what a provider gets. Rules that it cannot express go to standard error, and for mcp
    /// what known clients would drop
    Lower {
        /// json-schema, openai-strict, openai-loose, anthropic, gemini or mcp
        #[arg(long, value_name = "NAME")]
        dialect: Dialect,

        #[command(flatten)]
        source: SourceArgs,

        /// Print the output's schema, which a model gets for a predictor or a typed answer
        #[arg(long)]
        output: bool,

        /// Print one object per contract and line, with `name`, `lowered` and `losses`, or `error`;
        /// for mcp also `clients`
        #[arg(long)]
        json: bool,
    },
    /// Compare two versions. The exit code is 1 if the change breaks something, and 2 if a version
    /// cannot be read
    Diff(DiffArgs),
}

#[derive(Args)]
struct DiffArgs {
    /// Old version: a file of contracts, a lock file, `-`, or `mcp:` with a command or a URL
    old: Source,

    /// New version, in the same forms
    new: Source,

    /// Form of the report
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Changes that make the exit code 1
    #[arg(long, value_enum, default_value = "breaking")]
    deny: Deny,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// One object, for programs
    Json,
    /// For the comment of a pull request
    Markdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// Changes that break models, callers or stored runs
    Breaking,
    /// All changes, also those of words
    Any,
}

impl ContractArgs {
    /// Runs the command and returns its exit code.
    ///
    /// # Errors
    ///
    /// If contracts cannot be read, lowered or printed. `diff` prints these errors itself, because
    /// its exit code 1 means something else.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        match self.action {
            Action::Show { source, json } => show(&source.version().await?, json)?,
            Action::Lower { dialect, source, output, json } => {
                return lower(&source.version().await?, dialect, output, json);
            }
            Action::Diff(diff) => {
                return Ok(diff.run().await.unwrap_or_else(|error| {
                    note(&format!("error: {}", visible(&error.to_string())));
                    ExitCode::from(2)
                }));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(version: &Version, json: bool) -> Result<(), Box<dyn Error>> {
    version.note_left_out();
    if json {
        put(&(serde_json::to_string_pretty(&version.contracts)? + "\n"));
        return Ok(());
    }
    for contract in &version.contracts {
        say_theirs(&described::contract(contract));
    }
    Ok(())
}

fn lower(
    version: &Version,
    dialect: Dialect,
    output: bool,
    json: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    version.note_left_out();
    // A tool that was left out cannot be lowered.
    let (mut all, mut refused) = (Vec::new(), !version.left_out.is_empty());
    let clients = match dialect {
        Dialect::Mcp if !output => clients::rules()?,
        _ => Vec::new(),
    };
    for (place, contract) in version.contracts.iter().enumerate() {
        let name = contract.name();
        let dropped = |lowered: &Value| -> Vec<_> {
            clients.iter().filter_map(|rule| rule.refuses(lowered, place)).collect()
        };
        match (lowered(contract, dialect, output), json) {
            (Ok((lowered, losses)), true) => {
                let mut line = json!({"name": name, "lowered": lowered, "losses": losses});
                if !clients.is_empty() {
                    line["clients"] = json!(dropped(&lowered));
                }
                tell(&line);
            }
            (Ok((lowered, losses)), false) => {
                losses.iter().for_each(|loss| {
                    note(&format!("`{}`: {}", visible(name), visible(&loss.text)))
                });
                for client in dropped(&lowered) {
                    note(&format!("`{}`: {}", visible(name), visible(&client.to_string())));
                }
                all.push(lowered);
            }
            (Err(error), true) => {
                refused = true;
                tell(&json!({"name": name, "error": error.to_string()}));
            }
            (Err(error), false) => {
                refused = true;
                note(&format!("error: {}", visible(&error.to_string())));
            }
        }
    }
    if !json {
        put(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A rule that a dialect cannot express.
#[derive(Serialize)]
struct LostRule {
    side: String,
    path: String,
    keyword: String,
    why: String,
    #[serde(skip)]
    text: String,
}

/// Returns the tool of a contract in the form of a provider, or only the schema of its output, with
/// the rules that are lost.
fn lowered(
    contract: &Contract,
    dialect: Dialect,
    output: bool,
) -> Result<(Value, Vec<LostRule>), Box<dyn Error>> {
    let (value, lowered) = if output {
        let lowered = contract.lower_output(dialect)?;
        (serde_json::to_value(&lowered.schema)?, lowered)
    } else {
        (contract.tool(dialect)?, contract.lower(dialect)?)
    };
    let mut losses = lowered.losses.clone();
    // A tool of MCP has both schemas.
    if dialect == Dialect::Mcp && !output && contract.output_to_read().is_some() {
        losses.extend(contract.lower_output(dialect)?.losses.clone());
    }
    let losses = losses.into_iter().map(|loss| LostRule {
        text: loss.to_string(),
        side: loss.side.to_string(),
        path: loss.path,
        keyword: loss.keyword,
        why: loss.why.into_owned(),
    });
    Ok((value, losses.collect()))
}

impl DiffArgs {
    async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        if matches!((&self.old, &self.new), (Source::Stdin, Source::Stdin)) {
            return Err("OLD and NEW are both `-`; standard input has only one version".into());
        }
        let (old, new) = (self.old.version().await?, self.new.version().await?);
        old.note_left_out();
        new.note_left_out();
        let comparison = Comparison::of(&old, &new);
        let format = if self.json { Format::Json } else { self.format };
        let report = Report { old: &old, new: &new, comparison: &comparison };
        match format {
            Format::Text => say_theirs(&report.text()),
            Format::Json => tell(&report.json()),
            Format::Markdown => put(&report.markdown()),
        }
        let denied = match self.deny {
            Deny::Breaking => comparison.breaks_somebody(),
            Deny::Any => !comparison.is_empty(),
        };
        Ok(if denied { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}
