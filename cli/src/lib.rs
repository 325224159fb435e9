//! The command `toolwright`: one module for each of its commands, arguments that choose a model and
//! tools, and the text that a person sees.
//!
//! The program of this package is `toolwright`. What is public here besides [`main`] is for the tests
//! and the example programs of the workspace, and may change with each version.

mod agent;
mod approve;
mod assistant;
mod chat;
mod config;
mod contract;
mod described;
mod eval;
pub mod files;
mod folders;
mod fresh_tools;
mod input;
mod journal;
mod keys;
mod lines;
mod login;
mod mcp;
mod model;
mod program;
mod record;
mod run;
pub mod runs;
mod schema;
mod serve;
mod servers;
mod show;
mod signals;
mod task_lock;
mod texts;
mod toolbox;
mod tools;

pub use model::ServerArgs;
pub use program::main;
pub use show::{Screen, note, say, visible};
pub use texts::in_our_words;
