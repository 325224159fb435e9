use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use toolwright_anthropic::Anthropic;
use toolwright_gemini::Gemini;
use toolwright_http::shown_url;
use toolwright_module::LanguageModel;
use toolwright_module::budget::{Ledger, Price, Prices};
use toolwright_module::model::Settings;
use toolwright_module::testing::{Recorder, RecordingError, Replay};
use toolwright_openai::{Api, OpenAi, Service};
use toolwright_provider::{Connection, ProviderError};

use crate::config::Config;
use crate::keys::{Keys, shown_variable};
use crate::record::{Options, Recorded};
use crate::serve::RecordedTask;
use crate::show::visible;
use crate::texts::read_file;

/// Model servers with their default ports.
const LOCAL_SERVERS: [(&str, u16); 3] =
    [("Ollama", 11434), ("llama-server", 8080), ("LM Studio", 1234)];

/// Timeout for the response of a local server.
const PROBE: Duration = Duration::from_millis(200);

/// Maximum time without data from the server, if the arguments have none.
const TIMEOUT: u64 = 600;

/// A model of any provider.
type Model = Arc<dyn LanguageModel>;

/// The provider whose API a server has.
#[derive(Debug, Clone, Copy, Default)]
enum Provider {
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

/// The providers whose key is looked for, in this order.
const WITH_KEY: [Provider; 3] = [Provider::Openai, Provider::Anthropic, Provider::Gemini];

impl Provider {
    fn named(name: &str) -> Option<Self> {
        let own = WITH_KEY.into_iter().find(|provider| provider.name() == name);
        own.or_else(|| Service::ALL.iter().find(|service| service.name == name).map(Self::Service))
    }

    /// Returns the name, the environment variable with the key, and the model to use if only the
    /// provider is known. A server on this machine may have no key, and a service has no such model.
    fn facts(self) -> (&'static str, Option<&'static str>, Option<&'static str>) {
        match self {
            Self::Openai => ("openai", Some("OPENAI_API_KEY"), Some("gpt-4.1-mini")),
            Self::Anthropic => ("anthropic", Some("ANTHROPIC_API_KEY"), Some("claude-haiku-4-5")),
            Self::Gemini => ("gemini", Some("GEMINI_API_KEY"), Some("gemini-2.5-flash")),
            Self::Service(service) => (service.name, service.key_variable, None),
        }
    }

    fn name(self) -> &'static str {
        self.facts().0
    }

    fn key(self) -> Option<&'static str> {
        self.facts().1
    }

    fn default_model(self) -> Option<&'static str> {
        self.facts().2
    }
}

/// A model as the user names it: `PROVIDER:NAME`, `PROVIDER` or `NAME`.
#[derive(Debug, Clone)]
pub(crate) struct ModelName {
    provider: Option<Provider>,
    name: Option<String>,
}

impl ModelName {
    /// Returns the help of `--model`, with the services.
    fn help() -> String {
        let services = Service::ALL.iter().map(|service| format!("\n  {service}"));
        format!(
            "Model, as PROVIDER:NAME, such as anthropic:claude-haiku-4-5. PROVIDER alone is its \
             default model. NAME alone is a model of OpenAI if OPENAI_API_KEY is set, or of a server \
             on this machine. PROVIDER is openai, anthropic, gemini, or a service with OpenAI's \
             API:{}",
            services.collect::<String>()
        )
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.provider, &self.name) {
            (Some(provider), Some(name)) => write!(f, "{}:{name}", provider.name()),
            (Some(provider), None) => f.write_str(provider.name()),
            (None, name) => f.write_str(name.as_deref().unwrap_or_default()),
        }
    }
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Names of models may have colons too, such as `llama3.2:1b`.
        if let Some((provider, name)) = text.split_once(':')
            && let Some(provider) = Provider::named(provider)
        {
            return match name {
                "" => Err(format!("write the model's name after `{text}`")),
                name => Ok(Self { provider: Some(provider), name: Some(name.to_owned()) }),
            };
        }
        match Provider::named(text) {
            Some(provider) if provider.default_model().is_some() => {
                Ok(Self { provider: Some(provider), name: None })
            }
            Some(provider) => {
                Err(format!("name a model of {text}, as in `{}:NAME`", provider.name()))
            }
            None if text.is_empty() => Err("the name is empty".to_owned()),
            None => Ok(Self { provider: None, name: Some(text.to_owned()) }),
        }
    }
}

/// Arguments that select a model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub struct ServerArgs {
    /// Model, as PROVIDER:NAME, such as anthropic:claude-haiku-4-5 or groq:NAME; --help lists the
    /// providers. Default: that of the first key or local server that is found
    #[arg(long, value_name = "PROVIDER:NAME", long_help = ModelName::help())]
    model: Option<ModelName>,

    /// URL of a server, such as http://127.0.0.1:8080/v1. Its API is that of the provider in
    /// --model, or OpenAI's. For Gemini it ends in /v1beta
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// OpenAI API to use. Default: that of the service, or chat
    #[arg(long, value_name = "chat|responses")]
    api: Option<Api>,

    /// Environment variable with the key for --base-url. Default for a server on this machine:
    /// that of the provider, such as OPENAI_API_KEY
    #[arg(long, value_name = "NAME", requires = "base_url")]
    key_env: Option<String>,

    /// TOML file with keys by the names of their variables, such as OPENAI_API_KEY. Only its owner
    /// may read it. Default: keys.toml beside the configuration
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Send the key over http:// to another machine too. Anyone on the network between can read it
    #[arg(long, requires = "key_env")]
    plain_http: bool,

    /// Maximum time without data from the server, in seconds. Default: 600
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,

    /// Temperature of the model
    #[arg(long, value_name = "T", value_parser = temperature, allow_negative_numbers = true)]
    temperature: Option<f32>,

    /// Seed of the model, for replies that can be repeated; not every provider takes one
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
}

fn temperature(text: &str) -> Result<f32, &'static str> {
    checked_temperature(text.parse().unwrap_or(f32::NAN))
}

fn checked_temperature(temperature: f32) -> Result<f32, &'static str> {
    match temperature.is_finite() && temperature >= 0.0 {
        true => Ok(temperature),
        false => Err("write a number of at least 0, such as 0.7"),
    }
}

/// Arguments that select a model, and how it is asked.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Replay the recording of this program, even if there is a key or a server
    #[arg(long, conflicts_with = "base_url", help_heading = "Model")]
    pub(crate) offline: bool,

    /// Request whole replies instead of streams
    #[arg(long, help_heading = "Model")]
    pub(crate) no_stream: bool,

    /// JSON file with the prices of models in US dollars, in place of the built-in ones. Without a price
    /// the cost of a run is unknown
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    prices: Option<PathBuf>,

    /// The file to record in.
    #[arg(skip)]
    pub(crate) record: Option<PathBuf>,
}

/// A model with its description.
pub(crate) struct Chosen {
    /// The model.
    pub(crate) model: Arc<dyn LanguageModel>,
    /// One line that names the model and where it was found.
    pub(crate) line: String,
    /// The prices, if they are not the built-in ones.
    pub(crate) prices: Option<Prices>,
    /// The only task that it answers, if it repeats a recording.
    pub(crate) only_task: Option<String>,
    recorder: Option<RecordTo>,
}

/// A recording to be written.
struct RecordTo {
    recorder: Arc<Recorder<Model>>,
    path: PathBuf,
    /// The keys that do not get into it.
    secrets: Vec<String>,
}

impl Chosen {
    /// Returns a model that replays a recorded run.
    pub(crate) fn replay(recorded: &Recorded) -> Self {
        let model = Arc::new(Replay::new(recorded.recording.clone()));
        // Nobody is paid for a reply of a file.
        let prices = Prices::default().with(model.name(), Price::per_million(0.0, 0.0));
        Self {
            model,
            line: recorded.line(),
            prices: Some(prices),
            only_task: Some(recorded.task()),
            recorder: None,
        }
    }

    /// Returns a model that replays a recorded run as often as it is asked. Other tasks get the error.
    pub(crate) fn recorded_task(recorded: &Recorded, error: NoModel) -> Self {
        let model = Arc::new(RecordedTask::new(recorded, error));
        Self { model, ..Self::replay(recorded) }
    }

    /// Saves the recording, if the run is recorded and has replies. Returns the path of the file.
    pub(crate) fn save_recording(
        &self,
        options: &Options,
    ) -> Result<Option<&Path>, Box<dyn Error>> {
        let Some(RecordTo { recorder, path, secrets }) = &self.recorder else { return Ok(None) };
        let mut recording = recorder.recording();
        if recording.exchanges.is_empty() {
            return Ok(None);
        }
        recording.metadata = serde_json::to_value(options)?;
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let saved = recording.save_without(path, &secrets);
        saved.map_err(|error: RecordingError| error.to_string())?;
        Ok(Some(path))
    }
}

/// Returns a ledger for a run, with these prices or the built-in ones.
pub(crate) fn ledger(prices: Option<&Prices>) -> Ledger {
    match prices {
        None => Ledger::default(),
        Some(prices) => Ledger::default().with_prices(prices.clone()),
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").field("line", &self.line).finish_non_exhaustive()
    }
}

/// Error if there is no model for a prompt. Its text says how to get one.
#[derive(Debug)]
pub(crate) struct NoModel {
    pub(crate) recorded: String,
    pub(crate) reason: NoModelReason,
}

/// Reason why there is no model.
#[derive(Debug)]
pub(crate) enum NoModelReason {
    /// `--offline` allows the recording only.
    Offline,
    /// No server has the model of this name, which names no provider.
    Unknown(String),
    /// There is no key and no server on this machine.
    Nothing,
}

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            NoModelReason::Unknown(name) => {
                let known = [("claude", "anthropic"), ("gemini", "gemini"), ("gpt", "openai")];
                let provider = known.iter().find(|(start, _)| name.starts_with(start));
                let provider = provider.map_or("PROVIDER", |(_, provider)| provider);
                let name = visible(name);
                return write!(
                    f,
                    "no server was found for the model `{name}`\n\
                     Name its provider, as in --model {provider}:{name} (`toolwright run --help` \
                     lists the providers), or\n  \
                     set OPENAI_API_KEY for a model of OpenAI, or\n  \
                     start Ollama, llama-server or LM Studio on this machine, or\n  \
                     pass --base-url URL for any server with OpenAI's API"
                );
            }
            NoModelReason::Offline => f.write_str("--offline asks no model"),
            NoModelReason::Nothing => f.write_str("no model was found"),
        }?;
        write!(
            f,
            ", and the recording only answers this task:\n  {}\n\
             For any other task, choose a model:\n  \
             set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or\n  \
             start Ollama, llama-server or LM Studio on this machine, or\n  \
             pass --base-url URL --model NAME for any server with OpenAI's API",
            self.recorded
        )
    }
}

impl Error for NoModel {}

impl ServerArgs {
    /// Returns the arguments with another model, if `model` names one as `--model` does.
    ///
    /// # Errors
    ///
    /// If the name is empty, or that of a provider without a default model.
    pub fn with_model(mut self, model: Option<&str>) -> Result<Self, String> {
        if let Some(model) = model {
            self.model = Some(model.parse()?);
        }
        Ok(self)
    }

    /// Returns the model that the arguments name, if they name a server or a provider.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or there is no key for the provider.
    pub fn given(&self) -> Result<Option<Arc<dyn LanguageModel>>, Box<dyn Error>> {
        Ok(self.named(&self.keys()?)?.map(|(model, _)| model))
    }

    /// Uses the defaults of the configuration for what the command line leaves out.
    pub(crate) fn or(mut self, config: &Config) -> Result<Self, String> {
        let parsed =
            |text: &Option<String>| text.as_deref().map(str::parse::<ModelName>).transpose();
        let base_url = self.base_url.is_none() && self.model.is_none();
        if base_url {
            self.base_url = config.base_url.clone();
            self.key_env = self.key_env.or_else(|| config.key_env.clone());
        }
        if self.model.is_none() {
            self.model = parsed(&config.model).map_err(|error| format!("model: {error}"))?;
        }
        if self.api.is_none() {
            let api = config.api.as_deref().map(str::parse).transpose();
            self.api = api.map_err(|error| format!("api: {error}"))?;
        }
        self.key_file = self.key_file.or_else(|| config.key_file.clone());
        self.timeout = self.timeout.or(config.timeout.map(NonZeroU64::get));
        let default = config.temperature.map(checked_temperature).transpose();
        let default = default.map_err(|error| format!("temperature: {error}"))?;
        self.temperature = self.temperature.or(default);
        Ok(self)
    }

    pub(crate) fn keys(&self) -> Result<Keys, Box<dyn Error>> {
        Ok(Keys::load(self.key_file.as_deref())?.with_variable(self.key_env.as_deref()))
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        if let Some(temperature) = self.temperature {
            settings = settings.with_temperature(temperature);
        }
        if let Some(seed) = self.seed {
            settings = settings.with_seed(seed);
        }
        settings
    }

    /// Returns the model at `--base-url`, or that of the provider in `--model`.
    fn named(&self, keys: &Keys) -> Result<Option<(Model, String)>, Box<dyn Error>> {
        let ModelName { provider, name } =
            self.model.clone().unwrap_or(ModelName { provider: None, name: None });
        let Some(base_url) = &self.base_url else {
            let Some(provider) = provider else { return Ok(None) };
            let name = name.or(provider.default_model().map(str::to_owned)).unwrap_or_default();
            let model = self.hosted(provider, &name, keys).map_err(with_advice)?;
            let line = format!("asking {} at {}", model.name(), provider.name());
            return Ok(Some((model, line)));
        };
        let name = name.ok_or("--base-url: name the server's model with --model")?;
        let model = self.at(provider.unwrap_or_default(), base_url, &name, keys);
        let model = model.map_err(with_advice)?;
        let url = reqwest::Url::parse(base_url).map(|url| shown_url(&url));
        let url = url.map_err(|error| format!("--base-url: {error}"))?;
        let line = format!("asking {} at {}", model.name(), url.trim_end_matches('/'));
        Ok(Some((model, line)))
    }

    /// Returns the model of a server with the API of this provider.
    fn at(
        &self,
        provider: Provider,
        base_url: &str,
        name: &str,
        keys: &Keys,
    ) -> Result<Model, Box<dyn Error>> {
        let key = self.key_for(provider, base_url, keys)?;
        Ok(match provider {
            Provider::Openai | Provider::Service(_) => {
                let model = self.openai(OpenAi::at(base_url, name)?)?;
                Arc::new(with(model, key, OpenAi::with_key)?)
            }
            Provider::Anthropic => {
                let model = self.anthropic(Anthropic::at(base_url, name)?)?;
                Arc::new(with(model, key, Anthropic::with_key)?)
            }
            Provider::Gemini => {
                let model = self.gemini(Gemini::at(base_url, name)?)?;
                Arc::new(with(model, key, Gemini::with_key)?)
            }
        })
    }

    /// Returns the model of a provider, with the key in the environment or in the key file.
    fn hosted(&self, provider: Provider, name: &str, keys: &Keys) -> Result<Model, Box<dyn Error>> {
        // Without a key in the file, the provider's own function reads the environment, and its
        // error names the variable.
        let filed = provider.key().and_then(|variable| keys.only_in_file(variable));
        Ok(match (provider, filed) {
            (Provider::Openai, None) => Arc::new(self.openai(OpenAi::from_env(name)?)?),
            (Provider::Service(service), None) => {
                Arc::new(self.openai(OpenAi::service(service.name, name)?)?)
            }
            (Provider::Openai | Provider::Service(_), Some(key)) => {
                Arc::new(self.openai(OpenAi::service_with_key(provider.name(), name, key)?)?)
            }
            (Provider::Anthropic, None) => Arc::new(self.anthropic(Anthropic::from_env(name)?)?),
            (Provider::Anthropic, Some(key)) => {
                let model = Anthropic::at("https://api.anthropic.com/v1", name)?.with_key(key)?;
                Arc::new(self.anthropic(model)?)
            }
            (Provider::Gemini, None) => Arc::new(self.gemini(Gemini::from_env(name)?)?),
            (Provider::Gemini, Some(key)) => {
                let base_url = "https://generativelanguage.googleapis.com/v1beta";
                Arc::new(self.gemini(Gemini::at(base_url, name)?.with_key(key)?)?)
            }
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(TIMEOUT))
    }

    /// Applies the arguments that are valid for every connection.
    fn connection(&self, connection: Connection) -> Result<Connection, ProviderError> {
        let connection = match self.plain_http {
            true => connection.with_plain_http()?,
            false => connection,
        };
        connection.with_timeout(self.timeout())
    }

    /// Applies the arguments that are valid for every server with OpenAI's API.
    fn openai(&self, model: OpenAi) -> Result<OpenAi, Box<dyn Error>> {
        let model = match self.api {
            Some(api) => model.with_api(api),
            None => model,
        };
        Ok(model
            .with_connection(|connection| self.connection(connection))?
            .with_settings(self.settings()))
    }

    /// Applies the arguments that are valid for every server with Anthropic's API.
    fn anthropic(&self, model: Anthropic) -> Result<Anthropic, Box<dyn Error>> {
        Ok(model
            .with_connection(|connection| self.connection(connection))?
            .with_settings(self.settings()))
    }

    /// Applies the arguments that are valid for every server with Gemini's API.
    fn gemini(&self, model: Gemini) -> Result<Gemini, Box<dyn Error>> {
        Ok(model
            .with_connection(|connection| self.connection(connection))?
            .with_settings(self.settings()))
    }

    /// Returns the key for a URL: the one in `--key-env`, or the provider's if the server is on
    /// this machine. The provider's key is not sent to other machines by accident.
    fn key_for(
        &self,
        provider: Provider,
        base_url: &str,
        keys: &Keys,
    ) -> Result<Option<String>, Box<dyn Error>> {
        if let Some(variable) = &self.key_env {
            let key = keys.get(variable);
            return Ok(Some(key.ok_or_else(|| {
                format!("--key-env: the variable {} is not set", shown_variable(variable))
            })?));
        }
        let url = reqwest::Url::parse(base_url).map_err(|error| format!("--base-url: {error}"))?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        // Some local servers require a key, but accept any.
        Ok(here.then(|| {
            let key = provider.key().and_then(|key| keys.get(key));
            key.unwrap_or_else(|| "no-key-required".to_owned())
        }))
    }
}

/// Returns the model with a setting, if there is one.
fn with<M, T>(
    model: M,
    setting: Option<T>,
    set: impl FnOnce(M, T) -> Result<M, ProviderError>,
) -> Result<M, ProviderError> {
    match setting {
        Some(setting) => set(model, setting),
        None => Ok(model),
    }
}

/// Converts an error. The result names the options that help.
fn with_advice(error: Box<dyn Error>) -> Box<dyn Error> {
    match error.downcast_ref() {
        Some(ProviderError::MissingKey { variable }) => format!(
            "there is no API key: set {variable}, or write it to the file of --key-file; a server \
             without a key has a --base-url"
        )
        .into(),
        // Its own text names the function that allows it.
        Some(ProviderError::Http { error, .. })
            if error.to_string().contains("with_plain_http") =>
        {
            "--base-url: it is plain http to another machine, so others on the network could read \
             the key; use https, or --plain-http if nobody else can read that network"
                .into()
        }
        _ => error,
    }
}

impl ModelArgs {
    /// Finds a model: the one in the arguments, that of a provider whose key is set, or one of a
    /// server on this machine.
    ///
    /// # Errors
    ///
    /// If an argument is not valid.
    pub(crate) async fn find(&self) -> Result<Option<Chosen>, Box<dyn Error>> {
        let prices = self.prices()?;
        let mut server = self.server.clone();
        if self.record.is_some() && server.temperature.is_none() {
            // A new recording then has the same replies, as far as the model allows.
            server.temperature = Some(0.0);
        }
        let keys = server.keys()?;
        let found = match server.named(&keys)? {
            Some(found) => Some(found),
            None if self.offline => None,
            None => match server.at_provider(&keys)? {
                Some(found) => Some(found),
                None => server.at_local_server().await?,
            },
        };
        match found {
            Some((model, line)) => Ok(Some(Chosen { prices, ..self.recorded(model, line) })),
            None if self.record.is_some() => Err("no model was found to record".into()),
            None => Ok(None),
        }
    }

    /// Uses the defaults of the configuration for what the command line leaves out.
    pub(crate) fn or(mut self, config: &Config) -> Result<Self, String> {
        self.no_stream |= config.no_stream;
        self.prices = self.prices.or_else(|| config.prices.clone());
        if !self.offline {
            self.server = self.server.or(config)?;
        }
        Ok(self)
    }

    pub(crate) fn keys(&self) -> Result<Keys, Box<dyn Error>> {
        self.server.keys()
    }

    /// Returns why [`find`](Self::find) found none.
    pub(crate) fn reason(&self) -> NoModelReason {
        let name = self.server.model.as_ref().and_then(|model| model.name.clone());
        match name {
            _ if self.offline => NoModelReason::Offline,
            Some(name) => NoModelReason::Unknown(name),
            None => NoModelReason::Nothing,
        }
    }

    /// Names the model.
    pub(crate) fn naming(mut self, model: ModelName) -> Self {
        self.server.model = Some(model);
        self
    }

    /// Names a model beside the one of these arguments. If it has a provider, the server is that of the
    /// provider.
    pub(crate) fn beside(mut self, model: ModelName) -> Self {
        if model.provider.is_some() {
            (self.server.base_url, self.server.key_env, self.server.api) = (None, None, None);
        }
        self.naming(model)
    }

    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.server.key_file.as_deref()
    }

    fn recorded(&self, model: Model, line: String) -> Chosen {
        let Some(path) = &self.record else {
            return Chosen { model, line, prices: None, only_task: None, recorder: None };
        };
        let recorder = Arc::new(Recorder::new(model));
        let model = Arc::clone(&recorder) as Model;
        // The model was found with these keys, so they can be read.
        let secrets = self.keys().map(|keys| keys.values()).unwrap_or_default();
        let recorder = Some(RecordTo { recorder, path: path.clone(), secrets });
        Chosen { model, line, prices: None, only_task: None, recorder }
    }

    /// Reads the prices of the file.
    pub(crate) fn prices(&self) -> Result<Option<Prices>, Box<dyn Error>> {
        let Some(path) = &self.prices else { return Ok(None) };
        let named = |error: &dyn fmt::Display| format!("--prices {}: {error}", path.display());
        let text = read_file(path).map_err(|error| named(&error))?;
        Ok(Some(Prices::from_json(&text).map_err(|error| named(&error))?))
    }
}

impl ServerArgs {
    /// Returns the model of the first provider whose key is set. A name alone is one of OpenAI.
    fn at_provider(&self, keys: &Keys) -> Result<Option<(Model, String)>, Box<dyn Error>> {
        let name = self.model.as_ref().and_then(|model| model.name.as_deref());
        let providers = if name.is_some() { &WITH_KEY[..1] } else { &WITH_KEY[..] };
        for provider in providers {
            let Some(variable) = provider.key().filter(|key| keys.get(key).is_some()) else {
                continue;
            };
            let name = name.or(provider.default_model()).unwrap_or_default();
            let model = self.hosted(*provider, name, keys)?;
            let line = format!("asking {} with the key in {variable}", model.name());
            return Ok(Some((model, line)));
        }
        Ok(None)
    }

    async fn at_local_server(&self) -> Result<Option<(Model, String)>, Box<dyn Error>> {
        let named = self.model.as_ref().and_then(|model| model.name.clone());
        for (server, port) in LOCAL_SERVERS {
            let base_url = format!("http://127.0.0.1:{port}/v1");
            let Some(models) = models_at(&base_url).await else { continue };
            let Some(name) = named.clone().or_else(|| models.into_iter().next()) else {
                continue;
            };
            let line = format!("asking {name} at {base_url} ({server})");
            let model = self.at(Provider::Openai, &base_url, &name, &Keys::default())?;
            return Ok(Some((model, line)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_provider_gets_the_one_that_it_probably_has() {
        for (name, advice) in [
            ("claude-haiku-4-5", "--model anthropic:claude-haiku-4-5 "),
            ("m", "--model PROVIDER:m "),
        ] {
            let reason = NoModelReason::Unknown(name.to_owned());
            let text = NoModel { recorded: String::new(), reason }.to_string();
            assert!(text.contains(advice), "{text}");
        }
    }

    #[test]
    fn a_model_is_named_with_and_without_its_provider() {
        let parsed = |text: &str| {
            let model = text.parse::<ModelName>()?;
            let provider = model.provider.map_or("", Provider::name);
            Ok::<_, String>((provider, model.name.unwrap_or_default()))
        };
        let is = |provider, name: &str| Ok((provider, name.to_owned()));
        assert_eq!(parsed("anthropic:claude"), is("anthropic", "claude"));
        assert_eq!(parsed("groq:openai/gpt-oss-120b"), is("groq", "openai/gpt-oss-120b"));
        assert_eq!(parsed("ollama:llama3.2:1b"), is("ollama", "llama3.2:1b"));
        assert_eq!(parsed("llama3.2:1b"), is("", "llama3.2:1b"));
        assert_eq!(parsed("gemini"), is("gemini", ""));
        assert_eq!(parsed("groq"), Err("name a model of groq, as in `groq:NAME`".to_owned()));
        assert!(parsed("openai:").is_err() && parsed("").is_err());
    }
}
