//! Language model of Gemini, over the Gemini API and Vertex AI.
//!
//! [`Gemini`] is a [`LanguageModel`](toolwright_module::LanguageModel) over `generateContent`, with
//! whole or streamed replies. This crate has its own types for requests and replies. They are open:
//! an unknown part, field or finish reason never makes a reply fail. It uses `toolwright-http` for
//! URLs, retries, limits and redaction.
//!
//! ```no_run
//! use toolwright_gemini::Gemini;
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
//! let capital = Predict::<Capital>::new(Gemini::from_env("gemini-2.5-flash")?)?;
//! let input = Capital { country: "France".to_owned() };
//! println!("{}", capital.call(input, &Context::default()).await?);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | use a model of the Gemini API | [`Gemini::from_env`] |
//! | use Vertex AI | [`Gemini::vertex`], [`Gemini::with_token`] |
//! | use a proxy or another server with the same API | [`Gemini::at`], [`Gemini::vertex_at`] |
//! | let the model think | `Settings::effort`; [`Gemini::with_thoughts`] for summaries |
//! | search, run code, read addresses on the server | [`Gemini::with_server_tool`] |
//! | use a prompt that the server keeps | [`Gemini::with_cached_content`] |
//! | block more or less harmful content | [`Gemini::with_safety`] |
//! | stream the arguments of calls | [`Gemini::with_streamed_arguments`] |
//! | set any other field of the body | `Settings::with_extra("gemini", …)` |
//! | read why a reply ended, or where its content comes from | [`reply_details`] |
//! | use your own `reqwest::Client` | [`Connection::with_http`] |
//! | handle an error | [`ProviderError`] inside the error of the call |
//!
//! # Requests
//!
//! The contracts of tools and of the answer are lowered to
//! [`Dialect::Gemini`](toolwright_signature::Dialect::Gemini) and sent as `parametersJsonSchema`
//! and `responseJsonSchema`. System messages become the `systemInstruction`. The results of a turn
//! are one `content`, in the order of the calls. From Gemini 3 on, the results contain their images
//! and documents. For earlier models, these follow in a `content` of the user. Arguments that are
//! not a JSON object are sent as `{"invalid_arguments": "…"}`.
//!
//! Each request contains the earlier parts of the model, unchanged and in their places: thoughts,
//! executed code, calls of server tools, unknown parts, and the signature (`thoughtSignature`) of
//! each, also of texts. Reasoning and opaque parts of other providers are omitted. Gemini 3 rejects
//! a call without a signature, so a call of another model gets a placeholder signature that the API
//! provides for this case. Ids of calls are sent back if the API gave them. Most calls have no id
//! and are paired by their order.
//!
//! # Effort
//!
//! | models | `Settings::effort` is sent as |
//! |---|---|
//! | Gemini 3 and later, `…-latest` | `thinkingLevel`, the nearest level that the model has |
//! | Gemini 2.5, tuned models | `thinkingBudget`: 0 (Pro: 128), 512, 1024, 8192, 16384, 24576 (Pro: 32768) tokens |
//! | Gemini 2.0 and earlier, Gemma | an error, because these models do not think |
//!
//! # Replies
//!
//! | the API's reason | [`Finish`](toolwright_module::model::Finish) |
//! |---|---|
//! | `STOP`, also with calls | `Stop` |
//! | `MAX_TOKENS` | `Length` |
//! | `SAFETY`, `RECITATION`, `BLOCKLIST`, `PROHIBITED_CONTENT`, `SPII`, `MODEL_ARMOR`, those of images, and a blocked prompt | `Refused` |
//! | any other, such as `MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL` or `LANGUAGE` | `Other` |
//!
//! [`Usage::input_tokens`](toolwright_module::model::Usage::input_tokens) includes the tokens that
//! server tools read, and `output_tokens` includes the thoughts. A stream is read to its end,
//! because after a server tool the answer may follow the first `STOP`. An error keeps the pause
//! that the API requests (`RetryInfo`). One reply has at most 64 MiB, whole or streamed, and one
//! line of a stream at most 4 MiB. One answer may take 30 minutes, including retries
//! ([`Connection::with_max_time`]).
//!
//! # What does not work (yet)
//!
//! - The API has no settings for parallel calls, a user or the implicit cache. It has metadata
//!   (`labels`) only on Vertex AI.
//! - Models before Gemini 3 reject tools together with a schema of the answer
//!   ([`Gemini::with_structured_output`]), and together with server tools.
//! - Images and audio that a model generates are opaque parts of the reply.
//! - Access tokens of Vertex AI are not renewed. This crate does not upload files. You can send an
//!   uploaded file by its name, such as `Image::file("gemini", "files/abc")`.
//! - Numbers in streamed arguments keep their digits, but the API itself uses 64-bit floats.
//!
//! # Features
//!
//! `rustls` (default) or `native-tls` choose the TLS library. Without either of them, only plain
//! http works.

mod arguments;
mod gemini;
#[cfg(test)]
#[path = "../tests/generated_streams.rs"]
mod generated_streams;
mod reply;
mod request;
mod thinking;

pub use gemini::Gemini;
pub use reply::reply_details;
/// The kind of a [`ProviderError::Http`].
pub use toolwright_http::ErrorKind;
/// The version of reqwest whose client [`Connection::with_http`] takes.
pub use toolwright_http::reqwest;
pub use toolwright_provider::{Connection, ProviderError};

/// The name of the provider.
const PROVIDER: &str = "gemini";

/// A result with the providers' error as the default error type.
type Result<T, E = ProviderError> = std::result::Result<T, E>;
