//! The cost of a served call, compared with a server that is written directly on rmcp.
//!
//! It measures the processor time of both in one run, with the same handler and the same client, over
//! pipes like those of standard input and output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "bench code")]

use std::time::Duration;

use cpu_time::ProcessTime;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender, pipe};
use toolwright_mcp::{McpServer, ServerLimits};
use toolwright_module::{Effect, Signature, Tool, from_fn};

/// Number of calls in a round, and number of rounds.
const CALLS: usize = 4000;
const ROUNDS: usize = 15;

/// Number of concurrent calls: those of one agent, and of many.
const CONCURRENT: [usize; 2] = [1, 16];

/// Search documents.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Search {
    /// Words to look for.
    query: String,
    limit: u32,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Found {
    documents: Vec<Document>,
    more: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Document {
    title: String,
    score: f64,
}

impl Signature for Search {
    type Output = Found;
}

fn search(search: Search) -> Found {
    let document = |n| Document { title: format!("{} {n}", search.query), score: 0.5 };
    Found { documents: (0..search.limit).map(document).collect(), more: search.tags.is_empty() }
}

struct ByHand;

impl ServerHandler for ByHand {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let asked: Search = serde_json::from_value(arguments).unwrap();
        let found = serde_json::to_value(search(asked)).unwrap();
        let mut result = CallToolResult::success(vec![ContentBlock::text(found.to_string())]);
        result.structured_content = Some(found);
        Ok(result.into())
    }
}

/// A client that does as little as it can: it is counted with both.
struct Client {
    read: BufReader<Receiver>,
    write: Sender,
    line: String,
}

impl Client {
    async fn new(read: Receiver, write: Sender) -> Self {
        let mut client = Self { read: BufReader::new(read), write, line: String::new() };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        });
        let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        client.write.write_all(format!("{begin}\n").as_bytes()).await.unwrap();
        client.answer().await;
        client
    }

    async fn answer(&mut self) {
        self.line.clear();
        self.read.read_line(&mut self.line).await.unwrap();
        assert!(self.line.contains("result") && !self.line.contains("isError\":true"));
    }

    async fn calls(&mut self, concurrent: usize) -> Duration {
        let arguments = json!({"query": "tenant rights", "limit": 5, "tags": ["law", "oslo"]});
        let params = json!({"name": "search", "arguments": arguments});
        let calls: Vec<String> = (1..=concurrent)
            .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .map(|call| format!("{call}\n"))
            .collect();
        let calls = calls.concat();
        let start = ProcessTime::now();
        for _ in 0..CALLS / concurrent {
            self.write.write_all(calls.as_bytes()).await.unwrap();
            for _ in 0..concurrent {
                self.answer().await;
            }
        }
        start.elapsed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ((asks, read), (write, answers)) = (pipe().unwrap(), pipe().unwrap());
    let by_hand = tokio::spawn(async {
        ByHand.serve((read, write)).await.unwrap().waiting().await.unwrap();
    });
    let mut by_hand_client = Client::new(answers, asks).await;

    let tool = from_fn(async |asked: Search| Ok(search(asked))).with_effect(Effect::Read);
    let server = McpServer::new("bench", "1", [Tool::new(tool).unwrap()]).unwrap();
    let server = server
        .with_limits(ServerLimits { max_rate: (1, Duration::ZERO), ..ServerLimits::default() });
    let ((asks, read), (write, answers)) = (pipe().unwrap(), pipe().unwrap());
    let served = tokio::spawn(server.serve(read, write));
    let mut client = Client::new(answers, asks).await;

    for concurrent in CONCURRENT {
        let mut ratios = Vec::new();
        let mut least = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            let times = [by_hand_client.calls(concurrent).await, client.calls(concurrent).await];
            ratios.push(times[1].as_secs_f64() / times[0].as_secs_f64());
            least = [least[0].min(times[0]), least[1].min(times[1])];
        }
        ratios.sort_by(f64::total_cmp);
        let each = least.map(|time| time / u32::try_from(CALLS).unwrap());
        let (by_hand, served, ratio) = (each[0], each[1], ratios[ROUNDS / 2]);
        println!(
            "{concurrent} concurrent: {by_hand:?} by hand, {served:?} served, ratio {ratio:.3}"
        );
    }
    drop((client, by_hand_client));
    served.await.unwrap().unwrap();
    by_hand.await.unwrap();
}
