//! Agents: a model, its tools, and the loop between them as a value.
//!
//! [`Run`] is the loop: a state machine that can be stored at any step and resumed
//! elsewhere. [`ToolOrchestrator`] drives it on tokio. [`ReAct`] does so for a typed
//! signature. All three leave the model to a provider crate and the tools to you.

mod approval_policy;
mod choosing;
mod driver;
mod error;
mod finished;
mod limits;
mod mistakes;
mod nearest;
mod react;
mod repaired_call;
mod run;
mod run_stream;
mod selector;
mod state;
mod step;
mod telemetry;
mod tool_orchestrator;
mod tools;
mod unfinished;

pub use approval_policy::ApprovalPolicy;
pub use choosing::Choosing;
pub use error::RunError;
pub use finished::{Finished, ToolFailure};
pub use limits::Limits;
pub use react::ReAct;
pub use repaired_call::RepairedCall;
pub use run::Run;
pub use run_stream::{Progress, RunStream};
pub use state::{DecidedCall, RunState};
pub use step::{RunResult, Step, StepKind, StepResult, StepResultKind};
pub use tool_orchestrator::{Task, TaskAnswer, ToolOrchestrator};
pub use toolwright_module::event::Ending;
pub use unfinished::{AwaitsApproval, Unfinished};
