//! [`FreshTools`], which notices at the start of a round that the tools of a server have changed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use toolwright_mcp::McpClient;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::{Error, Reply, Request, Result};

/// Maximum time to read the tool lists again. A slow server must not delay each round for long.
const LIST_TIME: Duration = Duration::from_secs(5);

/// A hook that reads the tool lists of servers again before each model call but the first one.
///
/// If a list has changed, the call fails with [`ToolsChanged`] before it is made, so that the run goes
/// on with an agent that has the present tools.
pub(crate) struct FreshTools {
    /// The servers, with the definitions of which the agent was made.
    servers: Vec<(McpClient, Vec<Value>)>,
    is_new: AtomicBool,
}

impl FreshTools {
    pub(crate) fn of(servers: &[McpClient]) -> Self {
        let servers = servers.iter().map(|server| (server.clone(), server.definitions()));
        Self { servers: servers.collect(), is_new: AtomicBool::new(true) }
    }
}

impl Hook for FreshTools {
    fn name(&self) -> &str {
        "fresh tools"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        if !self.is_new.swap(false, Ordering::Relaxed) {
            let refreshed = self.servers.iter().map(|(server, _)| server.refresh());
            // A server that cannot be reached has its error at its next call.
            let _ = tokio::time::timeout(LIST_TIME, join_all(refreshed)).await;
        }
        match self.servers.iter().any(|(server, then)| server.definitions() != *then) {
            true => Err(Error::other(ToolsChanged)),
            false => next.run(request).await,
        }
    }
}

/// The reason why a round did not start.
#[derive(Debug)]
pub(crate) struct ToolsChanged;

impl fmt::Display for ToolsChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tools of a server change at each round")
    }
}

impl StdError for ToolsChanged {}
