//! A language model that uses the [genai](https://docs.rs/genai) crate, for Bedrock, Cohere and
//! other services without a provider of their own in Toolwright.
//!
//! Everything is behind the feature `genai`, which is off by default. If a service has a provider
//! of its own, prefer that, because genai loses parts of the replies.
//!
#![cfg_attr(
    feature = "genai",
    doc = r#"
```no_run
use toolwright_genai::{GenAi, genai};
use toolwright_module::{LanguageModel, Message, Request};

# async fn ask() -> Result<(), Box<dyn std::error::Error>> {
// genai finds the service by the model's name, and the key in the service's own variable.
let model = GenAi::new(genai::Client::new()?, "command-r7b-12-2024");
let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
println!("{}", reply.to_text());
# Ok(())
# }
```
"#
)]
//!
//! # What is lost
//!
//! - genai parses the arguments of calls before this crate can read them. A number with more digits
//!   than an `f64` has is changed, a repeated field is lost, and arguments that are not JSON are an
//!   error of genai. It replaces bytes that are not UTF-8 by U+FFFD, so a call with this character is
//!   not made.
//! - Reasoning is shown but not sent back. A service that requires it rejects the next request.
//! - Blocks that genai does not know, a text that is an object instead of a string, citations and the results of server tools are lost.
//! - A streamed reply arrives in one piece, because genai's streams fail on unknown blocks.
//! - A failed call is sent only as text. Images of a result follow in a message of the user.
//! - A request is not repeated. `Error::is_retryable` is true for an error that may pass, also in a reply
//!   of status 200, so that the hook `Retry` or a `Fallback` can repeat it.
//! - The size of a reply is not limited. Errors contain no request id.
//!
//! Messages have the order that every service accepts (`toolwright_provider::order`), because
//! genai does not say which order a service accepts.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "genai")]
mod model;
#[cfg(feature = "genai")]
mod request;

/// The version of genai whose client [`GenAi::new`] takes.
#[cfg(feature = "genai")]
pub use genai;
#[cfg(feature = "genai")]
pub use model::GenAi;
