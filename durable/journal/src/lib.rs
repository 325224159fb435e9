//! Runs that survive a crash: a folder with one file for each run.
//!
//! [`Journal::drive`] starts a run of an agent, or continues it where it was. Each reply of the model
//! and each result of a call is on disk before the run uses it, also in a batch of calls and in
//! agents below the agent. The agent is the same as without a journal:
//!
//! ```
//! use toolwright_journal::Journal;
//! use toolwright_module::testing::Scripted;
//! use toolwright_module::{Context, Reply};
//! use toolwright_orchestrator::ToolOrchestrator;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let journal = Journal::open(folder.path())?;
//! let agent = ToolOrchestrator::new(Scripted::replies([Reply::text("Hello.")]), [])?;
//! let cx = Context::default();
//! let finished = journal.drive(&agent, "greeting-1", "Say hello.", &cx).await?;
//! assert_eq!(finished.answer, "Hello.");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The result of a call is applied once. Its effect happens at least once: a call that was under way
//!   when the program was killed is made again if it reads or may be repeated, and otherwise a person
//!   is asked.
//! - [`Journal::runs`] lists the runs with their metadata and with the calls that wait for a person.
//!   [`Journal::decide`] answers such a call from any process.
//! - An error of the journal is a [`JournalError`]. It ends the drive, and the model never sees it.
//!
//! # Files
//!
//! A run is the file `ID.journal`. Its first line names the format. Each further line is a record: a
//! checksum, the length of the JSON, and the JSON. The checksum continues that of the line before, so
//! that a missing line is noticed. A line without its end is cut off by the next drive, and `tracing`
//! gets a warning; any other damage is an error. `HASH.tools` has the tools of runs, to report what a
//! deploy has changed.
//!
//! The file of a run is locked while the run is driven. The system ends the lock with the process. A
//! drive needs one open file, and the locks need a local file system. If a program drives thousands
//! of runs at once, raise its limit of open files.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `journal.rs` | [`Journal`]: drives, each over its file |
//! | `many.rs`, `summary.rs` | the list of runs, decisions, deletion; [`RunSummary`] |
//! | `deploys.rs` | the check of open calls when the agent has changed |
//! | `home.rs` | [`home`]: what a drive does in every home of runs |
//! | `performer.rs` | the parts of a run: what is found, what is done, and what is refused |
//! | `writer.rs` | appending from async code; records that are there at the same time share a write |
//! | `file.rs`, `record.rs`, `name.rs` | the format of a file, its records, its name |
//! | `error.rs` | [`JournalError`] |

mod deploys;
mod error;
mod file;
pub mod home;
mod journal;
mod many;
mod name;
mod performer;
mod record;
mod summary;
mod writer;

pub use error::JournalError;
pub use journal::Journal;
pub use summary::{RunStatus, RunSummary};
