//! Language model of the Gemini API and of Vertex AI.

mod arguments;
mod gemini;
mod reply;
mod request;
mod thinking;

pub use gemini::Gemini;
/// The version of reqwest whose client [`Gemini::with_http`] takes.
pub use toolwright_http::reqwest;
pub use toolwright_module::provider::ProviderError;

/// The name of the provider.
const PROVIDER: &str = "gemini";

/// A result with the providers' error as the default error type.
type Result<T, E = ProviderError> = std::result::Result<T, E>;
