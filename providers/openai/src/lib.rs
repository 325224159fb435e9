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
//! println!("{}", capital.call(input, &Context::default()).await?);
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
//! | know what went wrong | [`OpenAiError`] inside the error of the call |
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
//! [unknown](toolwright_module::model::Usage::unknown), not zero.
//!
//! # What does not work (yet)
//!
//! - llama.cpp ignores an answer's schema over Responses (`text.format`); use
//!   [`with_structured_output(false)`](OpenAi::with_structured_output) there.
//! - Azure's addresses: its configuration is another type.
//! - Images in tool results over Chat Completions, which has no place for them.

mod api;
mod assembly;
mod chat;
mod error;
#[cfg(test)]
mod fuzzed;
mod lenient;
mod open_ai;
mod request;
mod responses;
mod streaming;

pub use api::Api;
pub use error::OpenAiError;
pub use open_ai::OpenAi;
/// The reqwest whose client [`OpenAi::with_http`] takes.
pub use toolwright_http::reqwest;
