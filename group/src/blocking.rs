//! Handlers and groups for programs without `async`, under the same names.
//!
//! A program without `async` imports everything from here, the names of `toolwright_module`
//! included. The handlers are plain functions; the rest is the same code on a runtime that
//! the group owns. There is no blocking form of language models and agents.

mod handle;
mod runner;
mod tool_group;

pub use crate::{Definition, FailReason, Format, Outcome};
pub use handle::{Custom, Handle};
pub use runner::InsideRuntime;
pub use tool_group::ToolGroup;
pub use toolwright_module::message::CallKind;
pub use toolwright_module::{Context, Error, Result, ToolCall};
pub use toolwright_signature::{Policy, Repair};
