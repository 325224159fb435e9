//! The parts of the command `toolwright`: one module for each command, arguments that choose a model
//! and tools, and the text that a person sees.
//!
//! The program of this package is `toolwright`. This library is only for that program and for the
//! example programs of the workspace, and may change with each version.

mod agent;
mod approve;
mod assistant;
mod chat;
mod config;
pub mod contract;
mod described;
pub mod files;
mod folders;
mod fresh_tools;
mod input;
mod journal;
mod keys;
mod lines;
mod mcp;
mod model;
mod record;
mod run;
pub mod runs;
mod schema;
mod servers;
mod show;
mod signals;
mod task_lock;
mod texts;
mod toolbox;
mod tools;

pub use chat::ChatArgs;
pub use keys::without_keys;
pub use mcp::McpCommandArgs;
pub use model::{NoModel, ServerArgs};
pub use run::{RecordArgs, ReplayArgs, RunArgs};
pub use show::{Screen, advise, note, say, tell, visible, write_error};
pub use signals::terminated;
pub use texts::in_our_words;
pub use tools::ToolsArgs;
