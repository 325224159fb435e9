//! The protocol over HTTP: who may ask, and how a server ends.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolwright_module::Cancellation;

use crate::error::Result;
use crate::mcp_server::GRACE;
use crate::mcp_server::handler::Handler;

/// Where the protocol is spoken.
const PATH: &str = "/mcp";

/// How long a client may take to send a request's head, and again for its body.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many connections there may be; others wait to be accepted.
const CONNECTIONS: usize = 1024;

/// How many sessions there may be, of the revisions that have them. One that nobody uses
/// ends after five minutes.
const SESSIONS: usize = 1024;

/// How long connections may take to close once the server ends.
const CLOSING: Duration = Duration::from_secs(1);

pub(crate) struct Settings {
    pub(crate) token: Option<SecretString>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) max_message_bytes: usize,
    pub(crate) shutdown: Cancellation,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What every request goes through.
struct Front {
    protocol: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    token: Option<SecretString>,
    max_message_bytes: usize,
}

pub(crate) async fn serve(
    listener: TcpListener,
    handler: Handler,
    settings: Settings,
) -> Result<()> {
    let Settings { token, mut hosts, mut origins, max_message_bytes, shutdown } = settings;
    for local in ["localhost", "127.0.0.1", "[::1]"] {
        hosts.push(local.to_owned());
        origins.extend(["http", "https"].map(|scheme| format!("{scheme}://{local}:*")));
    }
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(max_message_bytes)
        .with_cancellation_token(stop.clone());
    let sessions = Arc::new(LocalSessionManager::default());
    let serving = handler.clone();
    let protocol =
        StreamableHttpService::new(move || Ok(serving.clone()), Arc::clone(&sessions), config);
    let front = Arc::new(Front { protocol, sessions, token, max_message_bytes });

    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = async {
            let place = Arc::clone(&connections).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // One that hung up meanwhile, or no more file handles for now.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let front = Arc::clone(&front);
        let service = service_fn(move |request| {
            let front = Arc::clone(&front);
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }

    drop(listener);
    handler.calls().end(GRACE).await;
    // What was answered goes out first. Streams that wait for news never end by themselves.
    let mut closed = pin!(graceful.shutdown());
    if tokio::time::timeout(CLOSING, &mut closed).await.is_err() {
        stop.cancel();
        let _ = tokio::time::timeout(CLOSING, closed).await;
    }
    Ok(())
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != PATH {
            return refused(StatusCode::NOT_FOUND, "MCP is spoken at /mcp");
        }
        if !self.knows(request.headers()) {
            let mut answer = refused(StatusCode::UNAUTHORIZED, "send the server's bearer token");
            let bearer = header::HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            return answer;
        }
        if begins_a_session(&request) && self.sessions.sessions.read().await.len() >= SESSIONS {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; come again later");
        }
        let (head, body) = request.into_parts();
        let body = Limited::new(body, self.max_message_bytes).collect();
        let body = match tokio::time::timeout(PATIENCE, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
            }
            Ok(Err(_)) => return refused(StatusCode::BAD_REQUEST, "the request broke off"),
            Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        };
        let ends_a_session = head.method == Method::DELETE;
        let mut answer = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        if ends_a_session && answer.status() == StatusCode::ACCEPTED {
            // It is done by now, and clients look for that.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        answer
    }

    /// Whether the client has the token, or needs none.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(sent), None) = (sent.next(), sent.next()) else { return false };
        let (scheme, sent) = sent.as_bytes().split_at_checked(7).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(sent.ct_eq(token.expose_secret().as_bytes()))
    }
}

/// The revisions with sessions have none of the headers that the one without requires.
fn begins_a_session(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    request.method() == Method::POST
        && !headers.contains_key("mcp-session-id")
        && !headers.contains_key("mcp-method")
}

fn refused(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
