//! Serves the memory tools to any MCP client.
//!
//! `cargo run -p toolwright-examples --example mcp_server -- --http 127.0.0.1:8000`

use std::net::SocketAddr;

use clap::Parser;
use tokio::net::TcpListener;
use toolwright_examples::note;
use toolwright_mcp::McpServer;
use toolwright_memory::Memory;
use toolwright_module::{Cancellation, Error, Result};
use tracing_subscriber::filter::LevelFilter;

/// Serves the memory tools to MCP clients: over standard input and output, unless told
/// otherwise.
#[derive(Parser)]
struct Args {
    /// Serve over HTTP at this address, such as 127.0.0.1:8000
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,

    /// The environment variable with the token that HTTP clients must send
    #[arg(long, value_name = "NAME", requires = "http")]
    token_env: Option<String>,

    /// A name that HTTP clients reach this machine by; may be given several times
    #[arg(long, value_name = "NAME", requires = "http")]
    host: Vec<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    // Standard output is the client's. What it is not told of a failure goes here.
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(LevelFilter::WARN).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    // A read from a terminal cannot be called off.
    runtime.shutdown_background();
    served
}

async fn serve(args: Args) -> Result<()> {
    let shutdown = Cancellation::default();
    let mut server =
        McpServer::new("toolwright", env!("CARGO_PKG_VERSION"), Memory::default().tools()?)?
            .with_instructions("A memory for the time of one session. Ask it before you answer.")
            .with_shutdown(shutdown.clone())
            .with_hosts(args.host);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            shutdown.cancel();
        }
    });
    if let Some(name) = args.token_env {
        let none = |_| Error::other(format!("{name} holds no token; set it"));
        let token = std::env::var(&name).map_err(none)?;
        server = server.with_token(token)?;
    }
    let Some(address) = args.http else { return Ok(server.serve_stdio().await?) };
    let listener = TcpListener::bind(address).await?;
    note(&format!("at http://{}/mcp", listener.local_addr()?));
    Ok(server.serve_http(listener).await?)
}
