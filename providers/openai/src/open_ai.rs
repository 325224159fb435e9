use std::env::{self, VarError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::Error as _;
use toolwright_http::reqwest::header::HeaderName;
use toolwright_http::reqwest::{self, Url};
use toolwright_http::{Client, Deadline, Endpoint, Limits, Response, RetryPolicy, Streamed};
use toolwright_module::model::{Capabilities, Delta};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_signature::Dialect;

use crate::api::Api;
use crate::error::{OpenAiError, Result};
use crate::request::Options;
use crate::{chat, responses, streaming};

const OPENAI: &str = "https://api.openai.com/v1";
/// The variable of the environment that holds the key.
const KEY: &str = "OPENAI_API_KEY";
const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROJECT: HeaderName = HeaderName::from_static("openai-project");
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
/// # Ok::<(), toolwright_openai::OpenAiError>(())
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
    client: Client,
    /// The URLs of [`Api::Chat`] and of [`Api::Responses`].
    urls: [Url; 2],
    model: String,
    api: Api,
    dialect: Dialect,
    structured_output: bool,
    temperature: Option<f32>,
    encrypted_reasoning: bool,
    retry: RetryPolicy,
    max_time: Duration,
}

impl OpenAi {
    /// A model with the key in `OPENAI_API_KEY`, at OpenAI or at `OPENAI_BASE_URL`.
    ///
    /// `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` count as well.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::MissingKey`] if there is no key, [`OpenAiError::Header`] if a variable cannot
    /// travel in a header, [`OpenAiError::BaseUrl`] if `OPENAI_BASE_URL` cannot be used.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        let key = from_env(KEY, "the API key")?;
        let key = key.filter(|key| !key.trim().is_empty());
        let key = key.ok_or(OpenAiError::MissingKey { variable: KEY })?;
        let base_url = from_env("OPENAI_BASE_URL", "the base URL")?;
        let mut openai = Self::at(base_url.as_deref().unwrap_or(OPENAI), model)?.with_key(key)?;
        if let Some(id) = from_env("OPENAI_ORG_ID", "the organization's id")? {
            openai = openai.with_organization(&id)?;
        }
        if let Some(id) = from_env("OPENAI_PROJECT_ID", "the project's id")? {
            openai = openai.with_project(&id)?;
        }
        Ok(openai)
    }

    /// A model of any compatible server; the address ends in `/v1` for most.
    ///
    /// Whatever the environment says stays here: a key of OpenAI's is not for another
    /// server. Give that server's own with [`with_key`](Self::with_key).
    ///
    /// # Errors
    ///
    /// [`OpenAiError::BaseUrl`] if the address cannot be used.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let endpoint = Endpoint::new(base_url)?;
        let urls = [endpoint.url(["chat", "completions"], &[])?, endpoint.url(["responses"], &[])?];
        let client = Client::new(endpoint, Limits::default())?;
        Ok(Self(Arc::new(Parts {
            client,
            urls,
            model: model.into(),
            api: Api::default(),
            dialect: Dialect::OpenAiLoose,
            structured_output: true,
            temperature: None,
            encrypted_reasoning: false,
            retry: RetryPolicy::default(),
            max_time: MAX_TIME,
        })))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    fn with_endpoint(self, endpoint: Endpoint) -> Result<Self> {
        let client = self.0.client.clone().with_endpoint(endpoint)?;
        Ok(self.with(|parts| parts.client = client))
    }

    fn endpoint(&self) -> Endpoint {
        self.0.client.endpoint().clone()
    }

    /// Sets the API key of the server.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Header`] if it cannot be a key, [`OpenAiError::MissingKey`] if it is blank,
    /// [`OpenAiError::BaseUrl`] if the server is asked in plain http and is not on this machine:
    /// anybody on the way could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.trim().is_empty() {
            return Err(OpenAiError::MissingKey { variable: KEY });
        }
        let endpoint = self.endpoint().with_bearer("key", &key);
        let endpoint = endpoint.map_err(|error| named(error, "the API key"))?;
        self.with_endpoint(endpoint)
    }

    /// Sets the organization that pays for the requests.
    ///
    /// ```
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::at("https://api.openai.com/v1", "gpt-5-mini")?
    ///     .with_key("sk-made-up")?
    ///     .with_organization("org-1")?
    ///     .with_project("proj_1")?;
    /// assert!(!format!("{model:?}").contains("made-up"));
    /// # Ok::<(), toolwright_openai::OpenAiError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Header`] if it cannot travel in a header.
    pub fn with_organization(self, id: &str) -> Result<Self> {
        let endpoint = self.endpoint().with_header(ORGANIZATION, id);
        let endpoint = endpoint.map_err(|error| named(error, "the organization's id"))?;
        self.with_endpoint(endpoint)
    }

    /// Sets the project that the requests belong to.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Header`] if it cannot travel in a header.
    pub fn with_project(self, id: &str) -> Result<Self> {
        let endpoint = self.endpoint().with_header(PROJECT, id);
        let endpoint = endpoint.map_err(|error| named(error, "the project's id"))?;
        self.with_endpoint(endpoint)
    }

    /// Sets a header of every request, such as the `api-key` of some servers.
    ///
    /// ```
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::at("https://example.com/v1", "m")?.with_header("api-key", "made-up")?;
    /// # Ok::<(), toolwright_openai::OpenAiError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Header`] if it is not a header, [`OpenAiError::BaseUrl`] if it is one that
    /// carries a key and the server is asked in plain http and is not on this machine.
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = name.parse::<HeaderName>();
        let header =
            header.map_err(|_| OpenAiError::Header { what: "the name of a header".to_owned() })?;
        let shown = format!("the header `{header}`");
        let endpoint = self.endpoint().with_header(header, value);
        let endpoint = endpoint.map_err(|error| named(error, &shown))?;
        self.with_endpoint(endpoint)
    }

    /// Sets a `reqwest::Client` of the caller's own, for a proxy, certificates or a shared
    /// pool.
    ///
    /// Turn its redirects off, unless every place that they lead to may get the
    /// conversation. The limits of this model hold as before.
    #[must_use]
    pub fn with_http(self, http: reqwest::Client) -> Self {
        self.with(|parts| parts.client = parts.client.clone().with_http(http))
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
    /// [`OutputMode::Prompted`](toolwright_module::predict::OutputMode::Prompted).
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
        self.with(|parts| parts.retry = parts.retry.clone().with_retries(retries))
    }

    /// How long the server may be silent, before its reply and within; 10 minutes
    /// unless said.
    ///
    /// A reply may take longer than that, as long as something comes:
    /// [`with_max_time`](Self::with_max_time) bounds the whole.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Client`], as for every constructor.
    pub fn with_timeout(self, silence: Duration) -> Result<Self> {
        let limits = self.0.client.limits().with_silence(silence);
        let client = self.0.client.clone().with_limits(limits)?;
        Ok(self.with(|parts| parts.client = client))
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
        self.0.client.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let options = parts.options(false);
        let deadline = Deadline::after(parts.max_time);
        match parts.api {
            Api::Chat => {
                let body = parts.whole(&chat::Body::new(request, &options)?, deadline).await?;
                read(&body, |reply: chat::Completion| reply.into_reply(request))
            }
            Api::Responses => {
                let body = parts.whole(&responses::Body::new(request, &options)?, deadline).await?;
                read(&body, |reply: responses::Response| reply.into_reply(request))
            }
        }
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let options = parts.options(true);
        let deadline = Deadline::after(parts.max_time);
        let silence = parts.client.limits().silence;
        match parts.api {
            Api::Chat => {
                let body = chat::Body::new(request, &options)?;
                match parts.events(&body, deadline).await? {
                    Streamed::Events(body) => {
                        Ok(streaming::deltas(body, chat::Pieces::new(request), silence))
                    }
                    Streamed::Whole(body) => {
                        read(&body, |reply: chat::Completion| reply.into_reply(request))
                            .map(streaming::whole)
                    }
                }
            }
            Api::Responses => {
                let body = responses::Body::new(request, &options)?;
                match parts.events(&body, deadline).await? {
                    Streamed::Events(body) => {
                        Ok(streaming::deltas(body, responses::Pieces::new(request), silence))
                    }
                    Streamed::Whole(body) => {
                        read(&body, |reply: responses::Response| reply.into_reply(request))
                            .map(streaming::whole)
                    }
                }
            }
        }
    }

    /// An error of ours as it leaves.
    fn told(&self, error: OpenAiError) -> toolwright_module::Error {
        error.told(self.0.client.endpoint()).into_module()
    }
}

impl Parts {
    async fn whole(&self, body: &impl Serialize, deadline: Deadline) -> Result<Bytes> {
        Ok(self.post(body, deadline).await?.text().await?)
    }

    async fn events(&self, body: &impl Serialize, deadline: Deadline) -> Result<Streamed> {
        Ok(self.post(body, deadline).await?.events().await?)
    }

    /// Sends a request, again where that may help, and returns the response of a success.
    async fn post(&self, body: &impl Serialize, deadline: Deadline) -> Result<Response> {
        let body = serde_json::to_vec(body).map_err(|error| {
            let source = format!("failed to serialize request: {error}").into();
            OpenAiError::Request { source }
        })?;
        let [chat, responses] = &self.urls;
        let url = match self.api {
            Api::Chat => chat,
            Api::Responses => responses,
        };
        let request = toolwright_http::Request::post_json(url.clone(), body);
        let attempt = || async {
            Ok::<_, OpenAiError>(self.client.send(&request, deadline).await?.or_refusal().await?)
        };
        self.retry.run(deadline, attempt, OpenAiError::retry).await
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

/// A variable of the environment, if it is there and not empty.
fn from_env(variable: &str, what: &str) -> Result<Option<String>> {
    match env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(OpenAiError::Header { what: what.to_owned() }),
    }
}

/// The error with a name for the text that no header can carry.
fn named(error: toolwright_http::HttpError, what: &str) -> OpenAiError {
    match OpenAiError::from(error) {
        OpenAiError::Header { .. } => OpenAiError::Header { what: what.to_owned() },
        error => error,
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
    let read = read.map_err(|source| OpenAiError::from_json(source, body));
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
