use clap::Args;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::{Error, Result, Tool};

use crate::show::note;

/// The MCP servers whose tools a program works with besides its own.
#[derive(Clone, Args)]
pub struct McpArgs {
    /// Work with the tools of an MCP server too: the command that starts it, or its URL;
    /// may be given several times. Of the environment a command gets PATH, HOME and the
    /// like, and no keys
    #[arg(long = "mcp", value_name = "COMMAND|URL")]
    servers: Vec<String>,
}

impl McpArgs {
    /// Connects to every server and puts its tools behind `tools`; one whose name is taken
    /// gets its server's name before it. Close what comes back when the program ends.
    ///
    /// # Errors
    ///
    /// If a server is not there; the error says which.
    pub async fn connect(&self, tools: &mut Vec<Tool>) -> Result<Vec<McpClient>> {
        let mut remotes = Vec::new();
        for (place, server) in self.servers.iter().enumerate() {
            let place = format!("{} of {}", place + 1, self.servers.len());
            let named =
                |text: String| Error::other(format!("--mcp {} ({place}): {text}", shown(server)));
            let failed = |error: McpError| named(format!("{:#}", Error::from(error)));
            let client = if is_url(server) {
                McpClient::http(server).map_err(failed)?
            } else {
                started_by(server)?
            };
            let remote = client.connect().await.map_err(failed)?;
            let theirs = remote.tools_beside(tools).map_err(failed)?;
            note(&format!("{} tools of {}", theirs.len(), remote.name()));
            note_left_out(&remote);
            tools.extend(theirs);
            remotes.push(remote);
        }
        Ok(remotes)
    }
}

/// The server that a command starts. Its words are split as a shell splits them, and no
/// shell runs.
///
/// # Errors
///
/// If it names no program or a quote has no end.
pub fn started_by(command: &str) -> Result<McpClientBuilder> {
    let unended = || Error::other("a server's command ends in the middle of a quote");
    let words = shlex::split(command).ok_or_else(unended)?;
    match words.split_first() {
        Some((program, arguments)) => Ok(McpClient::stdio(program, arguments)),
        None => Err(Error::other("a server's command names no program")),
    }
}

/// Says which tools of a server cannot be used, and why.
pub fn note_left_out(remote: &McpClient) {
    for (name, why) in remote.left_out() {
        note(&format!("`{name}` of {} is left out: {why}", remote.name()));
    }
}

fn is_url(server: &str) -> bool {
    server.starts_with("http://") || server.starts_with("https://")
}

/// A server for people: what follows its program or its path may hold secrets.
fn shown(server: &str) -> String {
    if !is_url(server) {
        let words = shlex::split(server).unwrap_or_default();
        return words.into_iter().next().unwrap_or_default();
    }
    match reqwest::Url::parse(server) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => "URL".to_owned(),
    }
}
