//! [`OpenAi`]: the settings of a model, and the calls of [`LanguageModel`].

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
use toolwright_http::{
    Client, Deadline, Endpoint, HttpLimits, HttpResponse, RetryPolicy, Streamed,
};
#[cfg(feature = "async-openai")]
use toolwright_http::{ErrorKind, HttpError, UrlFault};
use toolwright_module::model::{Capabilities, Delta, Setting, SettingSet, Settings};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_signature::Dialect;

use crate::api::Api;
use crate::error::{OpenAiError, Result};
use crate::request::{Options, to_json};
use crate::{chat, responses, streaming};

/// The fields of [`Settings::extra`] for this provider.
type Extra = serde_json::Map<String, serde_json::Value>;

/// The name of this provider in [`Settings::extra`].
const EXTRA: &str = "openai";

const OPENAI: &str = "https://api.openai.com/v1";
/// Name of the environment variable with the key.
const KEY: &str = "OPENAI_API_KEY";
const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROJECT: HeaderName = HeaderName::from_static("openai-project");
/// Default total time of an answer. It is enough for a long answer of a slow server, and it
/// ends a response that never ends.
const MAX_TIME: Duration = Duration::from_secs(1800);

/// Language model of OpenAI or of a server with a compatible API.
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
/// use toolwright_module::model::Settings;
/// use toolwright_openai::OpenAi;
///
/// let settings = Settings::default().with_temperature(0.0);
/// let model = OpenAi::at("http://127.0.0.1:8080/v1", "smollm2")?.with_settings(settings);
/// assert_eq!(model.name(), "smollm2");
/// # Ok::<(), toolwright_openai::OpenAiError>(())
/// ```
///
/// Cloning costs one reference count and shares the connections. A request is retried up to
/// two times by default, if no answer has begun: after a failed connection, and after 408, 409,
/// 429 and 5xx. The pause is the server's `retry-after`, or about 0.5 and 1 second. There is no
/// retry if waiting does not help, such as for an account without credit.
///
/// It needs the tokio runtime.
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
    settings: Option<Settings>,
    encrypted_reasoning: bool,
    retry: RetryPolicy,
    max_time: Duration,
}

impl OpenAi {
    /// Creates a model from environment variables.
    ///
    /// `OPENAI_API_KEY` is the key. `OPENAI_BASE_URL` is the base URL; default:
    /// `https://api.openai.com/v1`. `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` are optional.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::MissingKey`] if there is no key. [`OpenAiError::Header`] if a variable has a
    /// character that is not allowed in a header. [`OpenAiError::BaseUrl`] if `OPENAI_BASE_URL`
    /// cannot be used.
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

    /// Creates a model of a compatible server. For most servers the base URL ends in `/v1`.
    ///
    /// Environment variables are not used, because a key for OpenAI must not go to another
    /// server. Set the key of this server with [`with_key`](Self::with_key).
    ///
    /// # Errors
    ///
    /// [`OpenAiError::BaseUrl`] if the base URL cannot be used.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let endpoint = Endpoint::new(base_url)?;
        let urls = [endpoint.url(["chat", "completions"], &[])?, endpoint.url(["responses"], &[])?];
        let client = Client::new(endpoint, HttpLimits::default())?;
        Ok(Self(Arc::new(Parts {
            client,
            urls,
            model: model.into(),
            api: Api::default(),
            dialect: Dialect::OpenAiLoose,
            structured_output: true,
            settings: None,
            encrypted_reasoning: false,
            retry: RetryPolicy::default(),
            max_time: MAX_TIME,
        })))
    }

    /// Replaces the URLs of [`Api::Chat`] and of [`Api::Responses`].
    #[cfg(feature = "async-openai")]
    pub(crate) fn with_urls(self, urls: [Url; 2]) -> Result<Self> {
        let endpoint = self.endpoint();
        match urls.iter().all(|url| endpoint.contains(url)) {
            true => Ok(self.with(|parts| parts.urls = urls)),
            false => Err(HttpError::from(ErrorKind::Url(UrlFault::Outside)).into()),
        }
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
    /// [`OpenAiError::MissingKey`] if the key is blank. [`OpenAiError::Header`] if it has a
    /// character that is not allowed in a header. [`OpenAiError::BaseUrl`] if the base URL is
    /// plain http and not on this machine, because others on the network could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.trim().is_empty() {
            return Err(OpenAiError::MissingKey { variable: KEY });
        }
        let endpoint = self.endpoint().with_bearer("key", &key);
        let endpoint = endpoint.map_err(|error| named(error, "the API key"))?;
        self.with_endpoint(endpoint)
    }

    /// Sets the id of the organization that pays for the requests. Default: that of the key.
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
    /// [`OpenAiError::Header`] if it has a character that is not allowed in a header.
    pub fn with_organization(self, id: &str) -> Result<Self> {
        let endpoint = self.endpoint().with_header(ORGANIZATION, id);
        let endpoint = endpoint.map_err(|error| named(error, "the organization's id"))?;
        self.with_endpoint(endpoint)
    }

    /// Sets the id of the project that the requests belong to. Default: that of the key.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Header`] if it has a character that is not allowed in a header.
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
    /// [`OpenAiError::Header`] if the name or the value is not allowed in a header.
    /// [`OpenAiError::BaseUrl`] if the header holds a key and the base URL is plain http and not
    /// on this machine.
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = name.parse::<HeaderName>();
        let header =
            header.map_err(|_| OpenAiError::Header { what: "the name of a header".to_owned() })?;
        let shown = format!("the header `{header}`");
        let endpoint = self.endpoint().with_header(header, value);
        let endpoint = endpoint.map_err(|error| named(error, &shown))?;
        self.with_endpoint(endpoint)
    }

    /// Sets the `reqwest::Client` to use, for a proxy, certificates or a shared pool. Default:
    /// a client that this crate creates.
    ///
    /// Turn its redirects off, unless every server that they lead to may get the
    /// conversation. The limits of this model still hold.
    #[must_use]
    pub fn with_http(self, http: reqwest::Client) -> Self {
        self.with(|parts| parts.client = parts.client.clone().with_http(http))
    }

    /// Sets the API to use. Default: [`Api::Chat`].
    #[must_use]
    pub fn with_api(self, api: Api) -> Self {
        self.with(|parts| parts.api = api)
    }

    /// Sets the dialect of JSON Schema for tools and answers. Default:
    /// [`Dialect::OpenAiLoose`], which compatible servers accept.
    ///
    /// With [`Dialect::OpenAiStrict`], OpenAI guarantees that arguments fit the schema.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        self.with(|parts| parts.dialect = dialect)
    }

    /// Sets whether the request contains the schema of the answer. Default: `true`.
    ///
    /// Use `false` for servers that ignore or refuse the schema: the answer is then the
    /// arguments of a tool call. For servers without tools, use
    /// [`OutputMode::Prompted`](toolwright_module::predict::OutputMode::Prompted).
    #[must_use]
    pub fn with_structured_output(self, structured_output: bool) -> Self {
        self.with(|parts| parts.structured_output = structured_output)
    }

    /// Sets the settings for requests that have none of their own, such as the temperature.
    /// Default: not sent, so the server chooses.
    ///
    /// A setting that the API does not have fails the request with [`OpenAiError::Setting`]:
    /// Responses has no seed and no stop texts, and neither API can turn its prompt cache off.
    /// [`Settings::extra`] of `openai` go into the body as they are.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        self.with(|parts| parts.settings = Some(settings.clone()))
    }

    /// Requests encrypted reasoning, so that the server does not have to store responses.
    ///
    /// It is for [`Api::Responses`] only. It sets `store` to `false` and `include` to
    /// `reasoning.encrypted_content`, and each request contains the encrypted reasoning of
    /// earlier turns. By default the server stores every response, and a request refers to the
    /// stored reasoning by id.
    #[must_use]
    pub fn with_encrypted_reasoning(self) -> Self {
        self.with(|parts| parts.encrypted_reasoning = true)
    }

    /// Sets the maximum number of retries. Default: 2.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        self.with(|parts| parts.retry = parts.retry.clone().with_retries(retries))
    }

    /// Sets the maximum time without a byte, before the reply and within. Default: 10 minutes.
    ///
    /// A whole reply may take longer: [`with_max_time`](Self::with_max_time) limits it.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::Client`] if the system's certificates cannot be read.
    pub fn with_timeout(self, silence: Duration) -> Result<Self> {
        let limits = self.0.client.limits().with_silence(silence);
        let client = self.0.client.clone().with_limits(limits)?;
        Ok(self.with(|parts| parts.client = client))
    }

    /// Sets the maximum time of one answer, with its retries. Default: 30 minutes.
    ///
    /// It ends a reply that arrives slowly but never stops. A limit too large for
    /// [`Instant`](std::time::Instant) means no limit.
    #[must_use]
    pub fn with_max_time(self, max_time: Duration) -> Self {
        self.with(|parts| parts.max_time = max_time)
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.client.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let options = parts.options(false);
        let settings = request.settings_over(parts.settings.as_ref());
        let extra = settings.as_ref().and_then(|settings| settings.extra.get(EXTRA));
        let deadline = Deadline::after(parts.max_time);
        match parts.api {
            Api::Chat => {
                let body =
                    parts.whole(&chat::Body::new(request, &options)?, extra, deadline).await?;
                read(&body, |reply: chat::Completion| reply.into_reply(request))
            }
            Api::Responses => {
                let body =
                    parts.whole(&responses::Body::new(request, &options)?, extra, deadline).await?;
                read(&body, |reply: responses::Response| reply.into_reply(request))
            }
        }
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let options = parts.options(true);
        let settings = request.settings_over(parts.settings.as_ref());
        let extra = settings.as_ref().and_then(|settings| settings.extra.get(EXTRA));
        let deadline = Deadline::after(parts.max_time);
        let silence = parts.client.limits().silence;
        match parts.api {
            Api::Chat => {
                let body = chat::Body::new(request, &options)?;
                match parts.events(&body, extra, deadline).await? {
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
                match parts.events(&body, extra, deadline).await? {
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

    /// Converts an error for the caller: redacted, and as an error of the module layer.
    fn public_error(&self, error: OpenAiError) -> toolwright_module::Error {
        error.redacted(self.0.client.endpoint()).into_module()
    }
}

impl Parts {
    async fn whole(
        &self,
        body: &impl Serialize,
        extra: Option<&Extra>,
        deadline: Deadline,
    ) -> Result<Bytes> {
        Ok(self.post(body, extra, deadline).await?.text().await?)
    }

    async fn events(
        &self,
        body: &impl Serialize,
        extra: Option<&Extra>,
        deadline: Deadline,
    ) -> Result<Streamed> {
        Ok(self.post(body, extra, deadline).await?.events().await?)
    }

    /// Sends a request, with retries, and returns the response if it is a success.
    async fn post(
        &self,
        body: &impl Serialize,
        extra: Option<&Extra>,
        deadline: Deadline,
    ) -> Result<HttpResponse> {
        let body =
            to_json(body, extra).map_err(|error| OpenAiError::Request { source: error.into() })?;
        let [chat, responses] = &self.urls;
        let url = match self.api {
            Api::Chat => chat,
            Api::Responses => responses,
        };
        let request = toolwright_http::HttpRequest::post_json(url.clone(), body);
        let attempt = || async {
            Ok::<_, OpenAiError>(self.client.send(&request, deadline).await?.or_refusal().await?)
        };
        self.retry.run(deadline, attempt, OpenAiError::retry).await
    }

    /// Returns the settings that the API has.
    fn supported(&self) -> SettingSet {
        let both = SettingSet::ALL.without(Setting::Cache);
        match self.api {
            Api::Chat => both,
            Api::Responses => both.without(Setting::Seed).without(Setting::Stop),
        }
    }

    fn options(&self, stream: bool) -> Options<'_> {
        Options {
            model: &self.model,
            dialect: self.dialect,
            structured_output: self.structured_output,
            settings: self.settings.as_ref(),
            supported: self.supported(),
            encrypted_reasoning: self.encrypted_reasoning,
            stream,
        }
    }
}

/// Returns an environment variable, if it is set and not empty.
fn from_env(variable: &str, what: &str) -> Result<Option<String>> {
    match env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(OpenAiError::Header { what: what.to_owned() }),
    }
}

/// Converts an error. `what` is the name that an error about a header shows.
fn named(error: toolwright_http::HttpError, what: &str) -> OpenAiError {
    match OpenAiError::from(error) {
        OpenAiError::Header { .. } => OpenAiError::Header { what: what.to_owned() },
        error => error,
    }
}

/// Deserializes a whole reply.
fn read<T: DeserializeOwned>(body: &[u8], reply: impl FnOnce(T) -> Result<Reply>) -> Result<Reply> {
    // For serde, a list is also a struct: its items are the fields, in their order.
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let read = match is_list {
        true => Err(serde_json::Error::custom("expected a reply, found a list")),
        false => serde_json::from_slice(body),
    };
    let read = read.map_err(|source| OpenAiError::from_json(source, body));
    read.and_then(reply).map_err(|error| error.or_error_in(body))
}

impl LanguageModel for OpenAi {
    fn name(&self) -> &str {
        &self.0.model
    }

    fn provider(&self) -> &str {
        // Also for a compatible server: the name stands for the API.
        "openai"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.0.dialect)
            .with_structured_output(self.0.structured_output)
            .with_tools(true)
            .with_images(true)
            .with_documents(true)
            .with_audio(self.0.api == Api::Chat)
            .with_settings(self.0.supported())
    }

    fn settings(&self) -> Option<&Settings> {
        self.0.settings.as_ref()
    }

    fn generate<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, toolwright_module::Result<Reply>> {
        Box::pin(async move { self.ask(request).await.map_err(|error| self.public_error(error)) })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, toolwright_module::Result<Delta>> {
        stream::once(async move { self.open(&request).await })
            .try_flatten()
            .map_err(|error| self.public_error(error))
            .boxed()
    }
}

/// Shows the settings without the key.
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
