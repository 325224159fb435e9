//! [`Gemini`]: the settings of a model, and the calls of [`LanguageModel`].

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;
use toolwright_http::reqwest::Url;
use toolwright_module::model::{Capabilities, Delta, Settings};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_provider::unread::with_notes;
use toolwright_provider::{Connection, ProviderError, from_env, read_events, read_reply};
use toolwright_signature::Dialect;

use crate::reply::{Chunk, Chunks};
use crate::request::{Options, Written, body, takes};
use crate::thinking::Family;
use crate::{PROVIDER, Result};

const GEMINI: &str = "https://generativelanguage.googleapis.com/v1beta";
/// Names of the environment variables with the key, the first first.
const KEYS: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// Language model of the Gemini API or of Vertex AI.
///
/// ```no_run
/// use toolwright_gemini::Gemini;
/// use toolwright_module::{LanguageModel, Message, Request};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Gemini::from_env("gemini-2.5-flash")?;
/// let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
/// println!("{} for {:?}", reply.to_text(), reply.usage);
/// # Ok(())
/// # }
/// ```
///
/// Cloning costs one reference count and shares the connections. Requests are retried as
/// [`Connection`] describes. It needs the tokio runtime.
#[derive(Clone)]
pub struct Gemini(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    connection: Connection,
    /// The URLs of a whole reply and of a stream.
    urls: [Url; 2],
    model: String,
    options: Options,
}

impl Gemini {
    /// Creates a model of the Gemini API from environment variables.
    ///
    /// `GEMINI_API_KEY` is the key, and `GOOGLE_API_KEY` if the first is missing. The model is a
    /// name such as `gemini-2.5-flash`, also as `models/…` or `tunedModels/…`.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if there is no key. [`ProviderError::Http`] if the key has a
    /// character that is not allowed in a header.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        for variable in KEYS {
            if let Some(key) = from_env(variable)? {
                return Self::at(GEMINI, model)?.with_key(key);
            }
        }
        Err(ProviderError::MissingKey { variable: KEYS[0] })
    }

    /// Creates a model of a server with the Gemini API. The base URL ends in the version, `/v1beta`.
    ///
    /// Environment variables are not used, because a key for Google must not go to another server.
    /// Set the key of this server with [`with_key`](Self::with_key).
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    /// use toolwright_module::LanguageModel;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?.with_key("made-up")?;
    /// assert_eq!(model.name(), "gemini-2.5-flash");
    /// assert!(!format!("{model:?}").contains("made-up"));
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the base URL cannot be used. [`ProviderError::Service`] if the
    /// model's name has an empty part.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let model = model.into();
        let path = match model.contains('/') {
            true => model.clone(),
            false => format!("models/{model}"),
        };
        Self::new(base_url, model, &path, false)
    }

    /// Creates a model of Vertex AI. `location` is a region such as `europe-west4`, or `global`.
    ///
    /// `token` is an access token of Google Cloud, such as that of `gcloud auth print-access-token`.
    /// It is valid for an hour or so, and this crate does not renew it: set a new one with
    /// [`with_token`](Self::with_token). The model may also be a path such as
    /// `endpoints/1234567890` or `publishers/google/models/gemini-2.5-flash`.
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::vertex("my-project", "europe-west4", "gemini-2.5-flash", "made-up")?;
    /// assert_eq!(
    ///     model.base_url(),
    ///     "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/my-project/locations/europe-west4",
    /// );
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the token is blank. [`ProviderError::Http`] if it has a
    /// character that is not allowed in a header. [`ProviderError::Service`] if the project, the
    /// location or the model cannot be part of a URL.
    pub fn vertex(
        project: &str,
        location: &str,
        model: impl Into<String>,
        token: impl Into<String>,
    ) -> Result<Self> {
        // The location is part of the host, so it must not end it.
        let is_word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let is_project = |text: &str| text.split([':', '.']).all(is_word);
        if !is_word(location) || !is_project(project) {
            return Err(unusable(
                "vertex",
                "the project or the location has a character that it cannot have",
            ));
        }
        let host = match location {
            "global" => "aiplatform.googleapis.com".to_owned(),
            location => format!("{location}-aiplatform.googleapis.com"),
        };
        let base_url = format!("https://{host}/v1beta1/projects/{project}/locations/{location}");
        Self::vertex_at(&base_url, model)?.with_token(token)
    }

    /// Creates a model of a server with the API of Vertex AI, such as a proxy. The base URL ends in
    /// `/projects/PROJECT/locations/LOCATION`.
    ///
    /// It has no token: set it with [`with_token`](Self::with_token), or the key of the proxy with
    /// [`Connection::with_header`].
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    /// use toolwright_module::LanguageModel;
    /// use toolwright_module::model::Setting;
    ///
    /// let base_url = "https://proxy.example.com/v1/projects/my-project/locations/global";
    /// let model = Gemini::vertex_at(base_url, "gemini-2.5-flash")?.with_token("made-up")?;
    /// assert_eq!(model.base_url(), base_url);
    /// // Only Vertex AI has labels.
    /// assert!(model.capabilities().settings.has(Setting::Metadata));
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`at`](Self::at).
    pub fn vertex_at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let model = model.into();
        let path = match model.contains('/') {
            true => model.clone(),
            false => format!("publishers/google/models/{model}"),
        };
        Self::new(base_url, model, &path, true)
    }

    fn new(base_url: &str, model: String, path: &str, is_vertex: bool) -> Result<Self> {
        if model.split('/').any(str::is_empty) {
            return Err(unusable(PROVIDER, "the name of the model is empty or has an empty part"));
        }
        let connection = Connection::at(base_url)?;
        let url = |method: &str, query: &[(&str, &str)]| {
            connection.endpoint().url(format!("{path}:{method}").split('/'), query)
        };
        let urls = [url("generateContent", &[])?, url("streamGenerateContent", &[("alt", "sse")])?];
        let options = Options {
            family: Family::of(&model),
            is_vertex,
            structured_output: true,
            thoughts: None,
            streamed_arguments: false,
            cached_content: None,
            server_tools: Vec::new(),
            safety: Vec::new(),
            settings: None,
            written: Written::default(),
        };
        Ok(Self(Arc::new(Parts { connection, urls, model, options })))
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
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?.with_connection(|connection| {
    ///     connection.with_retries(0).with_timeout(Duration::from_secs(60))
    /// })?;
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
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

    /// Sets the API key, which goes into the header `x-goog-api-key`. No error, log or recording
    /// shows it.
    ///
    /// ```
    /// use toolwright_gemini::{Gemini, ProviderError};
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?;
    /// assert!(matches!(model.clone().with_key(" "), Err(ProviderError::MissingKey { .. })));
    /// let model = model.with_key("made-up")?;
    ///
    /// // Others on the network could read it.
    /// let plain = Gemini::at("http://example.com/v1beta", "gemini-2.5-flash")?;
    /// assert!(matches!(plain.with_key("made-up"), Err(ProviderError::Http { .. })));
    /// # Ok::<(), ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the key is blank. [`ProviderError::Http`] if it has a
    /// character that is not allowed in a header, or if the base URL is plain http and not on this
    /// machine, because others on the network could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let header = Some("x-goog-api-key");
        self.with_connection(|connection| connection.with_key(header, &key.into(), KEYS[0]))
    }

    /// Sets the access token, which goes into the header `authorization`.
    ///
    /// A token is valid for an hour or so. A long-running program makes a model with the new token,
    /// which shares the connections of the old one:
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::vertex("my-project", "global", "gemini-2.5-flash", "made-up")?;
    /// let renewed = model.clone().with_token("made-up, too")?;
    /// assert_eq!(renewed.base_url(), model.base_url());
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`with_key`](Self::with_key).
    pub fn with_token(self, token: impl Into<String>) -> Result<Self> {
        self.with_connection(|connection| connection.with_key(None, &token.into(), KEYS[0]))
    }

    /// Sets whether the request contains the schema of the answer. Default: `true`.
    ///
    /// Models before Gemini 3 refuse a schema beside tools. With `false`, the answer is the
    /// arguments of a tool call, which every model takes beside other tools.
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    /// use toolwright_module::LanguageModel;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?
    ///     .with_structured_output(false);
    /// assert!(!model.capabilities().structured_output);
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_structured_output(self, structured_output: bool) -> Self {
        self.with(|parts| parts.options.structured_output = structured_output)
    }

    /// Sets the settings for requests that have none of their own, such as the temperature.
    /// Default: not sent, so the server chooses.
    ///
    /// The effort becomes a level (`thinkingLevel`) from Gemini 3 on, and a number of tokens
    /// (`thinkingBudget`) with Gemini 2.5. The metadata are Vertex' labels. A setting that the API
    /// or the model does not have fails the request with [`ProviderError::Setting`]: the prompt
    /// cache, the user, parallel calls, metadata on the Gemini API, and the effort before Gemini 2.5.
    ///
    /// [`Settings::extra`] of `gemini` go into the body as they are. Those of `generationConfig`
    /// and `toolConfig` are merged with the fields that this crate sends:
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_gemini::Gemini;
    /// use toolwright_module::model::{Effort, Settings};
    ///
    /// let settings = Settings::default()
    ///     .with_effort(Effort::Low)
    ///     .with_extra("gemini", "generationConfig", json!({"topK": 40}));
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?
    ///     .with_settings(settings);
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        self.with(|parts| parts.options.settings = Some(settings))
    }

    /// Sets whether replies contain summaries of the model's thoughts. Default: not sent, and the
    /// models send none.
    ///
    /// They are [`Reasoning`](toolwright_module::message::ReplyPart::Reasoning) parts, and
    /// [`Delta::Reasoning`] in a stream. The thoughts themselves are billed either way, and are in
    /// [`Usage::reasoning_tokens`](toolwright_module::model::Usage::reasoning_tokens). How long the
    /// model thinks is the effort of the [settings](Self::with_settings).
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-3-pro")?.with_thoughts(true);
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_thoughts(self, thoughts: bool) -> Self {
        self.with(|parts| parts.options.thoughts = Some(thoughts))
    }

    /// Sets from which probability on harmful content of a category is blocked. Default: the
    /// server's. A later value of the same category replaces the earlier one.
    ///
    /// Both are the API's words, which this crate does not check: a threshold is `BLOCK_NONE`,
    /// `BLOCK_ONLY_HIGH`, `BLOCK_MEDIUM_AND_ABOVE`, `BLOCK_LOW_AND_ABOVE` or `OFF`. A blocked reply
    /// ends with [`Finish::Refused`](toolwright_module::model::Finish::Refused), and
    /// [`reply_details`](crate::reply_details) has the ratings.
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?
    ///     .with_safety("HARM_CATEGORY_HARASSMENT", "BLOCK_ONLY_HIGH");
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_safety(self, category: impl Into<String>, threshold: impl Into<String>) -> Self {
        let (category, threshold) = (category.into(), threshold.into());
        self.with(|parts| {
            parts.options.safety.retain(|(other, _)| *other != category);
            parts.options.safety.push((category, threshold));
        })
    }

    /// Adds a tool that the server runs, as the API's `Tool`: search, code execution, the content
    /// of addresses, and others.
    ///
    /// Its calls and results are in the reply as [`Other`](toolwright_module::message::ReplyPart::Other)
    /// parts, and go back with the next request. Only Gemini 3 and later take such tools beside
    /// functions.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?
    ///     .with_server_tool(json!({"googleSearch": {}}))
    ///     .with_server_tool(json!({"codeExecution": {}}));
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_server_tool(self, tool: impl Into<Value>) -> Self {
        self.with(|parts| parts.options.server_tools.push(tool.into()))
    }

    /// Sets the cached content that each prompt begins with, such as `cachedContents/abc`.
    ///
    /// Make it with the same instructions and tools that the requests have: the API does not take
    /// them beside cached content, so they are left out of the requests. A request after the
    /// content has expired fails. The cached tokens of a reply are in
    /// [`Usage::cached_tokens`](toolwright_module::model::Usage::cached_tokens).
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::at("https://example.com/v1beta", "gemini-2.5-flash")?
    ///     .with_cached_content("cachedContents/abc");
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_cached_content(self, name: impl Into<String>) -> Self {
        self.with(|parts| parts.options.cached_content = Some(name.into()))
    }

    /// Sets whether the arguments of calls arrive in pieces when a reply is streamed. Default:
    /// `false`. Only Vertex AI has it, from Gemini 3 on.
    ///
    /// The pieces become the text of a JSON object, as [`Delta::Call`]s. A piece that contradicts an
    /// earlier one fails the reply with [`ProviderError::Unclear`], because the call may not be what
    /// the model meant.
    ///
    /// ```
    /// use toolwright_gemini::Gemini;
    ///
    /// let model = Gemini::vertex("my-project", "global", "gemini-3-pro", "made-up")?
    ///     .with_streamed_arguments(true);
    /// # Ok::<(), toolwright_gemini::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_streamed_arguments(self, streamed: bool) -> Self {
        self.with(|parts| parts.options.streamed_arguments = streamed)
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.connection.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let [url, _] = &parts.urls;
        let body = body(&with_notes(request, takes), &parts.options, false)?;
        let read = |body: Bytes| ready(read(&body, request));
        parts.connection.whole(url, body, read).await
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let [_, url] = &parts.urls;
        let body = body(&with_notes(request, takes), &parts.options, true)?;
        let (chunks, read) = (|| Chunks::new(request), |body: &[u8]| read(body, request));
        parts.connection.stream(url, body, chunks, read).await
    }
}

/// Returns the error for an address that cannot be made.
fn unusable(service: &str, fault: &str) -> ProviderError {
    ProviderError::Service { name: service.to_owned(), fault: fault.to_owned() }
}

/// Reads a whole reply. A server that does not stream events sends them as a list.
fn read(body: &[u8], request: &Request) -> Result<Reply> {
    read_reply(
        body,
        || Chunks::new(request),
        |body| read_events(body, |chunks: Vec<Chunk<'_>>| Chunks::whole(request, chunks)),
    )
}

impl LanguageModel for Gemini {
    fn name(&self) -> &str {
        &self.0.model
    }

    fn provider(&self) -> &str {
        PROVIDER
    }

    fn service(&self) -> Option<&str> {
        let host = self.0.connection.endpoint().as_url().host_str()?;
        // Vertex AI has the same prices, and a host for each region.
        let is_google = host == "generativelanguage.googleapis.com"
            || host == "aiplatform.googleapis.com"
            || host.ends_with("-aiplatform.googleapis.com");
        is_google.then_some(PROVIDER)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            structured_output: self.0.options.structured_output,
            tools: true,
            images: true,
            documents: true,
            audio: true,
            settings: self.0.options.supported(),
            ..Capabilities::new(Dialect::Gemini)
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
impl fmt::Debug for Gemini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gemini")
            .field("model", &self.0.model)
            .field("base_url", &self.0.connection.endpoint().shown())
            .finish_non_exhaustive()
    }
}
