//! The runs of a journal: the command `runs`, and the texts and the page that it shows.

mod decide;
mod follow;
mod home;
mod page;
mod text;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
pub(crate) use toolwright_journal::__page::TASK;
use toolwright_journal::__page::{first_words, task_of, text_of};
use toolwright_journal::{Journal, JournalError, RunStatus, RunSummary};

pub(crate) use self::decide::user;
pub(crate) use self::home::Home;
pub use self::page::page;
pub use self::text::{list, show};
use crate::agent::AgentArgs;
use crate::config::ConfigArgs;
use crate::folders;
use crate::input::Input;
use crate::keys::{Keys, without_keys};
use crate::show::{note, put, quoted, say};

/// Stands for the id of the run that changed last.
const LATEST: &str = "latest";

/// Maximum number of characters of a task in the metadata and in a list.
const LONGEST_TASK: usize = 60;

/// Arguments of the command `runs`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright runs list
  toolwright runs list --status waiting --metadata tenant=acme
  toolwright runs show latest
  toolwright runs resume 20261123-150102-4711-1 --model anthropic:claude-haiku-4-5
  toolwright runs decide 20261123-150102-4711-1 --call 5f1c09a2b7de --approve
  toolwright runs page latest --output run.html
  toolwright runs list --journal postgres://user@127.0.0.1/letters --agent greeter")]
pub(crate) struct RunsArgs {
    /// The folder of the journal, or the URL of a PostgreSQL database with the runs of your program.
    /// Give its password in PGPASSWORD. Default: toolwright/runs in $XDG_DATA_HOME or ~/.local/share
    #[arg(long, value_name = "FOLDER|URL", global = true)]
    journal: Option<PathBuf>,

    /// The agent whose runs in the database these are. It can be left out if there is only one
    #[arg(long = "agent", value_name = "NAME", global = true)]
    of_agent: Option<String>,

    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the runs: id, status, time since the last change, cost, first words of
    /// the task
    List {
        /// List only the runs with this status
        #[arg(long, value_name = "STATUS", value_parser = text::STATUSES)]
        status: Option<String>,

        /// List only the runs with this metadata. It can be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = metadata_of)]
        metadata: Vec<(String, String)>,
    },
    /// Show a run: its steps with calls and results, what waits, and its cost
    Show {
        /// The id of the run, or latest: the one that changed last
        id: String,
    },
    /// Go on with a run of this command. At a terminal, it asks for the decisions that the run waits for
    ///
    /// The run keeps its toolsets, instructions and form of the answer. Name folders, files and servers
    /// again with --tools and --mcp.
    Resume {
        /// The id of the run, or latest: the one that changed last
        id: String,

        #[command(flatten)]
        agent: Box<AgentArgs>,
    },
    /// Decide on a call that the run waits for, without going on with the run
    ///
    /// `runs show` prints the command for each call that waits. A decision names its run and its call,
    /// so that it holds for what you saw: latest may be another run by now, and can only deny.
    ///
    /// The program that started the run goes on when it drives it again. A run of `toolwright run` goes
    /// on with `toolwright runs resume`.
    Decide {
        /// The id of the run, or latest: the one that changed last
        id: String,

        #[command(flatten)]
        decision: decide::DecideArgs,
    },
    /// End a run that is open or waits, so that no program continues it automatically
    ///
    /// Its calls are not undone. In a database, this also ends a run that a worker drives; in a folder,
    /// end its program instead.
    Cancel {
        /// The id of the run
        id: String,
    },
    /// Delete a run. Its calls are not undone
    Delete {
        /// The id of the run
        id: String,
    },
    /// Write a run as one HTML file, which needs no server and no network
    Page {
        /// The id of the run, or latest: the one that changed last
        id: String,

        /// Write to this file. Default: standard output
        #[arg(short, long, value_name = "FILE", required_if_eq("follow", "true"))]
        output: Option<PathBuf>,

        /// Write the file again each time the run goes on, until the run ends. The open page
        /// reloads itself
        #[arg(long)]
        follow: bool,
    },
}

impl RunsArgs {
    /// Returns whether errors are printed as JSON.
    #[must_use]
    pub(crate) fn is_json(&self) -> bool {
        matches!(&self.action, Action::Resume { agent, .. } if agent.json)
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// There is no folder or database, no such run, or a file cannot be read or written.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let place = self.journal.map_or_else(default_folder, Ok)?;
        let home = Home::open(place, self.of_agent.as_deref()).await?;
        match self.action {
            Action::List { status, metadata } => {
                let mut runs = home.runs().await?;
                runs.retain(|run| {
                    let has = |(name, value)| run.metadata.get(name) == Some(value);
                    status.as_deref().is_none_or(|status| text::has_status(run, status))
                        && metadata.iter().map(|(name, value)| (name, value)).all(has)
                });
                let list = list(&runs);
                if !list.is_empty() {
                    say(list.trim_end_matches('\n'));
                }
            }
            Action::Show { id } => {
                let id = run_id(&home, id).await?;
                let (run, records) = (home.run(&id).await?, home.records(&id).await?);
                say(show(&run, &task_of(records.first(), &id)?, &records).trim_end());
            }
            Action::Cancel { id } => {
                if home.run(&id).await?.status.is_ended() {
                    return Err(format!("{} has ended already", quoted(&id)).into());
                }
                home.cancel(&id).await?;
                note(&format!("cancelled {}", quoted(&id)));
            }
            Action::Delete { id } => {
                home.delete(&id).await?;
                note(&format!("deleted {}", quoted(&id)));
            }
            Action::Decide { id, decision } => {
                let is_latest = id == LATEST;
                let id = run_id(&home, id).await?;
                decision.run(&home, &id, is_latest).await?;
            }
            Action::Resume { id, agent } => {
                let id = run_id(&home, id).await?;
                return match &home {
                    Home::Folder(journal) => resume(journal, journal.folder(), &id, *agent).await,
                    #[cfg(feature = "postgres")]
                    Home::Database(_) => {
                        Err("a run in a database is the run of a program, and goes on \
                         with the program's workers"
                            .into())
                    }
                };
            }
            Action::Page { id, output, follow } => {
                let id = run_id(&home, id).await?;
                match output {
                    Some(file) if follow => return follow::follow(&home, &id, &file).await,
                    Some(file) => follow::replace(&file, &page::of(&home, &id, None).await?)?,
                    None => {
                        put(&page::of(&home, &id, None).await?);
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the id of the run that changed last for `latest`, and every other id as it is.
async fn run_id(home: &Home, id: String) -> Result<String, Box<dyn Error>> {
    if id != LATEST {
        return Ok(id);
    }
    let is_run = |run: &RunSummary| run.status != RunStatus::Unreadable;
    let last = home.runs().await?.into_iter().filter(is_run).max_by_key(|run| run.changed);
    Ok(last.ok_or("the journal has no runs")?.id)
}

/// Reads `NAME=VALUE`.
fn metadata_of(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = split.ok_or("expected NAME=VALUE, such as tenant=acme")?;
    Ok((name.to_owned(), value.to_owned()))
}

async fn resume(
    journal: &Journal,
    folder: &Path,
    id: &str,
    agent: AgentArgs,
) -> Result<ExitCode, Box<dyn Error>> {
    let agent = agent.of_run(&journal.run(id)?)?;
    let asks = io::stdin().is_terminal() && !agent.json;
    let input = asks.then(|| Input::terminal(None, Keys::default())).transpose()?;
    let prompt = text_of(&journal.task(id)?);
    let assistant = agent.assistant(Some(&prompt), asks, Some(folder)).await?;
    let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
    let end = assistant.resume(id, input.as_ref()).await;
    assistant.close().await;
    Ok(end?.code())
}

/// Returns the folder of the runs if none is named: that of the configuration, or the default one.
fn default_folder() -> Result<PathBuf, Box<dyn Error>> {
    match (ConfigArgs::default().load()?.journal, folders::data("runs")) {
        (Some(folder), _) => Ok(folders::expanded(folder)),
        (None, Some(folder)) => Ok(folder),
        (None, None) => Err("there is no home folder for the journal; use --journal".into()),
    }
}

/// Returns the metadata for a new run of this task.
#[must_use]
pub fn metadata(task: &str) -> BTreeMap<String, String> {
    // A key that is cut would not be found later.
    BTreeMap::from([(TASK.to_owned(), first_words(&without_keys(task), LONGEST_TASK))])
}

/// Returns an id for a new run: the present time, and a number for this process.
#[must_use]
pub(crate) fn new_id(nth: u32) -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    format!("{now}-{}-{nth}", std::process::id())
}

/// Returns the runs that were cut off or wait for a person, in the order in which they were started.
///
/// # Errors
///
/// The folder of the journal cannot be read.
pub(crate) fn open_runs(journal: &Journal) -> Result<Vec<RunSummary>, JournalError> {
    let mut runs = journal.runs()?;
    runs.retain(|run| matches!(run.status, RunStatus::Open | RunStatus::Waiting));
    Ok(runs)
}
