use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use rmcp::{Peer, RoleClient};
use secrecy::SecretString;
use toolwright_http::Redactor;
use toolwright_module::Effect;

use crate::error::{McpError, Result};
use crate::mcp_client::McpClient;
use crate::mcp_client::child::Command;
use crate::mcp_client::connection::Connection;
use crate::mcp_client::listing::{Exposed, Listing};
use crate::mcp_client::lock::Lock;
use crate::mcp_client::web::Address;

/// How to reach an MCP server, and what to make of its tools.
///
/// [`connect`](Self::connect) gives the [`McpClient`] that has them. Nothing that a server
/// says of itself is believed: its tools are [`Effect::Write`] unless you know better, and
/// a [lock](Self::with_lock) tells when they are no longer what you looked at.
///
/// ```no_run
/// use toolwright_mcp::McpClient;
/// use toolwright_module::Effect;
///
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// let files = McpClient::stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "/srv"])
///     .with_prefix("files")
///     .with_only(["read_text_file", "list_directory"])
///     .with_effect("read_text_file", Effect::Read)
///     .connect()
///     .await?;
/// let tools = files.tools();
/// assert_eq!(tools[0].name(), "files_read_text_file");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpClientBuilder {
    pub(super) home: Home,
    pub(super) exposed: Exposed,
    pub(super) lock: Option<Arc<Lock>>,
    pub(super) tool_time: Duration,
    pub(super) start_time: Duration,
    pub(super) max_result_bytes: usize,
}

/// Where a server is.
#[derive(Clone)]
pub(crate) enum Home {
    Child(Command),
    Web(Address),
}

impl McpClientBuilder {
    pub(super) fn new(home: Home) -> Self {
        Self {
            home,
            exposed: Exposed::default(),
            lock: None,
            tool_time: Duration::from_secs(300),
            start_time: Duration::from_secs(60),
            max_result_bytes: 4 * 1024 * 1024,
        }
    }

    /// Gives a server that is a child process a variable of its environment.
    ///
    /// Over HTTP there is no such process, and [`connect`](Self::connect) refuses it.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        match &mut self.home {
            Home::Child(command) => command.environment.push((name.into(), value.into())),
            Home::Web(address) => address.for_a_child = true,
        }
        self
    }

    /// Starts a server that is a child process in this folder.
    ///
    /// Over HTTP there is no such process, and [`connect`](Self::connect) refuses it.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        match &mut self.home {
            Home::Child(command) => command.folder = Some(folder.into()),
            Home::Web(address) => address.for_a_child = true,
        }
        self
    }

    /// Sends a server that is reached over HTTP this bearer token; a child process gets
    /// its secrets from its [environment](Self::with_env).
    ///
    /// The token is shown by nothing and goes to that server only.
    ///
    /// # Errors
    ///
    /// [`McpError::Token`] if no header can carry it, [`McpError::Url`] if the network could
    /// read it on its way or if the server is no server over HTTP.
    pub fn with_token(self, token: impl Into<SecretString>) -> Result<Self> {
        let token = crate::token::checked(token.into())?;
        self.web(|address| address.set_token(token))
    }

    /// Sends a server that is reached over HTTP one more header, such as a key of its own.
    ///
    /// It is treated as a secret.
    ///
    /// # Errors
    ///
    /// [`McpError::Header`] if it is none or one of the protocol's own; [`McpError::Url`] as for
    /// [`with_token`](Self::with_token).
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = || McpError::Header { name: name.to_owned() };
        let name = HeaderName::try_from(name).map_err(|_| header())?;
        let own = ["accept", "authorization", "content-type", "host", "last-event-id"];
        if own.contains(&name.as_str()) || name.as_str().starts_with("mcp-") {
            return Err(header());
        }
        self.web(|address| address.set_header(name, value))
    }

    fn web(mut self, change: impl FnOnce(&mut Address) -> Result<()>) -> Result<Self> {
        match &mut self.home {
            Home::Web(address) => {
                change(address)?;
                Ok(self)
            }
            Home::Child(_) => {
                Err(McpError::Url { fault: "a child process has none; use `with_env`" })
            }
        }
    }

    /// Puts `prefix` and an underscore before the name of each tool.
    ///
    /// Without one only a tool whose name is taken gets one: see
    /// [`McpClient::tools_beside`].
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.exposed.prefix = Some(prefix.to_owned());
        self
    }

    /// Takes these tools and no others, by the names that the server gives them.
    ///
    /// What the server adds later is not taken either. Connecting fails if one is not
    /// there.
    #[must_use]
    pub fn with_only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.exposed.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Says what a tool does to the world, by the name that the server gives it;
    /// [`Effect::Write`] unless said.
    ///
    /// Connecting fails if the server has no such tool: a name written wrongly would say
    /// nothing. A call of an [`Effect::Read`] or [`Effect::Idempotent`] tool whose connection is lost
    /// is made again; any other is not, because it may have run.
    #[must_use]
    pub fn with_effect(mut self, name: &str, effect: Effect) -> Self {
        self.exposed.effects.insert(name.to_owned(), effect);
        self
    }

    /// Believes what the server says of its tools' effects.
    ///
    /// `destructiveHint` makes a tool [`Effect::Irreversible`], whatever else is said of it;
    /// else `readOnlyHint` makes it [`Effect::Read`] and `idempotentHint`
    /// [`Effect::Idempotent`]. The protocol calls these hints, and a server may lie: use it
    /// for servers that you would let run code. [`with_effect`](Self::with_effect) has the
    /// last word.
    #[must_use]
    pub fn with_trusted_annotations(mut self) -> Self {
        self.exposed.trusted = true;
        self
    }

    /// Holds the server to what its tools were when somebody looked at them: the text that
    /// [`McpClient::lock`] gave then, kept with the code.
    ///
    /// Connecting, now and after a loss, fails with the difference if a name, a description,
    /// a schema or an annotation is another, a tool is new or missing, or the server's
    /// instructions changed. With [`with_only`](Self::with_only) the other tools may change as
    /// they like. So a server cannot have a tool approved and then tell models
    /// something else of it. It guards what is said, and not what the server does.
    ///
    /// # Errors
    ///
    /// [`McpError::Lock`] if the text is no lock.
    pub fn with_lock(mut self, lock: &str) -> Result<Self> {
        self.lock = Some(Arc::new(Lock::parse(lock)?));
        Ok(self)
    }

    /// How long a call may take, connecting again included; 5 minutes unless said.
    ///
    /// Then the server is told to cancel it, and the caller that it did not end in time.
    #[must_use]
    pub fn with_tool_time(mut self, time: Duration) -> Self {
        self.tool_time = time;
        self
    }

    /// How long the server may take to start and to say what it has; a minute unless said.
    #[must_use]
    pub fn with_start_time(mut self, time: Duration) -> Self {
        self.start_time = time;
        self
    }

    /// How large a result may be, texts, images and value together; 4 MiB unless said.
    ///
    /// A model is told of a larger one and may ask for less. A message far beyond that is
    /// not read to its end, and costs the connection.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Starts or reaches the server and asks what it has.
    ///
    /// It is tried once: a server that is not there now is an error now. Needs a Tokio
    /// runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// [`McpError::Contract`] if no name can have the [prefix](Self::with_prefix);
    /// [`McpError::Start`], [`McpError::Connect`], [`McpError::Unauthorized`] and [`McpError::Late`] if
    /// there is no such server; [`McpError::NoSuchTool`] if it lacks one that is
    /// [asked for](Self::with_only) or [spoken of](Self::with_effect), [`McpError::LeftOut`] if
    /// that cannot be used; [`McpError::Drift`] if it is not what it
    /// [was](Self::with_lock); [`McpError::Url`] if a server over HTTP was given what only a
    /// child process can have.
    pub async fn connect(self) -> Result<McpClient> {
        self.exposed.check()?;
        if let Home::Web(Address { for_a_child: true, .. }) = &self.home {
            let fault = "`with_env` and `with_folder` are for a child process; use `with_token` \
                or `with_header`";
            return Err(McpError::Url { fault });
        }
        Ok(McpClient::new(Connection::open(self).await?))
    }

    /// What may come in one message: a result stands in it twice, escaped.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.max_result_bytes.saturating_mul(4).saturating_add(1024 * 1024)
    }

    /// For people: arguments, environment and query may hold secrets.
    pub(super) fn shown(&self) -> String {
        match &self.home {
            Home::Child(command) => command.program.to_string_lossy().into_owned(),
            Home::Web(address) => address.shown(),
        }
    }

    /// The removal of secrets from what the server says; a child process has its own.
    pub(super) fn redactor(&self) -> Redactor {
        match &self.home {
            Home::Child(_) => Redactor::default(),
            Home::Web(address) => address.redactor().clone(),
        }
    }

    pub(super) async fn list(&self, peer: &Peer<RoleClient>) -> Result<Listing> {
        let server = self.shown();
        let listing = super::listing::list(&server, peer, &self.exposed).await?;
        if let Some(lock) = &self.lock {
            lock.check(&server, &listing, self.exposed.only.as_deref())?;
        }
        Ok(listing)
    }
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClientBuilder")
            .field("server", &self.shown())
            .field("exposed", &self.exposed)
            .field("locked", &self.lock.is_some())
            .field("tool_time", &self.tool_time)
            .field("start_time", &self.start_time)
            .field("max_result_bytes", &self.max_result_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

    use super::*;

    #[tokio::test]
    async fn what_only_a_child_process_can_have_is_refused_over_http() {
        let web = || McpClient::http("http://127.0.0.1:9/mcp").unwrap();
        for client in [web().with_env("KEY", "hunter2"), web().with_folder("/")] {
            let error = client.connect().await.unwrap_err();
            assert!(matches!(error, McpError::Url { .. }), "{error}");
            assert!(error.to_string().contains("`with_token`"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }
}
