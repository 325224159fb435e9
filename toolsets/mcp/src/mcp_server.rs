mod bounded;
mod calls;
mod door;
mod handler;
mod http;
mod patient;
mod progress;
mod served;

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwright_module::{Cancellation, Context, Tool};

use self::bounded::Bounded;
use self::calls::{Calls, Limits};
use self::handler::Handler;
use self::patient::Patient;
use self::served::Served;
use crate::error::{McpError, Result};
use crate::token;

/// How long calls may still run once the server is asked to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// A list of tools, ready to be served to MCP clients.
///
/// Tools are listed in the order given. They are the same for every client and do not
/// change while the server runs. A clone serves the same tools with limits of its own.
///
/// ```
/// use std::time::Duration;
/// use toolwright_mcp::McpServer;
/// use toolwright_module::{Cancellation, Tool};
///
/// # fn tools() -> Vec<Tool> { Vec::new() }
/// let shutdown = Cancellation::default();
/// let server = McpServer::new("notes", "1.0.0", tools())?
///     .with_instructions("Look a note up before you write one.")
///     .with_tool_time(Duration::from_secs(30))
///     .with_shutdown(shutdown.clone());
/// # Ok::<(), toolwright_mcp::McpError>(())
/// ```
#[derive(Clone)]
pub struct McpServer {
    info: ServerConfig,
    tools: Vec<Served>,
    cx: Context,
    limits: Limits,
    shutdown: Cancellation,
    max_message_bytes: usize,
    token: Option<SecretString>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl McpServer {
    /// A server that goes by this name and version, and has these tools.
    ///
    /// # Errors
    ///
    /// [`McpError::Duplicate`] if two tools have one name.
    pub fn new(name: &str, version: &str, tools: impl IntoIterator<Item = Tool>) -> Result<Self> {
        let tools: Vec<Served> = tools.into_iter().map(Served::new).collect::<Result<_>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = tools.iter().find(|served| !names.insert(served.tool.name())) {
            return Err(McpError::Duplicate { name: twice.tool.name().to_owned() });
        }
        let info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(name, version));
        Ok(Self {
            info,
            tools,
            cx: Context::default(),
            limits: Limits::default(),
            shutdown: Cancellation::default(),
            max_message_bytes: 4 * 1024 * 1024,
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
        })
    }

    /// Tells clients what the tools are for and how they go together; hosts may show it to
    /// their model.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.info = self.info.with_instructions(instructions);
        self
    }

    /// What every call starts from: a model for modules that have none of their own, a
    /// ledger that counts them all, an approver, events.
    ///
    /// Each call adds its own cancellation, deadline and path.
    #[must_use]
    pub fn with_context(mut self, cx: Context) -> Self {
        self.cx = cx;
        self
    }

    /// How long a call may take, the wait for others included; 5 minutes unless said.
    ///
    /// Then the client is told so, the call's context is cancelled and its work dropped.
    /// [`Duration::MAX`] is for ever. Work that keeps its thread without giving way is not
    /// ended by anything: move it to `spawn_blocking`.
    #[must_use]
    pub fn with_tool_time(mut self, time: Duration) -> Self {
        self.limits.tool_time = time;
        self
    }

    /// How many calls run at once, of all clients together; 64 unless said, at least one.
    ///
    /// Others wait, up to 1024 of them; what comes then is told to come again.
    #[must_use]
    pub fn with_max_parallel(mut self, calls: usize) -> Self {
        self.limits.max_parallel = calls;
        self
    }

    /// How many calls may come in a time, of all clients together; 1000 in 10 seconds
    /// unless said.
    ///
    /// A call too many is told how long to wait. A time of zero lets all come.
    #[must_use]
    pub fn with_max_rate(mut self, calls: u32, per: Duration) -> Self {
        self.limits.max_rate = (calls, per);
        self
    }

    /// How large a result may be, texts and images together; 4 MiB unless said.
    ///
    /// A larger one does not go out: the client is told to ask for less.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_result_bytes = bytes;
        self
    }

    /// How large a request may be; 4 MiB unless said.
    ///
    /// Over HTTP a larger one is answered with 413, over standard input with the error
    /// -32600. It is never kept in memory as a whole.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Ends the server from outside, in good order.
    ///
    /// It takes no more calls, gives those that run five seconds, then cancels them and
    /// returns from serving. To cancel running calls at once, give
    /// [`with_context`](Self::with_context) a context with the same cancellation.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: Cancellation) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Serves only HTTP clients that send this bearer token.
    ///
    /// Without one, [`serve_http`](Self::serve_http) serves this machine only. The token
    /// is shown by nothing and compared in constant time. There is no TLS here: beyond this
    /// machine put a proxy with TLS before the server, or the network reads the token.
    ///
    /// # Errors
    ///
    /// [`McpError::Token`] if it is empty or no header can carry it.
    pub fn with_token(mut self, token: impl Into<SecretString>) -> Result<Self> {
        self.token = Some(token::checked(token.into())?);
        Ok(self)
    }

    /// Serves HTTP requests for these hosts too, such as `tools.example.com`; a port, if
    /// one is named, must be the request's.
    ///
    /// `localhost`, the loopback addresses and the address that the server listens on are
    /// served always. Others are refused: a web page may have had its own name point to
    /// this machine.
    #[must_use]
    pub fn with_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Serves HTTP requests of web pages from these origins too, such as
    /// `https://app.example.com:443`; `:*` is any port.
    ///
    /// Pages from this machine are served always, and so are programs, which send no
    /// origin.
    #[must_use]
    pub fn with_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Serves over standard input and output, until input ends or the server is shut down.
    ///
    /// Calls that run when input ends have five seconds to be answered. Nothing else may
    /// write to standard output meanwhile, tools included: a `println!` there is a message
    /// that no client understands. Needs a runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    pub async fn serve_stdio(self) -> Result<()> {
        let (read, write) = rmcp::transport::io::stdio_pipes();
        self.serve(read, write).await
    }

    /// Serves one client over any two streams: one message a line.
    ///
    /// # Errors
    ///
    /// [`McpError::Handshake`] if client and server have no revision in common,
    /// [`McpError::Connection`] if the streams fail.
    pub async fn serve<R, W>(self, read: R, write: W) -> Result<()>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let shutdown = self.shutdown.clone();
        let most = self.max_message_bytes;
        let transport = AsyncRwTransport::new_server(Bounded::new(read, most), write)
            .with_max_line_length(usize::MAX);
        let transport = Patient::new(transport, most);
        let handler = self.handler();
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let running = tokio::select! {
            running = handler.clone().serve_with_ct(transport, stop.clone()) => running,
            () = shutdown.cancelled() => return Ok(()),
        };
        let running = match running {
            Ok(running) => running,
            // Whoever leaves before saying anything leaves.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                return Ok(());
            }
            Err(ServerInitializeError::TransportError { error, .. }) => {
                return Err(std::io::Error::other(error).into());
            }
            Err(_) => return Err(McpError::Handshake),
        };
        let mut end = std::pin::pin!(running.waiting());
        let ended = tokio::select! {
            ended = &mut end => ended,
            () = shutdown.cancelled() => {
                handler.calls().end(GRACE).await;
                stop.cancel();
                end.await
            }
        };
        ended.map(drop).map_err(|error| std::io::Error::other(error).into())
    }

    /// Serves over HTTP at the path `/mcp`, until the server is shut down.
    ///
    /// Bind the listener to a loopback address, such as `127.0.0.1:8000`, and only this
    /// machine is served. Beyond that a [token](Self::with_token) is required, and on
    /// `0.0.0.0` the [hosts](Self::with_hosts) it goes by. Requests for other hosts and
    /// from web pages of other origins are answered with 403, without the token with 401.
    ///
    /// ```no_run
    /// # async fn serve(server: toolwright_mcp::McpServer) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    /// println!("http://{}/mcp", listener.local_addr()?);
    /// server.serve_http(listener).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::TokenRequired`] and [`McpError::HostsRequired`]; [`McpError::Connection`] if the
    /// listener has no address.
    pub async fn serve_http(self, listener: TcpListener) -> Result<()> {
        let address = listener.local_addr()?;
        self.may_listen_on(address)?;
        let mut hosts = self.hosts.clone();
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        let settings = http::Settings {
            token: self.token.clone(),
            hosts,
            origins: self.origins.clone(),
            max_message_bytes: self.max_message_bytes,
            shutdown: self.shutdown.clone(),
            max_connections: http::CONNECTIONS,
            max_sessions: http::SESSIONS,
        };
        http::serve(listener, self.handler(), settings).await
    }

    fn may_listen_on(&self, address: SocketAddr) -> Result<()> {
        let ip = address.ip().to_canonical();
        if !ip.is_loopback() && self.token.is_none() {
            return Err(McpError::TokenRequired { address });
        }
        if ip.is_unspecified() && self.hosts.is_empty() {
            return Err(McpError::HostsRequired { address });
        }
        Ok(())
    }

    fn handler(self) -> Handler {
        Handler::new(self.info, self.tools, Calls::new(self.limits), self.cx)
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|served| served.tool.name()).collect();
        f.debug_struct("McpServer")
            .field("name", &self.info.server_info.name)
            .field("tools", &tools)
            .field("limits", &self.limits)
            .field("token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

    use super::*;

    #[test]
    fn beyond_this_machine_a_token_is_asked_for_and_everywhere_a_name() {
        let open = McpServer::new("test", "1", []).unwrap();
        let guarded = open.clone().with_token("hunter2").unwrap();
        let named = guarded.clone().with_hosts(["tools.example.com"]);
        let said = |server: &McpServer, address: &str| {
            let outcome = server.may_listen_on(address.parse().unwrap());
            outcome.map_or_else(|error| error.to_string(), |()| "served".to_owned())
        };
        for local in ["127.0.0.1:80", "127.1.2.3:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(said(&open, local), "served");
        }
        for address in ["192.0.2.1:80", "0.0.0.0:80", "[::]:80", "[::ffff:192.0.2.1]:80"] {
            let error = said(&open, address);
            assert!(error.ends_with("set a token with `with_token`"), "{error}");
        }
        assert_eq!(said(&guarded, "192.0.2.1:80"), "served");
        for everywhere in ["0.0.0.0:80", "[::]:80"] {
            let error = said(&guarded, everywhere);
            assert!(error.ends_with("name those it is reached by with `with_hosts`"), "{error}");
            assert_eq!(said(&named, everywhere), "served");
        }
    }

    #[test]
    fn a_token_that_no_header_carries_is_refused_and_none_is_shown() {
        let server = McpServer::new("test", "1", []).unwrap();
        for token in ["", "a b", "line\nbreak", "schlüssel"] {
            let error = server.clone().with_token(token).unwrap_err();
            assert!(matches!(error, McpError::Token), "{error}");
        }
        let server = server.with_token("hunter2").unwrap();
        assert!(!format!("{server:?}").contains("hunter2"));
    }
}
