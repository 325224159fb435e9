//! [`OpenAi`]: the settings of a model, and the calls of [`LanguageModel`].

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use toolwright_http::reqwest::Url;
use toolwright_http::{ErrorKind, RequestBody};
#[cfg(feature = "async-openai")]
use toolwright_http::{HttpError, UrlFault};
use toolwright_module::model::{Capabilities, Delta, Settings};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_provider::unread::with_notes;
use toolwright_provider::{Connection, ProviderError, deltas_of, from_env, read_reply, read_whole};
use toolwright_signature::Dialect;

use crate::api::Api;
use crate::request::{Options, Written, takes};
use crate::responses::{History, RequestInfo};
use crate::rules::{Quirk, Rules, takes_additional_tools};
use crate::services::Service;
use crate::{Result, chat, responses};

const OPENAI: &str = "https://api.openai.com/v1";
/// Name of the environment variable with the key.
const KEY: &str = "OPENAI_API_KEY";

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
/// two times by default, if no answer has begun: after a failed connection, after 408, 409, 425,
/// 429 and 5xx, and after such an error in a reply of status 200. The pause is the server's
/// `retry-after`, or about 0.5 and 1 second. There is no retry if waiting does not help, such as for an account without credit.
///
/// It needs the tokio runtime.
#[derive(Clone)]
pub struct OpenAi(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    connection: Connection,
    /// The URLs of [`Api::Chat`] and of [`Api::Responses`].
    urls: [Url; 2],
    options: Options,
}

/// The body of a request.
struct Prepared {
    body: RequestBody,
    /// The hash of the conversation, if the server keeps it.
    history: Option<History>,
    /// Whether the body has only what is new.
    is_rest: bool,
}

impl OpenAi {
    /// Creates a model from environment variables.
    ///
    /// `OPENAI_API_KEY` is the key. `OPENAI_BASE_URL` is the base URL; default:
    /// `https://api.openai.com/v1`. `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` are optional.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if there is no key. [`ProviderError::Http`] if a variable has
    /// a character that is not allowed in a header, or if `OPENAI_BASE_URL` cannot be used.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        let key = from_env(KEY)?.ok_or(ProviderError::MissingKey { variable: KEY })?;
        let base_url = from_env("OPENAI_BASE_URL")?;
        let mut openai = Self::at(base_url.as_deref().unwrap_or(OPENAI), model)?.with_key(key)?;
        if let Some(id) = from_env("OPENAI_ORG_ID")? {
            openai = openai.with_organization(&id)?;
        }
        if let Some(id) = from_env("OPENAI_PROJECT_ID")? {
            openai = openai.with_project(&id)?;
        }
        Ok(openai)
    }

    /// Creates a model of a compatible server. For most servers the base URL ends in `/v1`.
    ///
    /// Environment variables are not used, because a key for OpenAI must not go to another
    /// server. Set the key of this server with [`with_key`](Self::with_key).
    ///
    /// The host of a service in [`Service::ALL`] has the rules of that service. A server at any
    /// other address gets what every compatible server accepts in Chat Completions:
    ///
    /// - The maximum of tokens is `max_tokens`. Only a model with the name of one of OpenAI's
    ///   reasoning models gets `max_completion_tokens`, because these refuse `max_tokens`.
    /// - The roles alternate, as the chat templates of many models require. Neighbours of one role
    ///   are one message, and system messages are the first one. The text "I have read the results."
    ///   of the model stands between results and a message of the user, and "Begin." of the user
    ///   before a conversation that the model begins. A message of the model that only thought has the
    ///   text "I have not answered yet.", and an empty one is left out.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the base URL cannot be used.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let model = model.into();
        let connection = Connection::at(base_url)?;
        let endpoint = connection.endpoint();
        let urls = [endpoint.url(["chat", "completions"], &[])?, endpoint.url(["responses"], &[])?];
        let service = urls[0].host_str().and_then(Service::at_host);
        let rules = service.map_or_else(|| Rules::of_model(&model), Rules::of_service);
        let is_openai = urls[0].host_str() == Some("api.openai.com");
        let additional_tools = is_openai && takes_additional_tools(&model);
        let options = Options {
            model,
            api: Api::default(),
            dialect: service.map_or(Dialect::OpenAiLoose, |service| service.dialect),
            structured_output: !rules.has(Quirk::NoStructuredOutput),
            settings: None,
            encrypted_reasoning: false,
            reasoning_summaries: false,
            server_tools: Vec::new(),
            cache_key: None,
            background: false,
            server_state: false,
            additional_tools,
            rules,
            service: service.map(|service| service.name),
            written: Written::default(),
        };
        Ok(Self(Arc::new(Parts { connection, urls, options })))
    }

    /// Creates a model of a service in the list [`Service::ALL`], with the key in the service's
    /// environment variable.
    ///
    /// ```no_run
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::service("groq", "openai/gpt-oss-120b")?;
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// `azure` takes the name of a deployment, and the version of the API from
    /// `OPENAI_API_VERSION` if that is set; see [`azure`](Self::azure).
    ///
    /// # Errors
    ///
    /// [`ProviderError::Service`] if there is no such service, with the names of all, or if a
    /// variable of its address is missing. [`ProviderError::MissingKey`] if there is no key. The
    /// errors of [`at`](Self::at) and [`with_key`](Self::with_key).
    pub fn service(name: &str, model: impl Into<String>) -> Result<Self> {
        let (openai, service) = Self::at_service(name, model)?;
        let Some(variable) = service.key_variable else { return Ok(openai) };
        openai.with_key(from_env(variable)?.ok_or(ProviderError::MissingKey { variable })?)
    }

    /// Creates a model of a service in the list [`Service::ALL`] with this key, as
    /// [`service`](Self::service) does with the key in the environment.
    ///
    /// ```
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::service_with_key("groq", "openai/gpt-oss-120b", "made-up")?;
    /// assert_eq!(model.base_url(), "https://api.groq.com/openai/v1");
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`service`](Self::service), but for a missing key.
    pub fn service_with_key(
        name: &str,
        model: impl Into<String>,
        key: impl Into<String>,
    ) -> Result<Self> {
        Self::at_service(name, model)?.0.with_key(key)
    }

    /// Creates a model of a service, without a key.
    fn at_service(name: &str, model: impl Into<String>) -> Result<(Self, &'static Service)> {
        let fault = |fault| ProviderError::Service { name: name.to_owned(), fault };
        let Some(service) = Service::ALL.iter().find(|service| service.name == name) else {
            let names: Vec<_> = Service::ALL.iter().map(|service| service.name).collect();
            return Err(fault(format!(
                "there is no service of that name; use one of {}, or `OpenAi::at`",
                names.join(", ")
            )));
        };
        let mut base_url = service.base_url.to_owned();
        if let Some((before, rest)) = service.base_url.split_once('{')
            && let Some((variable, after)) = rest.split_once('}')
        {
            let value = from_env(variable)?;
            let value = value.ok_or_else(|| fault(format!("set {variable}")))?;
            base_url = format!("{before}{}{after}", value.trim_end_matches('/'));
        }
        let mut openai = match name {
            "azure" => {
                let version = from_env("OPENAI_API_VERSION")?;
                Self::azure(&base_url, model, version.as_deref())?
            }
            _ => Self::at(&base_url, model)?,
        };
        openai = openai.with(|parts| {
            parts.options.rules = Rules::of_service(service);
            parts.options.service = Some(service.name);
            (parts.options.api, parts.options.dialect) = (service.api, service.dialect);
            parts.options.structured_output = !parts.options.rules.has(Quirk::NoStructuredOutput);
        });
        Ok((openai, service))
    }

    /// Creates a model of Azure OpenAI: a deployment at an endpoint such as
    /// `https://NAME.openai.azure.com`.
    ///
    /// Without a version, it uses the paths below `/openai/v1`. A version such as `2024-10-21` uses
    /// the older paths with `api-version`, in which Chat Completions has the name of the
    /// deployment. `preview` uses the new paths with `api-version`.
    ///
    /// [`with_key`](Self::with_key) sets the header `api-key`. For a token of Entra ID use
    /// [`with_token`](Self::with_token).
    ///
    /// ```
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::azure("https://example.openai.azure.com", "my-gpt", None)?;
    /// let model = model.with_key("made-up")?;
    /// assert_eq!(model.base_url(), "https://example.openai.azure.com/openai");
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the endpoint cannot be used.
    pub fn azure(
        endpoint: &str,
        deployment: impl Into<String>,
        version: Option<&str>,
    ) -> Result<Self> {
        let without = |url: &'_ str, end| url.strip_suffix(end).unwrap_or(url).to_owned();
        let root = without(&without(endpoint.trim_end_matches('/'), "/v1"), "/openai");
        let openai = Self::at(&format!("{root}/openai"), deployment)?;
        let endpoint = openai.0.connection.endpoint();
        let query: Vec<_> = version.map(|version| ("api-version", version)).into_iter().collect();
        let is_dated = version.is_some_and(|version| version.starts_with(char::is_numeric));
        let urls = if is_dated {
            let chat = ["deployments", &openai.0.options.model, "chat", "completions"];
            [endpoint.url(chat, &query)?, endpoint.url(["responses"], &query)?]
        } else {
            let chat = endpoint.url(["v1", "chat", "completions"], &query)?;
            [chat, endpoint.url(["v1", "responses"], &query)?]
        };
        let service = Service::ALL.iter().find(|service| service.name == "azure");
        Ok(openai.with(|parts| {
            parts.urls = urls;
            parts.options.service = service.map(|service| service.name);
            parts.options.rules =
                service.map_or_else(|| parts.options.rules.clone(), Rules::of_service);
        }))
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
        parts.options.written = Written::default();
        self
    }

    /// Changes the connection: its retries, timeouts, headers and HTTP client. See [`Connection`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use toolwright_openai::OpenAi;
    ///
    /// let model = OpenAi::at("http://vllm.models.svc:8000/v1", "qwen3")?.with_connection(|connection| {
    ///     connection.with_retries(0).with_timeout(Duration::from_secs(60))
    /// })?;
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `change`.
    pub fn with_connection(
        self,
        change: impl FnOnce(Connection) -> Result<Connection>,
    ) -> Result<Self> {
        let connection = change(self.0.connection.clone())?;
        Ok(self.with(|parts| parts.connection = connection))
    }

    /// Sets the API key of the server.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the key is blank. [`ProviderError::Http`] if it has a
    /// character that is not allowed in a header, or if the base URL is plain http and not on this
    /// machine, because others on the network could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let header = self.0.options.rules.key_header();
        self.with_connection(|connection| connection.with_key(header, &key.into(), KEY))
    }

    /// Sets a token in the header `authorization`, for a server whose key is in another header,
    /// such as Azure with Entra ID.
    ///
    /// # Errors
    ///
    /// The errors of [`with_key`](Self::with_key), but a blank token is sent.
    pub fn with_token(self, token: &str) -> Result<Self> {
        self.with_connection(|connection| {
            connection.with_endpoint(|endpoint| endpoint.with_bearer("token", token))
        })
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
    /// [`ProviderError::Http`] if it has a character that is not allowed in a header.
    pub fn with_organization(self, id: &str) -> Result<Self> {
        self.with_connection(|connection| connection.with_header("openai-organization", id))
    }

    /// Sets the id of the project that the requests belong to. Default: that of the key.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if it has a character that is not allowed in a header.
    pub fn with_project(self, id: &str) -> Result<Self> {
        self.with_connection(|connection| connection.with_header("openai-project", id))
    }

    /// Sets the API to use. Default: [`Api::Chat`].
    #[must_use]
    pub fn with_api(self, api: Api) -> Self {
        self.with(|parts| parts.options.api = api)
    }

    /// Sets the dialect of JSON Schema for tools and answers. Default:
    /// [`Dialect::OpenAiLoose`], which compatible servers accept.
    ///
    /// With [`Dialect::OpenAiStrict`], OpenAI guarantees that arguments fit the schema.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        self.with(|parts| parts.options.dialect = dialect)
    }

    /// Sets whether the request contains the schema of the answer. Default: `true`, except for
    /// services that are known to refuse it.
    ///
    /// Use `false` for servers that ignore or refuse the schema: the answer is then the
    /// arguments of a tool call. For servers without tools, use
    /// [`OutputMode::Prompted`](toolwright_module::predict::OutputMode::Prompted).
    #[must_use]
    pub fn with_structured_output(self, structured_output: bool) -> Self {
        self.with(|parts| parts.options.structured_output = structured_output)
    }

    /// Sets the settings for requests that have none of their own, such as the temperature.
    /// Default: not sent, so the server chooses.
    ///
    /// A setting that the API does not have fails the request with [`ProviderError::Setting`]:
    /// Responses has no seed and no stop texts, and neither API can turn its prompt cache off.
    /// [`Settings::extra`] of `openai` go into the body as they are.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        self.with(|parts| parts.options.settings = Some(settings.clone()))
    }

    /// Requests encrypted reasoning, so that the server does not have to store responses.
    ///
    /// It is for [`Api::Responses`] only. It sets `store` to `false` and `include` to
    /// `reasoning.encrypted_content`, and each request contains the encrypted reasoning of
    /// earlier turns. By default the server stores every response, and a request refers to the
    /// stored reasoning by id.
    #[must_use]
    pub fn with_encrypted_reasoning(self) -> Self {
        self.with(|parts| parts.options.encrypted_reasoning = true)
    }

    /// Requests summaries of the reasoning, which are the text of the reasoning parts of a reply.
    ///
    /// It is for [`Api::Responses`] only. Some models need a verified organization for it.
    #[must_use]
    pub fn with_reasoning_summaries(self) -> Self {
        self.with(|parts| parts.options.reasoning_summaries = true)
    }

    /// Adds a tool that the server runs itself, in the form of its API.
    ///
    /// The items of its use are opaque parts of the reply, and later requests contain them
    /// unchanged.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_openai::{Api, OpenAi};
    ///
    /// let model = OpenAi::at("https://api.openai.com/v1", "gpt-5-mini")?
    ///     .with_api(Api::Responses)
    ///     .with_server_tool(json!({"type": "web_search"}));
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_server_tool(self, tool: Value) -> Self {
        self.with(|parts| parts.options.server_tools.push(tool))
    }

    /// Sets the key of the prompt cache. Requests with the same key and the same beginning are
    /// more likely to reach a server with that beginning in its cache. Default: not sent.
    #[must_use]
    pub fn with_prompt_cache_key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.with(|parts| parts.options.cache_key = Some(key))
    }

    /// Lets the server keep the conversation, so that a request contains only what is new since the
    /// last reply.
    ///
    /// It is for [`Api::Responses`] only. The request has the whole conversation if the server has
    /// forgotten it, if it was changed since, such as by a shorter history, and with
    /// [`with_encrypted_reasoning`](Self::with_encrypted_reasoning), because the server stores
    /// nothing then. Each reply has an opaque part with its id.
    #[must_use]
    pub fn with_server_state(self) -> Self {
        self.with(|parts| parts.options.server_state = true)
    }

    /// Sets whether tools that the model finds are sent behind the result of the search. Default:
    /// `true` for `gpt-5.4` and later at OpenAI's own API.
    ///
    /// It is for [`Api::Responses`] only. The tools then do not stand before the conversation, so what
    /// the server has cached of it stays valid. With `false` they do, as those that were there from the
    /// start.
    #[must_use]
    pub fn with_additional_tools(self, additional_tools: bool) -> Self {
        self.with(|parts| parts.options.additional_tools = additional_tools)
    }

    /// Lets the server work in the background, for answers that take longer than a connection
    /// lasts.
    ///
    /// It is for [`Api::Responses`] only. The server confirms the request at once, and the model
    /// asks for the reply until it is finished or [`Connection::with_max_time`] is over. A
    /// stream has all its deltas at the end. The server stores the reply, so it does not go with
    /// [`with_encrypted_reasoning`](Self::with_encrypted_reasoning).
    #[must_use]
    pub fn with_background(self) -> Self {
        self.with(|parts| parts.options.background = true)
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.connection.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        if parts.options.api == Api::Responses
            && (parts.options.server_state || parts.options.background)
        {
            // The box keeps these rare cases from making the future of every call larger.
            return Box::pin(self.ask_with_state(request)).await;
        }
        let body = parts.prepare(request, false, false)?.body;
        let read = |body: Bytes| ready(parts.read(&body, request, None));
        parts.connection.whole(parts.url(), body, read).await
    }

    /// Asks a server that keeps the conversation or replies in the background.
    async fn ask_with_state(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let send = |sent: Prepared| async move {
            let read = |body| async {
                let began = Instant::now();
                let body = if parts.options.background {
                    parts.finished(body, began).await?
                } else {
                    body
                };
                parts.read(&body, request, sent.history.clone())
            };
            parts.connection.whole(parts.url(), sent.body, read).await
        };
        let sent = parts.prepare(request, false, parts.options.server_state)?;
        let is_rest = sent.is_rest;
        match send(sent).await {
            Err(error) if is_rest && is_forgotten(&error) => {
                send(parts.prepare(request, false, false)?).await
            }
            reply => reply,
        }
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        if parts.options.api == Api::Responses && parts.options.background {
            let deltas = deltas_of(self.ask(request).await?);
            return Ok(stream::iter(deltas.into_iter().map(Ok)).boxed());
        }
        let sent = parts.prepare(request, true, parts.options.server_state)?;
        let is_rest = sent.is_rest;
        match parts.stream(request, sent).await {
            Err(error) if is_rest && is_forgotten(&error) => {
                parts.stream(request, parts.prepare(request, true, false)?).await
            }
            deltas => deltas,
        }
    }
}

impl Parts {
    fn url(&self) -> &Url {
        let [chat, responses] = &self.urls;
        match self.options.api {
            Api::Chat => chat,
            Api::Responses => responses,
        }
    }

    /// Writes a request. With `is_rest`, it has only what the server does not have, if that is
    /// known.
    fn prepare(&self, request: &Request, stream: bool, is_rest: bool) -> Result<Prepared> {
        let options = &self.options;
        let request = &*with_notes(request, |part| takes(part, self.options.api));
        if self.options.api == Api::Chat {
            let body = chat::body(request, options, stream)?;
            return Ok(Prepared { body, history: None, is_rest: false });
        }
        let input = responses::input(request, options)?;
        let origin = &self.options.rules.origins[1];
        let keeps = self.options.server_state && !self.options.encrypted_reasoning;
        let previous =
            if keeps && is_rest { responses::previous(request, &input, origin) } else { None };
        let (id, known) = previous.map_or((None, 0), |(id, known)| (Some(id), known));
        let body = responses::body(request, options, &input[known..], id, stream)?;
        let history = keeps.then(|| History::of(&input));
        Ok(Prepared { body, history, is_rest: id.is_some() })
    }

    async fn stream(
        &self,
        request: &Request,
        Prepared { body, history, .. }: Prepared,
    ) -> Result<BoxStream<'static, Result<Delta>>> {
        let (connection, url) = (&self.connection, self.url());
        let read = |body: &[u8]| self.read(body, request, history.clone());
        match self.options.api {
            Api::Chat => {
                let pieces = || chat::Pieces::new(request, &self.options.rules.origins[0]);
                connection.stream(url, body, pieces, read).await
            }
            Api::Responses => {
                let info =
                    RequestInfo::of(request, &self.options.rules).with_history(history.clone());
                let pieces = || responses::Pieces::new(info.clone());
                connection.stream(url, body, pieces, read).await
            }
        }
    }

    /// Waits for the end of a background reply.
    async fn finished(&self, mut body: Bytes, began: Instant) -> Result<Bytes> {
        const FIRST_PAUSE: Duration = Duration::from_millis(500);
        const LONGEST_PAUSE: Duration = Duration::from_secs(5);
        let (after, mut pause) = (self.connection.max_time(), FIRST_PAUSE);
        while let Some(id) = responses::unfinished(&body) {
            let mut url = self.url().clone();
            // The URL of an API has a path.
            if let Ok(mut path) = url.path_segments_mut() {
                path.push(&id);
            }
            let poll = async {
                sleep(pause).await;
                self.connection.get(&url).await
            };
            let polled = timeout(after.saturating_sub(began.elapsed()), poll).await;
            body = polled.map_err(|_| ProviderError::Http {
                error: ErrorKind::TooSlow { after }.into(),
                raw: String::from_utf8_lossy(&body).into(),
                retry_after: None,
            })??;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
        Ok(body)
    }

    /// Reads a whole reply.
    fn read(&self, body: &[u8], request: &Request, history: Option<History>) -> Result<Reply> {
        let chat = &self.options.rules.origins[0];
        match self.options.api {
            Api::Chat => read_reply(
                body,
                || chat::Pieces::new(request, chat),
                |body| {
                    read_whole(body, |reply: chat::Completion<'_>| reply.into_reply(request, chat))
                },
            ),
            Api::Responses => {
                let info = RequestInfo::of(request, &self.options.rules).with_history(history);
                read_reply(
                    body,
                    || responses::Pieces::new(info.clone()),
                    |body| read_whole(body, |reply: responses::Response| reply.into_reply(&info)),
                )
            }
        }
    }
}

/// Returns whether the server does not have the reply that a request refers to.
fn is_forgotten(error: &ProviderError) -> bool {
    matches!(error, ProviderError::Status { code: Some(code), .. } if code == "previous_response_not_found")
}

impl LanguageModel for OpenAi {
    fn name(&self) -> &str {
        &self.0.options.model
    }

    fn provider(&self) -> &str {
        // Also for a compatible server: the name stands for the API.
        "openai"
    }

    fn service(&self) -> Option<&str> {
        self.0.options.service
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            structured_output: self.0.options.structured_output,
            tools: true,
            images: true,
            documents: true,
            audio: self.0.options.api == Api::Chat,
            settings: self.0.options.supported(),
            ..Capabilities::new(self.0.options.dialect)
        }
    }

    fn settings(&self) -> Option<&Settings> {
        self.0.options.settings.as_ref()
    }

    fn generate<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, toolwright_module::Result<Reply>> {
        self.0.connection.reply(self.ask(request))
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, toolwright_module::Result<Delta>> {
        self.0.connection.deltas(async move { self.open(&request).await })
    }
}

/// Shows the settings without the key.
impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("model", &self.0.options.model)
            .field("base_url", &self.0.connection.endpoint().shown())
            .field("api", &self.0.options.api)
            .field("dialect", &self.0.options.dialect)
            .finish_non_exhaustive()
    }
}
