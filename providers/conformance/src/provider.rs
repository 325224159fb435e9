//! The providers that play the suite.

use std::sync::Arc;
use std::time::Duration;

use toolwright_anthropic::Anthropic;
use toolwright_module::LanguageModel;
use toolwright_module::provider::ProviderError;
use toolwright_openai::{Api, OpenAi};

/// Maximum time without a byte. Some scripts are silent for longer.
const SILENCE: Duration = Duration::from_millis(1500);
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
pub const PROVIDERS: &[Provider] = &[
    Provider { name: "OpenAI Chat", wire: Wire::OpenAiChat, model: |url| openai(url, Api::Chat) },
    Provider {
        name: "OpenAI Responses",
        wire: Wire::OpenAiResponses,
        model: |url| openai(url, Api::Responses),
    },
    Provider { name: "Anthropic", wire: Wire::Anthropic, model: anthropic },
];

fn anthropic(url: &str) -> Result<Arc<dyn LanguageModel>, ProviderError> {
    let model = Anthropic::at(&format!("{url}/v1"), "claude-sonnet-4-5")?.with_key(KEY)?;
    Ok(Arc::new(model.with_timeout(SILENCE)?))
}

fn openai(url: &str, api: Api) -> Result<Arc<dyn LanguageModel>, ProviderError> {
    let model = OpenAi::at(&format!("{url}/v1"), "test-model")?.with_key(KEY)?;
    Ok(Arc::new(model.with_api(api).with_timeout(SILENCE)?))
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
