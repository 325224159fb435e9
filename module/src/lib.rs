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

pub mod approval;
pub mod budget;
mod chain_of_thought;
mod context;
mod conversation;
pub mod driver;
mod effect;
pub mod error;
pub mod event;
mod example;
mod in_call;
mod ledger;
pub mod message;
pub mod model;
mod module;
mod most_usage;
mod output_mode;
mod panics;
pub mod predict;
mod predict_stream;
pub mod provider;
mod question;
mod repaired;
mod settings;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;
mod usage;

pub use chain_of_thought::ChainOfThought;
pub use context::{Cancellation, Context};
pub use effect::Effect;
pub use error::{Error, Result};
pub use message::{Message, ToolCall};
pub use model::{LanguageModel, Reply, Request};
pub use module::{AnyModule, FromFn, Module, OutputOf, from_fn, from_fn_with};
pub use predict::Predict;
pub use repaired::Repaired;
pub use tool::{Tool, ToolOutput};
pub use toolwright_signature::{Contract, Dialect, Policy, Signature};
