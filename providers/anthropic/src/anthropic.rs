//! [`Anthropic`]: the settings of a model, and the calls of [`LanguageModel`].

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use toolwright_http::RequestBody;
use toolwright_http::reqwest::Url;
use toolwright_module::model::{Capabilities, Delta, Setting, SettingSet, Settings};
use toolwright_module::{LanguageModel, Reply, Request};
use toolwright_provider::unread::with_notes;
use toolwright_provider::{Connection, ProviderError, from_env, read_reply, read_whole};
use toolwright_signature::Dialect;

use crate::message::takes;
use crate::options::{ApiVersion, CacheTime, Thinking};
use crate::reply::Message;
use crate::request::{KeptForms, Options, body};
use crate::rules::{Rules, signs_thinking};
use crate::stream::Pieces;
use crate::{PROVIDER, Result};

const ANTHROPIC: &str = "https://api.anthropic.com/v1";
/// Name of the environment variable with the key.
const KEY: &str = "ANTHROPIC_API_KEY";

/// Language model of Anthropic or of a server with the same API.
///
/// ```no_run
/// use toolwright_anthropic::Anthropic;
/// use toolwright_module::{LanguageModel, Message, Request};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Anthropic::from_env("claude-sonnet-4-5")?;
/// let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
/// println!("{} for {:?}", reply.to_text(), reply.usage);
/// # Ok(())
/// # }
/// ```
///
/// A server on this machine needs no key:
///
/// ```
/// use toolwright_anthropic::Anthropic;
/// use toolwright_module::LanguageModel;
/// use toolwright_module::model::{Effort, Settings};
///
/// let settings = Settings::default().with_effort(Effort::Low);
/// let model = Anthropic::at("http://127.0.0.1:8080/v1", "smollm2")?.with_settings(settings);
/// assert_eq!(model.name(), "smollm2");
/// # Ok::<(), toolwright_anthropic::ProviderError>(())
/// ```
///
/// Cloning costs one reference count and shares the connections. A request is retried up to
/// two times by default, if no answer has begun: after a failed connection, and after 408, 409,
/// 425, 429 and 5xx, which includes 529 for an overloaded server. The pause is the server's
/// `retry-after`, or about 0.5 and 1 second.
///
/// It needs the tokio runtime.
#[derive(Clone)]
pub struct Anthropic(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    connection: Connection,
    url: Url,
    version: ApiVersion,
    betas: Vec<String>,
    options: Options,
}

impl Anthropic {
    /// Creates a model from environment variables.
    ///
    /// `ANTHROPIC_API_KEY` is the key. `ANTHROPIC_BASE_URL` is the server, with or without `/v1` at
    /// its end; default: `https://api.anthropic.com/v1`.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if there is no key. [`ProviderError::Http`] if a variable has
    /// a character that is not allowed in a header, or if `ANTHROPIC_BASE_URL` cannot be used.
    pub fn from_env(model: impl Into<String>) -> Result<Self> {
        let key = from_env(KEY)?.ok_or(ProviderError::MissingKey { variable: KEY })?;
        let base_url = from_env("ANTHROPIC_BASE_URL")?;
        // Anthropic's own SDKs expect the variable without the version.
        let base_url = base_url.map(|url| match url.trim_end_matches('/') {
            url if url.ends_with("/v1") => url.to_owned(),
            url => format!("{url}/v1"),
        });
        Self::at(base_url.as_deref().unwrap_or(ANTHROPIC), model)?.with_key(key)
    }

    /// Creates a model of a server with this API. The base URL usually ends in `/v1`.
    ///
    /// Environment variables are not used, because a key for Anthropic must not go to another
    /// server. Set the key of this server with [`with_key`](Self::with_key).
    ///
    /// What the model takes is known from its name: the form of [thinking](Self::with_thinking),
    /// whether it has a temperature, and whether schemas can be strict. Thinking without a signature
    /// goes back only to other servers than Anthropic's and those of the clouds that host Claude.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the base URL cannot be used.
    pub fn at(base_url: &str, model: impl Into<String>) -> Result<Self> {
        let connection = Connection::at(base_url)?;
        let url = connection.endpoint().url(["messages"], &[])?;
        let model = model.into();
        let rules = Rules::of(&model);
        let host = connection.endpoint().as_url().host_str();
        let must_sign = host.is_some_and(signs_thinking);
        let tool_references = rules.tool_search && host == Some("api.anthropic.com");
        let made = Self(Arc::new(Parts {
            connection,
            url,
            version: ApiVersion::default(),
            betas: Vec::new(),
            options: Options {
                model,
                rules,
                must_sign,
                tool_references,
                structured_output: rules.strict,
                cache_time: CacheTime::default(),
                citations: false,
                server_tools: Vec::new(),
                tool_fields: Default::default(),
                settings: None,
                kept: KeptForms::default(),
            },
        }));
        made.with_version(ApiVersion::default())
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        let parts = Arc::make_mut(&mut self.0);
        change(parts);
        // A changed model may write messages in another form.
        parts.options.kept = KeptForms::default();
        self
    }

    /// Changes the connection: its retries, timeouts, headers and HTTP client. See [`Connection`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use toolwright_anthropic::Anthropic;
    ///
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-haiku-4-5")?.with_connection(|connection| {
    ///     connection.with_retries(0).with_timeout(Duration::from_secs(60))
    /// })?;
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
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

    /// Sets the API key, which is sent as `x-api-key`.
    ///
    /// A server that expects a bearer token gets it by
    /// [`Connection::with_header("authorization", "Bearer …")`](Connection::with_header).
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the key is blank. [`ProviderError::Http`] if it has a
    /// character that is not allowed in a header, or if the base URL is plain http and not on this
    /// machine, because others on the network could read the key.
    pub fn with_key(self, key: impl Into<String>) -> Result<Self> {
        let header = Some("x-api-key");
        self.with_connection(|connection| connection.with_key(header, &key.into(), KEY))
    }

    /// Sets the version of the API. Default: [`ApiVersion::V2023_06_01`].
    ///
    /// ```
    /// use toolwright_anthropic::{Anthropic, ApiVersion};
    /// use toolwright_module::LanguageModel;
    /// use toolwright_module::model::Setting;
    ///
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-sonnet-4-5")?;
    /// assert!(model.capabilities().settings.has(Setting::Temperature));
    /// let model = model.with_version(ApiVersion::V2026_10_21)?;
    /// assert!(!model.capabilities().settings.has(Setting::Temperature));
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the client cannot be changed.
    pub fn with_version(self, version: ApiVersion) -> Result<Self> {
        let changed =
            self.with_connection(|it| it.with_header("anthropic-version", version.name()))?;
        Ok(changed.with(|parts| parts.version = version))
    }

    /// Turns on a beta feature of the API. Several are sent together, as `anthropic-beta`.
    ///
    /// ```
    /// use toolwright_anthropic::Anthropic;
    ///
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-sonnet-4-5")?
    ///     .with_beta("files-api-2025-04-14")?
    ///     .with_beta("context-management-2025-06-27")?;
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if the name has a character that is not allowed in a header.
    pub fn with_beta(self, name: impl Into<String>) -> Result<Self> {
        let mut betas = self.0.betas.clone();
        betas.push(name.into());
        let changed =
            self.with_connection(|it| it.with_header("anthropic-beta", &betas.join(",")))?;
        Ok(changed.with(|parts| parts.betas = betas))
    }

    /// Sets the settings for requests that have none of their own, such as the effort. Default: not
    /// sent, so the server chooses.
    ///
    /// A setting that the model does not take fails the request with [`ProviderError::Setting`].
    /// [`Settings::extra`] of `anthropic` go into the body as they are: such as `service_tier`,
    /// `top_k`, `speed`, or a `thinking` with an exact budget.
    ///
    /// ```
    /// use toolwright_anthropic::Anthropic;
    /// use toolwright_module::model::{Effort, Settings};
    ///
    /// let settings = Settings::default()
    ///     .with_effort(Effort::High)
    ///     .with_max_output_tokens(32_000)
    ///     .with_extra("anthropic", "service_tier", "standard_only");
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-opus-4-6")?
    ///     .with_settings(settings);
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        self.with(|parts| parts.options.settings = Some(settings))
    }

    /// Sets the time that the prompt stays in the cache. Default: [`CacheTime::FiveMinutes`].
    ///
    /// `Settings::cache = false` turns the cache off.
    #[must_use]
    pub fn with_cache_time(self, time: CacheTime) -> Self {
        self.with(|parts| parts.options.cache_time = time)
    }

    /// Sets the form of thinking. Default: the one that the model's name stands for.
    #[must_use]
    pub fn with_thinking(self, thinking: Thinking) -> Self {
        self.with(|parts| parts.options.rules.thinking = thinking)
    }

    /// Sets whether tools are strict, so that Anthropic guarantees that arguments fit. Default:
    /// `true` for Claude 4.1 and later.
    ///
    /// A request has at most 20 strict tools, with 24 optional fields and 16 unions in all. The
    /// tools after them are sent without `strict`.
    #[must_use]
    pub fn with_strict_tools(self, strict: bool) -> Self {
        self.with(|parts| parts.options.rules.strict = strict)
    }

    /// Sets whether the result of a search for tools has references, which load the tools that were
    /// found. Default: `true` for Claude 4.5 and later at Anthropic's own API.
    ///
    /// The tools then do not stand before the conversation, so what the server has cached of it stays
    /// valid. With `false` they do, as those that were there from the start.
    #[must_use]
    pub fn with_tool_references(self, tool_references: bool) -> Self {
        self.with(|parts| parts.options.tool_references = tool_references)
    }

    /// Sets whether the request contains the schema of the answer. Default: `true` for Claude 4.1
    /// and later.
    ///
    /// With `false`, the answer is the arguments of a tool call. A schema that Anthropic cannot
    /// enforce, such as a recursive one, is part of the prompt.
    #[must_use]
    pub fn with_structured_output(self, structured_output: bool) -> Self {
        self.with(|parts| parts.options.structured_output = structured_output)
    }

    /// Sets whether the model cites documents. Default: `false`.
    ///
    /// The citations are in the data of the text parts, as `citations`. The API refuses them
    /// together with the schema of an answer, so a request with a document and a schema fails with
    /// [`ProviderError::Request`] before it is sent. Get such an answer as the arguments of a call,
    /// with [`with_structured_output(false)`](Self::with_structured_output).
    ///
    /// ```
    /// use toolwright_anthropic::Anthropic;
    /// use toolwright_module::Message;
    /// use toolwright_module::message::Document;
    ///
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-sonnet-4-5")?
    ///     .with_citations(true);
    /// let report = Document::bytes("text/plain", *b"Sales rose by 3 %.");
    /// let question = Message::user_parts([report.into(), "Did sales rise?".into()]);
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_citations(self, citations: bool) -> Self {
        self.with(|parts| parts.options.citations = citations)
    }

    /// Adds a tool that Anthropic runs or defines, in the API's own form: web search, web fetch,
    /// code execution, memory, tool search and others.
    ///
    /// Calls and results of a tool that Anthropic runs are [`ReplyPart::Other`] in the reply, and
    /// go back unchanged. A call of a tool that only has its definition from Anthropic, such as
    /// memory, is an ordinary call: give the agent a tool of the same name, whose own definition is
    /// then not sent.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_anthropic::Anthropic;
    ///
    /// let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 3});
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-sonnet-4-5")?
    ///     .with_server_tool(search);
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    ///
    /// [`ReplyPart::Other`]: toolwright_module::message::ReplyPart::Other
    #[must_use]
    pub fn with_server_tool(self, definition: Value) -> Self {
        self.with(|parts| parts.options.server_tools.push(definition))
    }

    /// Adds a field to the definition of one of the request's tools, such as `defer_loading` for
    /// tool search, `allowed_callers` for calls out of code, or `input_examples`.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_anthropic::Anthropic;
    ///
    /// let search = json!({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"});
    /// let model = Anthropic::at("https://api.anthropic.com/v1", "claude-sonnet-4-5")?
    ///     .with_server_tool(search)
    ///     .with_tool_field("get_weather", "defer_loading", true);
    /// # Ok::<(), toolwright_anthropic::ProviderError>(())
    /// ```
    #[must_use]
    pub fn with_tool_field(
        self,
        tool: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        self.with(|parts| {
            let fields: &mut Map<_, _> = parts.options.tool_fields.entry(tool.into()).or_default();
            fields.insert(field.into(), value.into());
        })
    }

    /// Returns the base URL, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.connection.endpoint().base_url()
    }

    async fn ask(&self, request: &Request) -> Result<Reply> {
        let parts = &*self.0;
        let body = parts.body(request, false)?;
        let read = |body: Bytes| ready(read(&body, request));
        parts.connection.whole(&parts.url, body, read).await
    }

    async fn open(&self, request: &Request) -> Result<BoxStream<'static, Result<Delta>>> {
        let parts = &*self.0;
        let body = parts.body(request, true)?;
        let (pieces, read) = (|| Pieces::new(request), |body: &[u8]| read(body, request));
        parts.connection.stream(&parts.url, body, pieces, read).await
    }
}

/// Reads a whole reply.
fn read(body: &[u8], request: &Request) -> Result<Reply> {
    let whole = |body: &[u8]| read_whole(body, |message: Message| message.into_reply(request));
    read_reply(body, || Pieces::new(request), whole)
}

impl Parts {
    fn body(&self, request: &Request, stream: bool) -> Result<RequestBody> {
        body(&with_notes(request, takes), &self.options, self.supported(), stream)
    }

    /// Returns the settings that the model takes.
    fn supported(&self) -> SettingSet {
        let settings = SettingSet::ALL.without(Setting::Seed).without(Setting::Metadata);
        match self.version == ApiVersion::V2023_06_01 && self.options.rules.sampling {
            true => settings,
            false => settings.without(Setting::Temperature).without(Setting::TopP),
        }
    }
}

impl LanguageModel for Anthropic {
    fn name(&self) -> &str {
        &self.0.options.model
    }

    fn provider(&self) -> &str {
        // Also for a compatible server: the name stands for the API.
        PROVIDER
    }

    fn service(&self) -> Option<&str> {
        let host = self.0.connection.endpoint().as_url().host_str();
        (host == Some("api.anthropic.com")).then_some(PROVIDER)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            structured_output: self.0.options.structured_output,
            tools: true,
            images: true,
            documents: true,
            settings: self.0.supported(),
            ..Capabilities::new(Dialect::Anthropic)
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
impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic")
            .field("model", &self.0.options.model)
            .field("base_url", &self.0.connection.endpoint().shown())
            .field("version", &self.0.version)
            .finish_non_exhaustive()
    }
}
