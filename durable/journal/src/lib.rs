//! Runs that survive a crash: a folder with one file for each run.
//!
//! [`Journal::drive`] starts a run, or continues it where it was. Each reply of the model and each
//! result of a call is on disk before the run goes on, also inside of agents below the agent.

mod error;
mod file;
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
