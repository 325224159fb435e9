use std::env;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use toolwright_module::testing::{Recorder, Recording, Replay};
use toolwright_module::{LanguageModel, Message, Part};
use toolwright_openai::{Api, OpenAi};

/// Where the key for OpenAI is.
const KEY: &str = "OPENAI_API_KEY";

/// Where model servers listen unless told otherwise.
const LOCAL_SERVERS: [(&str, u16); 3] =
    [("Ollama", 11434), ("llama-server", 8080), ("LM Studio", 1234)];

/// How long a local server may take to say that it is there.
const PROBE: Duration = Duration::from_millis(200);

/// The model asked for where a key is all that is known.
const DEFAULT_MODEL: &str = "gpt-4.1-mini";

/// Which model a program talks to.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    /// Address of a server with OpenAI's API, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// The model's name at that server
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Which of OpenAI's APIs to speak
    #[arg(long, value_name = "chat|responses", default_value = "chat")]
    pub api: Api,

    /// The environment variable that holds the key for --base-url; on this machine
    /// OPENAI_API_KEY unless said
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,

    /// How many seconds a server may be silent
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub timeout: u64,

    /// Look for no key and no server: replay the recording
    #[arg(long)]
    pub offline: bool,

    /// Ask for whole replies instead of streams
    #[arg(long)]
    pub no_stream: bool,

    /// Write what the model says to this file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// A model, and one line that says which.
pub struct Chosen {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// Which it is and how it was found.
    pub line: String,
    recorder: Option<(Arc<Recorder<OpenAi>>, PathBuf)>,
}

impl Chosen {
    fn new(model: OpenAi, line: String, args: &ModelArgs) -> Self {
        let Some(path) = &args.record else {
            return Self { model: Arc::new(model), line, recorder: None };
        };
        let recorder = Arc::new(Recorder::new(model));
        let model = Arc::clone(&recorder) as Arc<dyn LanguageModel>;
        Self { model, line, recorder: Some((recorder, path.clone())) }
    }

    /// Writes the recording, if one was asked for.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_recording(&self) -> Result<(), Box<dyn std::error::Error>> {
        if let Some((recorder, path)) = &self.recorder {
            recorder.recording().save(path)?;
            eprintln!("recorded in {}", path.display());
        }
        Ok(())
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").field("line", &self.line).finish_non_exhaustive()
    }
}

/// There is no model for this prompt, and how to get one.
#[derive(Debug)]
pub struct NoModel {
    recorded: String,
}

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no model was found, and the recording only answers this prompt:\n  {}\n\
             For any other prompt, give it a model:\n  \
             set OPENAI_API_KEY, or\n  \
             start Ollama, llama-server or LM Studio on this machine, or\n  \
             say --base-url URL --model NAME for any server with OpenAI's API",
            self.recorded
        )
    }
}

impl std::error::Error for NoModel {}

impl ModelArgs {
    /// Finds a model: the one asked for, else one for the key in the environment, else
    /// a server on this machine, else `recording`, which answers only its own prompt.
    ///
    /// # Errors
    ///
    /// If what was asked for cannot be had, or there is no model for this prompt.
    pub async fn choose(
        &self,
        prompt: &str,
        recording: Recording,
    ) -> Result<Chosen, Box<dyn std::error::Error>> {
        if let Some((model, line)) = self.at_address()? {
            return Ok(Chosen::new(model, line, self));
        }
        if !self.offline {
            if let Some(found) = self.at_openai()? {
                return Ok(found);
            }
            if let Some(found) = self.at_local_server().await? {
                return Ok(found);
            }
        }
        let recorded = prompt_of(&recording);
        if recorded != prompt {
            return Err(Box::new(NoModel { recorded }));
        }
        let line = format!("replaying a run recorded with {}; the tools run live", recording.model);
        Ok(Chosen { model: Arc::new(Replay::new(recording)), line, recorder: None })
    }

    /// The model that the arguments name, if they name a server.
    ///
    /// # Errors
    ///
    /// If what was asked for cannot be had.
    pub fn given(&self) -> Result<Option<Arc<dyn LanguageModel>>, Box<dyn std::error::Error>> {
        Ok(self.at_address()?.map(|(model, _)| Arc::new(model) as _))
    }

    fn at_address(&self) -> Result<Option<(OpenAi, String)>, Box<dyn std::error::Error>> {
        let Some(base_url) = &self.base_url else { return Ok(None) };
        let name = self.model.as_deref().ok_or("--base-url needs --model")?;
        let silence = Duration::from_secs(self.timeout);
        let mut model = OpenAi::at(base_url, name)?.with_api(self.api).with_timeout(silence)?;
        if self.record.is_some() {
            // So that recording again gives the same, as far as the model can.
            model = model.with_temperature(0.0);
        }
        if let Some(key) = self.key_for(base_url)? {
            model = model.with_key(key)?;
        }
        Ok(Some((model, format!("asking {name} at {base_url}"))))
    }

    /// The key for an address: the one asked for; on this machine also OpenAI's, which
    /// is not sent elsewhere by accident.
    fn key_for(&self, base_url: &str) -> Result<Option<String>, Box<dyn std::error::Error>> {
        if let Some(variable) = &self.key_env {
            let key = env::var(variable)
                .map_err(|_| format!("--key-env: the variable {variable} is not set"))?;
            return Ok(Some(key));
        }
        let url = reqwest::Url::parse(base_url)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        // Some local servers want a key, and take any.
        Ok(here.then(|| env::var(KEY).unwrap_or_else(|_| "no-key-required".to_owned())))
    }

    fn at_openai(&self) -> Result<Option<Chosen>, Box<dyn std::error::Error>> {
        let has_key = env::var(KEY).is_ok_and(|key| !key.trim().is_empty());
        if !has_key {
            return Ok(None);
        }
        let name = self.model.as_deref().unwrap_or(DEFAULT_MODEL);
        let model = OpenAi::from_env(name)?.with_api(self.api);
        let line = format!("asking {name} with the key in OPENAI_API_KEY");
        Ok(Some(Chosen::new(model, line, self)))
    }

    async fn at_local_server(&self) -> Result<Option<Chosen>, Box<dyn std::error::Error>> {
        for (server, port) in LOCAL_SERVERS {
            let base_url = format!("http://127.0.0.1:{port}/v1");
            let Some(models) = models_at(&base_url).await else { continue };
            let Some(name) = self.model.clone().or_else(|| models.into_iter().next()) else {
                continue;
            };
            let model = OpenAi::at(&base_url, &name)?.with_api(self.api);
            let line = format!("asking {name} at {base_url} ({server})");
            return Ok(Some(Chosen::new(model, line, self)));
        }
        Ok(None)
    }
}

/// The models that a server on this machine offers, if there is one.
async fn models_at(base_url: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    // No proxy: what is meant is this machine.
    let client = reqwest::Client::builder().timeout(PROBE).no_proxy().build().ok()?;
    let reply = client.get(format!("{base_url}/models")).send().await.ok()?;
    let models: Models = reply.json().await.ok()?;
    Some(models.data.into_iter().map(|model| model.id).collect())
}

/// What the user asked in a recorded run.
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
