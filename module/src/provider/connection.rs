//! [`Connection`]: the HTTP settings of a model, and its requests.

use std::env::{self, VarError};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Error as _;
use toolwright_http::reqwest::{self, Url, header::HeaderName};
use toolwright_http::{
    Client, Deadline, Endpoint, HttpError, HttpLimits, HttpRequest, HttpResponse, RequestBody,
    RetryPolicy, Streamed,
};

use super::error::{ProviderError, Result};
use crate::model::Reply;

/// Default total time of an answer. It is enough for a long answer of a slow server, and it
/// ends a response that never ends.
const MAX_TIME: Duration = Duration::from_secs(1800);

/// The connection of a model to its server: address, key, retries and limits.
///
/// A request is retried up to two times by default, if no answer has begun: after a failed
/// connection, and after 408, 409, 429 and 5xx. The pause is the server's `retry-after`, or about
/// 0.5 and 1 second. There is no retry if waiting does not help, such as for an account without
/// credit. It needs the tokio runtime.
///
/// ```
/// use toolwright_module::provider::Connection;
///
/// let connection = Connection::at("https://api.example.com/v1")?
///     .with_endpoint(|endpoint| endpoint.with_bearer("key", "sk-made-up"))?
///     .with_retries(0);
/// assert_eq!(connection.endpoint().base_url(), "https://api.example.com/v1");
/// # Ok::<(), toolwright_module::provider::ProviderError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
    retry: RetryPolicy,
    max_time: Duration,
}

impl Connection {
    /// Creates a connection without a key.
    ///
    /// # Errors
    ///
    /// [`ProviderError::BaseUrl`] if the base URL cannot be used. [`ProviderError::Client`] if the
    /// system's certificates cannot be read.
    pub fn at(base_url: &str) -> Result<Self> {
        let client = Client::new(Endpoint::new(base_url)?, HttpLimits::default())?;
        Ok(Self { client, retry: RetryPolicy::default(), max_time: MAX_TIME })
    }

    /// Changes the endpoint, such as its headers.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Header`] if a value has a character that is not allowed in a header.
    /// [`ProviderError::BaseUrl`] if a header holds a key and the base URL is plain http and not on
    /// this machine, because others on the network could read the key;
    /// [`with_plain_http`](Self::with_plain_http) allows it.
    pub fn with_endpoint(
        mut self,
        change: impl FnOnce(Endpoint) -> Result<Endpoint, HttpError>,
    ) -> Result<Self> {
        self.client = self.client.clone().with_endpoint(change(self.endpoint().clone())?)?;
        Ok(self)
    }

    /// Allows a key in plain http, for a network that nobody else can read, such as that of a
    /// cluster. It applies to keys and headers that are set after it.
    ///
    /// # Errors
    ///
    /// The errors of [`with_endpoint`](Self::with_endpoint).
    pub fn with_plain_http(self) -> Result<Self> {
        self.with_endpoint(|endpoint| Ok(endpoint.with_plain_http()))
    }

    /// Sets a header of every request.
    ///
    /// # Errors
    ///
    /// The errors of [`with_endpoint`](Self::with_endpoint).
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = name
            .parse::<HeaderName>()
            .map_err(|_| ProviderError::Header { what: "the name of a header".to_owned() })?;
        let shown = format!("the header `{header}`");
        let changed = self.with_endpoint(|endpoint| endpoint.with_header(header, value));
        changed.map_err(|error| error.about(&shown))
    }

    /// Sets the `reqwest::Client` to use, for a proxy, certificates or a shared pool. Default: a
    /// client that `toolwright-http` creates.
    ///
    /// Turn its redirects off, unless every server that they lead to may get the conversation. The
    /// limits of this connection still hold.
    #[must_use]
    pub fn with_http(mut self, http: reqwest::Client) -> Self {
        self.client = self.client.with_http(http);
        self
    }

    /// Sets the maximum number of retries. Default: 2.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retry = self.retry.with_retries(retries);
        self
    }

    /// Sets the maximum time without a byte, before the reply and within. Default: 10 minutes.
    ///
    /// A whole reply may take longer: [`with_max_time`](Self::with_max_time) limits it.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Client`] if the system's certificates cannot be read.
    pub fn with_timeout(mut self, silence: Duration) -> Result<Self> {
        let limits = self.client.limits().with_silence(silence);
        self.client = self.client.with_limits(limits)?;
        Ok(self)
    }

    /// Sets the maximum time of one answer, with its retries. Default: 30 minutes.
    ///
    /// It ends a reply that arrives slowly but never stops. A limit too large for
    /// [`Instant`](std::time::Instant) means no limit.
    #[must_use]
    pub fn with_max_time(mut self, max_time: Duration) -> Self {
        self.max_time = max_time;
        self
    }

    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    /// Returns the maximum time without a byte.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.client.limits().silence
    }

    /// Returns the maximum time of one answer.
    #[must_use]
    pub fn max_time(&self) -> Duration {
        self.max_time
    }

    /// Sends a body as JSON and returns the body of the response.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Status`] if the status is not a success, and those of the connection.
    pub async fn whole(&self, url: &Url, body: impl Into<RequestBody>) -> Result<Bytes> {
        let deadline = Deadline::after(self.max_time);
        Ok(self.post(url, body.into(), deadline).await?.text().await?)
    }

    /// Sends a body as JSON and returns the events of the response, or its body if the server does
    /// not stream.
    ///
    /// # Errors
    ///
    /// The errors of [`whole`](Self::whole).
    pub async fn events(&self, url: &Url, body: impl Into<RequestBody>) -> Result<Streamed> {
        let deadline = Deadline::after(self.max_time);
        Ok(self.post(url, body.into(), deadline).await?.events().await?)
    }

    /// Sends a request, with retries, and returns the response if it is a success.
    async fn post(&self, url: &Url, body: RequestBody, deadline: Deadline) -> Result<HttpResponse> {
        let request = HttpRequest::post_json(url.clone(), body);
        let attempt = || async {
            Ok::<_, ProviderError>(self.client.send(&request, deadline).await?.or_refusal().await?)
        };
        self.retry.run(deadline, attempt, ProviderError::retry).await
    }

    /// Gets the body of a resource, such as a background reply.
    ///
    /// # Errors
    ///
    /// The errors of [`whole`](Self::whole).
    pub async fn get(&self, url: &Url) -> Result<Bytes> {
        let (request, deadline) = (HttpRequest::get(url.clone()), Deadline::after(self.max_time));
        let attempt = || async {
            Ok::<_, ProviderError>(self.client.send(&request, deadline).await?.or_refusal().await?)
        };
        Ok(self.retry.run(deadline, attempt, ProviderError::retry).await?.text().await?)
    }

    /// Converts an error for the caller of a model: without secrets, and with stage and usage.
    #[must_use]
    pub fn public(&self, error: ProviderError) -> crate::Error {
        error.redacted(self.endpoint()).into_module()
    }
}

/// Returns an environment variable, or `None` if it is missing or empty. `what` names it in the
/// error.
///
/// # Errors
///
/// [`ProviderError::Header`] if it is not Unicode.
pub fn from_env(variable: &str, what: &str) -> Result<Option<String>> {
    match env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(ProviderError::Header { what: what.to_owned() }),
    }
}

/// Deserializes a whole reply. If the body is the server's error, that is the error.
///
/// # Errors
///
/// [`ProviderError::Decoding`], [`ProviderError::Truncated`], [`ProviderError::Reported`], and
/// those of `reply`.
pub fn read_whole<'b, T: Deserialize<'b>>(
    body: &'b [u8],
    reply: impl FnOnce(T) -> Result<Reply>,
) -> Result<Reply> {
    // As text, because in bytes serde_json checks the UTF-8 of each string by itself.
    let text = std::str::from_utf8(body).map_err(serde_json::Error::custom);
    let read = text.and_then(|text| match text.trim_ascii_start().starts_with('[') {
        // For serde, a list is also a struct: its items are the fields, in their order.
        true => Err(serde_json::Error::custom("expected a reply, found a list")),
        false => serde_json::from_str(text),
    });
    let read = read.map_err(|source| ProviderError::from_json(source, body));
    read.and_then(reply).map_err(|error| error.or_error_in(body))
}
