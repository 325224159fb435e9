//! Runs that survive a crash, in a PostgreSQL database that several workers share.
//!
//! [`Runs::drive`] starts a run of an agent, or continues it where it was. Each reply of the model
//! and each result of a call is committed before the run uses it, also in a batch of calls and in
//! agents below the agent. [`Runs::start`] only queues a run, and [`Runs::work`] drives what nobody
//! else drives: queued runs, and the runs of workers that are dead.
//!
//! ```no_run
//! use toolwright_module::{Cancellation, Context, LanguageModel};
//! use toolwright_orchestrator::ToolOrchestrator;
//! use toolwright_postgres::Runs;
//!
//! # async fn example(model: impl LanguageModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = ToolOrchestrator::new(model, [])?;
//! let runs = Runs::connect("postgres://user:password@127.0.0.1/letters", "greeter").await?;
//! let cx = Context::default().with_run("greeting", [("tenant", "acme")]);
//! runs.start(&agent, "greeting", "Say hello.", &cx).await?;
//!
//! // On each machine:
//! let cancellation = Cancellation::default();
//! let cx = Context::default().with_cancellation(cancellation.clone());
//! runs.work(&agent, 16, &cx).await;
//! # Ok(())
//! # }
//! ```
//!
//! - The result of a call is applied once. Its effect happens at least once: a call that was under way
//!   when its worker was killed is made again if it reads or may be repeated, and otherwise a person
//!   is asked.
//! - A worker has a lease of each run that it drives, and renews it. When the lease has ended, another
//!   worker may take the run. From then on nothing is kept that the first one writes, and its drive
//!   ends with [`RunsError::Lost`].
//! - [`Runs::runs`] lists the runs with their metadata, and [`Runs::waiting`] those with calls that
//!   wait for a person. [`Runs::decide`] answers such a call from any process.
//! - An error of the database is a [`RunsError`]. It ends the drive, and the model never sees it. A
//!   failure that is shorter than the lease ends nothing.
//!
//! # Tables
//!
//! `toolwright_runs` has a row for each run, `toolwright_records` one for each record, as JSON in the
//! same form as in a file of the crate `toolwright-journal`. `toolwright_tools` has the tools of
//! agents, to report what a deploy has changed. All times are those of the server's clock.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `runs.rs` | [`Runs`]: starting and driving runs |
//! | `work.rs` | workers: taking the runs that nobody drives |
//! | `lease.rs` | the lease of a run: appending its records, renewing, ending |
//! | `many.rs` | the list of runs, decisions, deletion |
//! | `tables.rs` | the tables and their statements |
//! | `error.rs` | [`RunsError`] |

mod error;
mod lease;
mod many;
mod runs;
mod tables;
mod work;

pub use error::RunsError;
pub use runs::Runs;
pub use toolwright_journal::{RunStatus, RunSummary};
