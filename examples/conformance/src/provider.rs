//! The providers that play the suite.

use std::sync::Arc;
use std::time::Duration;

use toolwright_anthropic::{Anthropic, ApiVersion};
use toolwright_gemini::Gemini;
use toolwright_module::LanguageModel;
use toolwright_openai::{Api, OpenAi};
use toolwright_provider::ProviderError;

/// Maximum time without a byte. Some scripts are silent for longer.
const SILENCE: Duration = Duration::from_millis(2500);
/// The key that is sent. The server checks only that there is one.
const KEY: &str = "made-up";

/// A provider under test.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// Its name in the tables.
    pub name: &'static str,
    /// The API that it speaks.
    pub wire: Wire,
    /// Returns a model at a server such as `http://127.0.0.1:8000`.
    pub model: fn(&str) -> Result<Arc<dyn LanguageModel>, ProviderError>,
}

/// All providers. A new one is a line here and a dependency in `Cargo.toml`.
///
/// Where the rules of an API differ by version or model, each set of rules is an entry.
pub const PROVIDERS: &[Provider] = &[
    Provider { name: "OpenAI Chat", wire: Wire::OpenAiChat, model: |url| openai(url, Api::Chat) },
    Provider {
        name: "OpenAI Responses",
        wire: Wire::OpenAiResponses,
        model: |url| openai(url, Api::Responses),
    },
    Provider {
        name: "Anthropic",
        wire: Wire::Anthropic,
        model: |url| anthropic(url, "claude-sonnet-4-5", ApiVersion::V2023_06_01),
    },
    Provider {
        name: "Anthropic 2026",
        wire: Wire::Anthropic,
        model: |url| anthropic(url, "claude-opus-4-7", ApiVersion::V2026_10_21),
    },
    Provider {
        name: "Gemini 2.5",
        wire: Wire::Gemini,
        model: |url| gemini(url, "gemini-2.5-flash"),
    },
    Provider {
        name: "Gemini 3",
        wire: Wire::Gemini,
        model: |url| gemini(url, "gemini-3-flash-preview"),
    },
];

fn anthropic(
    url: &str,
    model: &str,
    version: ApiVersion,
) -> Result<Arc<dyn LanguageModel>, ProviderError> {
    let model = Anthropic::at(&format!("{url}/v1"), model)?.with_key(KEY)?;
    // As the provider's own API does it.
    let model = model.with_tool_references(true);
    Ok(Arc::new(model.with_version(version)?.with_connection(|c| c.with_timeout(SILENCE))?))
}

fn gemini(url: &str, model: &str) -> Result<Arc<dyn LanguageModel>, ProviderError> {
    let model = Gemini::at(&format!("{url}/v1beta"), model)?.with_key(KEY)?;
    Ok(Arc::new(model.with_connection(|c| c.with_timeout(SILENCE))?))
}

fn openai(url: &str, api: Api) -> Result<Arc<dyn LanguageModel>, ProviderError> {
    let model = OpenAi::at(&format!("{url}/v1"), "test-model")?.with_key(KEY)?;
    // As the provider's own API does it.
    let model = model.with_additional_tools(true);
    Ok(Arc::new(model.with_api(api).with_connection(|c| c.with_timeout(SILENCE))?))
}

/// An API on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Chat Completions of OpenAI.
    OpenAiChat,
    /// Responses of OpenAI.
    OpenAiResponses,
    /// Messages of Anthropic.
    Anthropic,
    /// `generateContent` of Gemini.
    Gemini,
}
