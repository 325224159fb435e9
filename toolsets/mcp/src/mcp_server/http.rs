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
use crate::mcp_server::door::{Door, Seat, Sessions, Until};
use crate::mcp_server::handler::Handler;

/// Where the protocol is spoken.
const PATH: &str = "/mcp";

/// How long a client may take to send a request's head.
const HEAD: Duration = Duration::from_secs(10);

/// How long a client may take to send a request's body.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many connections there may be; for another one that waits makes room.
pub(crate) const CONNECTIONS: usize = 1024;

/// How many sessions there may be, of the revisions that have them. One that nobody uses
/// ends after five minutes, or when another begins and there are too many.
pub(crate) const SESSIONS: usize = 1024;

/// How long nobody is accepted after that failed, and after a connection was ended for it.
const PAUSE: Duration = Duration::from_millis(50);
const CLOSED: Duration = Duration::from_millis(1);

/// How long connections may take to close once the server ends.
const CLOSING: Duration = Duration::from_secs(1);

pub(crate) struct Settings {
    pub(crate) token: Option<SecretString>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) max_message_bytes: usize,
    pub(crate) shutdown: Cancellation,
    pub(crate) max_connections: usize,
    pub(crate) max_sessions: usize,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What every request goes through.
struct Front {
    protocol: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    used: Arc<Sessions>,
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
    let used = Arc::default();
    let front =
        Arc::new(Front { protocol, sessions, used, token, max_message_bytes, max_sessions });

    let graceful = GracefulShutdown::new();
    let door = Door::new(max_connections);
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, std::io::Error>((stream, door.enter().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, seat) = match accepted {
            Ok((stream, Some(seat))) => (stream, Arc::new(seat)),
            Ok((_, None)) => break,
            Err(error) => {
                // One that hung up meanwhile, or no more file handles for now.
                tracing::warn!(%error, "a connection could not be accepted");
                let made_room = !is_the_clients(&error) && door.make_room();
                let pause = if made_room { CLOSED } else { PAUSE };
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        let front = Arc::clone(&front);
        let leave = seat.leave();
        let service = service_fn(move |request| {
            let (front, seat) = (Arc::clone(&front), Arc::clone(&seat));
            async move { Ok::<_, Infallible>(front.answer(request, &seat).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                },
                () = leave.cancelled() => {
                    tracing::debug!("a connection made room for another");
                }
            }
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
    async fn answer(&self, request: Request<Incoming>, seat: &Arc<Seat>) -> Answer {
        if request.uri().path() != PATH {
            return refused(StatusCode::NOT_FOUND, "MCP is spoken at /mcp");
        }
        if !self.knows(request.headers()) {
            let mut answer = refused(StatusCode::UNAUTHORIZED, "send the server's bearer token");
            let bearer = header::HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            return answer;
        }
        let begins_a_session = begins_a_session(&request);
        let session_id = session(request.headers()).map(str::to_owned);
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
        seat.is_known();
        if begins_a_session && !self.make_room_for_a_session().await {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; come again later");
        }
        // A stream of news may end at any time: its client asks for another one.
        let is_call = head.method == Method::POST;
        let calling = is_call.then(|| (seat.call(), session_id.and_then(|id| self.used.call(&id))));
        let ends_a_session = head.method == Method::DELETE;
        let mut answer = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        if begins_a_session && let Some(id) = session(answer.headers()) {
            self.used.begin(id);
        }
        if ends_a_session && answer.status() == StatusCode::ACCEPTED {
            // It is done by now, and clients look for that.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        answer.map(|body| Until::new(body, calling).boxed())
    }

    /// Ends the session that nobody has used for longest, where there are too many; whether
    /// there is room. Its client gets 404 next time, and begins another.
    async fn make_room_for_a_session(&self) -> bool {
        let idle = {
            let sessions = self.sessions.sessions.read().await;
            if sessions.len() < self.max_sessions {
                return true;
            }
            self.used.longest_idle(|id| sessions.contains_key(id))
        };
        let Some(idle) = idle else { return false };
        if let Err(error) = self.sessions.close_session(&idle.into()).await {
            tracing::debug!(%error, "a session could not be ended");
        }
        true
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

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

/// Whether it was the client's doing that it could not be accepted.
fn is_the_clients(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

fn refused(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

    use std::net::SocketAddr;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::mcp_server::McpServer;

    /// A server with a token that has few places.
    async fn few(max_connections: usize, max_sessions: usize) -> SocketAddr {
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
        let server = McpServer::new("few", "1", []).unwrap();
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

    /// Sends a request, and gives the head of its answer.
    async fn ask(stream: &mut TcpStream, body: &str, session: Option<&str>) -> String {
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

    async fn session(address: SocketAddr) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let answer = ask(&mut stream, INITIALIZE, None).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (_, id) = answer.split_once("mcp-session-id: ").unwrap();
        (stream, id.split_once('\r').unwrap().0.to_owned())
    }

    #[tokio::test]
    async fn clients_that_say_nothing_shut_nobody_out() {
        let address = few(4, 100).await;
        // One is known, and stays though it waits.
        let (mut known, id) = session(address).await;
        let mut silent = Vec::new();
        for number in 0..12 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let body = "{\"jsonrpc\"";
            let half = match number % 3 {
                0 => String::new(),
                1 => "POST /mcp HTTP/1.1\r\nhost:".to_owned(),
                // Whoever has the token may be slow, and may be ended all the same.
                _ => format!("{}{body}", head(&body.repeat(9), None)),
            };
            stream.write_all(half.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        let (_new, _) = session(address).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let _ = ask(&mut known, ping, Some(&id)).await;
    }

    #[tokio::test]
    async fn the_session_that_is_idle_longest_makes_room() {
        let address = few(100, 3).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(session(address).await);
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let status = async |(_, id): &(TcpStream, String)| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let answer = ask(&mut stream, ping, Some(id)).await;
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        // The first is used, so the second is idle longest.
        assert_eq!(status(&open[0]).await, "200");
        open.push(session(address).await);
        let mut statuses = Vec::new();
        for session in &open {
            statuses.push(status(session).await);
        }
        assert_eq!(statuses, ["200", "404", "200", "200"]);
    }
}
