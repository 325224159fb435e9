//! Runs that survive a crash, stored in a folder with one file for each run.
//!
//! [`Journal::drive`] starts a run of an agent, or continues it where it stopped. Each reply of the
//! model and each result of a call is on disk before the run uses it. This includes batches of
//! calls and inner agents. The agent is the same as without a journal:
//!
//! ```
//! use toolwright_journal::Journal;
//! use toolwright_module::testing::Scripted;
//! use toolwright_module::{Context, Reply};
//! use toolwright_orchestrator::Agent;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let journal = Journal::open(folder.path())?;
//! let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), [])?;
//! let cx = Context::default();
//! let finished = journal.drive(&agent, "greeting-1", "Say hello.", &cx).await?;
//! assert_eq!(finished.answer, "Hello.");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The result of a call is applied once. Its effect happens at least once: if a call was under
//!   way when the program was killed, it is made again if its effect allows this. Otherwise a
//!   person decides.
//! - [`Journal::runs`] lists the runs with their metadata and with the calls that wait for a person.
//!   [`Journal::decide`] answers such a call from any process.
//! - [`BudgetFolder`] keeps what users and tenants may spend in a day or a month, for all processes of the
//!   machine together.
//! - An error of the journal is a [`JournalError`]. It ends the drive, and the model never sees it.
//!
//! # Files
//!
//! A run is the file `ID.journal`. Its first line specifies the format. Each further line is a
//! record: a checksum, the length of the JSON, and the JSON. The checksum includes that of the
//! previous line, so a missing line is detected. The next drive removes an incomplete last line,
//! and `tracing` gets a warning. Any other damage is an error. `ID.parts` contains the images,
//! documents and sounds of a run, from 1 KiB on: a line of the run has their places and hashes.
//! `ID.MARK.history` is a deleted run from which later runs go on: the conversation before a run is stored
//! in the earlier runs.
//! `HASH.tools` contains the tools of runs, to report the changes of a deploy.
//!
//! All files are for their user only. A link, a pipe or a device is never opened as one of them.
//!
//! The file of a run is locked while the run is driven. The operating system releases the lock when
//! the process ends. A drive needs one open file, and the locks need a local file system. If a
//! program drives thousands of runs at once, raise its limit of open files.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `journal.rs` | [`Journal`]: drives, each over its file |
//! | `many.rs`, `summary.rs` | the list of runs, decisions, deletion; [`RunSummary`] |
//! | `earlier.rs` | the conversations of earlier runs, from which a run goes on |
//! | `deploys.rs` | the check of open calls when the agent has changed |
//! | `home.rs` | [`home`]: what all homes of runs share |
//! | `writer.rs` | appending from async code; records that arrive at the same time share a write |
//! | `file.rs`, `name.rs` | the format of a file, its name |
//! | `parts.rs` | the images, documents and sounds beside the records |
//! | `budgets.rs` | [`BudgetFolder`]: what users and tenants may spend in a day or a month |
//! | `page.rs` | `Page` (feature `page`): a run as one HTML file |
//! | `error.rs` | [`JournalError`] |

mod budgets;
mod deploys;
mod earlier;
mod error;
mod file;
pub mod home;
mod journal;
mod many;
mod name;
mod options;
#[cfg(feature = "page")]
mod page;
mod parts;
mod summary;
mod writer;

pub use budgets::{BudgetFolder, FolderBudget};
pub use error::JournalError;
pub use journal::Journal;
pub use options::Options;
#[cfg(feature = "page")]
pub use page::Page;
#[cfg(feature = "page")]
#[doc(hidden)]
pub use page::shared as __page;
pub use summary::{RunStatus, RunSummary};
