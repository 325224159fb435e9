//! [`McpClientBuilder`], the settings of a connection.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[cfg(feature = "http-client")]
use http::HeaderName;
use rmcp::{Peer, RoleClient};
#[cfg(feature = "http-client")]
use secrecy::SecretString;
use toolwright_module::Effect;

use crate::error::{McpError, Result};
use crate::mcp_client::McpClient;
use crate::mcp_client::call_result::ResultText;
use crate::mcp_client::child_process::Command;
use crate::mcp_client::connection::Connection;
#[cfg(feature = "http-client")]
use crate::mcp_client::http::HttpAddress;
use crate::mcp_client::listing::{Listing, ToolOptions};
use crate::mcp_client::lock::Lock;
use crate::mcp_client::secrets::Secrets;

/// Time to wait for the response to `server/discover` of a child process.
const DISCOVER_TIME: Duration = Duration::from_secs(2);

/// The same time over HTTP. A server that does not know the request refuses it at once, so one that
/// does not respond is probably busy.
#[cfg(feature = "http-client")]
const HTTP_DISCOVER_TIME: Duration = Duration::from_secs(5);

/// The settings of a connection to an MCP server, and of the import of its tools.
///
/// [`connect`](Self::connect) returns the [`McpClient`]. By default nothing that a server
/// declares about itself is trusted: every tool has [`Effect::Write`]. Set the effect of a tool
/// with [`with_effect`](Self::with_effect), and use a [lock file](Self::with_lock) to notice when
/// the tools change.
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
    pub(super) transport: TransportConfig,
    pub(super) options: ToolOptions,
    pub(super) lock: Option<Arc<Lock>>,
    pub(super) tool_time: Duration,
    pub(super) start_time: Duration,
    pub(super) max_result_bytes: usize,
    /// Whether the server may ask the person of a call.
    pub(super) has_questions: bool,
    pub(super) result_text: ResultText,
    /// Time to wait for the response to `server/discover`, which some older servers ignore.
    pub(super) discover_time: Duration,
    /// Whether the last connection needed a handshake.
    pub(super) is_legacy: Arc<AtomicBool>,
}

/// The transport to a server, with its settings.
#[derive(Clone)]
pub(crate) enum TransportConfig {
    ChildProcess(Command),
    #[cfg(feature = "http-client")]
    Http(HttpAddress),
}

impl McpClientBuilder {
    pub(super) fn new(transport: TransportConfig) -> Self {
        let discover_time = match &transport {
            TransportConfig::ChildProcess(_) => DISCOVER_TIME,
            #[cfg(feature = "http-client")]
            TransportConfig::Http(_) => HTTP_DISCOVER_TIME,
        };
        Self {
            transport,
            options: ToolOptions::default(),
            lock: None,
            tool_time: Duration::from_secs(300),
            start_time: Duration::from_secs(60),
            max_result_bytes: 4 * 1024 * 1024,
            has_questions: false,
            result_text: ResultText::default(),
            discover_time,
            is_legacy: Arc::default(),
        }
    }

    /// Sets an environment variable of the child process.
    ///
    /// For a server over HTTP, [`connect`](Self::connect) fails with [`McpError::Url`].
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        match &mut self.transport {
            TransportConfig::ChildProcess(command) => {
                command.environment.push((name.into(), value.into()));
            }
            #[cfg(feature = "http-client")]
            TransportConfig::Http(address) => address.has_process_settings = true,
        }
        self
    }

    /// Sets the working directory of the child process. Default: that of this process.
    ///
    /// For a server over HTTP, [`connect`](Self::connect) fails with [`McpError::Url`].
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        match &mut self.transport {
            TransportConfig::ChildProcess(command) => command.folder = Some(folder.into()),
            #[cfg(feature = "http-client")]
            TransportConfig::Http(address) => address.has_process_settings = true,
        }
        self
    }

    /// Sets the bearer token for a server over HTTP. Default: no token.
    ///
    /// The token is sent to this server only, and no error, log or `Debug` output contains it. A
    /// child process gets its secrets from its [environment](Self::with_env).
    ///
    /// # Errors
    ///
    /// [`McpError::Token`] if the token is not valid in a header; [`McpError::Url`] if the URL is
    /// `http://` to another machine, where the network could read the token, or if the server is
    /// a child process.
    #[cfg(feature = "http-client")]
    pub fn with_token(self, token: impl Into<SecretString>) -> Result<Self> {
        let token = crate::token::checked(token.into())?;
        self.change_address(|address| address.set_token(token))
    }

    /// Adds a header for a server over HTTP, such as an API key. Default: no headers.
    ///
    /// The value is treated as a secret, like the token.
    ///
    /// # Errors
    ///
    /// [`McpError::Header`] if the header is not valid, or if the protocol sets it;
    /// [`McpError::Url`] as for [`with_token`](Self::with_token).
    #[cfg(feature = "http-client")]
    pub fn with_header(self, name: &str, value: &str) -> Result<Self> {
        let header = || McpError::Header { name: name.to_owned() };
        let name = HeaderName::try_from(name).map_err(|_| header())?;
        let own = ["accept", "authorization", "content-type", "host", "last-event-id"];
        if own.contains(&name.as_str()) || name.as_str().starts_with("mcp-") {
            return Err(header());
        }
        self.change_address(|address| address.set_header(name, value))
    }

    /// Sets the store with the login at a server over HTTP. Default: no login.
    ///
    /// The login is sent to this server only, and renewed before it ends. Without one, requests are
    /// sent without a token, and fail with [`McpError::LoginRequired`] if the server requires one. A
    /// login that is made meanwhile counts from the next request on. See [`McpLogin`](crate::McpLogin).
    ///
    /// # Errors
    ///
    /// [`McpError::Url`] as for [`with_token`](Self::with_token), or if there is a token.
    #[cfg(feature = "login")]
    pub fn with_logins(self, logins: impl crate::LoginStore) -> Result<Self> {
        self.change_address(|address| address.set_logins(logins))
    }

    #[cfg(feature = "http-client")]
    fn change_address(
        mut self,
        change: impl FnOnce(&mut HttpAddress) -> Result<()>,
    ) -> Result<Self> {
        match &mut self.transport {
            TransportConfig::Http(address) => {
                change(address)?;
                Ok(self)
            }
            TransportConfig::ChildProcess(_) => {
                Err(McpError::Url { fault: "a child process has no headers; use `with_env`" })
            }
        }
    }

    /// Sets a prefix, which is put before the name of each tool with an underscore. Default: no
    /// prefix.
    ///
    /// To add a prefix only to names that are taken, use [`McpClient::tools_beside`].
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.options.prefix = Some(prefix.to_owned());
        self
    }

    /// [Defers](toolwright_module::Tool::deferred) the server's tools: an agent shows them to the model
    /// only when the model has found them.
    #[must_use]
    pub fn with_deferred_tools(mut self) -> Self {
        self.options.deferred = true;
        self
    }

    /// Imports only these tools, by the server's names. Default: all tools.
    ///
    /// Tools that the server adds later are not imported. Connecting fails with
    /// [`McpError::NoSuchTool`] if the server does not have one of them.
    #[must_use]
    pub fn with_only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.options.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out these tools, by the server's names. Default: no tools.
    ///
    /// Connecting fails with [`McpError::NoSuchTool`] if the server does not have one of them, so
    /// that a misspelled name is noticed.
    #[must_use]
    pub fn with_left_out<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.options.left_out.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the effect of a tool, by the server's name. Default: [`Effect::Write`].
    ///
    /// Connecting fails with [`McpError::NoSuchTool`] if the server has no such tool, so that a
    /// misspelled name is noticed. If the connection is lost during a call, the call is sent again
    /// for [`Effect::Read`] and [`Effect::Idempotent`] only, because it may have run.
    #[must_use]
    pub fn with_effect(mut self, name: &str, effect: Effect) -> Self {
        self.options.effects.insert(name.to_owned(), effect);
        self
    }

    /// Derives the effects of tools from the server's hints. Default: the hints are ignored.
    ///
    /// The first hint of this list that is true decides: `destructiveHint` means
    /// [`Effect::Irreversible`], `readOnlyHint` means [`Effect::Read`], `idempotentHint` means
    /// [`Effect::Idempotent`]. [`with_effect`](Self::with_effect) overrides the hints. A server can
    /// send wrong hints, so use this only for servers that you would allow to run code.
    #[must_use]
    pub fn with_trusted_annotations(mut self) -> Self {
        self.options.trusted = true;
        self
    }

    /// Trusts the results of the server's tools: nobody but you writes into them. Default: the tools are
    /// [untrusted](toolwright_module::Tool::untrusted).
    ///
    /// A model gets the text of an untrusted result between marks, and an approval policy can demand a
    /// person for later calls. A server that reads the web, mails or issues passes on what strangers
    /// wrote, also if you trust the server itself.
    #[must_use]
    pub fn with_trusted_results(mut self) -> Self {
        self.options.trusted_results = true;
        self
    }

    /// Lets the server ask the person of a call (elicitation). Default: every question is declined.
    ///
    /// A question goes to the [approver](toolwright_module::Context::with_approver) of the call's
    /// context, as a call named `answer_question`. Its arguments have a field for each answer, with the
    /// server's default or null, and its reason has the server's words. A decision
    /// [`Edit`](toolwright_module::approval::Decision::Edit) gives the answers, and `Approve` gives the
    /// arguments as they are. Without an approver, after a denial, and if the answers do not fit the
    /// server's schema, the question is declined. Nothing else fills in an answer.
    ///
    /// Servers may list other tools to a client that declares this. A server of a revision before
    /// 2026-07-28 does not say which call a question belongs to; it is declined while several calls
    /// run. Questions that ask to open an address are declined.
    ///
    /// ```no_run
    /// use toolwright_mcp::McpClient;
    /// use toolwright_module::Context;
    /// use toolwright_module::approval::{Approval, Decision};
    ///
    /// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
    /// let remote = McpClient::stdio("booking-server", [""; 0]).with_questions().connect().await?;
    /// let cx = Context::default().with_approver(async |asked: Approval| {
    ///     println!("{}", asked.reason.unwrap_or_default());
    ///     Ok(Decision::Edit { arguments: r#"{"seats": 2}"#.to_owned() })
    /// });
    /// let booked = remote.tools()[0].call(r#"{"show": "Faust"}"#, &cx).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_questions(mut self) -> Self {
        self.has_questions = true;
        self
    }

    /// Sets the lock file that the server's tools must match. Default: no lock file.
    ///
    /// `lock` is the text that [`McpClient::lock`] returned when the tools were reviewed; keep it
    /// with the code. Every connection, also after one was lost, fails with
    /// [`McpError::Drift`] if a name, description, schema or annotation differs, if a tool was
    /// added or removed, or if the server's instructions changed. With
    /// [`with_only`](Self::with_only) or [`with_left_out`](Self::with_left_out), only the imported
    /// tools are compared.
    ///
    /// A server therefore cannot change the description of a tool after the review. A lock file
    /// does not check what a tool does when it is called.
    ///
    /// # Errors
    ///
    /// [`McpError::Lock`] if the text is not a valid lock file.
    pub fn with_lock(mut self, lock: &str) -> Result<Self> {
        self.lock = Some(Arc::new(Lock::parse(lock)?));
        Ok(self)
    }

    /// Sets the timeout of a call, which includes connecting again. Default: 5 minutes.
    ///
    /// Each progress notification of the server begins it anew, up to ten times this time in all.
    /// After the timeout the server is asked to cancel the call, and the call fails.
    #[must_use]
    pub fn with_tool_time(mut self, time: Duration) -> Self {
        self.tool_time = time;
        self
    }

    /// Sets the timeout for starting the server and listing its tools. Default: 1 minute.
    ///
    /// A child process that responds later than 2 seconds after its start may be started a second time,
    /// because an older server never responds to the first request. So set at least twice the time that
    /// it needs.
    #[must_use]
    pub fn with_start_time(mut self, time: Duration) -> Self {
        self.start_time = time;
        self
    }

    /// Sets the maximum size of a result in bytes: texts, images and the value together.
    /// Default: 4 MiB.
    ///
    /// Images and files that have no room beside the texts are left out, and the text says so. If
    /// the texts and the value are larger, the call fails and the model is asked to request less. A
    /// message of more than four times this size and 1 MiB is not read.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Sets what the model gets of a result that has a text and a structured value. Default:
    /// [`ResultText::Both`].
    ///
    /// With [`ResultText::Text`] the value does not count for the
    /// [maximum size](Self::with_max_result_bytes). The text of a failure is never left out.
    #[must_use]
    pub fn with_result_text(mut self, text: ResultText) -> Self {
        self.result_text = text;
        self
    }

    /// Connects to the server and lists its tools.
    ///
    /// There is one attempt, without a retry. It needs a Tokio runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// - [`McpError::Contract`] if the [prefix](Self::with_prefix) is not valid in a name.
    /// - [`McpError::Start`], [`McpError::Connect`], [`McpError::Unauthorized`],
    ///   [`McpError::LoginRequired`] and [`McpError::Late`] if the connection fails.
    /// - [`McpError::Listing`] and [`McpError::Endless`] if the tool list is not valid.
    /// - [`McpError::NoSuchTool`] if the server does not have a tool of
    ///   [`with_only`](Self::with_only), [`with_left_out`](Self::with_left_out) or
    ///   [`with_effect`](Self::with_effect), and
    ///   [`McpError::LeftOut`] if a tool of `with_only` cannot be used.
    /// - [`McpError::Drift`] if the tools differ from the [lock file](Self::with_lock).
    /// - [`McpError::Url`] if [`with_env`](Self::with_env) or [`with_folder`](Self::with_folder)
    ///   was called for a server over HTTP.
    pub async fn connect(self) -> Result<McpClient> {
        self.options.check()?;
        #[cfg(feature = "http-client")]
        if let TransportConfig::Http(HttpAddress { has_process_settings: true, .. }) =
            &self.transport
        {
            let fault = "`with_env` and `with_folder` are for a child process; use `with_token` \
                or `with_header`";
            return Err(McpError::Url { fault });
        }
        Ok(McpClient::new(Connection::open(self).await?))
    }

    /// Maximum size of a message. A result is sent twice in it, as text and as a value, with
    /// escapes.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.max_result_bytes.saturating_mul(4).saturating_add(1024 * 1024)
    }

    /// The server for error messages, without arguments, environment and query: they may contain
    /// secrets.
    pub(super) fn shown(&self) -> String {
        match &self.transport {
            TransportConfig::ChildProcess(command) => {
                command.program.to_string_lossy().into_owned()
            }
            #[cfg(feature = "http-client")]
            TransportConfig::Http(address) => address.shown(),
        }
    }

    /// Returns the error of a server that requires a token or a login.
    pub(super) fn unauthorized(&self) -> McpError {
        #[cfg(feature = "login")]
        if let TransportConfig::Http(HttpAddress { logins: Some(logins), .. }) = &self.transport {
            return logins.required();
        }
        McpError::Unauthorized { server: self.shown() }
    }

    /// The secrets that are removed from the server's messages. A child process has no token
    /// or headers.
    pub(super) fn secrets(&self) -> Secrets {
        match &self.transport {
            TransportConfig::ChildProcess(_) => Secrets::default(),
            #[cfg(feature = "http-client")]
            TransportConfig::Http(address) => address.secrets(),
        }
    }

    pub(super) async fn list(&self, peer: &Peer<RoleClient>) -> Result<Listing> {
        let server = self.shown();
        let listing = super::listing::list(&server, peer, &self.options).await?;
        if let Some(lock) = &self.lock {
            lock.check(&server, &listing, &self.options)?;
        }
        Ok(listing)
    }
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClientBuilder")
            .field("server", &self.shown())
            .field("options", &self.options)
            .field("locked", &self.lock.is_some())
            .field("tool_time", &self.tool_time)
            .field("start_time", &self.start_time)
            .field("max_result_bytes", &self.max_result_bytes)
            .field("result_text", &self.result_text)
            .finish_non_exhaustive()
    }
}
