//! Typed tool calls for a loop of your own.
//!
//! A [`ToolGroup`] holds tools by name and runs the calls of a model: types that handle
//! themselves ([`Handle`]), custom tools of text ([`Custom`]) and any
//! [`Tool`](toolwright_module::Tool) or module. Its [definitions](Definition) are what a
//! request sends; each call ends in an [`Outcome`].
//!
//! | to | use |
//! |---|---|
//! | run what a model calls | [`ToolGroup::dispatch`], [`ToolGroup::run`] |
//! | write a tool | `impl` [`Handle`] for its arguments |
//! | take text or a grammar instead of JSON | `impl` [`Custom`] |
//! | ask for structured output | [`Definition::of`] |
//! | speak to OpenAI with `async-openai` | the module `async_openai`, a feature |
//! | do all of this without `async` | the module `blocking`, a feature |

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
