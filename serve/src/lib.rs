//! A service around an agent: streams that readers may leave and come back to, and stored approvals.
//!
//! [`Serve`] takes a [`Home`] for the runs, an agent, and what the program says about its callers.
//! [`Serving::router`] returns the routes, which a program mounts into its own axum service.
//!
//! - A message of a user starts a run, and its response streams the [`Update`]s of the run. Its readers may
//!   leave and come back at any worker: the id of each event says what the reader has.
//! - A call that waits for a person is a [`Question`]. It is stored with the run until its user answers.
//! - Runs, conversations and questions belong to the user of a [`Caller`].
//! - Runs go on after a restart, and at another worker if theirs is gone.
//! - Front ends read the service's own events, AG-UI, or the UI message stream of the Vercel AI SDK.
//!
//! ```
//! use toolwright_module::testing::Scripted;
//! use toolwright_module::{Context, Reply};
//! use toolwright_orchestrator::Agent;
//! use toolwright_serve::{Home, Serve};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
//! let service = Serve::new(Home::memory(), agent).start();
//! let app = axum::Router::new().nest("/assistant", service.router());
//! # drop(app);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `serve.rs` | [`Serve`] and [`Serving`] |
//! | `core.rs` | the runs of a service; `core/`: messages of users, drives, questions, readers |
//! | `routes.rs` | the service's own routes |
//! | `ag_ui/`, `ui_messages/` | the protocols of front ends: requests, events, routes |
//! | `protocol.rs` | what the protocols share |
//! | `update.rs` | [`Update`], what readers get |
//! | `recorded.rs` | records as updates |
//! | `watched.rs` | a run that is read, and the positions of its readers |
//! | `live.rs` | what models write, for readers at other workers |
//! | `page.rs` | pages of lists |
//! | `home.rs`, `memory.rs` | [`Home`], and runs in memory |
//! | `caller.rs`, `error.rs` | [`Caller`], [`Rejection`] and [`ServeError`] |

mod ag_ui;
mod caller;
mod core;
mod error;
mod home;
mod live;
mod memory;
mod page;
mod protocol;
mod recorded;
mod routes;
mod serve;
mod ui_messages;
mod update;
mod watched;

pub use caller::Caller;
pub use error::{Rejection, ServeError};
pub use home::Home;
pub use serve::{Serve, Serving, router};
pub use update::{Around, Attachment, Cost, Decided, Question, Update, UpdateKind, update_schema};
