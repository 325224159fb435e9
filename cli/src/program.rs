//! The arguments of the command `toolwright`, and the start and the end of its process.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::chat::ChatArgs;
use crate::contract::ContractArgs;
use crate::eval::EvalArgs;
use crate::keys::without_keys;
use crate::mcp::McpCommandArgs;
use crate::model::NoModel;
use crate::run::{RecordArgs, ReplayArgs, RunArgs};
use crate::runs::RunsArgs;
use crate::serve::ServeArgs;
use crate::show::{advise, note, say, tell, write_error};
use crate::signals::terminated;
use crate::texts::in_our_words;
use crate::tools::ToolsArgs;

/// Agents, tools, contracts and runs at a terminal.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  toolwright run \"Store the key color with value blue, then retrieve it.\"
  toolwright chat --model anthropic:claude-haiku-4-5 --tools files:.
  toolwright tools list --tools text

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 ended at a limit, 4 `eval`: below a threshold,
130 Ctrl-C, 143 SIGTERM."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Carry out one task
    Run(Box<RunArgs>),
    /// Hold a conversation
    Chat(Box<ChatArgs>),
    /// Try an agent in a page of your browser
    Serve(Box<ServeArgs>),
    /// List and call tools
    Tools(ToolsArgs),
    /// Serve tools over MCP, and use the tools of MCP servers
    Mcp(McpCommandArgs),
    /// Show, lower and compare the contracts of tools and predictors
    Contract(ContractArgs),
    /// List, show, resume, cancel and delete the runs of a journal, or write one as a page
    Runs(RunsArgs),
    /// Carry out one task, and record the model's replies in a file
    Record(Box<RecordArgs>),
    /// Replay a recorded run: the replies are recorded, the tools run live
    Replay(Box<ReplayArgs>),
    /// Attempt the cases of a file, grade the attempts, and compare models
    Eval(Box<EvalArgs>),
    /// Print the completions for a shell
    #[command(after_help = "\
Examples:
  toolwright completions bash > ~/.local/share/bash-completion/completions/toolwright
  toolwright completions fish > ~/.config/fish/completions/toolwright.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl Command {
    /// Returns whether errors are printed as JSON.
    fn is_json(&self) -> bool {
        match self {
            Self::Run(args) => args.agent.json,
            Self::Chat(args) => args.agent.json,
            Self::Record(args) => args.run.agent.json,
            Self::Replay(args) => args.agent.json,
            Self::Runs(runs) => runs.is_json(),
            Self::Serve(args) => args.agent.json,
            Self::Eval(args) => args.is_json(),
            Self::Tools(_) | Self::Mcp(_) | Self::Contract(_) | Self::Completions { .. } => false,
        }
    }

    /// Returns whether the command handles Ctrl-C: it may end only a task, or cancel a call.
    fn ends_tasks(&self) -> bool {
        !matches!(self, Self::Contract(_) | Self::Eval(_) | Self::Completions { .. })
    }

    async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        match self {
            Self::Run(args) => args.run().await,
            Self::Chat(args) => args.run().await,
            Self::Serve(args) => args.run().await,
            Self::Tools(args) => args.run().await,
            Self::Mcp(args) => args.run().await,
            Self::Contract(args) => args.run().await,
            Self::Runs(args) => args.run().await,
            Self::Record(args) => args.run().await,
            Self::Replay(args) => args.run().await,
            Self::Eval(args) => args.run().await,
            Self::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Args::command(), "toolwright", &mut script);
                say(String::from_utf8_lossy(&script).trim_end());
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Maximum length of a value that the error of an argument quotes, in bytes.
const LONGEST_SHOWN: usize = 6;

/// Ends the program with the error of its arguments, or with the help that they ask for.
///
/// The error does not quote values: one of them may be a key that was given to the wrong option.
fn wrong_usage(mut error: clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let mut quoted = Vec::new();
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        let Some(ContextValue::String(value)) = error.get(kind) else { continue };
        let is_name = kind == ContextKind::InvalidArg && value.starts_with(['-', '<', '[']);
        // No key is so short, and most mistakes are. No key is the name of such a file.
        let is_harmless = value.len() <= LONGEST_SHOWN || value.ends_with(".json");
        if !is_harmless && !is_name {
            quoted.push(value.clone());
            error.insert(kind, ContextValue::String("…".to_owned()));
        }
    }
    let mut text = error.render().ansi().to_string();
    // The parser of the value may quote it too.
    for value in &quoted {
        text = text.replace(value, "…");
    }
    let _ = write!(anstream::stderr(), "{}", without_keys(&text));
    std::process::exit(error.exit_code());
}

/// The exit code after SIGTERM and SIGHUP.
const TERMINATED: u8 = 143;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The time that a command has to end its servers after such a signal.
const DROP_TIME: Duration = Duration::from_secs(1);

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let Args { command } = Args::try_parse().unwrap_or_else(|error| wrong_usage(error));
    let json = command.is_json();
    let prefix = if matches!(command, Command::Mcp(_)) { "--" } else { "--mcp-" };
    let failed = |error: &(dyn Error + 'static)| {
        let text = in_our_words(&without_keys(&error.to_string()), prefix);
        if json {
            tell(&json!({"error": {"stage": "setup", "text": text}}));
        } else if error.is::<NoModel>() {
            advise(&format!("error: {text}"));
        } else {
            note(&format!("error: {text}"));
        }
        ExitCode::FAILURE
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    // A server ends its calls and runs first.
    let serves = match &command {
        Command::Mcp(mcp) => mcp.serves(),
        command => matches!(command, Command::Serve(_)),
    };
    let ends_tasks = command.ends_tasks();
    let (signal, signalled) = oneshot::channel();
    if !serves {
        runtime.spawn(async move {
            let code = tokio::select! {
                () = terminated() => TERMINATED,
                _ = tokio::signal::ctrl_c(), if !ends_tasks => INTERRUPTED,
            };
            let _ = signal.send(code);
            // The command may be in a blocking read of a pipe, which nothing interrupts.
            tokio::time::sleep(2 * DROP_TIME).await;
            std::process::exit(code.into());
        });
    }
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = command.run() => Ok(ended),
            // This drops the run.
            Ok(code) = signalled => Err(code),
        }
    });
    let ended = match ended {
        Ok(ended) => {
            // A read from a terminal cannot be cancelled.
            runtime.shutdown_background();
            ended
        }
        Err(code) => {
            // This ends the servers that the command started.
            runtime.shutdown_timeout(DROP_TIME);
            Ok(ExitCode::from(code))
        }
    };
    let code = ended.unwrap_or_else(|error| failed(&*error));
    match write_error() {
        None => code,
        Some(error) => {
            note(&format!("error: the output is not complete: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_that_a_rule_names_exists() {
        Args::command().debug_assert();
    }
}
