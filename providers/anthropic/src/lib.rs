//! Language model of Anthropic, over the Messages API.
//!
//! [`Anthropic`] is a [`LanguageModel`](toolwright_module::LanguageModel), with whole or streamed
//! replies. This crate has its own types for requests and replies. They are open: an unknown block,
//! event, field or stop reason never makes a reply fail. It uses `toolwright-http` for URLs,
//! retries, limits and redaction.
//!
//! ```no_run
//! use toolwright_anthropic::Anthropic;
//! use toolwright_module::{Context, Predict, Signature};
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
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
//! let capital = Predict::<Capital>::new(Anthropic::from_env("claude-haiku-4-5")?)?;
//! let input = Capital { country: "France".to_owned() };
//! println!("{}", capital.call(input, &Context::default()).await?);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | use a model of Anthropic | [`Anthropic::from_env`] |
//! | use a server with the same API, such as llama.cpp | [`Anthropic::at`] |
//! | choose the version of the API, or turn on a beta | [`Anthropic::with_version`], [`Anthropic::with_beta`] |
//! | let the model think | `Settings::effort`; [`Anthropic::with_thinking`] sets how it is sent |
//! | keep the prompt in the cache for an hour, or turn the cache off | [`Anthropic::with_cache_time`], `Settings::cache` |
//! | search the web, run code, use memory or search tools | [`Anthropic::with_server_tool`], [`Anthropic::with_tool_field`] |
//! | get citations of documents | [`Anthropic::with_citations`] |
//! | set the service tier, or any other field of the body | `Settings::with_extra("anthropic", …)` |
//! | read why the model refused | [`stop_details`] |
//! | use your own `reqwest::Client` | [`Connection::with_http`] |
//! | handle an error | [`ProviderError`] inside the error of the call |
//!
//! # Requests
//!
//! The contracts of tools and of the answer are lowered to
//! [`Dialect::Anthropic`](toolwright_signature::Dialect::Anthropic), and tools are strict as far as
//! the limits of a request allow it. Consecutive messages of one role are merged, with the results
//! of calls first. Blank texts are omitted, because the API rejects them. If the conversation ends
//! with a text of the model, which the model then continues, trailing white space is removed.
//! System messages at the beginning become the field `system`. A later system message keeps its
//! place.
//!
//! Each request contains the model's earlier thinking, the calls and results of Anthropic's own
//! tools, and unknown blocks, unchanged and in place. It does not contain thinking without a
//! signature, or the reasoning and opaque parts of other providers. Ids and names that the API
//! would reject are rewritten. Arguments that are not a JSON object are sent as
//! `{"invalid_arguments": "…"}`.
//!
//! Three places of the prompt are marked for the cache: the end of the system text, which covers
//! the tools too, and the ends of the last two user turns. The cache therefore works for a prompt
//! that grows only at its end. The API allows four marks, including marks of server tools.
//!
//! # Effort
//!
//! | models | `Settings::effort` is sent as |
//! |---|---|
//! | Claude 4.6 and later | `thinking: adaptive` and `output_config.effort` (`low` to `max`) |
//! | older models, other vendors | `thinking.budget_tokens` ([`Thinking::Budget`]) |
//!
//! [`Effort::Off`](toolwright_module::model::Effort::Off) turns thinking off. Without an effort,
//! the model's default applies. Set any other form of `thinking` as an extra field:
//! `Settings::with_extra("anthropic", "thinking", json!({"type": "between_tools"}))`. With a
//! budget, the API rejects a forced tool call. With any thinking, it rejects a temperature other
//! than 1. Such a request fails before it is sent. Claude 4.7 and later, and version 2026-10-21 of
//! the API, accept neither `temperature` nor `top_p`, so
//! [`Capabilities::settings`](toolwright_module::model::Capabilities::settings) contains neither.
//!
//! # Replies
//!
//! [`Usage::input_tokens`](toolwright_module::model::Usage::input_tokens) counts every token that
//! was read, including tokens read from the cache or written to it. `pause_turn` is
//! [`Finish::Paused`](toolwright_module::model::Finish::Paused): send the reply back, and the model
//! continues. [`stop_details`] returns the reason for a refusal. A reply contains the id of the
//! container in which code runs. The request that answers the reply's calls contains this id too.
//!
//! One reply has at most 64 MiB, whole or streamed, and one line of a stream at most 4 MiB. One
//! answer may take 30 minutes, including retries ([`Connection::with_max_time`]).
//!
//! # What does not work (yet)
//!
//! - The API has no seed, and no metadata except
//!   [`Settings::user`](toolwright_module::model::Settings::user).
//! - The API accepts no audio. It accepts only JPEG, PNG, GIF and WebP images, and only PDF and
//!   text documents.
//! - The result of a failed call cannot contain images. They follow in the same message.
//! - Batches, files and token counting are separate APIs, which this crate does not use. You can
//!   send an uploaded file by its id.
//! - Amazon Bedrock and Vertex use other URLs and keys.
//!
//! # Features
//!
//! `rustls` (default) or `native-tls` choose the TLS library. Without either of them, only plain
//! http works.

mod anthropic;
mod block;
#[cfg(test)]
#[path = "../tests/generated_streams.rs"]
mod generated_streams;
mod message;
mod options;
mod reply;
mod request;
mod rules;
mod stream;

pub use anthropic::Anthropic;
pub use options::{ApiVersion, CacheTime, Thinking};
pub use reply::stop_details;
/// The kind of a [`ProviderError::Http`].
pub use toolwright_http::ErrorKind;
/// The version of reqwest whose client [`Connection::with_http`] takes.
pub use toolwright_http::reqwest;
pub use toolwright_provider::{Connection, ProviderError};

/// A result with the providers' error as the default error type.
type Result<T, E = ProviderError> = std::result::Result<T, E>;

/// The provider's name, in the parts of a conversation that only it understands.
const PROVIDER: &str = "anthropic";
