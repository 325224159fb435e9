//! Tools as an MCP server, and MCP servers as tools: what an agent of ours can call, any MCP
//! client can, and the other way about.
//!
//! A signature says what a tool takes and gives; the Model Context Protocol says the same
//! to programs in any language. [`McpServer`] serves a list of [`Tool`]s: modules in code,
//! models, whole agents, tools made at run time. [`McpClient`] takes those of a server, for
//! agents and groups, and one by one behind a signature. Both speak the revisions of the
//! protocol from 2024-11-05 to 2026-07-28, over standard input and output or over HTTP, on
//! [rmcp](https://docs.rs/rmcp).
//!
//! ```
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
//! assert_eq!(add.call(r#"{"a": 2, "b": 3}"#, &Context::default()).await?.text(), "5");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Serving over two streams
//!
//! ```
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
//! // A program's own would be `server.serve_stdio().await?`. Here both ends are ours.
//! let (ours, theirs) = tokio::io::duplex(4096);
//! let (read, write) = tokio::io::split(ours);
//! let serving = tokio::spawn(server.serve(read, write));
//!
//! let client = ().serve(theirs).await?;
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
//! # What a client sees
//!
//! | here | there |
//! |---|---|
//! | [`Contract`](toolwright_module::Contract) | `name`, `title`, `description`, `inputSchema`, `outputSchema`; an output that is no object is `{"result": …}` |
//! | [`Effect::Read`] | `readOnlyHint` and `idempotentHint` |
//! | [`Effect::Idempotent`] | `idempotentHint`; no `destructiveHint`, so MCP assumes that it may overwrite |
//! | [`Effect::Write`] | no hint, so MCP assumes that it may overwrite |
//! | [`Effect::Irreversible`] | `destructiveHint` |
//! | whatever the effect | `openWorldHint`, as MCP assumes: no effect says it |
//! | an output | `structuredContent`; as text what a model reads, and the JSON where that says something else |
//! | an image as `data:…;base64,` | an image; of type `audio/…` a sound, of any other an embedded resource |
//! | any other image | its address, as text |
//! | arguments that do not fit, [`McpError::retry`], [`McpError::refuse`] | `isError` and the text |
//! | any other error, a panic | `isError` and that the tool failed; the reason goes to `tracing` |
//! | an unknown tool, a malformed request | the error -32602 |
//! | [`Event`](toolwright_module::event::Event)s of a call | progress, to a client that asked for it |
//! | the client cancels, or hangs up | [`Context::is_cancelled`](toolwright_module::Context::is_cancelled); two seconds later the call is dropped |
//!
//! # Limits
//!
//! Every call ends: [`McpServer::with_tool_time`]. How many run at once, how many may come,
//! and how large requests and results may be has a limit too, each with a default that a
//! model never reaches.
//!
//! Over HTTP only this machine is served unless a token is set; see
//! [`McpServer::serve_http`].
//!
//! [`Tool`]: toolwright_module::Tool
//! [`Effect::Read`]: toolwright_module::Effect::Read
//! [`Effect::Idempotent`]: toolwright_module::Effect::Idempotent
//! [`Effect::Write`]: toolwright_module::Effect::Write
//! [`Effect::Irreversible`]: toolwright_module::Effect::Irreversible
//! [`McpError::retry`]: toolwright_module::Error::retry
//! [`McpError::refuse`]: toolwright_module::Error::refuse

mod error;
mod mcp_client;
mod mcp_server;
mod token;

pub use error::McpError;
pub use mcp_client::{McpClient, McpClientBuilder, McpModule};
pub use mcp_server::McpServer;
