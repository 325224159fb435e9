//! Conversions between groups of tools and async-openai's types.
//!
//! A [`ToolGroup`](crate::ToolGroup) becomes `tools`, replies become
//! [`ToolCall`](toolwright_module::ToolCall)s, and outcomes become messages.
//!
//! <!-- code: examples/examples/intro.rs -->
//!
//! ```no_run
//! use async_openai::Client;
//! use async_openai::types::responses::CreateResponseArgs;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use toolwright_group::async_openai::{GroupExt, OutcomeExt, ReplyExt};
//! use toolwright_group::{Custom, Format, Handle, ToolGroup};
//! use toolwright_module::{Context, Result};
//!
//! /// Write a biography of the user.
//! #[derive(Deserialize, JsonSchema)]
//! struct Bio(String);
//!
//! impl Custom for Bio {
//!     async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
//!         Ok((format!("Saved {} characters.", self.0.chars().count()), ()))
//!     }
//! }
//!
//! /// Say when the user was born.
//! #[derive(Deserialize, JsonSchema)]
//! struct Timestamp(String);
//!
//! impl Custom for Timestamp {
//!     fn format() -> Option<Format> {
//!         Some(Format::Regex(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}".into()))
//!     }
//!
//!     async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
//!         Ok((format!("Saved {}.", self.0), ()))
//!     }
//! }
//!
//! /// Say hello to somebody.
//! #[derive(Deserialize, JsonSchema)]
//! struct SayHello {
//!     name: String,
//! }
//!
//! impl Handle for SayHello {
//!     async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
//!         Ok((format!("Message delivered to {}.", self.name), ()))
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     let tools = ToolGroup::new().custom::<Bio>()?.custom::<Timestamp>()?.handler::<SayHello>()?;
//!     let definitions = tools.responses_tools()?;
//!     println!("{}", serde_json::to_string_pretty(&definitions)?);
//!
//!     let request = CreateResponseArgs::default()
//!         .model("gpt-5")
//!         .input("I am Kate, born on 1 May 1990 at noon, and I bake bread. Use each tool once.")
//!         .tools(definitions)
//!         .build()?;
//!     let reply = Client::new().responses().create(request).await?;
//!     for outcome in tools.dispatch(&reply.calls(), &(), &Context::default()).await {
//!         println!("{}", serde_json::to_string(&outcome?.output_item())?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The page `docs/tool-calls.md` of the project shows a program with a loop, and lists those for
//! structured output, for one tool and without `async`.

mod calls;
mod definitions;
mod outcomes;
mod replies;

pub use calls::{IntoToolCall, read_call};
pub use definitions::{Api, DefinitionExt, GroupExt};
pub use outcomes::OutcomeExt;
pub use replies::ReplyExt;
