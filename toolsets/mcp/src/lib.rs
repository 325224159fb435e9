//! A server and a client for the Model Context Protocol (MCP).
//!
//! - [`McpServer`] serves a list of [`Tool`]s to any MCP client. The tools can be modules in code,
//!   language models, whole agents, or tools that are created at run time.
//! - [`McpClient`] imports the tools of any MCP server, for agents and tool groups, or one by one
//!   as the module of a signature.
//!
//! Both support the protocol's revisions from 2024-11-05 to 2026-07-28, over standard input and
//! output and over HTTP. Both are built on [rmcp](https://docs.rs/rmcp).
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `client` | yes | [`McpClient`], for servers that run as a child process |
//! | `server` | yes | [`McpServer`], over standard input and output or any two streams |
//! | `http` | yes | HTTP for the client and the server, whichever is enabled; turns on the next two features |
//! | `http-client` | yes | HTTP for the client only |
//! | `http-server` | yes | HTTP for the server only, without the dependencies of an HTTP client |
//! | `login` | no | `McpLogin`: logins at servers over HTTP with OAuth 2.1 |
//! | `rustls` | yes | TLS by rustls, for a client of servers on other machines |
//! | `native-tls` | no | TLS by the platform's own library, instead of `rustls` |
//!
//! Without `client` and `server`, the crate contains only [`McpError`].
//!
//! # Example
//!
#![cfg_attr(all(feature = "client", feature = "server", feature = "http"), doc = "```")]
#![cfg_attr(not(all(feature = "client", feature = "server", feature = "http")), doc = "```text")]
//! use tokio::net::TcpListener;
//! use toolwright_mcp::{McpClient, McpServer};
//! use toolwright_module::Context;
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! # use toolwright_module::{Signature, Tool, from_fn};
//! # /// Add two numbers.
//! # #[derive(Serialize, Deserialize, JsonSchema)]
//! # struct Add { a: i64, b: i64 }
//! # impl Signature for Add { type Output = i64; }
//! # fn tools() -> Result<[Tool; 1], Box<dyn std::error::Error>> {
//! #     Ok([Tool::new(from_fn(async |Add { a, b }: Add| Ok(a + b)))?])
//! # }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("http://{}/mcp", listener.local_addr()?);
//! tokio::spawn(McpServer::new("sums", "1.0.0", tools()?)?.serve_http(listener));
//!
//! let sums = McpClient::http(&url)?.connect().await?;
//! let [add] = &sums.tools()[..] else { panic!("one tool") };
//! let output = add.call(r#"{"a": 2, "b": 3}"#, &Context::default()).await?;
//! // What a server answers is data, so the model gets it between marks.
//! assert_eq!(output.text, "<untrusted_data>\n5\n</untrusted_data>");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Serving over two streams
//!
#![cfg_attr(all(feature = "client", feature = "server"), doc = "```")]
#![cfg_attr(not(all(feature = "client", feature = "server")), doc = "```text")]
//! use rmcp::ServiceExt;
//! use rmcp::model::CallToolRequestParams;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use toolwright_mcp::McpServer;
//! use toolwright_module::{Effect, Signature, Tool, from_fn};
//!
//! /// Add two numbers.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! impl Signature for Add {
//!     type Output = i64;
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let add = from_fn(async |Add { a, b }: Add| Ok(a + b)).with_effect(Effect::Read);
//! let server = McpServer::new("sums", "1.0.0", [Tool::new(add)?])?;
//!
//! // A program calls `server.serve_stdio().await?`. This example has both ends of a pipe.
//! let (server_end, client_end) = tokio::io::duplex(4096);
//! let (read, write) = tokio::io::split(server_end);
//! let serving = tokio::spawn(server.serve(read, write));
//!
//! let client = ().serve(client_end).await?;
//! let arguments = serde_json::json!({"a": 2, "b": 3}).as_object().cloned().unwrap_or_default();
//! let call = CallToolRequestParams::new("add").with_arguments(arguments);
//! let result = client.call_tool(call).await?;
//! assert_eq!(result.structured_content, Some(serde_json::json!({"result": 5})));
//! client.cancel().await?;
//! serving.await??;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How tools and results are sent
//!
//! | in this library | in MCP |
//! |---|---|
//! | [`Contract`](toolwright_module::Contract) | `name`, `title`, `description`, `inputSchema`, `outputSchema`; an output that is not an object is wrapped as `{"result": …}` |
//! | [`Effect::Read`] | `readOnlyHint` and `idempotentHint` |
//! | [`Effect::Idempotent`] | `idempotentHint`; no `destructiveHint`, so MCP assumes that the tool may overwrite |
//! | [`Effect::Write`] | no hint, so MCP assumes that the tool may overwrite |
//! | [`Effect::Irreversible`] | `destructiveHint` |
//! | any effect | `openWorldHint`, which is MCP's default |
//! | an output | `structuredContent`, and the text for models; also the JSON as text if that differs from the text for models; an output with an integer of more than 64 bits is in the text only |
//! | an image as `data:image/…;base64,` | an image; `audio/…` becomes audio, any other type an embedded resource |
//! | any other image | its URL, as text |
//! | arguments that do not validate, [`Error::retry`], [`Error::refuse`] | `isError` and the text |
//! | any other error, a panic | `isError` and a generic text; the reason goes to `tracing` |
//! | an unknown tool, a malformed request | the error -32602 |
//! | a tool of `McpServer::with_prompts` | a prompt: its fields are `arguments`, its output is a user's message |
//! | a [`Resource`] | a resource, or a template if its URI has variables |
//! | [`Event`](toolwright_module::event::Event)s of a call | progress notifications, if the client asked for them |
//! | the client cancels or disconnects | [`Context::is_cancelled`](toolwright_module::Context::is_cancelled); two seconds later the call is dropped |
//!
//! # Limits
//!
//! Every call has a timeout: `ServerLimits::tool_time`. The server also limits the number of
//! concurrent calls, the rate of calls, and the size of requests and results. Each limit has a
//! default that normal use does not reach.
//!
//! Over HTTP, the server accepts only clients on this machine unless a token is set: see
//! `McpServer::serve_http`.
//!
//! [`Tool`]: toolwright_module::Tool
//! [`Effect::Read`]: toolwright_module::Effect::Read
//! [`Effect::Idempotent`]: toolwright_module::Effect::Idempotent
//! [`Effect::Write`]: toolwright_module::Effect::Write
//! [`Effect::Irreversible`]: toolwright_module::Effect::Irreversible
//! [`Error::retry`]: toolwright_module::Error::retry
//! [`Error::refuse`]: toolwright_module::Error::refuse
#![cfg_attr(not(feature = "client"), doc = "[`McpClient`]: crate")]
#![cfg_attr(not(feature = "server"), doc = "[`McpServer`]: crate")]
#![cfg_attr(not(any(feature = "client", feature = "server")), doc = "[`Resource`]: crate")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
#[cfg(any(feature = "client", feature = "server"))]
mod exact;
#[cfg(any(feature = "client", feature = "server"))]
mod fitting;
#[cfg(any(feature = "client", feature = "server"))]
mod lines;
#[cfg(feature = "client")]
mod mcp_client;
#[cfg(feature = "server")]
mod mcp_server;
#[cfg(any(feature = "client", feature = "server"))]
mod resource;
#[cfg(any(
    all(feature = "client", feature = "http-client"),
    all(feature = "server", feature = "http-server"),
))]
mod token;

pub use error::McpError;
#[cfg(feature = "login")]
pub use mcp_client::{LoginFolder, LoginStore, McpLogin, PendingLogin};
#[cfg(feature = "client")]
pub use mcp_client::{McpClient, McpClientBuilder, McpModule, Prompt, PromptArgument, ResultText};
#[cfg(feature = "server")]
pub use mcp_server::{McpServer, ServerLimits};
#[cfg(any(feature = "client", feature = "server"))]
pub use resource::{Resource, ResourceBody, ResourceContents};

// Public functions take and return its `SecretString`.
#[cfg(feature = "login")]
pub use secrecy;

/// Waits for a deadline. Without one, it never ends.
#[cfg(any(feature = "client", feature = "server"))]
async fn until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
