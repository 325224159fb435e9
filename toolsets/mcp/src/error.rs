use std::io;
use std::net::SocketAddr;

/// The result of setting up or running an [`McpServer`](crate::McpServer).
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a server could not be set up, or stopped serving.
///
/// A call's failure is the client's to know and ends nothing; the
/// [crate's page](crate) lists what becomes of it. The token is in none of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
}
