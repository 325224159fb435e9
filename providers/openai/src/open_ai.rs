use std::env::{self, VarError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::Error as _;
use tokio::time::Instant;
use toolwright_module::{Capabilities, Delta, LanguageModel, Reply, Request};
use toolwright_signature::Dialect;

use crate::api::Api;
use crate::bounded::{self, Body};
use crate::endpoint::{Endpoint, KEY};
use crate::error::{Error, Result};
use crate::request::Options;
use crate::streaming::Patience;
use crate::transport::Line;
use crate::{chat, responses, streaming, transport};

const RETRIES: u32 = 2;
/// A reasoning model may think for minutes before its first word.
const SILENCE: Duration = Duration::from_secs(600);
/// A small server writes a long answer in this time; a server that drips has to end.
const MAX_TIME: Duration = Duration::from_secs(1800);

/// A model of OpenAI's, or of a server that speaks like it.
///
/// ```no_run
/// use toolwright_module::{LanguageModel, Message, Request};
/// use toolwright_openai::{Api, OpenAi};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let model = OpenAi::from_env("gpt-5-mini")?.with_api(Api::Responses);
/// let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
/// println!("{} for {:?}", reply.to_text(), reply.usage);
/// # Ok(())
/// # }
/// ```
///
/// A server on this machine needs no key:
///
/// ```
/// use toolwright_module::LanguageModel;
/// use toolwright_openai::OpenAi;
///
/// let model = OpenAi::at("http://127.0.0.1:8080/v1", "smollm2")?.with_temperature(0.0);
/// assert_eq!(model.name(), "smollm2");
/// # Ok::<(), toolwright_openai::Error>(())
/// ```
///
/// Cloning costs one reference count and shares the connections. A request is tried
/// again, twice unless said, while no answer has begun: after a connection that
/// failed, and after 408, 409, 429 and 5xx, as soon as the server's `retry-after`
/// allows. It is not tried again where waiting does not help, as without credit.
///
/// It runs on tokio.
#[derive(Clone)]
pub struct OpenAi(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    http: reqwest::Client,
    endpoint: Endpoint,
    model: String,
    api: Api,
    dialect: Dialect,
    structured_output: bool,
    temperature: Option<f32>,
    encrypted_reasoning: bool,
    retries: u32,
    silence: Duration,
    max_time: Duration,
}

impl OpenAi {
    /// A model with the key in `OPENAI_API_KEY`, at OpenAI or at `OPENAI_BASE_URL`.
    ///
    /// `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` count as well.
    ///
    /// # Errors
    ///
    /// [`Error::MissingKey`] if there is no key, otherwise as
    /// [`with_config`](Self::with_config).
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        match env::var(KEY) {
            Ok(key) if !key.trim().is_empty() => {}
            Err(VarError::NotUnicode(_)) => return Err(Error::Header { what: "the API key" }),
            _ => return Err(Error::MissingKey { variable: KEY }),
        }
        Self::with_config(OpenAIConfig::new(), model)
    }

    /// A model of any compatible server; the address ends in `/v1` for most.
    ///
    /// Whatever the environment says stays here: a key of OpenAI's is not for another
    /// server. Give that server's own with [`with_key`](Self::with_key).
    ///
    /// # Errors
    ///
    /// [`Error::BaseUrl`] if the address is none.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        Self::new(Endpoint::at(base_url)?, model.into())
    }

    /// A model with a configuration of async-openai's: organization, project, headers.
    ///
    /// ```
    /// use toolwright_openai::{OpenAIConfig, OpenAi};
    ///
    /// let config = OpenAIConfig::new().with_api_key("sk-made-up").with_project_id("proj_1");
    /// let model = OpenAi::with_config(config, "gpt-5-mini")?;
    /// assert!(!format!("{model:?}").contains("made-up"));
    /// # Ok::<(), toolwright_openai::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BaseUrl`], [`Error::Header`] and [`Error::MissingKey`] if the address or
    /// the key cannot be used; no key at all can be.
    pub fn with_config(config: OpenAIConfig, model: impl Into<String>) -> Result<Self> {
        Self::new(Endpoint::of(&config)?, model.into())
    }

    fn new(endpoint: Endpoint, model: String) -> Result<Self> {
        let http = transport::http(&endpoint, SILENCE)?;
        Ok(Self(Arc::new(Parts {
            http,
            endpoint,
            model,
            api: Api::default(),
            dialect: Dialect::OpenAiLoose,
            structured_output: true,
            temperature: None,
            encrypted_reasoning: false,
            retries: RETRIES,
            silence: SILENCE,
            max_time: MAX_TIME,
        })))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same with a key for its server.
    ///
    /// # Errors
    ///
    /// [`Error::Header`] if it cannot be a key, [`Error::MissingKey`] if it is blank,
    /// [`Error::BaseUrl`] if the server is asked in plain http and is not on this machine:
    /// anybody on the way could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let endpoint = self.0.endpoint.with_key(key.into())?;
        Ok(self.with(|parts| parts.endpoint = endpoint))
    }

    /// The same over another API; [`Api::Chat`] unless said.
    #[must_use]
    pub fn with_api(self, api: Api) -> Self {
        self.with(|parts| parts.api = api)
    }

    /// The same with another dialect of JSON Schema for tools and answers.
    ///
    /// [`Dialect::OpenAiLoose`] unless said, which every compatible server takes.
    /// [`Dialect::OpenAiStrict`] makes OpenAI guarantee that arguments fit.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        self.with(|parts| parts.dialect = dialect)
    }

    /// Whether an answer's schema is sent beside the prompt; it is unless said.
    ///
    /// Without it, for servers that ignore or refuse it, an answer is asked for as a
    /// tool's arguments. For servers that know no tools either, there is
    /// [`OutputMode::Prompted`](toolwright_module::OutputMode::Prompted).
    #[must_use]
    pub fn with_structured_output(self, structured_output: bool) -> Self {
        self.with(|parts| parts.structured_output = structured_output)
    }

    /// The same with a temperature; the server's own unless said.
    #[must_use]
    pub fn with_temperature(self, temperature: f32) -> Self {
        self.with(|parts| parts.temperature = Some(temperature))
    }

    /// Keeps nothing on the server, and takes the model's reasoning along encrypted.
    ///
    /// Only [`Api::Responses`] knows it. Without it the server keeps every response,
    /// and reasoning goes back as a reference to what it keeps.
    #[must_use]
    pub fn with_encrypted_reasoning(self) -> Self {
        self.with(|parts| parts.encrypted_reasoning = true)
    }

    /// How often a request is tried again; 2 unless said.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        self.with(|parts| parts.retries = retries)
    }

    /// How long the server may be silent, before its reply and within; 10 minutes
    /// unless said.
    ///
    /// A reply may take longer than that, as long as something comes:
    /// [`with_max_time`](Self::with_max_time) bounds the whole.
    ///
    /// # Errors
    ///
    /// [`Error::Client`], as for every constructor.
    pub fn with_timeout(self, silence: Duration) -> Result<Self> {
        let http = transport::http(&self.0.endpoint, silence)?;
        Ok(self.with(|parts| {
            parts.http = http;
            parts.silence = silence;
        }))
    }

    /// Sets how long one answer may take in all, retries included. Default: 30 minutes.
    ///
    /// It ends a reply that never ends, however little comes at a time. A limit too large
    /// for the clock means no limit.
    #[must_use]
    pub fn with_max_time(self, max_time: Duration) -> Self {
        self.with(|parts| parts.max_time = max_time)
    }

    /// Where it asks.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.endpoint.base()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let options = parts.options(false);
        parts
            .patience()
            .during(async {
                match parts.api {
                    Api::Chat => {
                        let body = parts.whole(&chat::Body::new(request, &options)?).await?;
                        read(&body, |reply: chat::Completion| reply.into_reply(request))
                    }
                    Api::Responses => {
                        let body = parts.whole(&responses::Body::new(request, &options)?).await?;
                        read(&body, |reply: responses::Response| reply.into_reply(request))
                    }
                }
            })
            .await?
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let options = parts.options(true);
        let patience = parts.patience();
        patience
            .during(async {
                match parts.api {
                    Api::Chat => {
                        let body = chat::Body::new(request, &options)?;
                        match parts.events(&body).await? {
                            Body::Events(chunks) => {
                                let pieces = chat::Pieces::new(request);
                                Ok(streaming::deltas(chunks, pieces, patience))
                            }
                            Body::Whole(body) => {
                                read(&body, |reply: chat::Completion| reply.into_reply(request))
                                    .map(streaming::whole)
                            }
                        }
                    }
                    Api::Responses => {
                        let body = responses::Body::new(request, &options)?;
                        match parts.events(&body).await? {
                            Body::Events(chunks) => {
                                let pieces = responses::Pieces::new(request);
                                Ok(streaming::deltas(chunks, pieces, patience))
                            }
                            Body::Whole(body) => {
                                read(&body, |reply: responses::Response| reply.into_reply(request))
                                    .map(streaming::whole)
                            }
                        }
                    }
                }
            })
            .await?
    }

    /// An error of ours as it leaves.
    fn told(&self, error: Error) -> toolwright_module::Error {
        error.told(&self.0.endpoint).into_module()
    }
}

impl Parts {
    async fn whole(&self, body: &impl Serialize) -> Result<Bytes> {
        bounded::whole(self.post(body).await?, self.silence).await
    }

    async fn events(&self, body: &impl Serialize) -> Result<Body> {
        bounded::events(self.post(body).await?, self.silence).await
    }

    async fn post(&self, body: &impl Serialize) -> Result<reqwest::Response> {
        let body = serde_json::to_vec(body).map_err(|error| {
            let text = format!("failed to serialize request: {error}");
            Error::Request { source: OpenAIError::InvalidArgument(text) }
        })?;
        let path = match self.api {
            Api::Chat => "/chat/completions",
            Api::Responses => "/responses",
        };
        let (http, endpoint) = (&self.http, &self.endpoint);
        let line = Line { http, endpoint, silence: self.silence, retries: self.retries };
        line.post(path, body.into()).await
    }

    fn patience(&self) -> Patience {
        let (silence, max_time) = (self.silence, self.max_time);
        Patience { silence, max_time, deadline: Instant::now().checked_add(max_time) }
    }

    fn options(&self, stream: bool) -> Options<'_> {
        Options {
            model: &self.model,
            dialect: self.dialect,
            structured_output: self.structured_output,
            temperature: self.temperature,
            encrypted_reasoning: self.encrypted_reasoning,
            stream,
        }
    }
}

/// Reads a whole reply.
fn read<T: DeserializeOwned>(body: &[u8], reply: impl FnOnce(T) -> Result<Reply>) -> Result<Reply> {
    // Serde would read a list as an object's fields, in their order.
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let read = match is_list {
        true => Err(serde_json::Error::custom("a list where a reply should be")),
        false => serde_json::from_slice(body),
    };
    let read = read.map_err(|source| Error::from_json(source, body));
    read.and_then(reply).map_err(|error| error.or_said_in(body))
}

impl LanguageModel for OpenAi {
    fn name(&self) -> &str {
        &self.0.model
    }

    fn provider(&self) -> &str {
        // Also of a compatible server: it is what is spoken to it.
        "openai"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.0.dialect)
            .with_structured_output(self.0.structured_output)
            .with_tools(true)
    }

    fn generate<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, toolwright_module::Result<Reply>> {
        Box::pin(async move { self.ask(request).await.map_err(|error| self.told(error)) })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, toolwright_module::Result<Delta>> {
        stream::once(async move { self.open(&request).await })
            .try_flatten()
            .map_err(|error| self.told(error))
            .boxed()
    }
}

/// Without the key.
impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("model", &self.0.model)
            .field("base_url", &self.base_url())
            .field("api", &self.0.api)
            .field("dialect", &self.0.dialect)
            .finish_non_exhaustive()
    }
}
