//! Agents: a model, its tools, and the loop between them as a value.
//!
//! [`Run`] is the loop: a state machine that can be stored at any step and resumed elsewhere.
//! [`Agent`] drives a run on tokio; its answer is a text, or a value of a type. [`ReAct`] is a module
//! over an agent, with a typed input too. Provider crates supply the model, and your program supplies
//! the tools.
//!
//! A program with an agent needs this crate and that of a provider, and no other crate of ours: the
//! types that this crate's functions take are exported here, and all of `toolwright-module` is in
//! [`module`].
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use toolwright_orchestrator::module::{from_fn, testing::SchemaDriven};
//! use toolwright_orchestrator::{Agent, Context, Effect, Result, Signature, Tool};
//!
//! /// Say how the weather is.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct GetWeather {
//!     /// City name, in English.
//!     city: String,
//! }
//!
//! impl Signature for GetWeather {
//!     type Output = String;
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let weather = from_fn(async |ask: GetWeather| Ok(format!("Rain in {}.", ask.city)));
//! let tool = Tool::new(weather)?.with_effect(Effect::Read);
//! // A test model, in place of that of a provider.
//! let agent = Agent::new(SchemaDriven::default(), [tool])?;
//! let finished = agent.run("How is the weather?", &Context::default()).await?;
//! assert_eq!(finished.tools_used, ["get_weather"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `run.rs`, `run/applying.rs` | [`Run`]: the next step, and the effect of its result; endings |
//! | `run/sending.rs` | the request: the tools of a round, and edits of the messages |
//! | `approval_policy.rs`, `run/strangers.rs`, `quotes.rs` | [`ApprovalPolicy`]: which calls wait, also because of text of strangers |
//! | `call_check.rs`, `driver/checking.rs` | [`CallCheck`]: a second model decides before a person is asked |
//! | `compaction.rs`, `driver/compacting.rs` | [`Compaction`]: a conversation that gets too long is shortened |
//! | `task.rs`, `run/conversation.rs`, `pairing.rs` | [`Task`], histories and follow-ups; calls and their results |
//! | `conversation.rs` | [`Conversation`]: what the next task of a conversation goes on with |
//! | `state.rs` | [`RunState`]: the stored format of a run |
//! | `find_tools.rs`, `tool_index.rs` | the tool that finds deferred tools, and its [`ToolIndex`] |
//! | `tool_set.rs` | [`ToolSet`]: the comparison of stored tools with the current ones |
//! | `agent.rs`, `agent/reader.rs` | [`Agent`]: its settings, and the reading of its answer |
//! | `driver.rs`, `agent/driving.rs` | running the steps: models, tools, deadlines, approval |
//! | `perform.rs` | [`perform`]: a journal of every part of a run, for runs that survive a crash |
//! | `react.rs`, `selector.rs` | [`ReAct`]: an agent as a module; tool choice for models that cannot call tools |
//! | `read_result.rs` | the tool that reads long results in pieces |
//! | `limits.rs`, `repeated_mistakes.rs` | [`Limits`]; the end of a run that repeats a mistake |
//! | `finished.rs`, `unfinished.rs`, `error.rs` | how a run ends |

mod agent;
mod approval_policy;
mod call_check;
mod compaction;
mod conversation;
mod driver;
mod error;
mod find_tools;
mod finished;
mod limits;
mod pairing;
pub mod perform;
mod quotes;
mod react;
mod read_result;
mod repaired_call;
mod repeated_mistakes;
mod run;
mod run_stream;
mod selector;
mod state;
mod step;
mod task;
mod telemetry;
mod tool_choosing;
mod tool_index;
mod tool_names;
mod tool_set;
mod tools;
mod unfinished;

pub use agent::{Agent, ToolOrchestrator};
pub use approval_policy::ApprovalPolicy;
pub use call_check::{CallCheck, CallDecision, CallVerdict, CheckCall};
pub use compaction::{Compacted, Compaction, ConversationSummary, Keep, Summarize, Summarizer};
pub use conversation::Conversation;
pub use error::RunError;
pub use find_tools::find_tools;
pub use finished::{Finished, ToolFailure};
pub use limits::Limits;
pub use react::ReAct;
pub use repaired_call::RepairedCall;
pub use run::{Edited, Offer, Run};
pub use run_stream::{Progress, RunStream};
pub use state::{DecidedCall, RunState};
pub use step::{RunResult, Step, StepKind, StepResult, StepResultKind};
pub use task::{Task, TaskAnswer};
pub use tool_choosing::Choosing;
pub use tool_index::{FoundTool, IndexedTool, ToolIndex, VectorsError};
pub use tool_set::{Change, Resumed, ToolSet};
pub use toolwright_module as module;
pub use toolwright_module::event::Ending;
pub use toolwright_module::{Context, Effect, Error, Module, Result, Signature, Tool};
pub use unfinished::{AwaitsApproval, Unfinished};
