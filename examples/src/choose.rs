use std::env;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use toolwright_module::message::Part;
use toolwright_module::testing::{Recorder, Recording, RecordingError, Replay};
use toolwright_module::{LanguageModel, Message};
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

/// Which server a program talks to.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// Address of a server with OpenAI's API, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL", requires = "model")]
    pub base_url: Option<String>,

    /// The model's name at that server
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Which of OpenAI's APIs to speak
    #[arg(long, value_name = "chat|responses", default_value = "chat")]
    pub api: Api,

    /// The environment variable that holds the key for --base-url; on this machine
    /// OPENAI_API_KEY unless said
    #[arg(long, value_name = "NAME", requires = "base_url")]
    pub key_env: Option<String>,

    /// How many seconds a server may be silent
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub timeout: u64,
}

/// Which model a program talks to, and whether it is recorded.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Look for no key and no server: replay the recording
    #[arg(long, conflicts_with_all = ["base_url", "record"])]
    offline: bool,

    /// Ask for whole replies instead of streams
    #[arg(long)]
    pub no_stream: bool,

    /// Write what the model says to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
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
    /// Writes what was recorded so far, if that was asked for; where to, if it was.
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

impl Error for NoModel {}

impl ServerArgs {
    /// The model that the arguments name, if they name a server.
    ///
    /// # Errors
    ///
    /// If what was asked for cannot be had.
    pub fn given(&self) -> Result<Option<OpenAi>, Box<dyn Error>> {
        let (Some(base_url), Some(name)) = (&self.base_url, &self.model) else { return Ok(None) };
        let model = self.set_up(OpenAi::at(base_url, name)?)?;
        Ok(Some(match self.key_for(base_url)? {
            Some(key) => model.with_key(key)?,
            None => model,
        }))
    }

    /// What the arguments say of any model, wherever it was found.
    fn set_up(&self, model: OpenAi) -> Result<OpenAi, Box<dyn Error>> {
        Ok(model.with_api(self.api).with_timeout(Duration::from_secs(self.timeout))?)
    }

    /// The key for an address: the one asked for; on this machine also OpenAI's, which
    /// is not sent elsewhere by accident.
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
        // Some local servers want a key, and take any.
        Ok(here.then(|| env::var(KEY).unwrap_or_else(|_| "no-key-required".to_owned())))
    }
}

impl ModelArgs {
    /// Finds a model: the one asked for, else one for the key in the environment, else
    /// a server on this machine, else `recording`, which answers only its own prompt: with
    /// `None` for one that is not known yet, it is no model.
    ///
    /// # Errors
    ///
    /// If what was asked for cannot be had, or there is no model for this prompt.
    pub async fn choose(
        &self,
        prompt: Option<&str>,
        recording: Recording,
    ) -> Result<Chosen, Box<dyn Error>> {
        // Before a run is paid for, not after.
        if let Some(folder) = self.record.as_deref().and_then(Path::parent)
            && folder != Path::new("")
            && !folder.is_dir()
        {
            return Err(format!("--record: there is no folder {}", folder.display()).into());
        }
        let found = if let Some(model) = self.server.given()? {
            let line = format!("asking {} at {}", model.name(), model.base_url());
            Some((model, line))
        } else if self.offline {
            None
        } else if let Some(model) = self.at_openai()? {
            let line = format!("asking {} with the key in {KEY}", model.name());
            Some((model, line))
        } else {
            self.at_local_server().await?
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

    fn recorded(&self, model: OpenAi, line: String) -> Chosen {
        let Some(path) = &self.record else {
            return Chosen { model: Arc::new(model), line, recorder: None };
        };
        // So that recording again gives the same, as far as the model can.
        let recorder = Arc::new(Recorder::new(model.with_temperature(0.0)));
        let model = Arc::clone(&recorder) as Arc<dyn LanguageModel>;
        Chosen { model, line, recorder: Some((recorder, path.clone())) }
    }

    fn at_openai(&self) -> Result<Option<OpenAi>, Box<dyn Error>> {
        if env::var_os(KEY).is_none_or(|key| key.is_empty()) {
            return Ok(None);
        }
        let name = self.server.model.as_deref().unwrap_or(DEFAULT_MODEL);
        Ok(Some(self.server.set_up(OpenAi::from_env(name)?)?))
    }

    async fn at_local_server(&self) -> Result<Option<(OpenAi, String)>, Box<dyn Error>> {
        for (server, port) in LOCAL_SERVERS {
            let base_url = format!("http://127.0.0.1:{port}/v1");
            let Some(models) = models_at(&base_url).await else { continue };
            let Some(name) = self.server.model.clone().or_else(|| models.into_iter().next()) else {
                continue;
            };
            let model = self.server.set_up(OpenAi::at(&base_url, &name)?)?;
            return Ok(Some((model, format!("asking {name} at {base_url} ({server})"))));
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
