use clap::Args;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::{Error, Result, Tool};

use crate::show::note;

/// Arguments that name MCP servers, whose tools a program uses in addition to its own.
#[derive(Clone, Default, Args)]
pub(crate) struct McpArgs {
    /// Also use the tools of an MCP server: the command that starts it, or its URL; can be
    /// repeated. From the environment, a command gets only variables such as PATH and HOME, and no
    /// keys
    #[arg(long = "mcp", help_heading = "Tools", value_name = "COMMAND|URL")]
    servers: Vec<String>,
}

impl McpArgs {
    /// Uses these servers if the command line names none.
    pub(crate) fn or(mut self, servers: &[String]) -> Self {
        if self.servers.is_empty() {
            self.servers = servers.to_vec();
        }
        self
    }

    /// Returns the servers, each without what may be a secret.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.servers.iter().map(|server| shown_server(server)).collect()
    }

    /// Connects to every server and appends its tools to `tools`. A tool whose name is taken gets
    /// the server's name as a prefix. Close the returned clients when the program ends.
    ///
    /// # Errors
    ///
    /// If a server cannot be reached. The error names the server.
    pub(crate) async fn connect(&self, tools: &mut Vec<Tool>) -> Result<Vec<McpClient>> {
        let mut remotes = Vec::new();
        for (place, server) in self.servers.iter().enumerate() {
            let place = format!("{} of {}", place + 1, self.servers.len());
            let named = |text: String| {
                Error::other(format!("--mcp {} ({place}): {text}", shown_server(server)))
            };
            let failed = |error: McpError| named(format!("{:#}", Error::from(error)));
            let remote = connected(server).await.map_err(|error| named(format!("{error:#}")))?;
            let theirs = remote.tools_beside(tools).map_err(failed)?;
            note(&format!("{} tools of {}", theirs.len(), remote.name()));
            note_left_out(&remote);
            tools.extend(theirs);
            remotes.push(remote);
        }
        Ok(remotes)
    }
}

/// Connects to a server, which is named by the command that starts it or by its URL.
pub(crate) async fn connected(server: &str) -> Result<McpClient> {
    let client = if is_url(server) { McpClient::http(server)? } else { started_by(server)? };
    Ok(client.connect().await?)
}

/// Returns a client for the server that a command starts. The command is split into words as by a
/// shell, but no shell runs.
///
/// # Errors
///
/// If the command is empty or a quote is not closed.
pub(crate) fn started_by(command: &str) -> Result<McpClientBuilder> {
    let unclosed = || Error::other("the command of a server has a quote that is not closed");
    let words = shlex::split(command).ok_or_else(unclosed)?;
    match words.split_first() {
        Some((program, arguments)) => Ok(McpClient::stdio(program, arguments)),
        None => Err(Error::other("the command of a server is empty")),
    }
}

/// Prints which tools of a server cannot be used, and why.
pub(crate) fn note_left_out(remote: &McpClient) {
    for (name, why) in remote.left_out() {
        note(&format!("`{name}` of {} is left out: {why}", remote.name()));
    }
}

pub(crate) fn is_url(server: &str) -> bool {
    server.starts_with("http://") || server.starts_with("https://")
}

/// Returns a server's program or URL, without arguments and query, which may contain secrets.
pub(crate) fn shown_server(server: &str) -> String {
    if !is_url(server) {
        let words = shlex::split(server).unwrap_or_default();
        return words.into_iter().next().unwrap_or_default();
    }
    match reqwest::Url::parse(server) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => "URL".to_owned(),
    }
}
