//! The server side: [`McpServer`].

mod calls;
#[cfg(feature = "http-server")]
mod connections;
mod handler;
#[cfg(feature = "http-server")]
mod http;
mod progress;
mod prompts;
mod request;
mod resources;
mod served_tool;
#[cfg(feature = "http-server")]
mod sessions;
mod stream_transport;

use std::collections::HashSet;
use std::fmt;
#[cfg(feature = "http-server")]
use std::net::SocketAddr;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{
    Implementation, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
};
use rmcp::service::ServerInitializeError;
#[cfg(feature = "http-server")]
use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(feature = "http-server")]
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwright_module::{Cancellation, Context, Tool};

use self::calls::Calls;
pub use self::calls::ServerLimits;
use self::handler::{Handler, Served};
use self::prompts::ServedPrompt;
use self::served_tool::ServedTool;
use self::stream_transport::StreamTransport;
use crate::error::{McpError, Result};
use crate::resource::{Resource, ResourceBody};
#[cfg(feature = "http-server")]
use crate::token;

/// Time for running calls to finish after the server was asked to shut down.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// A list of tools that is served to MCP clients.
///
/// Clients see the tools in the given order. All clients see the same tools, which do not change
/// while the server runs. A clone serves the same tools, but counts its limits separately.
///
/// ```
/// use std::time::Duration;
/// use toolwright_mcp::{McpServer, ServerLimits};
/// use toolwright_module::{Cancellation, Tool};
///
/// # fn tools() -> Vec<Tool> { Vec::new() }
/// let shutdown = Cancellation::default();
/// let limits = ServerLimits { tool_time: Duration::from_secs(30), ..ServerLimits::default() };
/// let server = McpServer::new("notes", "1.0.0", tools())?
///     .with_instructions("Look a note up before you write one.")
///     .with_limits(limits)
///     .with_shutdown(shutdown.clone());
/// # Ok::<(), toolwright_mcp::McpError>(())
/// ```
#[derive(Clone)]
pub struct McpServer {
    info: ServerConfig,
    served: Served,
    cx: Context,
    limits: ServerLimits,
    shutdown: Cancellation,
    #[cfg(feature = "http-server")]
    access: HttpAccess,
}

/// The clients that may use the server over HTTP.
#[cfg(feature = "http-server")]
#[derive(Clone, Default)]
struct HttpAccess {
    token: Option<SecretString>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl McpServer {
    /// Creates a server with this name, version and list of tools.
    ///
    /// # Errors
    ///
    /// [`McpError::Duplicate`] if two tools have the same name, [`McpError::Contract`] if the
    /// contract of a tool cannot be written as an MCP tool.
    pub fn new(name: &str, version: &str, tools: impl IntoIterator<Item = Tool>) -> Result<Self> {
        let tools: Vec<ServedTool> =
            tools.into_iter().map(ServedTool::new).collect::<Result<_>>()?;
        check_names(tools.iter().map(|served| served.tool.name()))?;
        let info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(name, version));
        Ok(Self {
            info,
            served: Served { tools, ..Served::default() },
            cx: Context::default(),
            limits: ServerLimits::default(),
            shutdown: Cancellation::default(),
            #[cfg(feature = "http-server")]
            access: HttpAccess::default(),
        })
    }

    /// Sets the instructions: what the tools are for and how to combine them. Default: no
    /// instructions.
    ///
    /// Clients may show them to their language model.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.info = self.info.with_instructions(instructions);
        self
    }

    /// Adds prompts: messages that a user of a client chooses from a list. Default: no prompts.
    ///
    /// A prompt is a tool that clients get as a prompt. Its name and its description are those of the
    /// prompt, the fields of its input are the prompt's arguments, and its output is the message: the
    /// text that a model would read, with the images and files beside it. Clients send every
    /// argument as text, which becomes a number or another type as in any call. A client can complete
    /// an argument that is an enumeration.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    /// use toolwright_mcp::McpServer;
    /// use toolwright_module::{Signature, Tool, from_fn};
    ///
    /// /// Review a file.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Review {
    ///     /// Path of the file.
    ///     path: String,
    /// }
    ///
    /// impl Signature for Review {
    ///     type Output = String;
    /// }
    ///
    /// let review = from_fn(async |Review { path }: Review| Ok(format!("Review {path} for bugs.")));
    /// let server = McpServer::new("reviews", "1.0.0", [])?.with_prompts([Tool::new(review)?])?;
    /// # Ok::<(), toolwright_mcp::McpError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Duplicate`] if two prompts have the same name, [`McpError::Contract`] if the
    /// contract of a prompt cannot be written as an MCP tool.
    pub fn with_prompts(mut self, prompts: impl IntoIterator<Item = Tool>) -> Result<Self> {
        for prompt in prompts {
            self.served.prompts.push(ServedPrompt::new(prompt)?);
        }
        check_names(self.served.prompts.iter().map(|served| served.tool.name()))?;
        self.info.capabilities.prompts.get_or_insert_with(PromptsCapability::default);
        self.info.capabilities.completions.get_or_insert_default();
        Ok(self)
    }

    /// Adds a resource that clients list, and the function that reads it. Default: no resources.
    ///
    /// The function runs at each request, within the [limits](Self::with_limits) of a call. It gets
    /// the context of [`with_context`](Self::with_context), and returns a text or bytes. Clients get
    /// errors as those of a tool.
    ///
    /// ```
    /// use toolwright_mcp::{McpServer, Resource};
    ///
    /// let notes = Resource::new("notes://all", "notes").with_media_type("text/markdown");
    /// let server = McpServer::new("notes", "1.0.0", [])?
    ///     .with_resource(notes, async |_| Ok("Buy *tea*."))?;
    /// # Ok::<(), toolwright_mcp::McpError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Resource`] if the URI is not valid or is that of another resource.
    pub fn with_resource<F, Fut, B>(mut self, resource: Resource, read: F) -> Result<Self>
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = toolwright_module::Result<B>> + Send + 'static,
        B: Into<ResourceBody>,
    {
        self.served.resources.add(resource, read)?;
        self.info.capabilities.resources.get_or_insert_with(ResourcesCapability::default);
        Ok(self)
    }

    /// Adds a template for resources, whose URI has variables such as `{title}`, and the tool that
    /// reads them. Default: no templates.
    ///
    /// The variables are fields of the tool's input, and its output is the contents. A variable
    /// has no `/`, unless it is written as `{+path}`. The values come from clients, as the arguments
    /// of any call do: check a path before you open it.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// use toolwright_mcp::{McpServer, Resource};
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # /// Read a note.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct ReadNote { title: String }
    /// # impl Signature for ReadNote { type Output = String; }
    ///
    /// let read = from_fn(async |ReadNote { title }: ReadNote| Ok(format!("The note {title}.")));
    /// let note = Resource::new("notes://{title}", "note");
    /// let server =
    ///     McpServer::new("notes", "1.0.0", [])?.with_resource_template(note, Tool::new(read)?)?;
    /// # Ok::<(), toolwright_mcp::McpError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Resource`] if the URI is not valid, is that of another resource, or if its
    /// variables do not fit the fields of the tool.
    pub fn with_resource_template(mut self, resource: Resource, tool: Tool) -> Result<Self> {
        self.served.resources.add_template(resource, tool)?;
        self.info.capabilities.resources.get_or_insert_with(ResourcesCapability::default);
        self.info.capabilities.completions.get_or_insert_default();
        Ok(self)
    }

    /// Sets the context of all calls, such as a default language model, a ledger for the costs of
    /// all calls, an approver, or an event listener. Default: [`Context::default`].
    ///
    /// Each call adds its own cancellation, deadline and path.
    #[must_use]
    pub fn with_context(mut self, cx: Context) -> Self {
        self.cx = cx;
        self
    }

    /// Sets the limits. Default: [`ServerLimits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the cancellation that shuts the server down. Default: a cancellation that is never
    /// cancelled.
    ///
    /// When it is cancelled, the server accepts no more calls, waits up to five seconds for
    /// running calls, cancels the rest, and returns. To cancel running calls immediately, use the
    /// same cancellation in the context of [`with_context`](Self::with_context).
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: Cancellation) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets the bearer token that HTTP clients must send. Default: no token.
    ///
    /// Without a token, [`serve_http`](Self::serve_http) listens on loopback addresses only. The
    /// token is compared in constant time, and no error, log or `Debug` output contains it. The
    /// server has no TLS: for clients on other machines, put a proxy with TLS in front of it,
    /// because the network could read the token.
    ///
    /// # Errors
    ///
    /// [`McpError::Token`] if the token is empty or not valid in a header.
    #[cfg(feature = "http-server")]
    pub fn with_token(mut self, token: impl Into<SecretString>) -> Result<Self> {
        self.access.token = Some(token::checked(token.into())?);
        Ok(self)
    }

    /// Adds allowed values of the `Host` header of HTTP requests, such as `tools.example.com`. If
    /// a value has a port, the request must have the same port.
    ///
    /// Default: `localhost`, the loopback addresses and the address of the listener, which are
    /// always allowed. Other hosts are rejected, because a web page can let its own host name
    /// resolve to this machine (DNS rebinding).
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn with_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.access.hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Adds allowed origins of web pages that send HTTP requests, such as
    /// `https://app.example.com:443`. `:*` allows any port.
    ///
    /// Browsers may also read the responses: an allowed origin gets the CORS headers, and
    /// `OPTIONS` requests get their response without a token.
    ///
    /// Default: pages from this machine, which are always allowed. Programs that are not browsers
    /// send no origin and are allowed too.
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn with_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.access.origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Serves one client over standard input and output, until the input ends or the server is
    /// shut down.
    ///
    /// When the input ends, running calls have five seconds to finish. Nothing else may write to
    /// standard output, including the tools: clients cannot parse the output of a `println!`. It
    /// needs a Tokio runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// Those of [`serve`](Self::serve).
    pub async fn serve_stdio(self) -> Result<()> {
        let (read, write) = rmcp::transport::io::stdio_pipes();
        self.serve(read, write).await
    }

    /// Serves one client over two streams, with one message a line.
    ///
    /// # Errors
    ///
    /// [`McpError::Handshake`] if client and server support no common revision of the protocol,
    /// [`McpError::Connection`] if the streams fail.
    pub async fn serve<R, W>(self, read: R, write: W) -> Result<()>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let shutdown = self.shutdown.clone();
        let transport = StreamTransport::new(read, write, self.limits.max_message_bytes);
        let handler = self.handler();
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let running = tokio::select! {
            running = handler.clone().serve_with_ct(transport, stop.clone()) => running,
            () = shutdown.cancelled() => return Ok(()),
        };
        let running = match running {
            Ok(running) => running,
            // A client that disconnects before the handshake is not an error.
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
    /// A listener on a loopback address, such as `127.0.0.1:8000`, accepts only clients on this
    /// machine. Any other address requires a [token](Self::with_token), and `0.0.0.0` also
    /// requires the server's [host names](Self::with_hosts). The response to a request with
    /// another host or origin has the status 403, and without the token 401.
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
    /// [`McpError::TokenRequired`] and [`McpError::HostsRequired`] as above;
    /// [`McpError::Connection`] if the listener's address cannot be read.
    #[cfg(feature = "http-server")]
    pub async fn serve_http(self, listener: TcpListener) -> Result<()> {
        http::serve(listener, self).await
    }

    fn handler(self) -> Handler {
        Handler::new(self.info, self.served, Calls::new(self.limits), self.cx)
    }
}

/// Fails if two names are equal.
fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    let mut twice = names.filter(|name| !seen.insert(*name));
    match twice.next() {
        Some(name) => Err(McpError::Duplicate { name: name.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(feature = "http-server")]
impl HttpAccess {
    /// Checks that the settings are sufficient for a listener on this address.
    fn check_address(&self, address: SocketAddr) -> Result<()> {
        let ip = address.ip().to_canonical();
        if !ip.is_loopback() && self.token.is_none() {
            return Err(McpError::TokenRequired { address });
        }
        if ip.is_unspecified() && self.hosts.is_empty() {
            return Err(McpError::HostsRequired { address });
        }
        Ok(())
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.served.tools.iter().map(|served| served.tool.name()).collect();
        let mut debug = f.debug_struct("McpServer");
        debug
            .field("name", &self.info.server_info.name)
            .field("tools", &tools)
            .field("limits", &self.limits);
        #[cfg(feature = "http-server")]
        debug.field("token", &self.access.token.is_some());
        debug.finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "http-server"))]
mod tests {
    use super::*;

    #[test]
    fn other_machines_require_a_token_and_every_address_requires_host_names() {
        let open = McpServer::new("test", "1", []).unwrap();
        let guarded = open.clone().with_token("hunter2").unwrap();
        let named = guarded.clone().with_hosts(["tools.example.com"]);
        let outcome = |server: &McpServer, address: &str| {
            let outcome = server.access.check_address(address.parse().unwrap());
            outcome.map_or_else(|error| error.to_string(), |()| "served".to_owned())
        };
        for local in ["127.0.0.1:80", "127.1.2.3:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(outcome(&open, local), "served");
        }
        for address in ["192.0.2.1:80", "0.0.0.0:80", "[::]:80", "[::ffff:192.0.2.1]:80"] {
            let error = outcome(&open, address);
            assert!(error.ends_with("set a token with `with_token`"), "{error}");
        }
        assert_eq!(outcome(&guarded, "192.0.2.1:80"), "served");
        for everywhere in ["0.0.0.0:80", "[::]:80"] {
            let error = outcome(&guarded, everywhere);
            assert!(
                error.ends_with("set the host names of the server with `with_hosts`"),
                "{error}"
            );
            assert_eq!(outcome(&named, everywhere), "served");
        }
    }
}
