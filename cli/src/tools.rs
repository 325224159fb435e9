//! The command `tools`: the tools of toolsets and servers, and their calls.

use std::error::Error as StdError;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use futures_util::future::join_all;
use serde_json::json;
use toolwright_mcp::McpClient;
use toolwright_module::error::Audience;
use toolwright_module::message::Part;
use toolwright_module::untrusted::inside;
use toolwright_module::{Context, Dialect, Error, Result, Tool};

use crate::config::ConfigArgs;
use crate::described;
use crate::servers::McpArgs;
use crate::show::{note, say_below, say_theirs, tell};
use crate::signals::until_ctrl_c;
use crate::texts::in_our_words;
use crate::toolbox::ToolArgs;

/// Arguments of `tools`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright tools list --tools text
  toolwright tools list --tools memory,files:. --json
  toolwright tools call text_wc '{\"text\": \"one two\"}' --tools text
  toolwright tools call file_list --tools files:.")]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the tools with their effects, descriptions and arguments
    List {
        #[command(flatten)]
        from: From,

        /// Print each tool's definition, as MCP has it, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result; after a failure the exit code is 1
    Call {
        #[command(flatten)]
        from: From,

        #[command(flatten)]
        call: CallArgs,
    },
}

/// Where the tools come from.
#[derive(Args)]
struct From {
    #[command(flatten)]
    tools: ToolArgs,

    #[command(flatten)]
    mcp: McpArgs,

    #[command(flatten)]
    config: ConfigArgs,
}

/// A call on the command line.
#[derive(Args)]
pub(crate) struct CallArgs {
    /// The tool
    pub(crate) name: String,
    /// Its arguments, as a JSON object
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// Print an object with `text`, `value` and `parts`
    #[arg(long)]
    pub(crate) json: bool,
}

impl ToolsArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If a toolset or a server cannot be used, or the call fails.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn StdError>> {
        let (Action::List { from, .. } | Action::Call { from, .. }) = &self.action;
        let done = until_ctrl_c(async |cx| {
            let (tools, servers) = from.tools().await?;
            let done = match &self.action {
                Action::List { json, .. } => list(&tools, *json),
                Action::Call { call, .. } => call.make(&tools, cx).await,
            };
            join_all(servers.into_iter().map(McpClient::close)).await;
            Ok::<_, Box<dyn StdError>>(done)
        });
        match done.await {
            Some(done) => ended(done?, "--mcp-"),
            None => Ok(ExitCode::from(130)),
        }
    }
}

impl From {
    async fn tools(&self) -> Result<(Vec<Tool>, Vec<McpClient>), Box<dyn StdError>> {
        let config = self.config.load()?;
        let mut tools = self.tools.clone().or(&config.tools)?.tools(None).await?;
        let servers = self.mcp.clone().or(&config);
        let servers = servers.connect(&mut tools, None).await?;
        Ok((tools, servers))
    }
}

/// Returns the exit code. Prints the error of a call. `prefix` is that of [`in_our_words`].
pub(crate) fn ended(done: Result<()>, prefix: &str) -> Result<ExitCode, Box<dyn StdError>> {
    let Err(error) = done else { return Ok(ExitCode::SUCCESS) };
    // Stage and raw text of an error for the model say nothing more to the user.
    let whole = matches!(error.audience(), Audience::ModelMayRetry | Audience::ModelFinal);
    let text = if whole { format!("error: {error}") } else { format!("error: {error:#}") };
    note(&in_our_words(&text, prefix));
    Ok(ExitCode::FAILURE)
}

fn list(tools: &[Tool], json: bool) -> Result<()> {
    for tool in tools {
        if json {
            tell(&tool.contract().tool(Dialect::Mcp)?);
        } else {
            say_below(tool.name(), &described::tool(tool, ""));
        }
    }
    Ok(())
}

impl CallArgs {
    /// Calls the tool, and prints its result.
    pub(crate) async fn make(&self, tools: &[Tool], cx: &Context) -> Result<()> {
        let Some(tool) = tools.iter().find(|tool| tool.name() == self.name) else {
            let there: Vec<&str> = tools.iter().map(Tool::name).collect();
            let there = there.join(", ");
            return Err(Error::other(format!(
                "there is no tool `{}`; there are: {there}{}",
                self.name,
                ToolArgs::advice(&self.name)
            )));
        };
        let output = cx.until_cancelled(tool.call(&self.arguments, cx)).await?;
        // The marks of untrusted text are for models.
        let text = inside(&output.text).filter(|_| output.untrusted).unwrap_or(&output.text);
        if self.json {
            // An integer with more than 64 bits is in the text only. The tool has worked all the same.
            let value = output.value().unwrap_or_default();
            tell(&json!({"text": text, "value": value, "parts": output.parts}));
            return Ok(());
        }
        if !text.is_empty() {
            say_theirs(text);
        }
        for source in output.parts.iter().filter_map(Part::source) {
            note(&match (source.media_type(), source.to_url()) {
                (Some(kind), _) => {
                    format!("(the result has a file of type {kind}; --json prints it)")
                }
                (None, Some(url)) => format!("(the result has a file at {url})"),
                (None, None) => {
                    "(the result has a file of a provider; --json prints it)".to_owned()
                }
            });
        }
        Ok(())
    }
}
