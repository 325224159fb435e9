//! HTTP to a server: its address with token and headers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::header::{ACCEPT, AUTHORIZATION};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::{ExposeSecret, SecretString};
use toolwright_http::{Endpoint, ErrorKind, UrlFault};

use crate::error::{McpError, Result};
use crate::mcp_client::discovery::Discovery;
use crate::mcp_client::http_client::{EVENT_STREAM, HttpClient, kind_of};
#[cfg(feature = "login")]
use crate::mcp_client::logins::Logins;
use crate::mcp_client::secrets::Secrets;

/// Timeout of the request that finds out whether a server has only the old transport.
const HINT_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of redirects of a request: enough to add a missing slash.
const MAX_REDIRECTS: usize = 1;

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 64;

/// Maximum number of attempts to resume a response stream that was interrupted.
const MAX_RESUMPTIONS: usize = 3;

/// Delay before a stream is resumed, if the server sets no other.
const RESUMPTION_DELAY: Duration = Duration::from_millis(500);

/// The fault of an address with a token and a login.
#[cfg(feature = "login")]
const BOTH: &str =
    "a server gets either a token or a login; leave out `with_token` or `with_logins`";

/// The URL of a server, with the token and headers to send.
#[derive(Clone)]
pub(crate) struct HttpAddress {
    endpoint: Endpoint,
    /// The endpoint has the token too, but rmcp takes it separately from the other headers.
    token: Option<SecretString>,
    #[cfg(feature = "login")]
    pub(crate) logins: Option<Arc<Logins>>,
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
        Ok(Self {
            endpoint,
            token: None,
            #[cfg(feature = "login")]
            logins: None,
            has_process_settings: false,
        })
    }

    #[cfg(feature = "login")]
    pub(crate) fn set_logins(&mut self, logins: impl crate::LoginStore) -> Result<()> {
        if self.token.is_some() {
            return Err(McpError::Url { fault: BOTH });
        }
        self.logins = Some(Logins::new(logins, &self.endpoint)?);
        Ok(())
    }

    pub(crate) fn set_token(&mut self, token: SecretString) -> Result<()> {
        #[cfg(feature = "login")]
        if self.logins.is_some() {
            return Err(McpError::Url { fault: BOTH });
        }
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
        let secrets = Secrets::new(self.endpoint.redactor().clone());
        #[cfg(feature = "login")]
        let secrets = secrets.with_logins(self.logins.clone());
        secrets
    }

    fn client(&self) -> Result<reqwest::Client, reqwest::Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::custom(same_server))
            // If a request is sent on a reused connection that the server just closed, it is not
            // known whether it ran. A new connection for each request avoids that.
            .pool_max_idle_per_host(0);
        // A proxy cannot reach loopback addresses of this machine.
        let http = if self.endpoint.is_loopback() { http.no_proxy() } else { http };
        http.build()
    }

    /// Returns advice for a connection that failed, if the server has only the old transport.
    pub(crate) async fn hint(&self) -> &'static str {
        let Ok(client) = self.client() else { return "" };
        let headers = self.endpoint.headers().clone();
        let request = client.get(self.endpoint.as_url().clone()).headers(headers);
        let request = request.header(ACCEPT, EVENT_STREAM).timeout(HINT_TIMEOUT);
        let Ok(mut response) = request.send().await else { return "" };
        let is_stream = kind_of(response.headers()).starts_with(EVENT_STREAM);
        if !(response.status().is_success() && is_stream) {
            return "";
        }
        let Ok(Some(first)) = response.chunk().await else { return "" };
        match memchr::memmem::find(&first, b"endpoint").is_some() {
            true => {
                "; it has only the old transport HTTP+SSE, which is not supported: use its address \
                 for streamable HTTP, often /mcp"
            }
            false => "",
        }
    }

    pub(crate) fn transport(
        &self,
        max_message_bytes: usize,
        discovery: Discovery,
    ) -> Result<StreamableHttpClientTransport<HttpClient>> {
        let http = self
            .client()
            .map_err(|error| McpError::connect(&self.shown(), "", "", error.without_url()))?;
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
        let client = HttpClient::new(http, discovery, max_message_bytes);
        #[cfg(feature = "login")]
        let client = client.with_logins(self.logins.clone());
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }

    /// The URL for error messages, without the query, which may contain a secret.
    pub(crate) fn shown(&self) -> String {
        self.endpoint.shown()
    }
}

/// Converts an error of the HTTP crate, with a message that names this crate's functions.
pub(crate) fn invalid_address(error: toolwright_http::HttpError) -> McpError {
    let fault = match error.kind() {
        ErrorKind::Url(UrlFault::Credentials) => {
            "it contains a user name or password; set a token with `with_token` instead"
        }
        ErrorKind::Url(UrlFault::Plain) => {
            "a token or header is not sent over http:// to another machine; use https://"
        }
        ErrorKind::Url(fault) => fault.text(),
        ErrorKind::Header { name } => return McpError::Header { name: name.clone() },
        _ => "it is not valid; check it",
    };
    McpError::Url { fault }
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
