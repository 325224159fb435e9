//! Runs that survive a crash, stored in a PostgreSQL database that several workers share.
//!
//! [`Runs::drive`] starts a run of an agent, or continues it where it stopped. Each reply of the
//! model and each result of a call is committed before the run uses it. This includes batches of
//! calls and inner agents. [`Runs::start`] only queues a run. [`Runs::work`] drives the queued runs
//! and the runs of dead workers.
//!
//! ```no_run
//! use toolwright_module::{Cancellation, Context, LanguageModel};
//! use toolwright_orchestrator::Agent;
//! use toolwright_postgres::Runs;
//!
//! # async fn example(model: impl LanguageModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::new(model, [])?;
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
//! - The result of a call is applied once. Its effect happens at least once: if a call was under
//!   way when its worker was killed, it is made again if its effect allows this. Otherwise a person
//!   decides.
//! - A worker holds a lease on each run that it drives, and renews it. When the lease has expired,
//!   another worker may take over the run. From then on the first worker can write nothing, and its
//!   drive ends with [`RunsError::Lost`].
//! - [`Runs::runs`] lists the runs with their metadata, and [`Runs::waiting`] those with calls that
//!   wait for a person. [`Runs::decide`] answers such a call from any process.
//! - [`BudgetDatabase`] keeps what users and tenants may spend in a day or a month. All workers share it.
//! - An error of the database is a [`RunsError`]. It ends the drive, and the model never sees it. A
//!   failure that is shorter than the lease does not end a drive.
//!
//! # Tables
//!
//! `toolwright_runs` has a row for each run. `toolwright_records` has a row for each record, as the
//! same JSON as in a file of the crate `toolwright-journal`. `toolwright_tools` contains the tools
//! of agents, to report the changes of a deploy. `toolwright_live` has the replies that models are writing
//! now. All times come from the server's clock.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `runs.rs` | [`Runs`]: starting and driving runs |
//! | `work.rs` | workers: taking over runs that no worker drives |
//! | `lease.rs` | the lease of a run: appending records under it, renewing it, ending it |
//! | `earlier.rs` | the conversations of earlier runs, from which a run goes on |
//! | `many.rs` | the list of runs, decisions, deletion |
//! | `reading.rs` | what is new in runs, for programs that show them while other workers drive them |
//! | `budgets.rs` | [`BudgetDatabase`]: what users and tenants may spend in a day or a month |
//! | `tables.rs` | the tables of runs and their statements |
//! | `error.rs` | [`RunsError`] |

mod budgets;
mod earlier;
mod error;
mod lease;
mod many;
mod reading;
mod runs;
mod tables;
mod url;
mod work;

pub use budgets::{BudgetDatabase, DatabaseBudget};
pub use error::RunsError;
pub use many::RunGroup;
pub use reading::{News, Seen};
pub use runs::Runs;
pub use toolwright_journal::{Options, RunStatus, RunSummary};
pub use work::TakenRun;
