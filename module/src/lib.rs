//! Modules fulfil signatures: code, language models, or both.
//!
//! A [`Module`] fulfils one [`Signature`]; a [`Tool`] is a module as a model sees it.
//! [`Predict`] and [`ChainOfThought`] let a [`LanguageModel`] do the work. What belongs
//! to one call travels in its [`Context`]. There is no loop in this crate and no HTTP:
//! a provider crate brings the model, `toolwright-orchestrator` brings the loop, or you
//! write your own.
//!
//! | to | use |
//! |---|---|
//! | do the work in code | `impl` [`Module`], or [`from_fn`] |
//! | let a model do it | [`Predict`], [`ChainOfThought`] |
//! | choose while the program runs | [`AnyModule`] |
//! | show it to a model | [`Tool`] |
//! | run what a model calls, in a loop of your own | the crate `toolwright-group` |
//! | test without a model | [`testing`] |

mod approval;
mod budget;
mod chain_of_thought;
mod context;
mod conversation;
pub mod driver;
mod effect;
mod error;
mod event;
mod example;
mod language_model;
mod ledger;
mod message;
mod module;
mod most_usage;
mod output_mode;
mod panics;
mod predict;
mod predict_stream;
pub mod provider;
mod question;
mod repaired;
mod settings;
mod telemetry;
pub mod testing;
mod tool;

pub use approval::{Approval, Decision};
pub use budget::{Budget, Limit, Money, Price, Spent};
pub use chain_of_thought::{ChainOfThought, Reasoned};
pub use context::{Cancellation, Context};
pub use effect::Effect;
pub use error::{Audience, Error, Failure, Result, Stage};
pub use event::{Ending, Event, EventKind, InCall};
pub use example::Example;
pub use futures_core::{future::BoxFuture, stream::BoxStream};
pub use language_model::{
    Capabilities, Delta, Finish, LanguageModel, Reply, Request, ToolChoice, Usage,
};
pub use ledger::{Exhausted, Ledger, Overshoot, Reservation};
pub use message::{CallKind, Image, Message, Part, Reasoning, ReplyPart, ToolCall, ToolResult};
pub use module::{AnyModule, FromFn, Module, OutputOf, from_fn, from_fn_with};
pub use output_mode::OutputMode;
pub use predict::Predict;
pub use predict_stream::{PredictEvent, PredictStream};
pub use repaired::Repaired;
pub use tool::{Tool, ToolOutput};
pub use toolwright_signature::{
    Contract, Dialect, Field, Partial, Policy, Reading, Repair, Signature,
};
