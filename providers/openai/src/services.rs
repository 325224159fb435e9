//! The table of services with OpenAI's APIs.

use std::fmt;

use toolwright_module::model::Setting;
use toolwright_signature::Dialect;

use crate::Api;
use crate::rules::Quirk::{self, AnyIds, AnyOrder, KeyHeader, MaxTokens, NeedsReasoning, NineIds};
use crate::rules::Quirk::{NoItemIds, NoReasoning, NoStreamOptions, NoStructuredOutput, Without};

/// A service with one of OpenAI's APIs, or a server program on this machine.
///
/// [`OpenAi::service`](crate::OpenAi::service) makes a model of it. The list has the addresses, the
/// variables of the keys and what the servers need that others do not.
///
/// ```
/// use toolwright_openai::Service;
///
/// let groq = Service::ALL.iter().find(|service| service.name == "groq").unwrap();
/// assert_eq!(groq.key_variable, Some("GROQ_API_KEY"));
/// assert_eq!(
///     groq.to_string(),
///     "groq: https://api.groq.com/openai/v1, key in GROQ_API_KEY, 69 recorded exchanges",
/// );
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Service {
    /// The name, such as `groq`.
    pub name: &'static str,
    /// The base URL. A word in braces is an environment variable.
    pub base_url: &'static str,
    /// The environment variable with the key. `None` for a server that needs no key.
    pub key_variable: Option<&'static str>,
    /// The API that a model of the service uses if the caller does not choose one.
    pub api: Api,
    /// The dialect of JSON Schema.
    pub dialect: Dialect,
    /// The number of recorded exchanges with the service that prove how its replies are read. The
    /// recordings are not part of this repository. 0 means that nothing is proven.
    pub recordings: u32,
    pub(crate) quirks: &'static [Quirk],
}

impl Service {
    /// All services, the ones in the recordings first.
    pub const ALL: &'static [Self] = &[
        at("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", 615, OPENAI),
        at("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", 233, &[]),
        at("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", 173, MISTRAL),
        at("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", 135, DEEPSEEK),
        local("llama.cpp", "http://127.0.0.1:8080/v1", 119),
        at("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", 69, &[NoStructuredOutput]),
        at("xai", "https://api.x.ai/v1", "XAI_API_KEY", 60, XAI).with_api(Api::Responses),
        at("doubleword", "https://api.doubleword.ai/v1", "DOUBLEWORD_API_KEY", 56, &[MaxTokens]),
        at("venice", "https://api.venice.ai/api/v1", "VENICE_API_KEY", 26, &[MaxTokens]),
        at("copilot", "https://api.githubcopilot.com", "COPILOT_API_KEY", 22, &[MaxTokens]),
        at("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", 16, PERPLEXITY),
        at("snowflake", SNOWFLAKE, "SNOWFLAKE_TOKEN", 9, &[]),
        at("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", 8, PLAIN),
        at("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", 7, &[]),
        at("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN", 7, &[MaxTokens]),
        at("bedrock", BEDROCK, "AWS_BEARER_TOKEN_BEDROCK", 6, &[]).with_api(Api::Responses),
        local("mistral.rs", "http://127.0.0.1:1234/v1", 6),
        at("azure", AZURE, "AZURE_OPENAI_API_KEY", 4, OF_AZURE),
        at("google", GOOGLE, "GEMINI_API_KEY", 2, &[]).with_dialect(Dialect::Gemini),
        at("ollama-cloud", "https://ollama.com/v1", "OLLAMA_API_KEY", 2, &[MaxTokens]),
        local("ollama", "http://127.0.0.1:11434/v1", 1),
        at("heroku", "https://us.inference.heroku.com/v1", "INFERENCE_KEY", 1, &[MaxTokens]),
        at("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", 0, &[MaxTokens]),
        at("fireworks", FIREWORKS, "FIREWORKS_API_KEY", 0, &[MaxTokens]),
        at("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", 0, MOONSHOT),
        at("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", 0, &[MaxTokens]),
        at("github", "https://models.github.ai/inference", "GITHUB_TOKEN", 0, &[MaxTokens]),
        local("vllm", "http://127.0.0.1:8000/v1", 0),
        local("lm-studio", "http://127.0.0.1:1234/v1", 0),
    ];

    /// Returns the service at a host, for a model that was made with the host's address. A program
    /// on this machine has no host of its own.
    pub(crate) fn at_host(host: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|service| {
            let rest = service.base_url.strip_prefix("https://");
            let of_service = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
            match of_service.split_once('}') {
                _ if service.name == "azure" => host.ends_with(".openai.azure.com"),
                Some((before, domain)) => {
                    let begin = before.split('{').next().unwrap_or_default();
                    host.starts_with(begin) && host.ends_with(domain)
                }
                None => host == of_service,
            }
        })
    }

    const fn with_api(self, api: Api) -> Self {
        Self { api, ..self }
    }

    const fn with_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }
}

const AZURE: &str = "{AZURE_OPENAI_ENDPOINT}/openai";
const BEDROCK: &str = "https://bedrock-mantle.{AWS_REGION}.api.aws/openai/v1";
const FIREWORKS: &str = "https://api.fireworks.ai/inference/v1";
const GOOGLE: &str = "https://generativelanguage.googleapis.com/v1beta/openai";
const SNOWFLAKE: &str = "https://{SNOWFLAKE_ACCOUNT}.snowflakecomputing.com/api/v2/cortex/v1";

// Each service that accepts a message after every other, as recorded (OpenAI, DeepSeek) or
// documented (xAI), has `AnyOrder`.
const OPENAI: &[Quirk] = &[NoReasoning, AnyOrder];
const OF_AZURE: &[Quirk] = &[KeyHeader("api-key"), NoReasoning, AnyOrder];
// Recorded conversations with xAI and DeepSeek have no ids, and these servers accepted all of them.
const XAI: &[Quirk] = &[AnyOrder, NoItemIds];
/// Only `json_object` for answers, and the older name of the maximum.
const PLAIN: &[Quirk] = &[MaxTokens, NoStructuredOutput];
const DEEPSEEK: &[Quirk] = &[MaxTokens, NoStructuredOutput, NeedsReasoning, AnyOrder, NoItemIds];
const MOONSHOT: &[Quirk] = &[MaxTokens, NoStructuredOutput, NeedsReasoning, AnyIds];
// Mistral refuses fields that it does not know.
const MISTRAL: &[Quirk] =
    &[MaxTokens, NoStreamOptions, NineIds, Without(Setting::Seed), Without(Setting::User)];
const PERPLEXITY: &[Quirk] = &[MaxTokens, NoStreamOptions];

const fn at(
    name: &'static str,
    base_url: &'static str,
    key: &'static str,
    recordings: u32,
    quirks: &'static [Quirk],
) -> Service {
    let (api, dialect) = (Api::Chat, Dialect::OpenAiLoose);
    Service { name, base_url, key_variable: Some(key), api, dialect, recordings, quirks }
}

const fn local(name: &'static str, base_url: &'static str, recordings: u32) -> Service {
    Service { key_variable: None, ..at(name, base_url, "", recordings, &[MaxTokens]) }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, base_url, recordings, .. } = self;
        write!(f, "{name}: {base_url}, ")?;
        match self.key_variable {
            Some(variable) => write!(f, "key in {variable}, ")?,
            None => f.write_str("no key, ")?,
        }
        match recordings {
            0 => f.write_str("not proven"),
            1 => f.write_str("1 recorded exchange"),
            _ => write!(f, "{recordings} recorded exchanges"),
        }
    }
}
