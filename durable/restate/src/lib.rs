//! Durable runs on [Restate](https://restate.dev): one workflow for each run, and one step for each
//! part of the run.
//!
//! [`Restate::drive`] is the body of the `run` handler of a workflow. If the program or the server
//! is killed, Restate calls the handler again, and the run continues where it stopped. The agent is
//! the same as without Restate:
//!
//! ```no_run
//! use restate_sdk::prelude::*;
//! use toolwright_orchestrator::Agent;
//! use toolwright_restate::Restate;
//!
//! struct Assistant {
//!     agent: Agent,
//!     restate: Restate,
//! }
//!
//! #[restate_sdk::workflow]
//! impl Assistant {
//!     #[handler]
//!     async fn run(&self, ctx: WorkflowContext<'_>, task: String) -> HandlerResult<String> {
//!         let cx = toolwright_module::Context::default();
//!         Ok(self.restate.drive(&ctx, &self.agent, task, &cx).await?.answer)
//!     }
//! }
//! ```
//!
//! - The result of a call is applied once. Its effect happens at least once: if a call was under
//!   way when the program was killed, it is made again if its effect allows this. Otherwise a
//!   person decides.
//! - [`waiting`] and [`decide`] are the bodies of handlers for a person's decisions. [`events`]
//!   returns the events of the run from a position on.
//! - A cancellation of the workflow cancels the context of the run. The response has the code 409.
//! - [`options`] sets Restate's timeouts, which must be longer than those of the model.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `restate.rs` | [`Restate`]: drives inside a handler; [`options`] |
//! | `outside.rs` | functions for other handlers: [`waiting`], [`decide`], [`events`] |
//! | `performer.rs` | the performer, which sends the parts of a run to the loop |
//! | `drive.rs` | the loop, which runs each part as a step |
//! | `engine.rs` | the functions of Restate that the loop needs |
//! | `record.rs` | the contents of the journal and the state |

mod drive;
mod engine;
mod outside;
mod performer;
mod record;
mod restate;
#[cfg(test)]
#[path = "../tests/drives/mod.rs"]
mod tests;

pub use outside::{Decide, Events, Waiting, decide, events, waiting};
pub use restate::{Restate, options};
