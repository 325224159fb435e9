use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServiceError;
use toolwright_signature::Difference;

/// How many names an error shows.
const SHOWN: usize = 30;

/// The result of setting up, serving or reaching a server.
pub(crate) type Result<T, E = McpError> = std::result::Result<T, E>;

/// Why a server could not be set up, stopped serving or could not be reached.
///
/// A served call's failure is the client's to know and ends nothing; the
/// [crate's page](crate) lists what becomes of it. A call of a [`McpClient`](crate::McpClient)'s
/// tool fails with a [`toolwright_module::Error`]; where the server is at fault, one of these
/// is its cause. A token is in none of them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Two tools have one name: a client could not tell them apart.
    #[error("two tools are called `{name}`; give one another name with `Tool::named`")]
    Duplicate {
        /// The name.
        name: String,
    },

    /// MCP has no words for a tool's contract.
    #[error(transparent)]
    Contract(#[from] toolwright_signature::Error),

    /// The token is empty or cannot stand in a header.
    // It is not shown: it is a secret, or a part of one.
    #[error("the token is empty or holds a character that no header has; use visible ASCII")]
    Token,

    /// Others than this machine could connect, and nobody asks who they are.
    #[error("{address} can be reached from other machines; set a token with `with_token`")]
    TokenRequired {
        /// Where the server would listen.
        address: SocketAddr,
    },

    /// The server listens everywhere and was not told what it is called there.
    #[error(
        "{address} is every address of this machine; name those it is reached by with `with_hosts`"
    )]
    HostsRequired {
        /// Where the server would listen.
        address: SocketAddr,
    },

    /// The client speaks no revision of the protocol that this server does.
    #[error("the client and this server have no revision of MCP in common")]
    Handshake,

    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[from] io::Error),

    /// The address cannot be used.
    // It is not shown: it may hold a secret.
    #[error("the server's address cannot be used: {fault}")]
    Url {
        /// Why, and what to do.
        fault: &'static str,
    },

    /// It is no header, or the protocol's own.
    #[error("`{name}` cannot be sent as a header; see `McpClientBuilder::with_header`")]
    Header {
        /// The header's name.
        name: String,
    },

    /// The program could not be started.
    #[error("`{command}` could not be started; is it installed, and in the PATH?")]
    Start {
        /// The program.
        command: String,
        /// What the system said.
        source: io::Error,
    },

    /// No MCP server answered.
    #[error("no MCP server answered at {server}{told}")]
    Connect {
        /// The program or the address.
        server: String,
        /// What the program said on its standard error.
        told: String,
        /// What happened.
        source: Source,
    },

    /// The server wants to know who asks.
    #[error("{server} wants a token; give one with `McpClientBuilder::with_token`")]
    Unauthorized {
        /// The address.
        server: String,
    },

    /// The server did not say what it has in time.
    #[error(
        "{server} was not ready after {time:?}; `McpClientBuilder::with_start_time` gives it longer"
    )]
    Late {
        /// The program or the address.
        server: String,
        /// How long it had.
        time: Duration,
    },

    /// The server's list of its tools is none.
    #[error("{server} did not say what tools it has")]
    Listing {
        /// The program or the address.
        server: String,
        /// What happened.
        source: Source,
    },

    /// The server's list of its tools has no end.
    #[error("the list of the tools of {server} does not end, or is far too long")]
    Endless {
        /// The program or the address.
        server: String,
    },

    /// The server has two tools of one name: nobody could say which is meant.
    #[error("{server} has two tools called `{name}`, which only the server can mend")]
    Twice {
        /// The program or the address.
        server: String,
        /// The name.
        name: String,
    },

    /// What the server says of a tool is no tool.
    #[error("`{name}` is no tool as its server describes it")]
    Definition {
        /// The server's name for it.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },

    /// The server has this tool, and it cannot be used.
    #[error("`{name}` of the server cannot be used: {reason}")]
    LeftOut {
        /// The server's name for it.
        name: String,
        /// Why.
        reason: Arc<McpError>,
    },

    /// The server has no tool of this name.
    #[error("the server has no tool `{name}`; it has {there}")]
    NoSuchTool {
        /// The name.
        name: String,
        /// The names that there are.
        there: String,
    },

    /// The server's tool cannot stand for the signature.
    #[error("`{name}` of the server cannot stand for `{signature}`: {}", listed(differences))]
    Differs {
        /// The server's name for it.
        name: String,
        /// The signature's.
        signature: String,
        /// All that keeps it from that.
        differences: Vec<Difference>,
    },

    /// The lock is none.
    #[error("this is not a lock; make one with `McpClient::lock`")]
    Lock(#[source] serde_json::Error),

    /// The server is not what it was when its lock was made.
    #[error("{server} is not what was locked; if that is right, lock it anew:\n{diff}")]
    Drift {
        /// The program or the address.
        server: String,
        /// The lines of the lock that changed.
        diff: String,
    },

    /// The server says something else of a tool than when it was taken, or has it no more.
    #[error("`{tool}` is not what it was when it was taken; take the server's tools anew")]
    Changed {
        /// The server's name for it.
        tool: String,
    },

    /// A result is not what the server's own schema promises.
    #[error("`{tool}` of the server gave a result that is not what it promised")]
    Promise {
        /// The server's name for the tool.
        tool: String,
        /// What does not fit.
        source: toolwright_signature::Error,
    },

    /// A call did not reach its server.
    #[error("the server could not be reached, and `{tool}` did not run")]
    NotRun {
        /// The server's name for the tool.
        tool: String,
        /// What happened.
        source: Source,
    },

    /// The connection was lost in the middle of a call.
    #[error("the connection was lost while `{tool}` ran; whether it did its work is not known")]
    Lost {
        /// The server's name for the tool.
        tool: String,
        /// What happened.
        source: Source,
    },

    /// The connection was closed on this side.
    #[error("the connection is closed; connect again")]
    Closed,
}

/// As it is shown, with its causes: so that `fn main() -> Result<(), _>` shows all there is.
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

pub(crate) type Source = Box<dyn StdError + Send + Sync>;

impl McpError {
    pub(crate) fn connect(server: &str, told: &str, source: impl Into<Source>) -> Self {
        let told = if told.is_empty() { String::new() } else { format!("; it said: {told}") };
        Self::Connect { server: server.to_owned(), told, source: source.into() }
    }

    pub(crate) fn listing(server: &str, source: ServiceError) -> Self {
        Self::Listing { server: server.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn no_such_tool<'a>(name: &str, there: impl Iterator<Item = &'a str>) -> Self {
        let mut there: Vec<&str> = there.filter(|name| !name.is_empty()).collect();
        there.sort_unstable();
        let more = there.len().saturating_sub(SHOWN);
        there.truncate(SHOWN);
        let mut there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        if more > 0 {
            there.push_str(&format!(" and {more} more"));
        }
        Self::NoSuchTool { name: name.to_owned(), there }
    }

    /// Whether trying again is of no use.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Connect { .. } | Self::Late { .. } | Self::Listing { .. })
    }
}
