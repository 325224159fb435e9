//! The parts of the command `toolwright`: arguments that choose a model and tools, the assistant, and
//! the text that a person sees.
//!
//! The program of this package is `toolwright`. This library is for it and for the example programs of
//! the workspace, and may change with each version.

mod approve;
mod assistant;
mod choose;
pub mod contract;
mod input;
pub mod runs;
mod servers;
mod show;
mod signals;
mod toolbox;

pub use approve::decide;
pub use assistant::{AgentArgs, Assistant, End};
pub use choose::{Chosen, ModelArgs, NoModel, Provider, ServerArgs};
pub use input::Input;
pub use servers::{McpArgs, note_left_out, started_by};
pub use show::{Screen, note, printable, say, summary, tell, visible};
pub use signals::terminated;
pub use toolbox::ToolArgs;
