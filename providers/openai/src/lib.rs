//! OpenAI's models, and those of every server that speaks like OpenAI.
//!
//! [`OpenAi`] is a [`LanguageModel`](toolwright_module::LanguageModel) over Chat
//! Completions or Responses, whole or streamed. The types of requests and replies are this
//! crate's, because closed ones would reject what compatible servers say. Addresses,
//! retries, limits and redaction are those of `toolwright-http`.
//!
//! ```no_run
//! use toolwright_module::{Context, Predict, Signature};
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! use toolwright_openai::OpenAi;
//!
//! /// Name the capital of a country.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Capital {
//!     country: String,
//! }
//!
//! impl Signature for Capital {
//!     type Output = String;
//! }
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! # use toolwright_module::Module;
//! let capital = Predict::<Capital>::new(OpenAi::from_env("gpt-5-mini")?)?;
//! let input = Capital { country: "France".to_owned() };
//! println!("{}", capital.forward(input, &Context::default()).await?);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | ask OpenAI | [`OpenAi::from_env`] |
//! | ask llama.cpp, Ollama, vLLM, LM Studio, OpenRouter, … | [`OpenAi::at`] |
//! | set organization, project or headers | [`OpenAi::with_organization`], [`OpenAi::with_project`], [`OpenAi::with_header`] |
//! | use your own `reqwest::Client` | [`OpenAi::with_http`] |
//! | choose the API | [`OpenAi::with_api`] |
//! | know what went wrong | [`Error`] inside the error of the call |
//!
//! # A loop of your own
//!
//! With `default-features = false` there is no client in this crate. The feature `wire` turns a
//! [`ToolGroup`](toolwright_module::ToolGroup) into `tools`, replies in `async-openai`'s
//! types into [`ToolCall`](toolwright_module::ToolCall)s and outcomes into messages:
//! [`GroupExt`], [`DefinitionExt`], [`ReplyExt`], [`IntoToolCall`], [`OutcomeExt`].
//!
//! <!-- code: examples/examples/intro.rs -->
//!
//! ```no_run
//! use async_openai::Client;
//! use async_openai::types::responses::CreateResponseArgs;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use toolwright_module::{Context, Custom, Format, Handle, Result, ToolGroup};
//! use toolwright_openai::{GroupExt, OutcomeExt, ReplyExt};
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
//! Programs with a loop, for structured output, one tool and a group of tools, with
//! `async` and without, are on the page `docs/tool-calls.md` of the project.
//!
//! # How a request is sent
//!
//! Tools and answers are lowered to the model's
//! [`Dialect`](toolwright_signature::Dialect). A model's reasoning goes back to
//! Responses in its place and as it came; Chat Completions has no place for it.
//! Arguments that are no JSON object go back as `{"invalid_arguments": "…"}`, because
//! some servers fail on anything else.
//!
//! # What a server may send
//!
//! At most 64 MiB as one reply, whole or streamed, and 4 MiB as one line of a stream; one
//! answer may take 30 minutes ([`OpenAi::with_max_time`]). A server that does not stream
//! where it is asked to is understood all the same. Usage that it does not report is
//! [unknown](toolwright_module::Usage::unknown), not zero.
//!
//! # What does not work (yet)
//!
//! - llama.cpp ignores an answer's schema over Responses (`text.format`); use
//!   [`with_structured_output(false)`](OpenAi::with_structured_output) there.
//! - Azure's addresses: its configuration is another type.
//! - Images in tool results over Chat Completions, which has no place for them.

// The section on a loop of your own names them.
#![cfg_attr(not(all(feature = "client", feature = "wire")), allow(rustdoc::broken_intra_doc_links))]

mod api;
#[cfg(feature = "client")]
mod assembly;
mod calls;
#[cfg(feature = "client")]
mod chat;
#[cfg(feature = "client")]
mod error;
#[cfg(all(test, feature = "client"))]
mod fuzzed;
#[cfg(feature = "client")]
mod lenient;
#[cfg(feature = "client")]
mod open_ai;
#[cfg(feature = "client")]
mod request;
#[cfg(feature = "client")]
mod responses;
#[cfg(feature = "client")]
mod streaming;
#[cfg(feature = "wire")]
mod wire;

pub use api::Api;
pub use calls::read_call;
#[cfg(feature = "client")]
pub use error::{Error, Result};
#[cfg(feature = "client")]
pub use open_ai::OpenAi;
/// The reqwest whose client [`OpenAi::with_http`] takes.
#[cfg(feature = "client")]
pub use toolwright_http::reqwest;
#[cfg(feature = "wire")]
pub use wire::{DefinitionExt, GroupExt, IntoToolCall, OutcomeExt, ReplyExt};
