//! Serves toolsets to any MCP client.
//!
//! `cargo run -p toolwright-examples --example mcp_server -- --tools memory,text --http 8000`

use std::net::{Ipv4Addr, SocketAddr};

use clap::Parser;
use tokio::net::TcpListener;
use toolwright_cli::{ToolArgs, note, terminated};
use toolwright_mcp::{McpError, McpServer};
use toolwright_module::{Cancellation, Error, Result};
use tracing_subscriber::filter::LevelFilter;

/// Serves toolsets to MCP clients. Default: over standard input and output.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    tools: ToolArgs,

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
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = text.parse().map(here).or_else(|_| text.parse());
    address.map_err(|_| "write a port, or an IP address with one, such as 127.0.0.1:8000")
}

fn main() -> Result<()> {
    let args = Args::parse();
    // Standard output is for the client. Causes of failures that the client does not get go to
    // standard error.
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(LevelFilter::WARN).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    // A read from a terminal cannot be cancelled.
    runtime.shutdown_background();
    served
}

async fn serve(args: Args) -> Result<()> {
    let shutdown = Cancellation::default();
    let tools = args.tools.tools().await?;
    let mut server = McpServer::new("toolwright", env!("CARGO_PKG_VERSION"), tools)?
        .with_shutdown(shutdown.clone())
        .with_hosts(args.host);
    if let Some(instructions) = args.tools.instructions() {
        server = server.with_instructions(instructions);
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = terminated() => {}
        }
        shutdown.cancel();
    });
    if let Some(name) = args.token_env {
        let none = |_| Error::other(format!("{name} has no token; set it"));
        let token = std::env::var(&name).map_err(none)?;
        server = server.with_token(token)?;
    }
    let Some(address) = args.http else { return Ok(server.serve_stdio().await?) };
    let listener = TcpListener::bind(address).await?;
    note(&format!("at http://{}/mcp", listener.local_addr()?));
    server.serve_http(listener).await.map_err(advice)
}

/// Converts an error. The result names the option that helps.
fn advice(error: McpError) -> Error {
    match error {
        McpError::TokenRequired { address } => Error::other(format!(
            "{address} can be reached from other machines; name a variable with a token in \
             --token-env"
        )),
        McpError::HostsRequired { address } => Error::other(format!(
            "{address} is every address of this machine; set its host names with --host"
        )),
        error => error.into(),
    }
}
