//! A server that is reached over HTTP.

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
use toolwright_http::{Endpoint, ErrorKind, Redactor, UrlFault};

use crate::error::{McpError, Result};
use crate::mcp_client::ANSWERS;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often an answer may lead on to another address: a missing slash, and no more.
const HOPS: usize = 1;

/// The codes of servers that forgot a session and do not answer 404. With another code they
/// say that something went wrong, and it may have run.
const FORGOTTEN: [i32; 2] = [-32000, -32001];

/// How many requests may wait for their answer at once.
const PARALLEL: usize = 64;

/// How often an answer's stream that broke off is asked for again, and after what pause,
/// unless the server says how long.
const RESUMPTIONS: usize = 3;
const RESUMPTION_PAUSE: Duration = Duration::from_millis(500);

/// Where a server is, and what proves that we may ask.
#[derive(Clone)]
pub(crate) struct Address {
    endpoint: Endpoint,
    /// The endpoint has it too; rmcp wants it apart from the other headers.
    token: Option<SecretString>,
    /// It was given what only a child process can have.
    pub(crate) for_a_child: bool,
}

impl Address {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let mut endpoint = Endpoint::exact(url).map_err(refused)?;
        // What follows a `?` may be a secret.
        let url = endpoint.as_url().clone();
        if let Some(query) = url.query() {
            endpoint = endpoint.with_secret("query", query);
        }
        for (name, value) in url.query_pairs() {
            endpoint = endpoint.with_secret(&name, &value);
        }
        Ok(Self { endpoint, token: None, for_a_child: false })
    }

    pub(crate) fn set_token(&mut self, token: SecretString) -> Result<()> {
        let endpoint = self.endpoint.clone().with_bearer("token", token.expose_secret());
        self.endpoint = endpoint.map_err(refused)?;
        self.token = Some(token);
        Ok(())
    }

    /// Sets a header, which is a secret like the token.
    pub(crate) fn set_header(&mut self, name: HeaderName, value: &str) -> Result<()> {
        let shown = name.to_string();
        let endpoint = self.endpoint.clone().with_secret_header(&shown, name, value);
        self.endpoint = endpoint.map_err(refused)?;
        Ok(())
    }

    /// The removal of token, headers and query from what a server says.
    pub(crate) fn redactor(&self) -> &Redactor {
        self.endpoint.redactor()
    }

    pub(crate) fn transport(
        &self,
        max_message_bytes: usize,
    ) -> Result<StreamableHttpClientTransport<Http>> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::custom(same_server))
            // A request on a connection that was closed meanwhile has an unknown end. On one
            // of its own it does not.
            .pool_max_idle_per_host(0);
        // A proxy does not reach this machine from where it is.
        let http = if self.endpoint.is_loopback() { http.no_proxy() } else { http };
        let http = http
            .build()
            .map_err(|error| McpError::connect(&self.shown(), "", error.without_url()))?;
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(self.endpoint.as_url().as_str())
                .max_concurrent_requests(PARALLEL)
                .max_sse_event_size(max_message_bytes)
                // A server that forgot the session may have other tools now: they are looked at
                // before anything is called.
                .reinit_on_expired_session(false);
        // A stream that broke off is asked for again, and not for ever: who waits for it may do
        // something else.
        let mut again = FixedInterval::default();
        again.max_times = Some(RESUMPTIONS);
        again.duration = RESUMPTION_PAUSE;
        config.retry_config = Arc::new(again);
        if let Some(token) = &self.token {
            config = config.auth_header(token.expose_secret());
        }
        let headers = self.endpoint.headers().iter().filter(|(name, _)| **name != AUTHORIZATION);
        let headers = headers.map(|(name, value)| (name.clone(), value.clone()));
        config = config.custom_headers(headers.collect::<HashMap<_, _>>());
        Ok(StreamableHttpClientTransport::with_client(
            Http { client: http, answers: Arc::new(Semaphore::new(ANSWERS)) },
            config,
        ))
    }

    /// For people: what follows a `?` may be a secret.
    pub(crate) fn shown(&self) -> String {
        self.endpoint.shown()
    }
}

/// What is wrong with an address, in the words of this toolset.
fn refused(error: toolwright_http::HttpError) -> McpError {
    let fault = match error.kind() {
        ErrorKind::Url(UrlFault::NotAUrl) => {
            "it is no URL; write it whole, such as http://127.0.0.1:8000/mcp"
        }
        ErrorKind::Url(UrlFault::Scheme) => "only http:// and https:// lead to a server",
        ErrorKind::Url(UrlFault::Credentials) => {
            "it holds a name or a password; give a token with `with_token`"
        }
        ErrorKind::Url(UrlFault::Plain) => {
            "a token or header is not sent over http://; use https://"
        }
        ErrorKind::Header { name } => return McpError::Header { name: name.clone() },
        _ => "it cannot be used; check it",
    };
    McpError::Url { fault }
}

/// rmcp's own way to send, but for three things. Answers that name no request it passes over,
/// and whoever asked would wait for ever. Errors show the URL, with the secret that may be in
/// it. And a server may ask without taking the answers.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    answers: Arc<Semaphore>,
}

type Posted = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;
type Streamed =
    Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<reqwest::Error>>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl StreamableHttpClient for Http {
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
        most: usize,
    ) -> Posted {
        let answers = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let place = answers.then(|| self.answers.try_acquire());
        if let Some(Err(_)) = place {
            return Err(StreamableHttpError::ControlRequestTimeout);
        }
        let in_session = session.is_some();
        let posted = self
            .client
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, most)
            .await
            .map_err(without_url)?;
        match posted {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if error.id.is_none() && in_session && FORGOTTEN.contains(&error.error.code.0) =>
            {
                tracing::debug!(error = %error.error.message, "a session is taken as forgotten");
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
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Streamed {
        self.client.get_stream(uri, session, last, token, headers).await.map_err(without_url)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Streamed {
        self.client
            .get_stream_with_max_sse_event_size(uri, session, last, token, headers, most)
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

/// The token goes to no other server, and to the same one no less safely. A request that
/// would become a GET is none of the protocol's.
fn same_server(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let Some(first) = attempt.previous().first() else { return attempt.stop() };
    let next = attempt.url();
    let same = first.origin() == next.origin();
    let keeps = matches!(attempt.status().as_u16(), 307 | 308);
    if same && keeps && attempt.previous().len() <= HOPS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}
