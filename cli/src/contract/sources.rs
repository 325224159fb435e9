//! The places that contracts come from: files, servers, and the toolsets of this program.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::error::Error;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value};
use toolwright_mcp::McpClient;
use toolwright_signature::Contract;

use crate::keys::Keys;
use crate::servers::{McpArgs, Server, shown_server};
use crate::show::{note, visible};
use crate::texts::{read_file, read_text};
use crate::toolbox::ToolArgs;

/// Maximum number of bytes of a file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Arguments that select contracts.
#[derive(Args)]
pub(super) struct SourceArgs {
    /// File of contracts, lock file, `-`, or `mcp:` with the command or the URL of a server.
    /// Default: the tools of --tools and --mcp
    #[arg(value_name = "SOURCE", conflicts_with_all = ["tools", "servers"])]
    source: Option<Source>,

    #[command(flatten)]
    tools: ToolArgs,

    #[command(flatten)]
    servers: McpArgs,
}

impl SourceArgs {
    pub(super) async fn version(&self) -> Result<Version, Box<dyn Error>> {
        if let Some(source) = &self.source {
            return source.version().await;
        }
        let mut tools = self.tools.tools(None).await?;
        let remotes = self.servers.connect(&mut tools, None).await?;
        let contracts = tools.iter().map(|tool| Contract::clone(tool.contract())).collect();
        for remote in remotes {
            remote.close().await;
        }
        Ok(Version { shown: "--tools".to_owned(), contracts, ..Version::default() })
    }
}

/// A place that contracts are read from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Stdin,
    /// The command that starts an MCP server, or its URL.
    Server(String),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix("mcp:") {
            Some(server) => Self::Server(server.trim().to_owned()),
            None if text == "-" => Self::Stdin,
            None => Self::File(text.into()),
        })
    }
}

impl Source {
    /// Reads the contracts.
    pub(super) async fn version(&self) -> Result<Version, Box<dyn Error>> {
        let version = async {
            let text = match self {
                // A shell gives the output of another command such a name.
                Self::File(file) if file.starts_with("/dev/fd") => {
                    read_text(File::open(file)?, MAX_BYTES, "it")?
                }
                Self::File(file) => read_file(file)?,
                Self::Stdin => read_text(io::stdin().lock(), MAX_BYTES, "it")?,
                Self::Server(server) => lock_of(server).await?,
            };
            Version::parse(&text)
        };
        let (version, shown) = (version.await, self.shown());
        match version {
            Ok(version) => Ok(Version { shown, ..version }),
            Err(error) => Err(format!("{shown}: {error}").into()),
        }
    }

    /// Returns the name for a person. It has no arguments of a command, which may be secrets.
    fn shown(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Server(server) => format!("mcp:{}", shown_server(server)),
        }
    }
}

/// Returns the lock file of a server's current tools, with the tools that cannot be used.
async fn lock_of(server: &str) -> Result<String, Box<dyn Error>> {
    let server = Server { target: server, ..Server::default() };
    let remote = server.connect(&Keys::default(), "toolwright mcp lock --").await;
    let remote = remote.map_err(|error| Box::<dyn Error>::from(format!("{error:#}")))?;
    crate::servers::note_left_out(&remote);
    let lock = remote.lock();
    remote.close().await;
    Ok(lock)
}

/// The contracts of one version.
#[derive(Default)]
pub(super) struct Version {
    /// The place where they were read.
    pub(super) shown: String,
    pub(super) contracts: Vec<Contract>,
    /// What the definitions of an MCP server have beside the contracts, by the names of these.
    pub(super) hints: HashMap<String, Map<String, Value>>,
    /// The instructions of an MCP server.
    pub(super) instructions: Option<String>,
    /// The tools that no contract can be made of.
    pub(super) left_out: Vec<LeftOut>,
}

/// A tool that no contract can be made of.
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) why: String,
    pub(super) definition: Value,
}

impl Version {
    /// Reads a list of contracts, or an object with the tools of an MCP server.
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let not_json = |error| format!("it is not JSON: {error}");
        let whole: Value = serde_json::from_str(text).map_err(not_json)?;
        let mut version = Self::default();
        let list = match whole {
            Value::Array(list) => list,
            Value::Object(mut whole) => match whole.remove("tools") {
                Some(Value::Array(tools)) => {
                    let instructions = whole.remove("instructions");
                    version.instructions =
                        instructions.as_ref().and_then(Value::as_str).map(str::to_owned);
                    tools
                }
                _ => return Err(FORM.into()),
            },
            _ => return Err(FORM.into()),
        };
        let mut names = HashSet::new();
        for (place, item) in list.into_iter().enumerate() {
            version.push(item).map_err(|error| format!("item {place}: {error}"))?;
            if let Some(last) = version.contracts.last()
                && version.contracts.len() > names.len()
                && !names.insert(last.name().to_owned())
            {
                let name = visible(last.name());
                return Err(format!("item {place}: the name `{name}` is there twice").into());
            }
        }
        Ok(version)
    }

    fn push(&mut self, item: Value) -> Result<(), Box<dyn Error>> {
        if item.get("inputSchema").is_none() {
            let contract = serde_json::from_value(item)
                .map_err(|error| format!("it is not a contract: {error}; {FORM}"))?;
            self.contracts.push(contract);
            return Ok(());
        }
        let name = item["name"].as_str().unwrap_or_default().to_owned();
        let mut hints = item.as_object().cloned().unwrap_or_default();
        // Contracts have the first four. No model gets the others.
        for known in ["name", "description", "inputSchema", "outputSchema", "icons", "_meta"] {
            hints.remove(known);
        }
        match McpClient::contract_of(item.clone()) {
            Ok(contract) => {
                self.hints.insert(contract.name().to_owned(), hints);
                self.contracts.push(contract);
            }
            Err(error) => {
                let why = error.to_string();
                self.left_out.push(LeftOut { name, why, definition: item });
            }
        }
        Ok(())
    }

    /// Prints which tools are left out, and why.
    pub(super) fn note_left_out(&self) {
        for LeftOut { name, why, .. } in &self.left_out {
            let (name, why) = (visible(name), visible(why));
            note(&format!("`{name}` of {} is left out: {why}", self.shown));
        }
    }
}

/// The forms that are read.
const FORM: &str = "a file has a list of contracts, as `contract show --json` and \
                    `assert_unchanged!` write it, or an object with `tools`, as a lock file and \
                    `tools/list` of an MCP server have it";
