use std::env;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use toolwright_module::model::Settings;

use clap::Args;
use serde::Deserialize;
use toolwright_anthropic::Anthropic;
use toolwright_gemini::Gemini;
use toolwright_module::message::Part;
use toolwright_module::testing::{Recorder, Recording, RecordingError, Replay};
use toolwright_module::{LanguageModel, Message};
use toolwright_openai::{Api, OpenAi, Service};

/// Model servers with their default ports.
const LOCAL_SERVERS: [(&str, u16); 3] =
    [("Ollama", 11434), ("llama-server", 8080), ("LM Studio", 1234)];

/// Timeout for the response of a local server.
const PROBE: Duration = Duration::from_millis(200);

/// A model of any provider.
type Model = Arc<dyn LanguageModel>;

/// The provider whose API a server has.
#[derive(Debug, Clone, Copy, Default)]
pub enum Provider {
    /// OpenAI, and most local servers
    #[default]
    Openai,
    /// Anthropic
    Anthropic,
    /// Gemini
    Gemini,
    /// A service with OpenAI's API
    Service(&'static Service),
}

impl Provider {
    /// Returns the environment variable with the key. A server on this machine may have none.
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Service(service) => service.key_variable,
        }
    }

    /// Returns the model to use if only a key is set. A service has none.
    fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("gpt-4.1-mini"),
            Self::Anthropic => Some("claude-haiku-4-5"),
            Self::Gemini => Some("gemini-2.5-flash"),
            Self::Service(_) => None,
        }
    }

    /// Returns the help of `--provider`, with the services.
    fn help() -> String {
        let services = Service::ALL.iter().map(|service| format!("\n  {service}"));
        format!(
            "Provider, or the one whose API the server has: openai, anthropic, gemini, or a service \
             with OpenAI's API:{}",
            services.collect::<String>()
        )
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "openai" => Ok(Self::Openai),
            "anthropic" => Ok(Self::Anthropic),
            "gemini" => Ok(Self::Gemini),
            _ => match Service::ALL.iter().find(|service| service.name == name) {
                Some(service) => Ok(Self::Service(service)),
                None => Err("there is no such provider; --help lists them".to_owned()),
            },
        }
    }
}

/// Arguments that select a server.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// Provider, or the one whose API the server has: openai, anthropic, gemini or a service such as
    /// groq
    #[arg(long, value_name = "NAME", default_value = "openai", long_help = Provider::help())]
    pub provider: Provider,

    /// URL of a server with that API, such as http://127.0.0.1:8080/v1. For Gemini it ends in /v1beta
    #[arg(long, value_name = "URL", requires = "model")]
    pub base_url: Option<String>,

    /// Name of the model on that server
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// OpenAI API to use. Default: that of the service, or chat
    #[arg(long, value_name = "chat|responses")]
    pub api: Option<Api>,

    /// Environment variable with the key for --base-url. Default for a server on this machine:
    /// that of the provider, such as OPENAI_API_KEY
    #[arg(long, value_name = "NAME", requires = "base_url")]
    pub key_env: Option<String>,

    /// Maximum time without data from the server, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub timeout: u64,
}

/// Arguments that select a model, and record it.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Replay the recording, even if there is a key or a server
    #[arg(long, conflicts_with_all = ["base_url", "record"])]
    offline: bool,

    /// Request whole replies instead of streams
    #[arg(long)]
    pub no_stream: bool,

    /// Record the model's replies in this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A model with its description.
pub struct Chosen {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// One line that names the model and where it was found.
    pub line: String,
    recorder: Option<(Arc<Recorder<Model>>, PathBuf)>,
}

impl Chosen {
    /// Saves the recording, if the run is recorded and has replies. Returns the path of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_recording(&self) -> Result<Option<&Path>, RecordingError> {
        let Some((recorder, path)) = &self.recorder else { return Ok(None) };
        let recording = recorder.recording();
        if recording.exchanges.is_empty() {
            return Ok(None);
        }
        recording.save(path)?;
        Ok(Some(path))
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").field("line", &self.line).finish_non_exhaustive()
    }
}

/// Error if there is no model for a prompt. Its text says how to get one.
#[derive(Debug)]
pub struct NoModel {
    recorded: String,
}

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no model was found, and the recording only answers this prompt:\n  {}\n\
             For any other prompt, choose a model:\n  \
             set OPENAI_API_KEY, or\n  \
             start Ollama, llama-server or LM Studio on this machine, or\n  \
             pass --base-url URL --model NAME for any server with OpenAI's API",
            self.recorded
        )
    }
}

impl Error for NoModel {}

impl ServerArgs {
    /// Returns the model that the arguments name, if they name a server.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or the variable in `--key-env` is not set.
    pub fn given(&self) -> Result<Option<Arc<dyn LanguageModel>>, Box<dyn Error>> {
        self.given_with(Settings::default())
    }

    fn given_with(&self, settings: Settings) -> Result<Option<Model>, Box<dyn Error>> {
        let (base_url, name) = match (&self.base_url, &self.model, self.provider) {
            (Some(base_url), Some(name), _) => (base_url, name),
            (None, Some(name), Provider::Service(service)) => {
                let model = OpenAi::service(service.name, name)?;
                return Ok(Some(Arc::new(self.openai(model, settings)?)));
            }
            (None, None, Provider::Service(service)) => {
                return Err(
                    format!("--provider {}: name its model with --model", service.name).into()
                );
            }
            _ => return Ok(None),
        };
        let key = self.key_for(base_url)?;
        Ok(Some(match self.provider {
            Provider::Openai | Provider::Service(_) => {
                let model = self.openai(OpenAi::at(base_url, name)?, settings)?;
                Arc::new(match key {
                    Some(key) => model.with_key(key)?,
                    None => model,
                })
            }
            Provider::Anthropic => {
                let model = self.anthropic(Anthropic::at(base_url, name)?, settings)?;
                Arc::new(match key {
                    Some(key) => model.with_key(key)?,
                    None => model,
                })
            }
            Provider::Gemini => {
                let model = self.gemini(Gemini::at(base_url, name)?, settings)?;
                Arc::new(match key {
                    Some(key) => model.with_key(key)?,
                    None => model,
                })
            }
        }))
    }

    /// Applies the arguments that are valid for every server with OpenAI's API.
    fn openai(&self, model: OpenAi, settings: Settings) -> Result<OpenAi, Box<dyn Error>> {
        let timeout = Duration::from_secs(self.timeout);
        let model = match self.api {
            Some(api) => model.with_api(api),
            None => model,
        };
        Ok(model.with_timeout(timeout)?.with_settings(settings))
    }

    /// Applies the arguments that are valid for every server with Anthropic's API.
    fn anthropic(&self, model: Anthropic, settings: Settings) -> Result<Anthropic, Box<dyn Error>> {
        Ok(model.with_timeout(Duration::from_secs(self.timeout))?.with_settings(settings))
    }

    /// Applies the arguments that are valid for every server with Gemini's API.
    fn gemini(&self, model: Gemini, settings: Settings) -> Result<Gemini, Box<dyn Error>> {
        Ok(model.with_timeout(Duration::from_secs(self.timeout))?.with_settings(settings))
    }

    /// Returns the key for a URL: the one in `--key-env`, or the provider's if the server is on
    /// this machine. The provider's key is not sent to other machines by accident.
    fn key_for(&self, base_url: &str) -> Result<Option<String>, Box<dyn Error>> {
        if let Some(variable) = &self.key_env {
            let key = env::var(variable)
                .map_err(|_| format!("--key-env: the variable {variable} is not set"))?;
            return Ok(Some(key));
        }
        let url = reqwest::Url::parse(base_url)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        // Some local servers require a key, but accept any.
        Ok(here.then(|| {
            let key = self.provider.key().and_then(|key| env::var(key).ok());
            key.unwrap_or_else(|| "no-key-required".to_owned())
        }))
    }
}

impl ModelArgs {
    /// Finds a model: the one in the arguments, the provider's if its key is set, or one of a server
    /// on this machine. If there is no model, replays `recording`.
    ///
    /// The recording answers only its own prompt. `None` means that the prompt is not known yet,
    /// so the recording cannot be used.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or there is no model for this prompt.
    pub async fn choose(
        &self,
        prompt: Option<&str>,
        recording: Recording,
    ) -> Result<Chosen, Box<dyn Error>> {
        // Check this before the run, because a run costs money.
        if let Some(folder) = self.record.as_deref().and_then(Path::parent)
            && folder != Path::new("")
            && !folder.is_dir()
        {
            return Err(format!("--record: there is no folder {}", folder.display()).into());
        }
        // With temperature 0, a new recording has the same replies, as far as the model allows.
        let settings = match self.record {
            Some(_) => Settings::default().with_temperature(0.0),
            None => Settings::default(),
        };
        let found = if let Some(model) = self.server.given_with(settings.clone())? {
            let line = match (&self.server.base_url, self.server.provider) {
                (None, Provider::Service(service)) => {
                    format!("asking {} at {}", model.name(), service.name)
                }
                (base_url, _) => {
                    let base_url = base_url.as_deref().unwrap_or_default().trim_end_matches('/');
                    format!("asking {} at {base_url}", model.name())
                }
            };
            Some((model, line))
        } else if self.offline {
            None
        } else if let Some(model) = self.at_provider(settings.clone())? {
            let key = self.server.provider.key().unwrap_or_default();
            let line = format!("asking {} with the key in {key}", model.name());
            Some((model, line))
        } else {
            self.at_local_server(settings).await?
        };
        if let Some((model, line)) = found {
            return Ok(self.recorded(model, line));
        }
        if self.record.is_some() {
            return Err("--record: no model was found to record".into());
        }
        let recorded = prompt_of(&recording);
        if prompt != Some(recorded.as_str()) {
            return Err(Box::new(NoModel { recorded }));
        }
        let line = format!("replaying a run recorded with {}; the tools run live", recording.model);
        Ok(Chosen { model: Arc::new(Replay::new(recording)), line, recorder: None })
    }

    fn recorded(&self, model: Model, line: String) -> Chosen {
        let Some(path) = &self.record else {
            return Chosen { model, line, recorder: None };
        };
        let recorder = Arc::new(Recorder::new(model));
        let model = Arc::clone(&recorder) as Model;
        Chosen { model, line, recorder: Some((recorder, path.clone())) }
    }

    fn at_provider(&self, settings: Settings) -> Result<Option<Model>, Box<dyn Error>> {
        let provider = self.server.provider;
        let (Some(key), Some(default)) = (provider.key(), provider.default_model()) else {
            return Ok(None);
        };
        if env::var_os(key).is_none_or(|key| key.is_empty()) {
            return Ok(None);
        }
        let name = self.server.model.as_deref().unwrap_or(default);
        Ok(Some(match provider {
            // It was chosen by its name before.
            Provider::Service(_) => return Ok(None),
            Provider::Openai => Arc::new(self.server.openai(OpenAi::from_env(name)?, settings)?),
            Provider::Anthropic => {
                Arc::new(self.server.anthropic(Anthropic::from_env(name)?, settings)?)
            }
            Provider::Gemini => Arc::new(self.server.gemini(Gemini::from_env(name)?, settings)?),
        }))
    }

    async fn at_local_server(
        &self,
        settings: Settings,
    ) -> Result<Option<(Model, String)>, Box<dyn Error>> {
        for (server, port) in LOCAL_SERVERS {
            let base_url = format!("http://127.0.0.1:{port}/v1");
            let Some(models) = models_at(&base_url).await else { continue };
            let Some(name) = self.server.model.clone().or_else(|| models.into_iter().next()) else {
                continue;
            };
            let line = format!("asking {name} at {base_url} ({server})");
            let server =
                ServerArgs { base_url: Some(base_url), model: Some(name), ..self.server.clone() };
            return Ok(server.given_with(settings)?.map(|model| (model, line)));
        }
        Ok(None)
    }
}

/// Returns the models of a server on this machine, if there is one.
async fn models_at(base_url: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    // No proxy, because the server is on this machine.
    let client = reqwest::Client::builder().timeout(PROBE).no_proxy().build().ok()?;
    let reply = client.get(format!("{base_url}/models")).send().await.ok()?;
    let models: Models = reply.json().await.ok()?;
    Some(models.data.into_iter().map(|model| model.id).collect())
}

/// Returns the user's prompt in a recorded run.
fn prompt_of(recording: &Recording) -> String {
    let first = recording.exchanges.first();
    let messages = first.into_iter().flat_map(|exchange| &exchange.request.messages);
    for message in messages {
        if let Message::User { parts } = &**message {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            });
            return texts.collect();
        }
    }
    String::new()
}
