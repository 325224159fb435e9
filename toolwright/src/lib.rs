//! Agents and typed tools for programs that use language models.
//!
//! This crate makes all of Toolwright available with one line in `Cargo.toml`. It contains no code
//! of its own. Each of its features adds one crate of Toolwright, under a short name.
//!
#![cfg_attr(feature = "macros", doc = "```")]
#![cfg_attr(not(feature = "macros"), doc = "```text")]
//! use toolwright::{prelude::*, testing::SchemaDriven};
//!
//! /// Say how the weather is.
//! #[tool]
//! async fn get_weather(
//!     /// City name, in English.
//!     city: String,
//! ) -> String {
//!     format!("Rain in {city}.")
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     let agent = Agent::new(SchemaDriven::default(), [GetWeather::tool()?])?;
//!     println!("{}", agent.run("How is the weather?", &Context::default()).await?.answer);
//!     Ok(())
//! }
//! ```
//!
//! `SchemaDriven` is a model for tests. With the feature `openai`, the model is
//! `toolwright::openai::OpenAi`.
//!
//! | module | content | feature |
//! |---|---|---|
//! | [`prelude`] | the twelve names that most programs use | |
//! | [`agent`] | the loop, its limits, stored runs, typed runs | |
//! | [`module`](mod@module) | modules, tools, predictors, contexts, hooks, messages, models | |
//! | [`signature`] | contracts; lowering of their schemas, and reading of a model's texts | |
//! | `openai`, `anthropic`, `gemini`, `genai` | models | of the same name; `openai-async-openai` |
//! | `memory`, `text`, `github` | toolsets | of the same name; `memory-sqlite`, `memory-postgres` |
//! | `mcp` | tools from other programs, and tools for other programs | `mcp`; `mcp-login` adds logins with OAuth |
//! | `group` | typed tool calls for a loop of your own | `group`; `group-async-openai`, `group-blocking` |
//! | `journal`, `postgres`, `restate` | runs that survive a crash | of the same name; `journal-page` |
//! | `serve` | a service around an agent | `serve`; `serve-postgres` |
//! | `evals` | evals: cases, graders, recordings, reports | `evals` |
//! | `testing` | models for tests | `testing` |
//!
//! The features `bytes`, `chrono`, `decimal`, `indexmap`, `jiff`, `semver`, `url` and `uuid` allow types
//! of these crates in signatures. The feature `provider` adds what all providers share, for
//! one of your own.
//!
//! A program with the feature `restate` must also depend on `restate-sdk`, because the code that
//! its attributes generate refers to that crate.
//!
//! The features `rustls` (default) and `native-tls` choose the TLS library. The feature `macros`
//! (default) adds the attributes [`macro@tool`], [`macro@toolset`] and [`macro@data`]. The feature
//! `tokio` adds the crate `tokio`, so that `#[tokio::main(crate = "toolwright::tokio")]` needs no
//! other dependency.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tokio")]
pub use tokio;
#[cfg(feature = "anthropic")]
pub use toolwright_anthropic as anthropic;
#[cfg(feature = "evals")]
pub use toolwright_evals as evals;
#[cfg(feature = "gemini")]
pub use toolwright_gemini as gemini;
#[cfg(feature = "genai")]
pub use toolwright_genai as genai;
#[cfg(feature = "github")]
pub use toolwright_github as github;
#[cfg(feature = "group")]
pub use toolwright_group as group;
#[cfg(feature = "journal")]
pub use toolwright_journal as journal;
#[cfg(feature = "macros")]
pub use toolwright_macros::{data, tool, toolset};
#[cfg(feature = "mcp")]
pub use toolwright_mcp as mcp;
#[cfg(feature = "memory")]
pub use toolwright_memory as memory;
pub use toolwright_module as module;
#[doc(hidden)]
pub use toolwright_module::__private;
#[cfg(feature = "testing")]
pub use toolwright_module::testing;
pub use toolwright_module::{Context, Effect, Error, Module, Predict, Result, Signature, Tool};
#[cfg(feature = "openai")]
pub use toolwright_openai as openai;
pub use toolwright_orchestrator as agent;
pub use toolwright_orchestrator::Agent;
#[cfg(feature = "postgres")]
pub use toolwright_postgres as postgres;
#[cfg(feature = "provider")]
pub use toolwright_provider as provider;
#[cfg(feature = "restate")]
pub use toolwright_restate as restate;
#[cfg(feature = "serve")]
pub use toolwright_serve as serve;
pub use toolwright_signature as signature;
#[cfg(feature = "text")]
pub use toolwright_text as text;

/// The names that most programs use, for `use toolwright::prelude::*`.
///
/// There are twelve, and none of them is ambiguous beside the standard library: [`Result`] is
/// `Result<T, E = Error>`, so `Result<T, E>` means what it always does.
pub mod prelude {
    pub use crate::{Agent, Context, Effect, Error, Module, Predict, Result, Signature, Tool};
    #[cfg(feature = "macros")]
    pub use crate::{data, tool, toolset};
}
