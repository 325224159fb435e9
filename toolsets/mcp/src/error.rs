//! [`McpError`], the error of both sides.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "client")]
use rmcp::service::ServiceError;
use toolwright_signature::Difference;

/// Maximum number of tool names that an error lists.
#[cfg(feature = "client")]
const SHOWN: usize = 30;

/// The result of starting, serving or connecting to a server.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) type Result<T, E = McpError> = std::result::Result<T, E>;

/// The reason why a server could not be built, stopped serving or could not be used.
///
/// If a served call fails, the client gets the failure as a result and the server goes on; the
/// [crate's page](crate) lists how each failure is sent. If a call of an imported tool fails,
/// the error is a [`toolwright_module::Error`]; if the server caused it, its source is an
/// `McpError`. No variant contains a token.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Two tools of a served list have the same name. Prompts are tools, too.
    #[error("two tools have the name `{name}`; rename one with `Tool::named`")]
    Duplicate {
        /// Name that two tools have.
        name: String,
    },

    /// A contract that cannot be written as an MCP tool, or a name that is not valid.
    #[error(transparent)]
    Contract(#[from] toolwright_signature::ContractError),

    /// A resource or a template that cannot be served.
    #[error("the resource `{uri}` cannot be served: {fault}")]
    Resource {
        /// The URI of the resource.
        uri: String,
        /// The reason.
        fault: &'static str,
    },

    /// A token that is empty or not valid in an HTTP header.
    // The token is not shown, because it is a secret.
    #[error(
        "the token is empty or has a character that is not visible ASCII; use visible ASCII without spaces"
    )]
    Token,

    /// A listener that other machines can reach, on a server without a token.
    #[error("{address} can be reached from other machines; set a token with `with_token`")]
    TokenRequired {
        /// The address of the listener.
        address: SocketAddr,
    },

    /// A listener on every address of the machine, on a server without host names.
    #[error(
        "{address} is every address of this machine; set the host names of the server with \
         `with_hosts`"
    )]
    HostsRequired {
        /// The address of the listener.
        address: SocketAddr,
    },

    /// Client and server support no common revision of the protocol.
    #[error("the client and this server have no revision of MCP in common")]
    Handshake,

    /// An I/O error of the connection.
    #[error("the connection failed")]
    Connection(#[from] io::Error),

    /// A server address that is not valid, or that does not fit the settings.
    // The address is not shown, because it may contain a secret.
    #[error("the server's address cannot be used: {fault}")]
    Url {
        /// The reason, and how to fix it.
        fault: &'static str,
    },

    /// A header that is not valid, or that the protocol sets itself.
    #[error(
        "the header `{name}` cannot be set: it is not valid, or the protocol sets it; see \
         `McpClientBuilder::with_header`"
    )]
    Header {
        /// The header's name.
        name: String,
    },

    /// The program could not be started.
    #[error("`{command}` could not be started; check that it is installed and in the PATH")]
    Start {
        /// Program that could not be started.
        command: String,
        /// The operating system's error.
        source: io::Error,
    },

    /// The program or address did not respond as an MCP server.
    #[error("no MCP server responded at {server}{stderr}")]
    Connect {
        /// The program or the address.
        server: String,
        /// The end of the program's standard error, or advice, or nothing.
        stderr: String,
        /// The cause.
        source: Source,
    },

    /// The server requires a token, or rejects the one that was sent.
    #[error("{server} requires a valid token; set it with `McpClientBuilder::with_token`")]
    Unauthorized {
        /// Address of the server.
        server: String,
    },

    /// The server requires a login, or rejects the one that is stored.
    ///
    /// When the user has logged in, the same call, run or connection succeeds: nothing has to be
    /// created again.
    #[error("{server} requires a login, because {reason}; log in with `McpLogin`")]
    LoginRequired {
        /// Address of the server.
        server: String,
        /// Why there is no valid login.
        reason: String,
    },

    /// A login that did not succeed.
    #[error("the login at {server} failed: {source}")]
    Login {
        /// Address of the server.
        server: String,
        /// The cause.
        source: Source,
    },

    /// A stored login that could not be read or written.
    #[error("the stored login at {server} could not be read or written")]
    StoredLogin {
        /// Address of the server.
        server: String,
        /// The error of the store.
        source: io::Error,
    },

    /// The server did not start and list its tools within the start timeout.
    #[error(
        "{server} was not ready after {time:?}; set a longer timeout with \
         `McpClientBuilder::with_start_time`{stderr}"
    )]
    Late {
        /// The program or the address.
        server: String,
        /// The start timeout.
        time: Duration,
        /// The end of the program's standard error, or nothing.
        stderr: String,
    },

    /// The server's response to `tools/list` is an error or is not a list of tools.
    #[error("{server} did not list its tools")]
    Listing {
        /// The program or the address.
        server: String,
        /// The cause.
        source: Source,
    },

    /// A request for prompts or resources that failed.
    #[error("the request `{method}` failed")]
    Request {
        /// Method of the request, such as `resources/read`.
        method: &'static str,
        /// The cause, which may be in the server's words.
        source: Source,
    },

    /// The server's tool list exceeds 10,000 tools, 1,000 pages or 32 MiB, or repeats a page.
    #[error("the tool list of {server} is too long, or repeats a page")]
    Endless {
        /// The program or the address.
        server: String,
    },

    /// The server lists two tools with the same name.
    #[error("{server} lists two tools with the name `{name}`; this must be fixed in the server")]
    Twice {
        /// The program or the address.
        server: String,
        /// Name that the server lists twice.
        name: String,
    },

    /// The server's definition of a tool does not deserialize as a tool.
    #[error("the server's definition of `{name}` is not a valid tool")]
    Definition {
        /// The server's name for the tool.
        name: String,
        /// The deserialization error.
        source: serde_json::Error,
    },

    /// A tool that the server lists, but that cannot be used.
    #[error("the server's tool `{name}` cannot be used: {reason}{}", cause(reason))]
    LeftOut {
        /// The server's name for the tool.
        name: String,
        /// Why the tool cannot be used.
        reason: Arc<McpError>,
    },

    /// The server has no tool with this name.
    #[error("the server has no tool `{name}`; its tools are: {available}")]
    NoSuchTool {
        /// Name without a tool.
        name: String,
        /// The names of the server's tools, separated by commas.
        available: String,
    },

    /// The schemas of the server's tool do not fit the signature.
    #[error(
        "the server's tool `{name}` does not fit the signature `{signature}`: {}",
        listed(differences)
    )]
    Differs {
        /// The server's name for the tool.
        name: String,
        /// The signature's name.
        signature: String,
        /// All differences that matter.
        differences: Vec<Difference>,
    },

    /// The text is not a valid lock file.
    #[error("the text is not a valid lock file; create one with `McpClient::lock`")]
    Lock(#[source] serde_json::Error),

    /// The server's tools differ from its lock file.
    #[error(
        "the tools of {server} differ from the lock file; review the changes, then create a new \
         lock file with `McpClient::lock`:\n{diff}"
    )]
    Drift {
        /// The program or the address.
        server: String,
        /// The changed lines of the lock file, as a unified diff.
        diff: String,
    },

    /// The server changed or removed a tool after it was imported.
    #[error("the server changed or removed `{tool}`; call `McpClient::tools` again")]
    Changed {
        /// The server's name for the tool.
        tool: String,
    },

    /// A result that does not match the output schema that the server declared.
    #[error("the result of the server's tool `{tool}` does not match its output schema")]
    Promise {
        /// The server's name for the tool.
        tool: String,
        /// The mismatch.
        source: toolwright_signature::ContractError,
    },

    /// A call that did not reach its server, so the tool did not run.
    #[error("the server could not be reached, and `{tool}` did not run")]
    NotRun {
        /// The server's name for the tool.
        tool: String,
        /// What happened.
        source: Source,
    },

    /// A connection that was lost during a call, so the tool may have run.
    #[error("the connection was lost during the call of `{tool}`, which may have taken effect")]
    Lost {
        /// The server's name for the tool.
        tool: String,
        /// The cause.
        source: Source,
    },

    /// A response over HTTP without a result, so the tool may have run.
    #[error("the server responded to the call of `{tool}` without a result: {response}")]
    NoResult {
        /// The server's name for the tool.
        tool: String,
        /// The HTTP status, or what the response is, with the beginning of its body.
        response: String,
    },

    /// A call after [`McpClient::close`](crate::McpClient::close).
    #[error("the connection is closed; connect again")]
    Closed,
}

/// Shows the message and all sources, because `fn main() -> Result<(), _>` prints `Debug`.
impl fmt::Debug for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "\ncause: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(feature = "client")]
fn shown_stderr(stderr: &str) -> String {
    match stderr {
        "" => String::new(),
        _ => format!("; its standard error was: {stderr}"),
    }
}

pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// Returns the text of an error's source, after a colon.
fn cause(error: &McpError) -> String {
    error.source().map(|source| format!(": {source}")).unwrap_or_default()
}

#[cfg(feature = "client")]
impl McpError {
    pub(crate) fn connect(
        server: &str,
        stderr: &str,
        hint: &str,
        source: impl Into<Source>,
    ) -> Self {
        let stderr = format!("{hint}{}", shown_stderr(stderr));
        Self::Connect { server: server.to_owned(), stderr, source: source.into() }
    }

    pub(crate) fn late(server: &str, time: Duration, stderr: &str) -> Self {
        Self::Late { server: server.to_owned(), time, stderr: shown_stderr(stderr) }
    }

    pub(crate) fn listing(server: &str, source: ServiceError) -> Self {
        Self::Listing { server: server.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn no_such_tool<'a>(name: &str, tools: impl Iterator<Item = &'a str>) -> Self {
        let mut names: Vec<&str> = tools.filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        let mut available =
            if names.is_empty() { "(no tools)".to_owned() } else { names.join(", ") };
        if more > 0 {
            available.push_str(&format!(" and {more} more"));
        }
        Self::NoSuchTool { name: name.to_owned(), available }
    }

    /// Whether connecting again cannot succeed.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Connect { .. } | Self::Late { .. } | Self::Listing { .. })
    }
}
