//! The tools that the tests serve, and a client that sends and receives JSON-RPC messages.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolwright_mcp::{McpError, McpServer};
use toolwright_module::event::EventKind;
use toolwright_module::message::Image;
use toolwright_module::{
    Cancellation, Contract, Effect, Error, Signature, Tool, ToolCall, ToolOutput, from_fn,
    from_fn_with,
};

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Add {
    /// The first.
    #[schemars(range(max = 1000))]
    pub(crate) a: i64,
    /// The second; nothing is nought.
    pub(crate) b: Option<i64>,
}

impl Signature for Add {
    type Output = i64;
}

/// Store a note.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Store a note")]
pub(crate) struct StoreNote {
    pub(crate) title: String,
}

/// The result.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Stored {
    pub(crate) title: String,
    pub(crate) replaced: bool,
}

impl Signature for StoreNote {
    type Output = Stored;

    fn render(output: &Stored) -> Result<String, toolwright_signature::ContractError> {
        Ok(format!("Stored '{}'.", output.title))
    }
}

/// Say hello.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Hello;

impl Signature for Hello {
    type Output = String;
}

/// Fail in one of many ways.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Fail {
    pub(crate) how: How,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Retry,
    Refuse,
    Other,
    Stop,
    Panic,
    PanicOnDrop,
    PanicInPanic,
}

impl Signature for Fail {
    type Output = ();
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped with secret-7");
    }
}

/// The events of the slow tool.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) started: Notify,
    pub(crate) ended: Notify,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) calls: AtomicUsize,
}

/// Wait until the call is cancelled.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Wait {}

impl Signature for Wait {
    type Output = ();
}

/// Tell what happens.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tell {
    pub(crate) times: u32,
}

impl Signature for Tell {
    type Output = u32;
}

pub(crate) fn tools(seen: &Arc<Seen>) -> Vec<Tool> {
    let add = from_fn(async |Add { a, b }: Add| Ok(a + b.unwrap_or(0))).with_effect(Effect::Read);
    let store =
        from_fn(async |StoreNote { title }: StoreNote| Ok(Stored { title, replaced: false }));
    let hello = from_fn(async |_: Hello| Ok("Hello!".to_owned()));
    let fail = from_fn(async |Fail { how }: Fail| match how {
        How::Retry => Err(Error::retry("name another day").with_source("disk secret-7")),
        How::Refuse => Err(Error::refuse("not on Sundays")),
        How::Other => Err(Error::other("the key secret-7 was refused")),
        How::Stop => Err(Error::stop("secret-7 ran out")),
        How::Panic => panic!("at the disco with secret-7"),
        How::PanicOnDrop => {
            let _bomb = Bomb;
            Ok(())
        }
        How::PanicInPanic => std::panic::panic_any(Bomb),
    });
    let met = Arc::clone(seen);
    let wait = from_fn_with(move |_: Wait, cx| {
        let seen = Arc::clone(&met);
        async move {
            seen.calls.fetch_add(1, Ordering::SeqCst);
            seen.started.notify_one();
            let ended = cx.until_cancelled(std::future::pending::<toolwright_module::Result<()>>());
            let ended = ended.await;
            seen.cancelled.fetch_add(1, Ordering::SeqCst);
            seen.ended.notify_one();
            ended
        }
    });
    let tell = from_fn_with(async |Tell { times }: Tell, cx| {
        let call = ToolCall::new("1", "inner", r#"{"key": "secret-7"}"#);
        for _ in 0..times {
            cx.emit(|| EventKind::ToolStarted { call: call.clone() });
            tokio::task::yield_now().await;
        }
        cx.emit(|| EventKind::TextDelta { text: "secret-7".to_owned() });
        Ok(times)
    });
    let picture = Contract::dynamic("picture", "Draw.", json!({"type": "object"}), None).unwrap();
    let picture = Tool::dynamic(picture, Effect::Idempotent, async |_, _| {
        let images = [
            "data:image/png;base64,iVBORw0KGgo=",
            "data:audio/wav;base64,UklGRg==",
            "data:application/json;base64,e30=",
            "https://example.com/a.png",
        ];
        let images = images.map(|url| Image::url(url).into());
        Ok(ToolOutput::text_only("A house.").with_parts(images))
    });
    let number =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let say =
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let promise = Contract::dynamic("promise", "Give a number.", say, Some(number)).unwrap();
    let promise = Tool::dynamic(promise, Effect::Irreversible, async |arguments, _| {
        let arguments: Value = serde_json::from_str(&arguments)?;
        Ok(ToolOutput::text_only(arguments["text"].as_str().unwrap_or_default()))
    });
    vec![
        Tool::new(add).unwrap(),
        Tool::new(store).unwrap(),
        Tool::new(hello).unwrap(),
        Tool::new(fail).unwrap(),
        Tool::new(wait).unwrap(),
        Tool::new(tell).unwrap(),
        picture,
        promise,
    ]
}

pub(crate) fn server(seen: &Arc<Seen>) -> McpServer {
    McpServer::new("test", "1.2.3", tools(seen)).unwrap().with_instructions("Only in tests.")
}

/// A client of a server in this process, which writes and reads lines.
pub(crate) struct Lines {
    pub(crate) write: WriteHalf<DuplexStream>,
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) serving: JoinHandle<Result<(), McpError>>,
    next: u64,
    modern: bool,
}

impl Lines {
    pub(crate) fn new(server: McpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(theirs);
        let serving = tokio::spawn(server.serve(read, write));
        let (read, write) = tokio::io::split(ours);
        let read = BufReader::new(read).lines();
        Self { write, read, serving, next: 0, modern: false }
    }

    /// A client after the handshake of revision 2025-11-25.
    pub(crate) async fn begun(server: McpServer) -> Self {
        let mut lines = Self::new(server);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        });
        lines.request("initialize", params).await;
        lines.notify("notifications/initialized", json!({})).await;
        lines
    }

    /// A client of revision 2026-07-28, in which every request names the client.
    pub(crate) fn modern(server: McpServer) -> Self {
        Self { modern: true, ..Self::new(server) }
    }

    pub(crate) async fn line(&mut self, line: &str) {
        self.write.write_all(line.as_bytes()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn write_bytes(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(&message.to_string()).await;
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if self.modern {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "client", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let message =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.line(&message.to_string()).await;
        self.next
    }

    pub(crate) async fn receive(&mut self) -> Option<Value> {
        let line = self.read.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Sends a request and returns the result or the error of the response.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let mut answer = self.receive().await.unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        let answer = answer.as_object_mut().unwrap();
        answer.remove("result").or_else(|| answer.remove("error")).unwrap()
    }

    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Disconnects and waits for the server to end.
    pub(crate) async fn end(mut self) -> Vec<Value> {
        self.write.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = self.receive().await {
            rest.push(message);
        }
        self.serving.await.unwrap().unwrap();
        rest
    }
}

/// The texts of a result.
pub(crate) fn texts(result: &Value) -> Vec<&str> {
    let content = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    content.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// Serves over HTTP. Returns the URL, and the cancellation that shuts the server down.
pub(crate) async fn listen(server: McpServer) -> (String, Cancellation) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let shutdown = Cancellation::default();
    tokio::spawn(server.with_shutdown(shutdown.clone()).serve_http(listener));
    (url, shutdown)
}

/// The program that serves these tools, and more, as a process.
pub(crate) fn clients() -> PathBuf {
    example("clients")
}

/// The path of an example. Tests are in `target/…/deps`, examples in `target/…/examples`.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; run `cargo test` without `--test`", path.display());
    path
}

/// The source of an error that the server caused.
pub(crate) fn cause(error: &Error) -> &toolwright_mcp::McpError {
    error.downcast_ref().unwrap_or_else(|| panic!("{error:#}"))
}
