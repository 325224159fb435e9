//! Models of the [genai](https://docs.rs/genai) crate as a language model: Bedrock, Cohere and
//! others that have no provider of their own in Toolwright.
//!
//! Everything is behind the feature `genai`, which is off by default. Prefer a provider of its own
//! where there is one: what genai does not keep cannot be given back.
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
//! - Arguments of calls are values before they can be read. A number with more digits than an `f64`
//!   has is changed, a repeated field is lost, and arguments that are not JSON are an error of
//!   genai.
//! - Reasoning is shown and not sent back. A service that requires it refuses the next request.
//! - Blocks that genai does not know, citations and the results of server tools are lost.
//! - A stream has one piece, because genai's streams fail on blocks that they do not know.
//! - Results have no images, and a failed call is only a text.
//! - There is no limit of bytes. The errors have no request id.

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
