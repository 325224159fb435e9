//! A server that runs as a child of this process, spoken to over its standard input and
//! output.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Mutex as AsyncMutex;

use crate::mcp_client::live::strange;

/// How long a server may take to end once its input has, and again once it is told to.
const GRACE: Duration = Duration::from_secs(2);

/// How much of what a server says to people is kept, for the error that it dies with.
const TOLD: usize = 2048;

/// What a server may know of this process's environment. The rest holds keys that are none
/// of its business.
#[cfg(not(windows))]
const ENVIRONMENT: [&str; 9] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
#[cfg(windows)]
const ENVIRONMENT: [&str; 14] = [
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
];

/// How to start a server, again if need be.
#[derive(Clone)]
pub(crate) struct Command {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) folder: Option<PathBuf>,
}

impl Command {
    pub(crate) fn start(&self, max_message_bytes: usize) -> io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        // What the server starts itself ends with it, and a terminal's Ctrl-C is for this
        // process alone.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let (Some(input), Some(output), Some(told)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the process has no standard streams"));
        };
        let kept = Arc::new(Mutex::new(String::new()));
        tokio::spawn(listen(told, Arc::clone(&kept)));
        Ok(Child {
            input: Arc::new(AsyncMutex::new(Some(input))),
            output: BufReader::new(output),
            line: Vec::new(),
            most: max_message_bytes,
            process: Process::new(child),
            told: kept,
        })
    }
}

/// What a server says on its standard error goes to `tracing`; the end of it is kept.
async fn listen(mut told: ChildStderr, kept: Arc<Mutex<String>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = told.read(&mut buffer).await {
        let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        tracing::debug!(target: "toolwright_mcp::stderr", "{}", text.trim_end());
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(&text);
        let over = kept.len().saturating_sub(TOLD);
        let start = kept.ceil_char_boundary(over);
        kept.drain(..start);
    }
}

/// A running server, as a transport: one message a line.
///
/// rmcp has one, which passes over a line that it does not understand or that is too long. If
/// that was an answer, nobody would ever get it.
pub(crate) struct Child {
    input: Arc<AsyncMutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    /// What was read of a line, by whoever waited for it before.
    line: Vec<u8>,
    most: usize,
    process: Process,
    told: Arc<Mutex<String>>,
}

impl Child {
    /// The end of what it says on its standard error.
    pub(crate) fn told(&self) -> Arc<Mutex<String>> {
        Arc::clone(&self.told)
    }

    /// Reads on until a line is whole.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let read = self.output.fill_buf().await?;
            if read.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', read);
            let (part, used) = match end {
                Some(end) => (read.get(..end), end + 1),
                None => (Some(read), read.len()),
            };
            let part = part.unwrap_or_default();
            if self.line.len() + part.len() > self.most {
                let text = format!("a line has more than {} bytes", self.most);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            self.line.extend_from_slice(part);
            self.output.consume(used);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

impl Transport<RoleClient> for Child {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(input) = input.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            input.write_all(&line).await?;
            input.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.line().await {
                Ok(Some(line)) => {
                    if let Some(message) = understood(&line) {
                        return Some(message);
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "an MCP server cannot be read any more");
                    return None;
                }
            }
        }
    }

    /// As the specification says: its input ends, then it is told to, then it is killed.
    async fn close(&mut self) -> Result<(), Self::Error> {
        // Who still writes has a reader that does not read.
        if let Ok(mut input) = self.input.try_lock() {
            drop(input.take());
        }
        if !self.process.ends().await {
            self.process.terminate();
            self.process.ends().await;
        }
        self.process.kill();
        self.process.ends().await;
        Ok(())
    }
}

/// The message of a line, if it is one. An answer that is none still ends its request.
fn understood(line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    match serde_json::from_slice(line) {
        Ok(message) => Some(message),
        Err(_) => {
            let value: Value = serde_json::from_slice(line).ok()?;
            let id = value.get("id").filter(|_| value.get("method").is_none())?;
            let id = serde_json::from_value(id.clone()).ok()?;
            Some(RxJsonRpcMessage::<RoleClient>::error(strange(), Some(id)))
        }
    }
}

/// A process and whatever it started: none of them outlives this.
struct Process {
    child: tokio::process::Child,
    /// The number of the process, which is its group's too.
    #[cfg(unix)]
    group: Option<rustix::process::Pid>,
}

impl Process {
    fn new(child: tokio::process::Child) -> Self {
        #[cfg(unix)]
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        Self {
            child,
            #[cfg(unix)]
            group,
        }
    }

    /// Waits a little for it to end by itself.
    async fn ends(&mut self) -> bool {
        matches!(tokio::time::timeout(GRACE, self.child.wait()).await, Ok(Ok(_)))
    }

    #[cfg(unix)]
    fn terminate(&self) {
        if let Some(group) = self.group {
            // It may be gone by now, which is what is wanted.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
    }

    #[cfg(not(unix))]
    fn terminate(&self) {}

    /// The process may be gone and what it started be there still. Once: afterwards the
    /// number may be another's.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group.take() {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // The group's leader is waited for by tokio.
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
