//! HTTP to a server: its address with token and headers, and the HTTP client that rmcp uses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::{Error as SseError, Sse};
use tokio::sync::Semaphore;
use toolwright_http::{Endpoint, ErrorKind, UrlFault};

use crate::error::{McpError, Result};
use crate::mcp_client::MAX_PENDING_RESPONSES;
use crate::mcp_client::secrets::Secrets;

/// Timeout of a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of redirects of a request: enough to add a missing slash.
const MAX_REDIRECTS: usize = 1;

/// The error codes of servers that do not respond with 404 when a session has expired. Any other
/// code is an error of the call, which may have run.
const SESSION_EXPIRED: [i32; 2] = [-32000, -32001];

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 64;

/// Maximum number of attempts to resume a response stream that was interrupted.
const MAX_RESUMPTIONS: usize = 3;

/// Delay before a stream is resumed, if the server sets no other.
const RESUMPTION_DELAY: Duration = Duration::from_millis(500);

/// The URL of a server, with the token and headers to send.
#[derive(Clone)]
pub(crate) struct HttpAddress {
    endpoint: Endpoint,
    /// The endpoint has the token too, but rmcp takes it separately from the other headers.
    token: Option<SecretString>,
    /// Whether settings were made that only a child process can have.
    pub(crate) has_process_settings: bool,
}

impl HttpAddress {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let mut endpoint = Endpoint::exact(url).map_err(invalid_address)?;
        // The query may contain a secret.
        let url = endpoint.as_url().clone();
        if let Some(query) = url.query() {
            endpoint = endpoint.with_secret("query", query);
        }
        for (name, value) in url.query_pairs() {
            endpoint = endpoint.with_secret(&name, &value);
        }
        Ok(Self { endpoint, token: None, has_process_settings: false })
    }

    pub(crate) fn set_token(&mut self, token: SecretString) -> Result<()> {
        let endpoint = self.endpoint.clone().with_bearer("token", token.expose_secret());
        self.endpoint = endpoint.map_err(invalid_address)?;
        self.token = Some(token);
        Ok(())
    }

    /// Sets a header. Its value is a secret, like the token.
    pub(crate) fn set_header(&mut self, name: HeaderName, value: &str) -> Result<()> {
        let shown = name.to_string();
        let endpoint = self.endpoint.clone().with_secret_header(&shown, name, value);
        self.endpoint = endpoint.map_err(invalid_address)?;
        Ok(())
    }

    /// The token, headers and query.
    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::new(self.endpoint.redactor().clone())
    }

    pub(crate) fn transport(
        &self,
        max_message_bytes: usize,
    ) -> Result<StreamableHttpClientTransport<HttpClient>> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::custom(same_server))
            // If a request is sent on a reused connection that the server just closed, it is not
            // known whether it ran. A new connection for each request avoids that.
            .pool_max_idle_per_host(0);
        // A proxy cannot reach loopback addresses of this machine.
        let http = if self.endpoint.is_loopback() { http.no_proxy() } else { http };
        let http = http
            .build()
            .map_err(|error| McpError::connect(&self.shown(), "", error.without_url()))?;
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(self.endpoint.as_url().as_str())
                .max_concurrent_requests(MAX_REQUESTS)
                .max_sse_event_size(max_message_bytes)
                // After a session expired, the server may have other tools. The caller connects
                // again and lists them before it sends the call.
                .reinit_on_expired_session(false);
        // A response stream that was interrupted is resumed a limited number of times, so that the
        // caller is not blocked until its timeout.
        let mut retries = FixedInterval::default();
        retries.max_times = Some(MAX_RESUMPTIONS);
        retries.duration = RESUMPTION_DELAY;
        config.retry_config = Arc::new(retries);
        if let Some(token) = &self.token {
            config = config.auth_header(token.expose_secret());
        }
        let headers = self.endpoint.headers().iter().filter(|(name, _)| **name != AUTHORIZATION);
        let headers = headers.map(|(name, value)| (name.clone(), value.clone()));
        config = config.custom_headers(headers.collect::<HashMap<_, _>>());
        Ok(StreamableHttpClientTransport::with_client(
            HttpClient { client: http, responses: Arc::new(Semaphore::new(MAX_PENDING_RESPONSES)) },
            config,
        ))
    }

    /// The URL for error messages, without the query, which may contain a secret.
    pub(crate) fn shown(&self) -> String {
        self.endpoint.shown()
    }
}

/// Converts an error of the HTTP crate, with a message that names this crate's functions.
fn invalid_address(error: toolwright_http::HttpError) -> McpError {
    let fault = match error.kind() {
        ErrorKind::Url(UrlFault::NotAUrl) => {
            "it is not a URL; write the complete URL, such as http://127.0.0.1:8000/mcp"
        }
        ErrorKind::Url(UrlFault::Scheme) => "the scheme is not http or https",
        ErrorKind::Url(UrlFault::Credentials) => {
            "it contains a user name or password; set a token with `with_token` instead"
        }
        ErrorKind::Url(UrlFault::Plain) => {
            "a token or header is not sent over http:// to another machine; use https://"
        }
        ErrorKind::Header { name } => return McpError::Header { name: name.clone() },
        _ => "it is not valid; check it",
    };
    McpError::Url { fault }
}

/// rmcp's HTTP client with three differences:
///
/// - An error response without a request id fails the request. rmcp ignores such a response, and
///   the caller would wait until its timeout.
/// - Errors do not show the URL, because its query may contain a secret.
/// - The number of responses that are being sent is limited.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    responses: Arc<Semaphore>,
}

type Posted = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;
type Streamed =
    Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<reqwest::Error>>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Posted {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, usize::MAX)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max_event_size: usize,
    ) -> Posted {
        let is_response = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let permit = is_response.then(|| self.responses.try_acquire());
        if let Some(Err(_)) = permit {
            return Err(StreamableHttpError::ControlRequestTimeout);
        }
        let in_session = session.is_some();
        let posted = self
            .client
            .post_message_with_max_sse_event_size(
                uri,
                message,
                session,
                token,
                headers,
                max_event_size,
            )
            .await
            .map_err(without_url)?;
        match posted {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if error.id.is_none()
                    && in_session
                    && SESSION_EXPIRED.contains(&error.error.code.0) =>
            {
                tracing::debug!(error = %error.error.message, "the session has expired");
                Err(StreamableHttpError::SessionExpired)
            }
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if error.id.is_none() =>
            {
                Err(StreamableHttpError::UnexpectedServerResponse(error.error.message))
            }
            posted => Ok(posted),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<reqwest::Error>> {
        self.client.delete_session(uri, session, token, headers).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Streamed {
        self.client
            .get_stream(uri, session, last_event_id, token, headers)
            .await
            .map_err(without_url)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_event_size: usize,
    ) -> Streamed {
        self.client
            .get_stream_with_max_sse_event_size(
                uri,
                session,
                last_event_id,
                token,
                headers,
                max_event_size,
            )
            .await
            .map_err(without_url)
    }
}

fn without_url(error: StreamableHttpError<reqwest::Error>) -> StreamableHttpError<reqwest::Error> {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        error => error,
    }
}

/// Follows a redirect only to the same origin, so that the token is not sent to another server
/// or without TLS. The status must be 307 or 308; for others, reqwest would change POST to GET.
fn same_server(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let Some(first) = attempt.previous().first() else { return attempt.stop() };
    let next = attempt.url();
    let same = first.origin() == next.origin();
    let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
    if same && keeps_method && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}
