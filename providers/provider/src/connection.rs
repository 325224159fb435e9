//! [`Connection`]: the HTTP settings of a model, and its requests.

use std::borrow::Cow;
use std::env::{self, VarError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, TryFutureExt};
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde::de::Error as _;
use toolwright_http::reqwest::{self, Url, header::HeaderName};
use toolwright_http::{
    Client, Deadline, Endpoint, ErrorKind, HttpError, HttpLimits, HttpRequest, HttpResponse,
    RequestBody, RetryPolicy, begins_events, retry_after,
};
use toolwright_signature::{has_lost_half, readable_json};

use super::error::{ProviderError, Result};
use super::streaming::{Decoder, stream_of};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Delta, Reply};

/// Default total time of an answer. It is enough for a long answer of a slow server, and it
/// ends a response that never ends.
const MAX_TIME: Duration = Duration::from_secs(1800);

/// The connection of a model to its server: address, key, retries and limits.
///
/// A request is retried up to two times by default, if no answer has begun: after a failed
/// connection, after 408, 409, 425, 429 and 5xx, and after the same errors in a reply that began with a
/// success. The pause is the server's `retry-after`, or about 0.5 and 1 second. There is no retry if
/// waiting does not help, such as for an account without credit. It needs the tokio runtime.
///
/// ```
/// use toolwright_provider::Connection;
///
/// let connection = Connection::at("https://api.example.com/v1")?
///     .with_endpoint(|endpoint| endpoint.with_bearer("key", "sk-made-up"))?
///     .with_retries(0);
/// assert_eq!(connection.endpoint().base_url(), "https://api.example.com/v1");
/// # Ok::<(), toolwright_provider::ProviderError>(())
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
    /// [`ErrorKind::Url`] if the base URL cannot be used. [`ErrorKind::Client`] if the system's
    /// certificates cannot be read.
    pub fn at(base_url: &str) -> Result<Self> {
        let client = Client::new(Endpoint::new(base_url)?, HttpLimits::default())?;
        Ok(Self { client, retry: RetryPolicy::default(), max_time: MAX_TIME })
    }

    /// Changes the endpoint, such as its headers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Header`] if a value has a character that is not allowed in a header.
    /// [`ErrorKind::Url`] if a header holds a key and the base URL is plain http and not on this
    /// machine, because others on the network could read the key;
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

    /// Sets the key of the server in the header of this name, or as a bearer token without one.
    /// `variable` is the environment variable for the key.
    ///
    /// # Errors
    ///
    /// [`ProviderError::MissingKey`] if the key is blank, and the errors of
    /// [`with_endpoint`](Self::with_endpoint).
    pub fn with_key(
        self,
        header: Option<&'static str>,
        key: &str,
        variable: &'static str,
    ) -> Result<Self> {
        if key.trim().is_empty() {
            return Err(ProviderError::MissingKey { variable });
        }
        self.with_endpoint(|endpoint| match header {
            Some(name) => endpoint.with_secret_header("key", HeaderName::from_static(name), key),
            None => endpoint.with_bearer("key", key),
        })
    }

    /// Sets a header of every request.
    ///
    /// # Errors
    ///
    /// The errors of [`with_endpoint`](Self::with_endpoint).
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = name.parse::<HeaderName>().map_err(|_| not_a_header("header name"))?;
        self.with_endpoint(|endpoint| endpoint.with_header(header, value))
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
        self.retry.retries = retries;
        self
    }

    /// Sets the maximum time without a byte, before the reply and within. Default: 10 minutes.
    ///
    /// A whole reply may take longer: [`with_max_time`](Self::with_max_time) limits it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Client`] if the system's certificates cannot be read.
    pub fn with_timeout(mut self, silence: Duration) -> Result<Self> {
        let limits = HttpLimits { silence, ..*self.client.limits() };
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

    /// Returns the maximum time of one answer.
    #[must_use]
    pub fn max_time(&self) -> Duration {
        self.max_time
    }

    /// Sends a body as JSON, and returns the reply that `read` makes of the response's body.
    ///
    /// The request is also retried after an error that the server reported with a success
    /// ([`ProviderError::Reported`], [`ProviderError::Unfinished`]), if that may pass and the server
    /// counted no tokens. A failed reply that costs tokens is left to the caller, whose budget may have
    /// room for only one; the error has the usage and is
    /// [retryable](toolwright_module::Error::is_retryable).
    ///
    /// # Errors
    ///
    /// [`ProviderError::Status`] if the status is not a success, and those of the connection and of
    /// `read`.
    pub async fn whole<F: Future<Output = Result<Reply>>>(
        &self,
        url: &Url,
        body: impl Into<RequestBody>,
        read: impl Fn(Bytes) -> F,
    ) -> Result<Reply> {
        let request = HttpRequest::post_json(url.clone(), body);
        let deadline = Deadline::after(self.max_time);
        let attempt = || async {
            let response = self.send(&request, deadline).await?;
            let pause = retry_after(response.headers());
            let paused = |error: ProviderError| error.with_pause(pause);
            let body = response.text().await.map_err(|error| paused(error.into()))?;
            read(readable_body(body)).await.map_err(paused)
        };
        self.retry.run(deadline, attempt, ProviderError::retry).await
    }

    /// Sends a body as JSON, and returns the deltas of the response. The last one is
    /// [`Delta::Done`] or an error.
    ///
    /// `decoder` makes the decoder of one response, and `read` reads the body of a server that does
    /// not stream. The request is also retried after an error that the server reported before any
    /// content, as [`whole`](Self::whole) does.
    ///
    /// # Errors
    ///
    /// The errors of [`whole`](Self::whole).
    pub async fn stream<D: Decoder>(
        &self,
        url: &Url,
        body: impl Into<RequestBody>,
        decoder: impl Fn() -> D,
        read: impl Fn(&[u8]) -> Result<Reply>,
    ) -> Result<BoxStream<'static, Result<Delta>>> {
        let request = HttpRequest::post_json(url.clone(), body);
        let deadline = Deadline::after(self.max_time);
        let attempt = || async {
            let response = self.send(&request, deadline).await?;
            let pause = retry_after(response.headers());
            let paused = move |error: ProviderError| error.with_pause(pause);
            let silence = self.client.limits().silence;
            let events = response.events().await.map_err(|error| paused(error.into()))?;
            let deltas = stream_of(events, decoder(), silence, &read);
            let mut deltas = deltas.map_err(paused)?.map_err(paused).boxed();
            // Nothing has been shown before the first delta, so that an error is like a status.
            let first = deltas.next().await.transpose()?;
            Ok((first, deltas))
        };
        let (first, rest) = self.retry.run(deadline, attempt, ProviderError::retry).await?;
        Ok(stream::iter(first.map(Ok)).chain(rest).boxed())
    }

    /// Makes one attempt of a request.
    async fn send(&self, request: &HttpRequest, deadline: Deadline) -> Result<HttpResponse> {
        Ok(self.client.send(request, deadline).await?.or_refusal().await?)
    }

    /// Gets the body of a resource, such as a background reply.
    ///
    /// # Errors
    ///
    /// The errors of [`whole`](Self::whole).
    pub async fn get(&self, url: &Url) -> Result<Bytes> {
        let (request, deadline) = (HttpRequest::get(url.clone()), Deadline::after(self.max_time));
        let attempt = || self.send(&request, deadline);
        let response = self.retry.run(deadline, attempt, ProviderError::retry).await?;
        let pause = retry_after(response.headers());
        let body = response.text().await;
        Ok(readable_body(body.map_err(|error| ProviderError::from(error).with_pause(pause))?))
    }

    /// Returns a reply for the caller of a model, whose error is without secrets and has a stage and
    /// the usage. `generate` of a [`LanguageModel`](toolwright_module::LanguageModel) is a call of it.
    pub fn reply<'a>(
        &'a self,
        reply: impl Future<Output = Result<Reply>> + Send + 'a,
    ) -> BoxFuture<'a, toolwright_module::Result<Reply>> {
        Box::pin(reply.map_err(|error| self.public(error)))
    }

    /// Returns the deltas for the caller of a model, as [`reply`](Self::reply) does the reply.
    pub fn deltas<'a>(
        &'a self,
        deltas: impl Future<Output = Result<BoxStream<'static, Result<Delta>>>> + Send + 'a,
    ) -> BoxStream<'a, toolwright_module::Result<Delta>> {
        deltas.try_flatten_stream().map_err(|error| self.public(error)).boxed()
    }

    fn public(&self, error: ProviderError) -> toolwright_module::Error {
        error.redacted(self.endpoint()).into_error()
    }
}

fn not_a_header(name: &str) -> ProviderError {
    HttpError::from(ErrorKind::Header { name: name.to_owned() }).into()
}

/// Returns an environment variable, or `None` if it is missing or blank.
///
/// # Errors
///
/// [`ErrorKind::Header`] if it is not Unicode.
pub fn from_env(variable: &str) -> Result<Option<String>> {
    match env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(not_a_header(variable)),
    }
}

/// Returns JSON with U+FFFD for halves of characters, which `serde_json` does not read.
pub(crate) fn readable(json: &str) -> Cow<'_, str> {
    match ["\\ud", "\\uD", "\\uFffd"].iter().any(|escape| json.contains(escape)) {
        true => readable_json(json.as_bytes()),
        false => Cow::Borrowed(json),
    }
}

/// Returns a whole body that `serde_json` reads. A [`Reader`](super::Reader) joins characters that are
/// cut between two events.
pub(crate) fn readable_body(body: Bytes) -> Bytes {
    if begins_events(&body) {
        return body;
    }
    match std::str::from_utf8(&body).map(readable) {
        Ok(Cow::Owned(body)) => body.into(),
        _ => body,
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
    // For serde, a list is also a struct: its items are the fields, in their order.
    let read = text_of(body).and_then(|text| match text.trim_ascii_start().starts_with('[') {
        true => Err(serde_json::Error::custom("expected a reply, found a list")),
        false => serde_json::from_str(text),
    });
    checked(body, read.map(reply))
}

/// Deserializes a whole reply, which may be a list of the events that a stream would have. Otherwise
/// as [`read_whole`].
///
/// # Errors
///
/// The errors of [`read_whole`].
pub fn read_events<'b, T: Deserialize<'b>>(
    body: &'b [u8],
    reply: impl FnOnce(Vec<T>) -> Result<Reply>,
) -> Result<Reply> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return read_whole(body, |event| reply(vec![event]));
    }
    checked(body, text_of(body).and_then(serde_json::from_str).map(reply))
}

/// Returns a body as text, because in bytes `serde_json` checks the UTF-8 of each string by itself.
fn text_of(body: &[u8]) -> serde_json::Result<&str> {
    std::str::from_utf8(body).map_err(serde_json::Error::custom)
}

fn checked(body: &[u8], reply: serde_json::Result<Result<Reply>>) -> Result<Reply> {
    let reply = reply.map_err(|source| ProviderError::from_json(source, body)).flatten();
    let mut reply = reply.map_err(|error| error.or_error_in(body))?;
    if std::str::from_utf8(body).is_ok_and(has_lost_half) {
        mark_lost_halves(&mut reply);
    }
    Ok(reply)
}

/// Marks a reply in which a character was cut in half: the calls that have U+FFFD in their arguments
/// are [`incomplete`](toolwright_module::ToolCall::incomplete), and a text that has it sets
/// [`has_lost_half`](Reply::has_lost_half). [`read_whole`] and [`Reader`](super::Reader) do it.
///
/// A server that cuts a text inside a character sends half of it, which becomes U+FFFD. In a text,
/// people see that. A call with it would be made with a value that the model did not mean. If the same
/// reply also has U+FFFD that the model wrote, both count.
pub fn mark_lost_halves(reply: &mut Reply) {
    for part in &mut reply.parts {
        match part {
            ReplyPart::Call(call) => {
                let arguments = &*call.arguments;
                call.incomplete |= arguments.contains('\u{fffd}') || has_lost_half(arguments);
            }
            ReplyPart::Text(text) => reply.has_lost_half |= text.contains('\u{fffd}'),
            _ => {}
        }
    }
}
