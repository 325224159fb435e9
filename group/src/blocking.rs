//! Handlers and groups for programs without `async`. They have the names of the async ones.
//!
//! A program without `async` imports everything from this module, and a program with `async` the same
//! names from the root of the crate. Both include the types of `toolwright_module` that they need. The handlers are plain functions. The rest is the same code, on a runtime
//! that the group owns. Language models and agents have no blocking form.

mod handle;
mod runner;
mod tool_group;

pub use crate::{Definition, FailReason, Format, Outcome, Parameters};
pub use handle::{Custom, Handle};
pub use runner::InsideRuntime;
pub use tool_group::ToolGroup;
pub use toolwright_module::message::CallKind;
pub use toolwright_module::{Context, Error, Result, ToolCall};
pub use toolwright_signature::{Policy, Repair};
