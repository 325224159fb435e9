//! The command `chat`: a conversation.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::agent::AgentArgs;
use crate::folders;
use crate::input::Input;
use crate::journal::{JournalArgs, create_private};

/// Arguments of `chat`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright chat --model ollama:llama3.2 --tools memory:notes.db
  toolwright chat --continue

Each line is a task. Ctrl-C ends a task, Ctrl-D the conversation.
The lines are kept in a file, except those with a key in them.")]
pub(crate) struct ChatArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    journal: JournalArgs,

    /// Go on with the last conversation of this folder. A task that was cut off is finished first
    #[arg(long = "continue", help_heading = "Journal")]
    continues: bool,

    /// Keep the lines in this file, as the history for the next conversation. Default:
    /// toolwright/history in $XDG_DATA_HOME or ~/.local/share
    #[arg(long, value_name = "FILE", help_heading = "Journal")]
    history: Option<PathBuf>,

    /// Keep no lines
    #[arg(long, conflicts_with = "history", help_heading = "Journal")]
    no_history: bool,
}

impl ChatArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or a task cannot be started.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let config = self.agent.config.load()?;
        let journal = self.journal.folder(&config)?;
        let agent = self.agent.configured()?;
        let terminal = io::stdin().is_terminal();
        let input = if terminal {
            let named = self.history.or(config.history.map(folders::expanded));
            let history = match named {
                _ if self.no_history => None,
                Some(file) => Some(file),
                None => folders::data("history"),
            };
            if let Some(folder) = history.as_deref().and_then(|file| file.parent()) {
                create_private(folder)?;
            }
            Input::terminal(history.as_deref(), agent.model.keys()?)?
        } else {
            Input::pipe()
        };
        let asks = agent.asks() || journal.is_some();
        let approves = asks && terminal && !agent.json;
        let assistant = agent.assistant(None, approves, journal.as_deref()).await?;
        let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
        let code = assistant.converse(self.continues, &input).await;
        assistant.close().await;
        code
    }
}
