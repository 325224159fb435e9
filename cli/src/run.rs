//! The command `run`: one task.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use toolwright_module::__files::{self, Link};

use crate::agent::AgentArgs;
use crate::input::Input;
use crate::journal::JournalArgs;
use crate::keys::Keys;
use crate::record::Recorded;
use crate::texts::read_text;

/// Maximum length of a task from standard input, in bytes.
const LONGEST_TASK: u64 = 1 << 20;

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright run \"Store the key color with value blue, then retrieve it.\"
  toolwright run --model anthropic:claude-haiku-4-5 --tools files:. \"What is in this folder?\"
  toolwright run --schema 'name, age int' \"Ada Lovelace was born in 1815 and died in 1852.\"
  toolwright run --mcp 'npx -y @modelcontextprotocol/server-filesystem .' --ask \"Tidy up.\"
  git diff | toolwright run --tools none --system \"Review the change.\" -")]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input
    #[arg(required = true)]
    task: Vec<String>,

    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    journal: JournalArgs,

    /// Begin another run, even if a run of this task was cut off in this folder
    #[arg(long, help_heading = "Journal")]
    new: bool,
}

/// Arguments of `record`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright record color.json \"Store the key color with value blue, then retrieve it.\"
  toolwright replay color.json")]
pub(crate) struct RecordArgs {
    /// The file to write. Known forms of keys are masked, but read it before you publish it
    file: PathBuf,

    /// Overwrite the file
    #[arg(long)]
    force: bool,

    /// The run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `replay`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright replay color.json
  toolwright replay color.json --yes
  toolwright replay listing.json --tools files:.")]
pub(crate) struct ReplayArgs {
    /// A file that `record` wrote
    file: PathBuf,

    /// Make the recorded calls without a question. Default: at a terminal, ask before each call that
    /// does more than read, because the file may be from someone else
    #[arg(long, conflicts_with = "ask")]
    yes: bool,

    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    journal: JournalArgs,
}

impl RunArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or the task cannot be started.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let task = task(self.task)?;
        carry_out(task, self.agent, &self.journal, self.new).await
    }
}

impl RecordArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or the task cannot be started.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let RunArgs { agent, journal, task: words, .. } = self.run;
        check_writable(&self.file, self.force)?;
        // The rest of a run that was cut off would be half a recording.
        carry_out(task(words)?, agent.recording_in(self.file), &journal, true).await
    }
}

impl ReplayArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If the file is not a recording, or the run needs tools that the arguments do not name.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let recorded = Recorded::load(&self.file)?;
        recorded.check_calls(&self.file)?;
        let task = recorded.task();
        if task.is_empty() {
            return Err(format!("{} has no recorded task", self.file.display()).into());
        }
        carry_out(task, self.agent.replaying(recorded, self.yes), &self.journal, true).await
    }
}

/// Checks that a recording can be written, before the replies cost money.
fn check_writable(file: &Path, overwrites: bool) -> Result<(), Box<dyn Error>> {
    if file.exists() && !overwrites {
        return Err(format!("{} exists; --force overwrites it", file.display()).into());
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(format!("there is no folder {}", folder.display()).into());
    }
    let named = |error: io::Error| format!("{}: {error}", file.display());
    let mut options = OpenOptions::new();
    let is_new = !file.exists();
    // A new file is not created through a link that leads to nothing.
    options.append(true).create_new(is_new);
    __files::open(&mut options, file, Link::Refuse).map_err(named)?;
    if is_new {
        fs::remove_file(file)?;
    }
    Ok(())
}

async fn carry_out(
    task: String,
    agent: AgentArgs,
    journal: &JournalArgs,
    anew: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let journal = journal.folder(&agent.config.load()?)?;
    let agent = agent.configured()?;
    // A run in a journal may have calls whose end is not known: the user decides on them.
    let asks = agent.asks() || journal.is_some();
    let approves = asks && io::stdin().is_terminal() && !agent.json;
    let input = approves.then(|| Input::terminal(None, Keys::default())).transpose()?;
    let assistant = agent.assistant(Some(&task), approves, journal.as_deref()).await?;
    let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
    let end = assistant.once(task, anew, input.as_ref()).await;
    assistant.close().await;
    Ok(end?.code())
}

/// Returns the task of the arguments or of standard input.
fn task(words: Vec<String>) -> Result<String, Box<dyn Error>> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let text = read_text(io::stdin().lock(), LONGEST_TASK, "the task of standard input")?;
    match text.trim() {
        "" => Err("standard input has no task".into()),
        text => Ok(text.to_owned()),
    }
}
