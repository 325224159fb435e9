//! Real servers for tests on Linux, from the variables that `servers.sh` sets.
//!
//! Shared with `examples/tests/mcp_servers.rs`, because this crate cannot depend on the
//! orchestrator.
#![allow(dead_code, reason = "mcp_servers.rs uses a part of it")]

use std::fmt;
use std::future::Future;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use toolwright_mcp::{McpClient, McpClientBuilder};

/// A server, its transport and its revision of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The name of its calls in `calls.json` and of its recording.
    pub(crate) name: &'static str,
    pub(crate) http: bool,
    arguments: &'static str,
}

const fn kind(name: &'static str, http: bool, arguments: &'static str) -> Kind {
    Kind { name, http, arguments }
}

pub(crate) const EVERYTHING: Kind = kind("everything", false, "");
pub(crate) const EVERYTHING_HTTP: Kind = kind("everything", true, "");
pub(crate) const MEMORY: Kind = kind("memory", false, "");
pub(crate) const FILESYSTEM: Kind = kind("filesystem", false, "");
/// In revision 2026-07-28.
pub(crate) const PYTHON: Kind = kind("python", false, "");
pub(crate) const PYTHON_HTTP: Kind = kind("python", true, "");
/// In revision 2025-11-25.
pub(crate) const PYTHON_2025: Kind = kind("python", false, "--handshake");
pub(crate) const PYTHON_HTTP_2025: Kind = kind("python", true, "--handshake");
pub(crate) const PYTHON_PAGED: Kind = kind("python", false, "--page 3");

pub(crate) const STDIO: [Kind; 5] = [EVERYTHING, MEMORY, FILESYSTEM, PYTHON, PYTHON_2025];
pub(crate) const HTTP: [Kind; 3] = [EVERYTHING_HTTP, PYTHON_HTTP, PYTHON_HTTP_2025];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.http { "HTTP" } else { "stdio" };
        let arguments = self.arguments.split_whitespace().map(|word| format!(" {word}"));
        write!(f, "{}{} over {way}", self.name, arguments.collect::<String>())
    }
}

/// A server with its own folder.
pub(crate) struct Real {
    pub(crate) kind: Kind,
    folder: TempDir,
    port: u16,
    /// The process that listens on the port. Over stdio, the client starts the process.
    listening: Option<Child>,
}

impl Real {
    /// Starts a server over HTTP; it listens when this returns.
    pub(crate) fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = folder.path().join("served");
        std::fs::create_dir(&served).unwrap();
        std::fs::write(served.join("a.txt"), "hello\nworld\n").unwrap();
        std::fs::copy(here("servers/pixel.png"), served.join("pixel.png")).unwrap();
        let mut real = Self { kind, folder, port: 0, listening: None };
        if kind.http {
            real.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            real.start();
        }
        real
    }

    fn words(&self) -> Vec<String> {
        let http = if self.kind == EVERYTHING_HTTP { "_HTTP" } else { "" };
        let variable = format!("MCP_{}{http}", self.kind.name.to_uppercase());
        let command = std::env::var(&variable);
        let command = command.unwrap_or_else(|_| panic!("{variable}: run tests/servers.sh"));
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        words.extend(self.kind.arguments.split_whitespace().map(str::to_owned));
        if self.kind == FILESYSTEM {
            words.push(self.folder.path().join("served").to_str().unwrap().to_owned());
        }
        if self.kind.http && self.kind.name == "python" {
            words.extend(["--http".to_owned(), self.port.to_string()]);
        }
        words
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            (MARK, self.mark()),
            ("MEMORY_FILE_PATH", self.folder.path().join("memory.jsonl").display().to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
            ("PORT", self.port.to_string()),
        ]
    }

    fn mark(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// A client of the server. Over stdio, it starts the server.
    pub(crate) fn client(&self) -> McpClientBuilder {
        let words = self.words();
        match self.kind.http {
            true => self.over_http(),
            false => self.over_stdio(&words[0], &words[1..]),
        }
    }

    /// A client whose messages to the server are recorded in a file.
    pub(crate) fn overheard(&self) -> McpClientBuilder {
        assert!(!self.kind.http);
        let script = "sent=$1; shift; tee -a \"$sent\" | \"$@\"";
        let mut words = ["-c", script, "sh"].map(str::to_owned).to_vec();
        words.push(self.sent_file().display().to_string());
        words.extend(self.words());
        self.over_stdio("sh", &words)
    }

    fn over_stdio(&self, program: &str, arguments: &[String]) -> McpClientBuilder {
        let client = McpClient::stdio(program, arguments).with_trusted_results();
        let environment = self.environment().into_iter();
        environment.fold(client, |client, (name, value)| client.with_env(name, value))
    }

    fn over_http(&self) -> McpClientBuilder {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        McpClient::http(&url).unwrap().with_trusted_results()
    }

    fn sent_file(&self) -> PathBuf {
        self.folder.path().join("sent")
    }

    /// The number of recorded messages with this method.
    pub(crate) fn sent(&self, method: &str) -> usize {
        let sent = std::fs::read_to_string(self.sent_file()).unwrap();
        let messages = sent.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages.filter(|message| message["method"] == method).count()
    }

    /// The processes of this server, and those that they started.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}\0", self.mark());
        let numbers = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let number: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // For a process that has ended, this is empty.
            let environment = std::fs::read(format!("/proc/{number}/environ")).ok()?;
            let marked = environment.windows(mark.len()).any(|part| part == mark.as_bytes());
            marked.then_some(number)
        });
        numbers.collect()
    }

    /// Waits until all processes have ended.
    pub(crate) async fn gone(&self) {
        let start = Instant::now();
        while !self.processes().is_empty() {
            let left = start.elapsed() > Duration::from_secs(20);
            assert!(!left, "{}: {:?} are left", self.kind, self.processes());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends every process of this server a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let processes = self.processes();
        assert!(!processes.is_empty(), "{}: there is no process", self.kind);
        for process in processes {
            let killed = Command::new("kill").args([signal, &process.to_string()]).status();
            assert!(killed.unwrap().success());
        }
    }

    /// Starts a server over HTTP on its port.
    pub(crate) fn start(&mut self) {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(self.environment());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "{}: it ended", self.kind);
            assert!(start.elapsed() < Duration::from_secs(30), "{}: it is late", self.kind);
            std::thread::sleep(Duration::from_millis(20));
        }
        self.listening = Some(child);
    }

    /// Kills a server over HTTP.
    pub(crate) fn kill(&mut self) {
        let mut child = self.listening.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if self.listening.is_some() {
            self.kill();
        }
    }
}

/// The environment variable that marks a server's processes.
const MARK: &str = "MCP_TEST_SERVER";

fn here(name: &str) -> PathBuf {
    // The current package is this one or the examples.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = package.join("tests").join(name);
    if own.exists() { own } else { package.join("../toolsets/mcp/tests").join(name) }
}

fn file(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(here(name)).unwrap()).unwrap()
}

/// The server's recorded tools.
pub(crate) fn recorded(name: &str) -> Vec<Value> {
    file(&format!("recorded/{name}.json"))["tools"].as_array().unwrap().clone()
}

/// The reference server's tools that need a capability that this client does not have.
const FOR_OTHER_CLIENTS: [(&str, &str); 6] = [
    ("get-roots-list", "roots"),
    ("trigger-elicitation-request", "elicitation"),
    ("trigger-url-elicitation", "elicitation"),
    ("trigger-sampling-request", "sampling"),
    ("trigger-sampling-request-async", "sampling and tasks"),
    ("trigger-elicitation-request-async", "elicitation and tasks"),
];

/// Whether the server hides a tool from this client.
pub(crate) fn is_for_others(kind: Kind, tool: &str) -> bool {
    kind.name == "everything" && FOR_OTHER_CLIENTS.iter().any(|(other, _)| *other == tool)
}

/// Connects, and waits until the server lists all its tools.
pub(crate) async fn connect(client: McpClientBuilder, kind: Kind) -> McpClient {
    let mut remote = soon(kind, client.connect()).await.unwrap();
    if kind.name == "everything" {
        // The server adds its last tool after the client has connected.
        soon(kind, async {
            while remote.tools().len() < recorded(kind.name).len() - FOR_OTHER_CLIENTS.len() {
                remote.changed().await;
            }
        })
        .await;
    }
    remote
}

/// Closes the client, and checks that no process of the server remains.
pub(crate) async fn closes(real: &Real, remote: McpClient) {
    let kind = real.kind;
    assert!(!real.processes().is_empty(), "{kind}");
    soon(kind, remote.close()).await;
    if real.sent_file().exists() {
        // The child process is the shell that records; the server is its child.
        real.gone().await;
    } else if !kind.http {
        assert_eq!(real.processes(), [0; 0], "{kind}");
    }
}

/// A known call, and its expected outcome.
pub(crate) struct Case {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) expected: Expected,
}

pub(crate) enum Expected {
    /// A part of the result's text, and its structured value if there is one.
    Answer(String, Option<Value>),
    /// A part of the server's error text.
    Fails(String),
    /// A part of the error for arguments that are not sent.
    Refused(String),
}

impl Case {
    /// The calls of these tools, in an order that works.
    pub(crate) fn all(name: &str, tools: &[&str]) -> Vec<Self> {
        let calls = file("servers/calls.json");
        let mut cases = Vec::new();
        for (tool, kinds) in calls[name].as_object().unwrap() {
            if !tools.contains(&tool.as_str()) {
                continue;
            }
            let fits = kinds["fits"].as_array().unwrap().iter();
            for case in fits.chain(kinds["misfits"].as_array().unwrap()) {
                let text = |key: &str| case[key].as_str().map(str::to_owned);
                let answer = text("answer")
                    .map(|text| Expected::Answer(text, case.get("structured").cloned()));
                let expected = answer
                    .or_else(|| text("fails").map(Expected::Fails))
                    .or_else(|| text("says").map(Expected::Refused));
                // The call that ends the server has its own test.
                let Some(expected) = expected else { continue };
                let (tool, arguments) = (tool.clone(), case["arguments"].clone());
                cases.push(Self { tool, arguments, expected });
            }
        }
        cases
    }

    pub(crate) fn is_sent(&self) -> bool {
        !matches!(self.expected, Expected::Refused(_))
    }
}

/// Waits for `work` with a timeout.
pub(crate) async fn soon<T>(what: impl fmt::Display, work: impl Future<Output = T>) -> T {
    let late = tokio::time::timeout(Duration::from_secs(120), work).await;
    late.unwrap_or_else(|_| panic!("{what}: it hangs"))
}
