//! The HTTP server: authentication, limits of connections and sessions, and shutdown.

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
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwright_module::Cancellation;

use crate::error::Result;
use crate::mcp_server::GRACE;
use crate::mcp_server::connections::{ConnectionPermit, Connections};
use crate::mcp_server::guarded_body::GuardedBody;
use crate::mcp_server::handler::Handler;
use crate::mcp_server::sessions::Sessions;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";

/// Timeout for reading the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for reading the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of connections. For a further one, an idle connection is closed.
pub(crate) const MAX_CONNECTIONS: usize = 1024;

/// Maximum number of sessions, in the revisions that have sessions. An idle session is closed
/// after five minutes, or when a further one starts.
pub(crate) const MAX_SESSIONS: usize = 1024;

/// Delay before the next `accept` after a failed one.
const ACCEPT_DELAY: Duration = Duration::from_millis(50);

/// The same delay if an idle connection was closed, which frees a file handle.
const CLOSED_DELAY: Duration = Duration::from_millis(1);

/// Timeout for closing the connections at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Settings {
    pub(crate) token: Option<SecretString>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) max_message_bytes: usize,
    pub(crate) shutdown: Cancellation,
    pub(crate) max_connections: usize,
    pub(crate) max_sessions: usize,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The service that handles every request.
struct HttpService {
    protocol: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    session_use: Arc<Sessions>,
    token: Option<SecretString>,
    max_message_bytes: usize,
    max_sessions: usize,
}

pub(crate) async fn serve(
    listener: TcpListener,
    handler: Handler,
    settings: Settings,
) -> Result<()> {
    let Settings { token, mut hosts, mut origins, max_message_bytes, shutdown, .. } = settings;
    let (max_connections, max_sessions) = (settings.max_connections, settings.max_sessions);
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
    let service = Arc::new(HttpService {
        protocol,
        sessions,
        session_use: Arc::default(),
        token,
        max_message_bytes,
        max_sessions,
    });

    let graceful = GracefulShutdown::new();
    let connections = Connections::new(max_connections);
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
        if request.uri().path() != PATH {
            return rejected(StatusCode::NOT_FOUND, "the MCP endpoint is /mcp");
        }
        if !self.is_authorized(request.headers()) {
            let mut response = rejected(StatusCode::UNAUTHORIZED, "send the server's bearer token");
            let bearer = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            return response;
        }
        let starts_session = starts_session(&request);
        let session_id = session_id(request.headers()).map(str::to_owned);
        let (head, body) = request.into_parts();
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
        let guards =
            is_call.then(|| (permit.call(), session_id.and_then(|id| self.session_use.call(&id))));
        let ends_session = head.method == Method::DELETE;
        let mut response = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        if starts_session && let Some(id) = self::session_id(response.headers()) {
            self.session_use.start(id);
        }
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The session is already closed, and clients expect 204.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response.map(|body| GuardedBody::new(body, guards).boxed())
    }

    /// Closes the session that has been idle for longest if the maximum is reached. Returns whether
    /// a new session may start. The next request of the closed session gets 404, after which its
    /// client starts a new session.
    async fn reserve_session(&self) -> bool {
        let idle = {
            let sessions = self.sessions.sessions.read().await;
            if sessions.len() < self.max_sessions {
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

fn rejected(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
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
    use crate::mcp_server::McpServer;

    /// Starts a server with a token and these limits.
    async fn limited_server(max_connections: usize, max_sessions: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings {
            token: Some("hunter2".into()),
            hosts: Vec::new(),
            origins: Vec::new(),
            max_message_bytes: 1 << 20,
            shutdown: Cancellation::default(),
            max_connections,
            max_sessions,
        };
        let server = McpServer::new("limited", "1", []).unwrap();
        tokio::spawn(serve(listener, server.handler(), settings));
        address
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

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
        let address = limited_server(4, 100).await;
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
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let _ = request(&mut authorized, ping, Some(&id)).await;
    }

    #[tokio::test]
    async fn a_new_session_closes_the_one_that_was_idle_for_longest() {
        let address = limited_server(100, 3).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(start_session(address).await);
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let status = async |(_, id): &(TcpStream, String)| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let answer = request(&mut stream, ping, Some(id)).await;
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        // The first session was used, so the second has been idle for longest.
        assert_eq!(status(&open[0]).await, "200");
        open.push(start_session(address).await);
        let mut statuses = Vec::new();
        for session in &open {
            statuses.push(status(session).await);
        }
        assert_eq!(statuses, ["200", "404", "200", "200"]);
    }
}
