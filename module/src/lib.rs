//! Modules that fulfil signatures with code, a language model, or both.
//!
//! A [`Module`] fulfils one [`Signature`]. A [`Tool`] is a module as a model sees it. [`Predict`]
//! and [`ChainOfThought`] are modules that ask a [`LanguageModel`]. The settings of a call
//! (deadline, budget, cancellation, approver) travel in its [`Context`].
//!
//! This crate has no loop and no HTTP client. A provider crate implements the model. The agent loop
//! is in `toolwright-orchestrator`, or you can write your own.
//!
//! | to | use |
//! |---|---|
//! | implement a signature in code | `impl` [`Module`], or [`from_fn`] |
//! | turn a function or methods into tools | `#[tool]`, `#[toolset]`, with the feature `macros` |
//! | implement a signature with a model | [`Predict`], [`ChainOfThought`] |
//! | choose a module at run time | [`AnyModule`] |
//! | offer a module to a model | [`Tool`] |
//! | see, change, refuse or repeat every call | [`hook`] |
//! | mark text that strangers wrote | [`Tool::untrusted`], [`untrusted`] |
//! | run a model's calls in a loop of your own | the crate `toolwright-group` |
//! | test without a model | the feature and module `testing` |
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `module.rs`, `tool.rs` | [`Module`] and [`Tool`]; a panic of a tool is caught in `tool.rs` |
//! | `context.rs`, `model_call.rs` | [`Context`]: deadline, cancellation, events, the approver; its calls of models |
//! | `budget.rs`, `ledger.rs` | limits and money; the ledger reserves, counts and refuses |
//! | `price.rs`, `prices.rs`, `prices.json` | the price of a model; tables of prices; the one that is built in |
//! | `shared_budget.rs`, `period.rs` | budgets that several processes share; their days and months |
//! | `model.rs`, `message.rs` | [`LanguageModel`], its requests and replies; conversations |
//! | `media.rs`, `places.rs` | images, documents and audio; placeholders such as `[image 1]` in the text |
//! | `predict.rs`, `predictor.rs`, `predict_call.rs` | [`Predict`]; its prompts; its attempts |
//! | `hook.rs`, `hook/chain.rs` | hooks around calls; the chain that a call passes through |
//! | `error.rs`, `event.rs` | errors for two audiences; the events of a call |
//! | `runner.rs` | parts for crates that run tools |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "files")]
#[doc(hidden)]
pub mod __files;
#[doc(hidden)]
pub mod __private;
#[doc(hidden)]
pub mod __text;
pub mod approval;
mod arguments;
pub mod budget;
mod call_ids;
mod chain_of_thought;
mod context;
mod effect;
pub mod error;
pub mod event;
mod example;
mod file_name;
mod given_arguments;
pub mod hook;
mod in_call;
mod ledger;
mod media;
pub mod message;
pub mod model;
mod model_call;
mod module;
mod most_usage;
mod output_mode;
mod panic_text;
mod period;
mod places;
pub mod predict;
mod predict_call;
mod predict_stream;
mod predictor;
mod predictor_settings;
mod price;
mod prices;
mod repaired;
pub mod runner;
mod settings;
mod shared_budget;
mod shown_answer;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;
pub mod untrusted;
mod usage;
mod validator;
mod wire_name;

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
#[cfg(feature = "macros")]
pub use toolwright_macros::{module_tool as tool, module_toolset as toolset};
pub use toolwright_signature::{Contract, Dialect, Partial, Policy, Signature};
