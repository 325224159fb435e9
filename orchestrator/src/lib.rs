//! Agents: a model, its tools, and the loop between them as a value.
//!
//! [`Run`] is the loop: a state machine that can be stored at any step and resumed elsewhere.
//! [`ToolOrchestrator`] drives a run on tokio. [`ReAct`] drives a run with a typed input and
//! output. Provider crates bring the model, and your program brings the tools.
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `run.rs`, `run/applying.rs` | [`Run`]: the next step, and the effect of its result; endings |
//! | `state.rs` | [`RunState`]: the stored form of a run, and older versions of it |
//! | `driver.rs`, `tool_orchestrator.rs` | running the steps: models, tools, deadlines, approval |
//! | `react.rs`, `selector.rs` | typed runs; tool choice for models that cannot call tools |
//! | `limits.rs`, `repeated_mistakes.rs` | [`Limits`]; the end of a run that repeats a mistake |
//! | `finished.rs`, `unfinished.rs`, `error.rs` | how a run ends |

mod approval_policy;
mod driver;
mod error;
mod finished;
mod limits;
mod react;
mod repaired_call;
mod repeated_mistakes;
mod run;
mod run_stream;
mod selector;
mod state;
mod step;
mod telemetry;
mod tool_choosing;
mod tool_names;
mod tool_orchestrator;
mod tools;
mod unfinished;

pub use approval_policy::ApprovalPolicy;
pub use error::RunError;
pub use finished::{Finished, ToolFailure};
pub use limits::Limits;
pub use react::ReAct;
pub use repaired_call::RepairedCall;
pub use run::Run;
pub use run_stream::{Progress, RunStream};
pub use state::{DecidedCall, RunState};
pub use step::{RunResult, Step, StepKind, StepResult, StepResultKind};
pub use tool_choosing::Choosing;
pub use tool_orchestrator::{Task, TaskAnswer, ToolOrchestrator};
pub use toolwright_module::event::Ending;
pub use unfinished::{AwaitsApproval, Unfinished};
