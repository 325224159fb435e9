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
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::mcp_client::ANSWERS;
use crate::mcp_client::live::strange;
use crate::mcp_client::lock::is_hidden;

/// How long a server may take to end once its input has, and again once it is told to.
const GRACE: Duration = Duration::from_secs(2);

/// How long a server may take to read a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long what a server wrote may take to arrive after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
    pub(crate) fn start(&self, max_message_bytes: usize) -> io::Result<(Child, Told)> {
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
        let listening = tokio::spawn(listen(told, Arc::clone(&kept)));
        let told = Told { kept, _listening: AbortOnDropHandle::new(listening) };
        let child = Child {
            input: Arc::new(AsyncMutex::new(Some(input))),
            output: BufReader::new(output),
            line: Vec::new(),
            most: max_message_bytes,
            process: Process::new(child),
            ended: false,
            answers: Arc::new(Semaphore::new(ANSWERS)),
            deaf: CancellationToken::new(),
        };
        Ok((child, told))
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
    /// What it started may hold its output open after its end.
    ended: bool,
    /// How many answers to its own requests may still go out.
    answers: Arc<Semaphore>,
    /// It does not read any more.
    deaf: CancellationToken,
}

/// The end of what a server says on its standard error.
pub(crate) struct Told {
    kept: Arc<Mutex<String>>,
    _listening: AbortOnDropHandle<()>,
}

impl Told {
    /// For people, and their screens.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.trim().chars().filter(|c| *c == '\n' || !is_hidden(*c)).collect()
    }
}

impl Child {
    /// The next line, of a server that is there and listens; what was written before its end
    /// still counts.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.ended {
            let deaf = self.deaf.clone();
            // Both may be dropped and begun again.
            let ended = tokio::select! {
                biased;
                () = deaf.cancelled() => false,
                line = read_line(&mut self.output, &mut self.line, self.most) => return line,
                _ = self.process.child.wait() => true,
            };
            if !ended {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read"));
            }
            self.ended = true;
            // Now, while its number is nobody else's. What they wrote is there to be read.
            self.process.kill();
        }
        let line = read_line(&mut self.output, &mut self.line, self.most);
        tokio::time::timeout(LAST_WORDS, line).await.unwrap_or(Ok(None))
    }
}

/// Reads on until a line is whole.
async fn read_line(
    output: &mut BufReader<ChildStdout>,
    line: &mut Vec<u8>,
    most: usize,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        let read = output.fill_buf().await?;
        if read.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', read);
        let (part, used) = match end {
            Some(end) => (read.get(..end), end + 1),
            None => (Some(read), read.len()),
        };
        let part = part.unwrap_or_default();
        if line.len() + part.len() > most {
            let text = format!("a line has more than {most} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        line.extend_from_slice(part);
        output.consume(used);
        if end.is_some() {
            return Ok(Some(std::mem::take(line)));
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
        let deaf = self.deaf.clone();
        let answers = matches!(
            item,
            TxJsonRpcMessage::<RoleClient>::Response(_) | TxJsonRpcMessage::<RoleClient>::Error(_)
        );
        let place = answers.then(|| Arc::clone(&self.answers).try_acquire_owned());
        async move {
            let Some(_place) = place.transpose().ok() else {
                deaf.cancel();
                return Err(io::ErrorKind::TimedOut.into());
            };
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let writing = async {
                let mut input = input.lock().await;
                let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                let writing = async {
                    input.write_all(&line).await?;
                    input.flush().await
                };
                match tokio::time::timeout(PATIENCE, writing).await {
                    Ok(written) => written,
                    Err(_) => {
                        deaf.cancel();
                        Err(io::ErrorKind::TimedOut.into())
                    }
                }
            };
            tokio::select! {
                biased;
                written = writing => written,
                // The connection ends once nothing is on its way to the server any more.
                () = deaf.cancelled() => Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.next().await {
                Ok(Some(line)) => match understood(&line) {
                    Heard::Message(message) => return Some(*message),
                    Heard::Noise => {}
                    Heard::Broken => {
                        tracing::warn!("an MCP server sent a message that is no JSON");
                        return None;
                    }
                },
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

/// What a line is.
enum Heard {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// Nothing that anybody waits for.
    Noise,
    /// It may have been an answer, and nobody knows to what.
    Broken,
}

/// An answer that is none still ends its request.
fn understood(line: &[u8]) -> Heard {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if let Ok(message) = serde_json::from_slice(line) {
        return Heard::Message(Box::new(message));
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        // Some servers say hello to people first.
        let meant = line.trim_ascii_start().starts_with(b"{");
        return if meant { Heard::Broken } else { Heard::Noise };
    };
    let id = value.get("id").filter(|_| value.get("method").is_none());
    match id.and_then(|id| serde_json::from_value(id.clone()).ok()) {
        Some(id) => {
            let error = RxJsonRpcMessage::<RoleClient>::error(strange(), Some(id));
            Heard::Message(Box::new(error))
        }
        None => Heard::Noise,
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
