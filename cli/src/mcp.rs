//! The command `mcp`: serves toolsets, uses the tools, prompts and resources of other servers, and
//! packages servers.

mod package;

use std::error::Error as StdError;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use toolwright_mcp::{McpClient, McpClientBuilder, McpServer, ResourceBody, ServerLimits};
use toolwright_module::message::{Part, ReplyPart, Source};
use toolwright_module::{Cancellation, Context, Error, Message, Result};
use tracing_subscriber::filter::LevelFilter;

use self::package::Package;
use crate::config::ConfigArgs;
use crate::described;
use crate::keys::Keys;
use crate::login::{LoginArgs, log_out};
use crate::servers::{self, note_left_out, token};
use crate::show::{note, put, put_bytes, say_below, say_theirs, tell, visible};
use crate::signals::{terminated, until_ctrl_c};
use crate::texts::read_file;
use crate::toolbox::ToolArgs;
use crate::tools::{CallArgs, ended};

/// Arguments of `mcp`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright mcp serve --tools memory:memory.db,text
  toolwright mcp serve --tools files:. --http 8000
  toolwright mcp list 'npx -y @modelcontextprotocol/server-filesystem .'
  toolwright mcp call http://127.0.0.1:8000/mcp file_list
  toolwright mcp prompt 'npx -y @modelcontextprotocol/server-everything' args-prompt city=Bonn
  toolwright mcp read http://127.0.0.1:8000/mcp file:///readme.md
  toolwright mcp lock http://127.0.0.1:8000/mcp > server.lock
  toolwright mcp list http://127.0.0.1:8000/mcp --lock server.lock
  toolwright mcp login https://mcp.example.com/mcp
  toolwright mcp package target/release/orders --name io.github.USER/orders --author USER \
    --description 'Orders of a shop'")]
pub(crate) struct McpCommandArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Serve toolsets to MCP clients. Default: over standard input and output
    Serve(Serve),
    /// Print the tools of a server with their effects, descriptions and arguments
    List {
        #[command(flatten)]
        server: Server,

        /// Print each tool's definition as the server sent it, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Call a tool of a server and print its result; after a failure the exit code is 1
    Call {
        #[command(flatten)]
        server: Server,

        #[command(flatten)]
        call: CallArgs,
    },
    /// Print the messages of a prompt of a server; without a name, print its prompts
    Prompt {
        #[command(flatten)]
        server: Server,

        /// The prompt
        #[arg(value_name = "PROMPT")]
        name: Option<String>,

        /// Arguments of the prompt
        #[arg(value_name = "NAME=VALUE")]
        arguments: Vec<String>,
    },
    /// Print the contents of a resource of a server; without a URI, print its resources
    Read {
        #[command(flatten)]
        server: Server,

        /// The resource
        #[arg(value_name = "URI")]
        uri: Option<String>,
    },
    /// Print the current state of a server, as a file for --lock
    Lock {
        #[command(flatten)]
        server: Server,
    },
    /// Package a server's program: a bundle (MCPB) that applications install, and `server.json`, its
    /// entry in the registry of MCP servers
    Package(Package),
    /// Log in to a server with a URL, in a browser. Later commands use the login
    Login(LoginArgs),
    /// Delete the login at a server
    Logout {
        /// URL of the server
        url: String,
    },
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    tools: ToolArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// Serve over HTTP at this address, such as 127.0.0.1:8000; a port without an address is for
    /// this machine only, and addresses for other machines require a token
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,

    /// Environment variable with the token that HTTP clients must send
    #[arg(long, value_name = "NAME", requires = "http")]
    token_env: Option<String>,

    /// Host name of this machine in the requests of HTTP clients; can be repeated
    #[arg(long, value_name = "NAME", requires = "http")]
    host: Vec<String>,

    /// Origin of a web page that may use the server over HTTP, such as https://app.example.com:443;
    /// can be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    origin: Vec<String>,

    /// Time after which an HTTP session without a call and an open stream ends. Default: 300
    #[arg(long, value_name = "SECONDS", requires = "http", value_parser = clap::value_parser!(u64).range(1..))]
    session_time: Option<u64>,
}

#[derive(Args)]
struct Server {
    /// The server: the command that starts it, or its URL. A command is split into words as by a
    /// shell, but no shell runs
    #[arg(value_name = "COMMAND|URL")]
    server: String,

    /// Variable with the token for a server with a URL, from the environment or the key file
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,

    /// Header for a server with a URL, and the variable with its value; can be repeated
    #[arg(long, value_name = "HEADER:VARIABLE")]
    header: Vec<String>,

    /// Variable that the command gets, in addition to PATH, HOME and the like, from the environment
    /// or the key file; can be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,

    /// Maximum time for the server to start. Default: 60
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    start_time: Option<u64>,

    /// Maximum time of a call, which each progress notification begins anew. Default: 300
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    call_time: Option<u64>,

    /// Continue only if the server has not changed since `lock` wrote this file
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

impl McpCommandArgs {
    /// Returns whether the command serves. A server ends its calls before it ends.
    #[must_use]
    pub(crate) fn serves(&self) -> bool {
        matches!(self.action, Action::Serve(_))
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If the toolsets cannot be served, or the server cannot be used.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn StdError>> {
        let done = match self.action {
            Action::Serve(serve) => return serve.run().await,
            Action::Package(package) => until_ctrl_c(async |cx| package.run(cx).await).await,
            Action::Login(login) => return login.run().await,
            Action::Logout { url } => return log_out(&url).await,
            action => until_ctrl_c(async |cx| action.with(cx).await).await,
        };
        match done {
            Some(done) => ended(done, "--"),
            None => Ok(ExitCode::from(130)),
        }
    }
}

impl Action {
    async fn with(&self, cx: &Context) -> Result<()> {
        let (Self::List { server, .. }
        | Self::Call { server, .. }
        | Self::Prompt { server, .. }
        | Self::Read { server, .. }
        | Self::Lock { server }) = self
        else {
            return Ok(());
        };
        // The annotations are only shown, and decide nothing, so they can be trusted.
        let client = match self {
            Self::List { .. } => server.client()?.with_trusted_annotations(),
            // A person reads the messages, and the marks are for models.
            Self::Prompt { .. } => server.client()?.with_trusted_results(),
            _ => server.client()?,
        };
        let connected =
            async { client.connect().await.map_err(|error| server.options().advice(error, "--")) };
        let remote = cx.until_cancelled(connected).await?;
        let done = match self {
            Self::Call { call, .. } => {
                let tools = remote.tools();
                if !tools.iter().any(|tool| tool.name() == call.name) {
                    note_left_out(&remote);
                }
                call.make(&tools, cx).await
            }
            Self::Lock { .. } => {
                say_theirs(remote.lock().trim_end());
                Ok(())
            }
            Self::List { json, .. } => {
                list(&remote, *json);
                Ok(())
            }
            Self::Prompt { name: Some(name), arguments, .. } => {
                cx.until_cancelled(prompt(&remote, name, arguments)).await
            }
            Self::Prompt { .. } => cx.until_cancelled(list_prompts(&remote)).await,
            Self::Read { uri: Some(uri), .. } => cx.until_cancelled(read(&remote, uri)).await,
            Self::Read { .. } => cx.until_cancelled(list_resources(&remote)).await,
            Self::Serve(_) | Self::Package(_) | Self::Login(_) | Self::Logout { .. } => Ok(()),
        };
        remote.close().await;
        done
    }
}

impl Server {
    fn client(&self) -> Result<McpClientBuilder> {
        let mut client = self.options().client(&self.keys()?, "--")?;
        if let Some(file) = &self.lock {
            let named =
                |error: &dyn Display| Error::other(format!("--lock {}: {error}", file.display()));
            let lock = read_file(file).map_err(|error| named(&error))?;
            client = client
                .with_lock(&lock)
                .map_err(|_| named(&"this file was not written by `lock`"))?;
        }
        Ok(client)
    }

    /// Returns the keys, if an option names a variable.
    fn keys(&self) -> Result<Keys> {
        let needs = self.token_env.is_some() || !(self.env.is_empty() && self.header.is_empty());
        if needs { Keys::load(None) } else { Ok(Keys::default()) }
    }

    fn options(&self) -> servers::Server<'_> {
        servers::Server {
            target: &self.server,
            env: self.env.iter().map(String::as_str).collect(),
            token_env: self.token_env.as_deref(),
            headers: self.header.iter().map(String::as_str).collect(),
            start_time: self.start_time,
            call_time: self.call_time,
            ..servers::Server::default()
        }
    }
}

fn list(remote: &McpClient, json: bool) {
    note_left_out(remote);
    if json {
        // These are the server's definitions, not the contracts derived from them.
        remote.definitions().iter().for_each(tell);
        return;
    }
    for tool in remote.tools() {
        say_below(tool.name(), &described::tool(&tool, ", according to the server"));
    }
}

async fn list_prompts(remote: &McpClient) -> Result<()> {
    for prompt in remote.prompts().await? {
        let mut text = described::below(prompt.description.as_deref());
        for argument in &prompt.arguments {
            let optional = if argument.required { "" } else { ", optional" };
            text.push_str(&format!("\n    {}{optional}", visible(&argument.name)));
            if let Some(said) = &argument.description {
                text.push_str(&format!(". {}", visible(said)));
            }
        }
        say_below(&prompt.name, &(text + "\n"));
    }
    Ok(())
}

async fn prompt(remote: &McpClient, name: &str, arguments: &[String]) -> Result<()> {
    let split = |argument: &String| match argument.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Error::refuse(format!("`{argument}` is not NAME=VALUE"))),
    };
    let arguments = arguments.iter().map(split).collect::<Result<Vec<_>>>()?;
    let arguments: Vec<_> = arguments.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    for message in remote.prompt(name, &arguments).await? {
        match &*message {
            Message::User { parts } => parts.iter().for_each(show_part),
            Message::Assistant { parts } => {
                for part in parts {
                    if let ReplyPart::Text(text) = part {
                        say_theirs(text);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn show_part(part: &Part) {
    match part {
        Part::Text(text) => say_theirs(text),
        part => {
            let kind = part.source().and_then(Source::media_type).unwrap_or_else(|| part.kind());
            note(&format!("(the prompt has a file of type {kind})"));
        }
    }
}

async fn list_resources(remote: &McpClient) -> Result<()> {
    // Some servers do not know the request for templates.
    let templates = remote.resource_templates().await.unwrap_or_default();
    for resource in remote.resources().await?.into_iter().chain(templates) {
        let kind = resource.media_type.map(|kind| format!(", {}", visible(&kind)));
        let name = visible(resource.title.as_ref().unwrap_or(&resource.name));
        let text = described::below(resource.description.as_deref());
        say_below(&resource.uri, &format!(" ({name}{}){text}\n", kind.unwrap_or_default()));
    }
    Ok(())
}

async fn read(remote: &McpClient, uri: &str) -> Result<()> {
    for contents in remote.read_resource(uri).await? {
        match contents.body {
            ResourceBody::Text(text) => put(&text),
            ResourceBody::Bytes(bytes) if !put_bytes(&bytes) => {
                let kind = contents.media_type.unwrap_or_else(|| "an unknown type".to_owned());
                let (uri, length) = (visible(&contents.uri), bytes.len());
                note(&format!("({uri} has {length} bytes of {kind}; write them to a file with >)"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Serve {
    async fn run(self) -> Result<ExitCode, Box<dyn StdError>> {
        // Standard output is for the client. Causes of failures that the client does not get go to
        // standard error.
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
        log.with_max_level(LevelFilter::WARN).init();
        let config = self.config.load()?;
        let tools = self.tools.or(&config.tools)?;
        let shutdown = Cancellation::default();
        let version = env!("CARGO_PKG_VERSION");
        let mut server = McpServer::new("toolwright", version, tools.tools(None).await?)?
            .with_shutdown(shutdown.clone())
            .with_hosts(self.host)
            .with_origins(self.origin);
        if let Some(seconds) = self.session_time {
            let session_time = Duration::from_secs(seconds);
            server = server.with_limits(ServerLimits { session_time, ..ServerLimits::default() });
        }
        if let Some(instructions) = tools.instructions() {
            server = server.with_instructions(instructions);
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                () = terminated() => {}
            }
            shutdown.cancel();
        });
        if let Some(name) = &self.token_env {
            server = server.with_token(token(name, &Keys::load(None)?)?)?;
        }
        match self.http {
            None => server.serve_stdio().await?,
            Some(address) => {
                let listener = TcpListener::bind(address).await?;
                note(&format!("at http://{}/mcp", listener.local_addr()?));
                server.serve_http(listener).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = text.parse().map(here).or_else(|_| text.parse());
    address.map_err(|_| "write a port, or an IP address with one, such as 127.0.0.1:8000")
}
