//! Language model of OpenAI and of servers with a compatible API.
//!
//! [`OpenAi`] is a [`LanguageModel`](toolwright_module::LanguageModel) over Chat Completions or
//! Responses, with whole or streamed replies. This crate has its own types for requests and
//! replies, because strict types would reject many replies of compatible servers. It uses
//! `toolwright-http` for URLs, retries, limits and redaction.
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
//! println!("{}", capital.call(input, &Context::default()).await?);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | use a model of OpenAI | [`OpenAi::from_env`] |
//! | use a service by its name: Groq, Mistral, OpenRouter, llama.cpp, … | [`OpenAi::service`], [`Service::ALL`] |
//! | use any other server | [`OpenAi::at`] |
//! | use Azure | [`OpenAi::azure`], [`OpenAi::with_token`] |
//! | use a configuration of async-openai | `OpenAi::from_async_openai`, with the feature `async-openai` |
//! | set organization, project or headers | [`OpenAi::with_organization`], [`OpenAi::with_project`], [`Connection::with_header`] |
//! | use your own `reqwest::Client` | [`Connection::with_http`] |
//! | choose the API | [`OpenAi::with_api`] |
//! | keep the conversation at the server | [`OpenAi::with_server_state`] |
//! | wait for answers that take a long time | [`OpenAi::with_background`] |
//! | use tools that the server runs | [`OpenAi::with_server_tool`] |
//! | handle an error | [`ProviderError`] inside the error of the call |
//!
//! # Requests
//!
//! The contracts of tools and of the answer are lowered to the model's
//! [`Dialect`](toolwright_signature::Dialect). Over Responses, each request contains the model's
//! earlier reasoning, unchanged and in place. Chat Completions has no field for reasoning.
//! Arguments that are not a JSON object are sent as `{"invalid_arguments": "…"}`, because some
//! servers fail on anything else.
//!
//! # Servers that differ
//!
//! The list of services ([`Service::ALL`]) contains the rules of each service: the name of the
//! field for the maximum number of tokens, the form of a call's id, and whether the service accepts
//! a schema for the answer. If you create a model with the address of a service, the same rules
//! apply. For other servers, the model's name determines whether it needs its reasoning back
//! (DeepSeek, Kimi) or ids of 9 characters (Mistral). Reasoning and opaque parts are sent back only
//! to the service that sent them, because another service cannot read them. They carry its name,
//! such as `openai-chat:groq`. For OpenAI, and for servers that are not in the list, the names are
//! `openai-chat` and `openai-responses`.
//!
//! # Limits of a reply
//!
//! One reply has at most 64 MiB, whole or streamed, and one line of a stream at most 4 MiB. One
//! answer may take 30 minutes, including retries ([`Connection::with_max_time`]). If a server answers a
//! request for a stream with a whole reply, that reply is used. If a server does not report usage,
//! the usage is [unknown](toolwright_module::model::Usage::unknown), not zero.
//!
//! # What does not work (yet)
//!
//! - llama.cpp ignores the schema of an answer over Responses (`text.format`). Use
//!   [`with_structured_output(false)`](OpenAi::with_structured_output) with it.
//! - If the caller stops waiting for a background reply, the reply is not cancelled at the server.
//! - Chat Completions has no field for images in tool results. The images follow in a user message.
//!
//! # Features
//!
//! - `rustls` (default) or `native-tls` choose the TLS library. Without either of them, only plain
//!   http works.
//! - `async-openai` adds `OpenAi::from_async_openai`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod arguments;
#[cfg(feature = "async-openai")]
mod async_openai;
mod chat;
#[cfg(test)]
#[path = "../tests/generated_streams.rs"]
mod generated_streams;
mod open_ai;
mod request;
mod responses;
mod rules;
mod services;

pub use api::Api;
pub use open_ai::OpenAi;
pub use services::Service;
/// The kind of a [`ProviderError::Http`].
pub use toolwright_http::ErrorKind;
/// The version of reqwest whose client [`Connection::with_http`] takes.
pub use toolwright_http::reqwest;
pub use toolwright_provider::{Connection, ProviderError};

/// A result with the providers' error as the default error type.
type Result<T, E = ProviderError> = std::result::Result<T, E>;
