//! Typed tool calls for a loop of your own.
//!
//! A [`ToolGroup`] stores tools by name and runs the tool calls of a model. Its tools can be types
//! that handle themselves ([`Handle`]), custom tools that accept text ([`Custom`]), modules, and
//! any other [`Tool`](toolwright_module::Tool). A request contains the group's
//! [definitions](Definition). Each call returns an [`Outcome`].
//!
//! | to | use |
//! |---|---|
//! | run a model's calls | [`ToolGroup::dispatch`], [`ToolGroup::run`] |
//! | write a tool | `impl` [`Handle`] for its arguments |
//! | accept text or a grammar instead of JSON | `impl` [`Custom`] |
//! | ask for structured output | [`Definition::output`] |
//! | call OpenAI with `async-openai` | the feature and module `async_openai` |
//! | do all of this without `async` | the feature and module `blocking` |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "async-openai")]
pub mod async_openai;
#[cfg(feature = "blocking")]
pub mod blocking;
mod custom;
mod definition;
mod handle;
mod metadata;
mod outcome;
mod pretty;
mod tool_group;
mod work;

pub use custom::{Custom, Format};
pub use definition::{Definition, Parameters};
pub use handle::Handle;
pub use outcome::{FailReason, Outcome};
pub use tool_group::ToolGroup;
pub use toolwright_module::message::CallKind;
pub use toolwright_module::{Context, Error, Result, ToolCall};
pub use toolwright_signature::{Policy, Repair};
