//! The HTTP server: authentication, limits of connections and sessions, and shutdown.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rmcp::model::ErrorData;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Result;
use crate::lines::{MessageScanner, trimmed};
use crate::mcp_server::connections::{ConnectionPermit, Connections};
use crate::mcp_server::handler::Handler;
use crate::mcp_server::request::{Request as Message, not_json, unreadable};
use crate::mcp_server::sessions::{IdInUse, Sessions};
use crate::mcp_server::{GRACE, HttpAccess, McpServer};

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";

/// Timeout for reading the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for reading the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of connections. For a further one, an idle connection is closed.
const MAX_CONNECTIONS: usize = if cfg!(test) { 4 } else { 1024 };

/// Maximum number of sessions, in the revisions that have sessions. When a further one starts, an
/// idle session is closed.
const MAX_SESSIONS: usize = if cfg!(test) { 3 } else { 1024 };

/// Delay before the next `accept` after a failed one.
const ACCEPT_DELAY: Duration = Duration::from_millis(50);

/// The same delay if an idle connection was closed, which frees a file handle.
const CLOSED_DELAY: Duration = Duration::from_millis(1);

/// Maximum time between two searches for sessions that have been idle for too long.
const SESSION_INTERVAL: Duration = Duration::from_secs(10);

/// The methods and request headers of the protocol, which web pages may send.
const ALLOWED_METHODS: &str = "GET, POST, DELETE, OPTIONS";
const ALLOWED_HEADERS: &str = "accept, authorization, content-type, last-event-id, mcp-method, \
    mcp-name, mcp-protocol-version, mcp-session-id";

/// The headers that a request has once.
const SINGLE_HEADERS: [&str; 8] = [
    "host",
    "origin",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// Timeout for closing the connections at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The service that handles every request.
struct HttpService {
    protocol: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    session_use: Arc<Sessions>,
    token: Option<SecretString>,
    max_message_bytes: usize,
}

pub(crate) async fn serve(listener: TcpListener, server: McpServer) -> Result<()> {
    let address = listener.local_addr()?;
    server.access.check_address(address)?;
    let HttpAccess { token, mut hosts, mut origins } = server.access.clone();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    for local in ["localhost", "127.0.0.1", "[::1]"] {
        hosts.push(local.to_owned());
        origins.extend(["http", "https"].map(|scheme| format!("{scheme}://{local}:*")));
    }
    let (shutdown, session_time) = (server.shutdown.clone(), server.limits.session_time);
    let max_message_bytes = server.limits.max_message_bytes;
    let handler = server.handler();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(max_message_bytes)
        .with_cancellation_token(stop.clone());
    let mut sessions = LocalSessionManager::default();
    // rmcp's own limit ends sessions with an open stream or a long call too.
    sessions.session_config.keep_alive = None;
    let sessions = Arc::new(sessions);
    let serving = handler.clone();
    let protocol =
        StreamableHttpService::new(move || Ok(serving.clone()), Arc::clone(&sessions), config);
    let service = Arc::new(HttpService {
        protocol,
        sessions,
        session_use: Arc::default(),
        token,
        max_message_bytes,
    });

    let _expiry = AbortOnDropHandle::new(tokio::spawn(close_idle_sessions(
        Arc::downgrade(&service),
        session_time,
    )));

    let graceful = GracefulShutdown::new();
    let connections = Connections::new(MAX_CONNECTIONS);
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, std::io::Error>((stream, connections.acquire().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, permit) = match accepted {
            Ok((stream, Some(permit))) => (stream, Arc::new(permit)),
            Ok((_, None)) => break,
            Err(error) => {
                // The client disconnected, or the process has no free file handle.
                tracing::warn!(%error, "a connection could not be accepted");
                let made_room = !is_client_error(&error) && connections.close_idle();
                let delay = if made_room { CLOSED_DELAY } else { ACCEPT_DELAY };
                tokio::time::sleep(delay).await;
                continue;
            }
        };
        let service = Arc::clone(&service);
        let closed = permit.closed();
        let service = service_fn(move |request| {
            let (service, permit) = (Arc::clone(&service), Arc::clone(&permit));
            async move { Ok::<_, Infallible>(service.respond(request, &permit).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                },
                () = closed.cancelled() => {
                    tracing::debug!("an idle connection was closed for a new one");
                }
            }
        });
    }

    drop(listener);
    handler.calls().end(GRACE).await;
    // Responses are sent first. Streams of notifications do not end by themselves, so they are
    // stopped after the timeout.
    let mut closed = pin!(graceful.shutdown());
    if tokio::time::timeout(CLOSE_TIMEOUT, &mut closed).await.is_err() {
        stop.cancel();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
    }
    Ok(())
}

impl HttpService {
    async fn respond(
        &self,
        request: Request<Incoming>,
        permit: &Arc<ConnectionPermit>,
    ) -> HttpResponse {
        if let Some(response) = two_values(&request) {
            return response;
        }
        let origin = match self.allowed_origin(&request).await {
            Ok(origin) => origin,
            Err(response) => return response,
        };
        let mut response = match origin.is_some() && request.method() == Method::OPTIONS {
            true => preflight(),
            false => self.respond_to_allowed(request, permit).await,
        };
        if let Some(origin) = origin {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static("mcp-session-id, www-authenticate");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        response
    }

    /// Returns the origin of the web page that sent the request, if there is one.
    ///
    /// # Errors
    ///
    /// rmcp's response to an origin or a host that is not allowed.
    async fn allowed_origin(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Option<HeaderValue>, HttpResponse> {
        let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(None) };
        // rmcp checks both headers of any request, and has no response to this method.
        let mut probe = Request::new(Full::new(Bytes::new()));
        *probe.method_mut() = Method::OPTIONS;
        for name in [header::HOST, header::ORIGIN] {
            if let Some(value) = request.headers().get(&name) {
                probe.headers_mut().insert(name, value.clone());
            }
        }
        let response = self.protocol.handle(probe).await;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(Some(origin.clone())),
            _ => Err(response),
        }
    }

    async fn respond_to_allowed(
        &self,
        request: Request<Incoming>,
        permit: &Arc<ConnectionPermit>,
    ) -> HttpResponse {
        if request.uri().path() != PATH {
            return rejected(StatusCode::NOT_FOUND, "the MCP endpoint is /mcp");
        }
        if !self.is_authorized(request.headers()) {
            let mut response = rejected(StatusCode::UNAUTHORIZED, "send the server's bearer token");
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            return response;
        }
        let starts_session = starts_session(&request);
        let session_id = session_id(request.headers()).map(str::to_owned);
        let (mut head, body) = request.into_parts();
        let body = Limited::new(body, self.max_message_bytes).collect();
        let body = match tokio::time::timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return rejected(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
            }
            Ok(Err(_)) => return rejected(StatusCode::BAD_REQUEST, "the request was interrupted"),
            Err(_) => return rejected(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        };
        permit.set_authorized();
        if starts_session && !self.reserve_session().await {
            return rejected(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; retry later");
        }
        // Only calls keep a connection open. A stream of notifications may be closed at any time,
        // because its client opens another one.
        let is_call = head.method == Method::POST;
        let is_json = is_json(&head.headers);
        let mut body = body;
        if is_call && is_json {
            let Message { text, arguments } = match Message::read(trimmed(&body)) {
                Ok(message) => message,
                Err((error, id)) => return invalid_message(&error, id),
            };
            if let Some(arguments) = arguments {
                head.extensions.insert(arguments);
            }
            if let Cow::Owned(text) = text {
                body = text.into();
            }
        }
        let mut in_session = None;
        if let Some(session) = session_id {
            let scan = MessageScanner::of(&body);
            let id = scan.id().filter(|_| is_call && scan.has_method());
            in_session = match self.session_use.begin(&session, is_call, id.as_ref()) {
                Ok(guard) => guard,
                Err(IdInUse) => {
                    let text = "the field `id` is that of a request without a response yet";
                    return invalid_message(&ErrorData::invalid_request(text, None), id);
                }
            };
        }
        let guards = (is_call.then(|| permit.call()), in_session);
        let message = is_call.then(|| body.clone());
        let ends_session = head.method == Method::DELETE;
        let mut response = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        if starts_session && let Some(id) = self::session_id(response.headers()) {
            self.session_use.start(id);
        }
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The session is already closed, and clients expect 204.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        // rmcp's response to a message that it cannot read has no id, and is not JSON.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
            let message = message.as_deref().and_then(|message| str::from_utf8(message).ok());
            let (error, id) = message.and_then(unreadable).unwrap_or_else(|| (not_json(), None));
            return invalid_message(&error, id);
        }
        // The guards are dropped with the body, when the response has been sent.
        response.map(|body| {
            let holding = move |error| {
                let _ = &guards;
                error
            };
            body.map_err(holding).boxed()
        })
    }

    /// Closes the session that has been idle for longest if the maximum is reached. Returns whether
    /// a new session may start. The next request of the closed session gets 404, after which its
    /// client starts a new session.
    async fn reserve_session(&self) -> bool {
        let idle = {
            let sessions = self.sessions.sessions.read().await;
            if sessions.len() < MAX_SESSIONS {
                return true;
            }
            self.session_use.longest_idle(|id| sessions.contains_key(id))
        };
        let Some(idle) = idle else { return false };
        if let Err(error) = self.sessions.close_session(&idle.into()).await {
            tracing::debug!(%error, "a session could not be closed");
        }
        true
    }

    /// Returns whether the request has the token, or the server has no token.
    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(sent), None) = (sent.next(), sent.next()) else { return false };
        let (scheme, sent) = sent.as_bytes().split_at_checked(7).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && bool::from(sent.ct_eq(token.expose_secret().as_bytes()))
    }
}

/// Closes the sessions that have been idle for longer than `time`.
async fn close_idle_sessions(service: Weak<HttpService>, time: Duration) {
    loop {
        tokio::time::sleep((time / 4).min(SESSION_INTERVAL).max(Duration::from_millis(10))).await;
        let Some(service) = service.upgrade() else { return };
        for id in service.session_use.expired(time) {
            if let Err(error) = service.sessions.close_session(&id.into()).await {
                tracing::debug!(%error, "a session could not be closed");
            }
        }
    }
}

/// Returns the refusal of a request that gives one header two values. A proxy may check another one
/// than this server reads.
fn two_values(request: &Request<Incoming>) -> Option<HttpResponse> {
    let headers = request.headers();
    let is_there_twice = |name: &&&str| headers.get_all(**name).iter().nth(1).is_some();
    if let Some(name) = SINGLE_HEADERS.iter().find(is_there_twice) {
        let text = format!("the request has the header {name} twice; send it once");
        return Some(rejected(StatusCode::BAD_REQUEST, text));
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (request.uri().authority(), host) {
        (Some(authority), Some(host)) if !authority.as_str().eq_ignore_ascii_case(host) => {
            Some(rejected(StatusCode::BAD_REQUEST, "the URI and the header Host name two hosts"))
        }
        _ => None,
    }
}

/// Returns the response to a browser that asks which requests a web page may send.
fn preflight() -> HttpResponse {
    let mut response = rejected(StatusCode::NO_CONTENT, "");
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

/// Returns the response to a message that cannot be read: an error with its id, if there is one.
fn invalid_message(error: &ErrorData, id: Option<Value>) -> HttpResponse {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Returns whether a request starts a session. Requests of the revision without sessions have an
/// `mcp-method` header.
fn starts_session(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    request.method() == Method::POST
        && !headers.contains_key("mcp-session-id")
        && !headers.contains_key("mcp-method")
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

/// Returns whether `accept` failed because of the client.
fn is_client_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

fn rejected(status: StatusCode, text: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn start_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = McpServer::new("limited", "1", []).unwrap().with_token("hunter2").unwrap();
        tokio::spawn(serve(listener, server));
        address
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    fn head(body: &str, session: Option<&str>) -> String {
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer hunter2\r\n\
             accept: application/json, text/event-stream\r\n\
             content-type: application/json\r\n{session}content-length: {}\r\n\r\n",
            body.len()
        )
    }

    /// Sends a request, and returns the head of the response.
    async fn request(stream: &mut TcpStream, body: &str, session: Option<&str>) -> String {
        stream.write_all(format!("{}{body}", head(body, session)).as_bytes()).await.unwrap();
        let mut bytes = vec![0; 1 << 16];
        let mut read = 0;
        while !bytes[..read].windows(4).any(|end| end == b"\r\n\r\n") {
            let more = stream.read(&mut bytes[read..]).await.unwrap();
            assert!(more > 0, "the connection was closed");
            read += more;
        }
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    async fn start_session(address: SocketAddr) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let answer = request(&mut stream, INITIALIZE, None).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (_, id) = answer.split_once("mcp-session-id: ").unwrap();
        (stream, id.split_once('\r').unwrap().0.to_owned())
    }

    #[tokio::test]
    async fn silent_clients_do_not_block_new_ones() {
        let address = start_server().await;
        // A client that has sent a request stays connected while it is idle.
        let (mut authorized, id) = start_session(address).await;
        let mut silent = Vec::new();
        for number in 0..12 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let body = "{\"jsonrpc\"";
            let half = match number % 3 {
                0 => String::new(),
                1 => "POST /mcp HTTP/1.1\r\nhost:".to_owned(),
                // A slow client can be disconnected even if it has the token.
                _ => format!("{}{body}", head(&body.repeat(9), None)),
            };
            stream.write_all(half.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        let (_new, _) = start_session(address).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let _ = request(&mut authorized, PING, Some(&id)).await;
    }

    #[tokio::test]
    async fn a_new_session_closes_the_one_that_was_idle_for_longest() {
        let address = start_server().await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(start_session(address).await.1);
        }
        let status = async |id: &String| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let answer = request(&mut stream, PING, Some(id)).await;
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        // The first session was used, so the second has been idle for longest.
        assert_eq!(status(&sessions[0]).await, "200");
        sessions.push(start_session(address).await.1);
        let mut statuses = Vec::new();
        for session in &sessions {
            statuses.push(status(session).await);
        }
        assert_eq!(statuses, ["200", "404", "200", "200"]);
    }
}
