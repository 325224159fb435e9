//! [`OpenAi`]: the settings of a model, and the calls of [`LanguageModel`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use toolwright_http::Endpoint;
use toolwright_http::reqwest::header::HeaderName;
use toolwright_http::reqwest::{self, Url};
#[cfg(feature = "async-openai")]
use toolwright_http::{ErrorKind, HttpError, UrlFault};
use toolwright_module::model::{Capabilities, Delta, Setting, SettingSet, Settings};
use toolwright_module::provider::{Connection, ProviderError, from_env, read_whole, stream_of};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_signature::Dialect;

use crate::api::Api;
use crate::request::{Options, Written};
use crate::rules::Rules;
use crate::{Result, chat, responses};

const OPENAI: &str = "https://api.openai.com/v1";
/// Name of the environment variable with the key.
const KEY: &str = "OPENAI_API_KEY";
const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROJECT: HeaderName = HeaderName::from_static("openai-project");
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
/// # Ok::<(), toolwright_openai::ProviderError>(())
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
    connection: Connection,
    /// The URLs of [`Api::Chat`] and of [`Api::Responses`].
    urls: [Url; 2],
    model: String,
    api: Api,
    dialect: Dialect,
    structured_output: bool,
    settings: Option<Settings>,
    encrypted_reasoning: bool,
    rules: Rules,
    written: Written,
}

impl OpenAi {
    /// Creates a model from environment variables.
    ///
    /// `OPENAI_API_KEY` is the key. `OPENAI_BASE_URL` is the base URL; default:
    /// `https://api.openai.com/v1`. `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` are optional.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if there is no key. [`ProviderError::Header`] if a variable has a
    /// character that is not allowed in a header. [`ProviderError::BaseUrl`] if `OPENAI_BASE_URL`
    /// cannot be used.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        let key = from_env(KEY, "the API key")?;
        let key = key.filter(|key| !key.trim().is_empty());
        let key = key.ok_or(ProviderError::MissingKey { variable: KEY })?;
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
    /// [`ProviderError::BaseUrl`] if the base URL cannot be used.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let model = model.into();
        let connection = Connection::at(base_url)?;
        let endpoint = connection.endpoint();
        let urls = [endpoint.url(["chat", "completions"], &[])?, endpoint.url(["responses"], &[])?];
        Ok(Self(Arc::new(Parts {
            connection,
            urls,
            rules: Rules::of_model(&model),
            model,
            api: Api::default(),
            dialect: Dialect::OpenAiLoose,
            structured_output: true,
            settings: None,
            encrypted_reasoning: false,
            written: Written::default(),
        })))
    }

    /// Replaces the URLs of [`Api::Chat`] and of [`Api::Responses`].
    #[cfg(feature = "async-openai")]
    pub(crate) fn with_urls(self, urls: [Url; 2]) -> Result<Self> {
        let endpoint = self.0.connection.endpoint();
        match urls.iter().all(|url| endpoint.contains(url)) {
            true => Ok(self.with(|parts| parts.urls = urls)),
            false => Err(HttpError::from(ErrorKind::Url(UrlFault::Outside)).into()),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        let parts = Arc::make_mut(&mut self.0);
        change(parts);
        // A changed model may write messages in another form.
        parts.written = Written::default();
        self
    }

    fn with_connection(
        self,
        change: impl FnOnce(Connection) -> Result<Connection>,
    ) -> Result<Self> {
        let connection = change(self.0.connection.clone())?;
        Ok(self.with(|parts| parts.connection = connection))
    }

    /// Sets a header, which errors call `what`.
    fn with_named_header(self, header: HeaderName, value: &str, what: &str) -> Result<Self> {
        let change = |endpoint: Endpoint| endpoint.with_header(header, value);
        let changed = self.with_connection(|connection| connection.with_endpoint(change));
        changed.map_err(|error| error.about(what))
    }

    /// Sets the API key of the server.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the key is blank. [`ProviderError::Header`] if it has a
    /// character that is not allowed in a header. [`ProviderError::BaseUrl`] if the base URL is
    /// plain http and not on this machine, because others on the network could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.trim().is_empty() {
            return Err(ProviderError::MissingKey { variable: KEY });
        }
        let change = |endpoint: Endpoint| endpoint.with_bearer("key", &key);
        let changed = self.with_connection(|connection| connection.with_endpoint(change));
        changed.map_err(|error| error.about("the API key"))
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
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Header`] if it has a character that is not allowed in a header.
    pub fn with_organization(self, id: &str) -> Result<Self> {
        self.with_named_header(ORGANIZATION, id, "the organization's id")
    }

    /// Sets the id of the project that the requests belong to. Default: that of the key.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Header`] if it has a character that is not allowed in a header.
    pub fn with_project(self, id: &str) -> Result<Self> {
        self.with_named_header(PROJECT, id, "the project's id")
    }

    /// Sets a header of every request, such as the `api-key` of some servers.
    ///
    /// ```
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::at("https://example.com/v1", "m")?.with_header("api-key", "made-up")?;
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Header`] if the name or the value is not allowed in a header.
    /// [`ProviderError::BaseUrl`] if the header holds a key and the base URL is plain http and not
    /// on this machine.
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        self.with_connection(|connection| connection.with_header(name, value))
    }

    /// Sets the `reqwest::Client` to use, for a proxy, certificates or a shared pool. Default:
    /// a client that this crate creates.
    ///
    /// Turn its redirects off, unless every server that they lead to may get the
    /// conversation. The limits of this model still hold.
    #[must_use]
    pub fn with_http(self, http: reqwest::Client) -> Self {
        self.with(|parts| parts.connection = parts.connection.clone().with_http(http))
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
    /// A setting that the API does not have fails the request with [`ProviderError::Setting`]:
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
        self.with(|parts| parts.connection = parts.connection.clone().with_retries(retries))
    }

    /// Sets the maximum time without a byte, before the reply and within. Default: 10 minutes.
    ///
    /// A whole reply may take longer: [`with_max_time`](Self::with_max_time) limits it.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Client`] if the system's certificates cannot be read.
    pub fn with_timeout(self, silence: Duration) -> Result<Self> {
        self.with_connection(|connection| connection.with_timeout(silence))
    }

    /// Sets the maximum time of one answer, with its retries. Default: 30 minutes.
    ///
    /// It ends a reply that arrives slowly but never stops. A limit too large for
    /// [`Instant`](std::time::Instant) means no limit.
    #[must_use]
    pub fn with_max_time(self, max_time: Duration) -> Self {
        self.with(|parts| parts.connection = parts.connection.clone().with_max_time(max_time))
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.connection.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let body = parts.connection.whole(parts.url(), parts.body(request, false)?).await?;
        parts.read(&body, request)
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let response = parts.connection.events(parts.url(), parts.body(request, true)?).await?;
        let (silence, whole) =
            (parts.connection.silence(), |body: &[u8]| parts.read(body, request));
        let [chat, responses] = &parts.rules.origins;
        match parts.api {
            Api::Chat => stream_of(response, chat::Pieces::new(request, chat), silence, whole),
            Api::Responses => {
                stream_of(response, responses::Pieces::new(request, responses), silence, whole)
            }
        }
    }

    /// Converts an error for the caller.
    fn public_error(&self, error: ProviderError) -> toolwright_module::Error {
        self.0.connection.public(error)
    }
}

impl Parts {
    fn url(&self) -> &Url {
        let [chat, responses] = &self.urls;
        match self.api {
            Api::Chat => chat,
            Api::Responses => responses,
        }
    }

    fn body(&self, request: &Request, stream: bool) -> Result<Vec<u8>> {
        let options = self.options(stream);
        match self.api {
            Api::Chat => chat::body(request, &options),
            Api::Responses => responses::body(request, &options),
        }
    }

    /// Reads a whole reply.
    fn read(&self, body: &[u8], request: &Request) -> Result<Reply> {
        let [chat, responses] = &self.rules.origins;
        match self.api {
            Api::Chat => {
                read_whole(body, |reply: chat::Completion| reply.into_reply(request, chat))
            }
            Api::Responses => {
                read_whole(body, |reply: responses::Response| reply.into_reply(request, responses))
            }
        }
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
            rules: &self.rules,
            written: &self.written,
            stream,
        }
    }
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
