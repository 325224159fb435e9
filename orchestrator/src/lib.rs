//! Agents: a model, its tools, and the loop between them as a value.
//!
//! [`Run`] is the loop: a state machine that can be stored at any step and resumed
//! elsewhere. [`ToolOrchestrator`] drives it on tokio. [`ReAct`] does so for a typed
//! signature. All three leave the model to a provider crate and the tools to you.

mod error;
mod limits;
mod react;
mod run;
mod state;
mod step;
mod tool_orchestrator;
mod tools;

pub use error::{Error, Result};
pub use limits::Limits;
pub use react::{ReAct, Reacted, Unfinished};
pub use run::Run;
pub use state::RunState;
pub use step::{Answer, AnswerKind, Ending, RunResult, Step, StepKind};
pub use tool_orchestrator::{Finished, Task, TaskAnswer, ToolFailure, ToolOrchestrator};
