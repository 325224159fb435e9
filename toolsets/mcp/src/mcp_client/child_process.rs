//! A server that runs as a child process: [`Command`] starts it, [`ChildProcess`] is the transport
//! over its standard input and output, [`Stderr`] keeps the end of its standard error.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolwright_module::__text::is_hidden;

use crate::error::Source;
use crate::lines::{Line, Lines};
use crate::mcp_client::MAX_PENDING_RESPONSES;
use crate::mcp_client::discovery::{Discovery, same_id};
use crate::mcp_client::incoming::{Incoming, malformed, responds_to};

/// Time for the process to end after its input was closed, and again after the termination
/// signal.
const GRACE: Duration = Duration::from_secs(2);

/// Timeout for the server to read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for reading the remaining output after the process has ended.
const LAST_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes of the standard error that are kept, for the errors of starts and calls.
const STDERR_BYTES: usize = 2048;

/// The environment variables that a server inherits. Others may contain secrets.
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

/// The command that starts a server. It can start it again.
#[derive(Clone)]
pub(crate) struct Command {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) folder: Option<PathBuf>,
}

impl Command {
    /// Starts the server. Its standard error goes to `stderr`.
    pub(crate) fn start(
        &self,
        max_message_bytes: usize,
        discovery: Discovery,
        stderr_kept: &Stderr,
    ) -> io::Result<ChildProcess> {
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
        // In a process group of its own, the processes that the server starts can be ended with
        // it, and Ctrl-C in a terminal does not reach it.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let (Some(input), Some(output), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the process has no standard streams"));
        };
        stderr_kept.read(stderr);
        Ok(ChildProcess {
            input: Arc::new(AsyncMutex::new(Some(input))),
            lines: Lines::new(output, max_message_bytes),
            incoming: VecDeque::new(),
            pending: HashSet::new(),
            discovery,
            process: Process::new(child),
            ended: false,
            responses: Arc::new(Semaphore::new(MAX_PENDING_RESPONSES)),
            not_reading: CancellationToken::new(),
        })
    }
}

/// Sends the server's standard error to `tracing`, and keeps the end of it.
async fn read_stderr(mut stderr: ChildStderr, kept: Arc<Mutex<String>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        tracing::debug!(target: "toolwright_mcp::stderr", "{}", text.trim_end());
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(&text);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        let start = kept.ceil_char_boundary(over);
        kept.drain(..start);
    }
}

/// The transport to a running server: one message a line.
///
/// rmcp's own transport ignores lines that it cannot deserialize and lines that are too long. If
/// such a line is a response, the request would wait until its timeout.
pub(crate) struct ChildProcess {
    input: Arc<AsyncMutex<Option<ChildStdin>>>,
    lines: Lines<ChildStdout>,
    /// The rest of the messages of a line.
    incoming: VecDeque<Incoming>,
    /// The requests without a response.
    pending: HashSet<RequestId>,
    discovery: Discovery,
    process: Process,
    /// The server has ended. Its own child processes may still hold its output open.
    ended: bool,
    /// Permits for responses to the server's own requests.
    responses: Arc<Semaphore>,
    /// Cancelled when the server does not read its input any more.
    not_reading: CancellationToken,
}

/// The end of a server's standard error.
#[derive(Clone, Default)]
pub(crate) struct Stderr {
    kept: Arc<Mutex<String>>,
    /// Reads on after the end of the transport, because the last lines say why it ended.
    reading: Arc<Mutex<Option<AbortOnDropHandle<()>>>>,
}

impl Stderr {
    /// The text without control and invisible characters, so that it is safe in a terminal.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.trim().chars().filter(|c| *c == '\n' || !is_hidden(*c)).collect()
    }

    /// Reads the standard error of another process, and forgets that of an earlier one.
    fn read(&self, stderr: ChildStderr) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        *reading = None;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let task = tokio::spawn(read_stderr(stderr, Arc::clone(&self.kept)));
        *reading = Some(AbortOnDropHandle::new(task));
    }

    /// Adds the text to an error, if there is any.
    pub(crate) fn added_to(&self, error: Source) -> Source {
        match &*self.text() {
            "" => error,
            text => format!("{error}; its standard error was: {text}").into(),
        }
    }
}

impl ChildProcess {
    /// Returns the next line, or `None` at the end of the output.
    ///
    /// Lines that the server wrote before it ended are still returned. Fails if the server does
    /// not read its input.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        if !self.ended {
            let not_reading = self.not_reading.clone();
            // Reading a line and waiting for the process are both cancel safe.
            let ended = tokio::select! {
                biased;
                () = not_reading.cancelled() => false,
                line = self.lines.next() => return line,
                _ = self.process.child.wait() => true,
            };
            if !ended {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server does not read its input",
                ));
            }
            self.ended = true;
            // The group is killed now, while no other process can have its id. Output that was
            // written before can still be read.
            self.process.kill();
        }
        tokio::time::timeout(LAST_READ_TIMEOUT, self.lines.next()).await.unwrap_or(Ok(None))
    }
}

impl Transport<RoleClient> for ChildProcess {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        let not_reading = self.not_reading.clone();
        if let TxJsonRpcMessage::<RoleClient>::Request(request) = &item {
            self.pending.insert(request.id.clone());
            self.discovery.sent(&request.request, &request.id);
        }
        if let TxJsonRpcMessage::<RoleClient>::Notification(notification) = &item
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.pending.remove(id);
        }
        let is_response = matches!(
            item,
            TxJsonRpcMessage::<RoleClient>::Response(_) | TxJsonRpcMessage::<RoleClient>::Error(_)
        );
        let permit = is_response.then(|| Arc::clone(&self.responses).try_acquire_owned());
        async move {
            let Some(_permit) = permit.transpose().ok() else {
                not_reading.cancel();
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
                match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
                    Ok(written) => written,
                    Err(_) => {
                        not_reading.cancel();
                        Err(io::ErrorKind::TimedOut.into())
                    }
                }
            };
            tokio::select! {
                biased;
                written = writing => written,
                // All pending writes fail too, so that the connection can close.
                () = not_reading.cancelled() => Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let incoming = match self.incoming.pop_front() {
                Some(incoming) => incoming,
                None => {
                    let line = match self.discovery.time_left() {
                        None => self.next().await,
                        Some(left) => match tokio::time::timeout(left, self.next()).await {
                            Ok(line) => line,
                            // Without a request to give up, the handshake has no response.
                            Err(_) => return self.discovery.give_up(),
                        },
                    };
                    match line {
                        Ok(Some(Line::Whole(line))) => {
                            self.incoming.extend(Incoming::read_all(&line));
                            continue;
                        }
                        Ok(Some(Line::Oversized(scan))) => {
                            tracing::warn!("an MCP server sent a message that is too large");
                            Incoming::unreadable(&scan)
                        }
                        Ok(None) => return None,
                        Err(error) => {
                            tracing::warn!(%error, "the output of an MCP server cannot be read");
                            return None;
                        }
                    }
                }
            };
            let mut message = match incoming {
                Incoming::Message(message) => *message,
                Incoming::Ignored => continue,
                Incoming::Nameless => {
                    tracing::warn!("an MCP server sent a message that is not valid JSON");
                    // Only one request can be meant. Otherwise, each ends at its own timeout.
                    match (self.pending.len(), self.pending.iter().next()) {
                        (1, Some(id)) => malformed(id.clone(), None),
                        _ => continue,
                    }
                }
            };
            // A server that could not read the request does not know its id.
            if let JsonRpcMessage::Error(error) = &mut message
                && error.id.is_none()
                && self.pending.len() == 1
            {
                error.id = self.pending.iter().next().cloned();
            }
            if let Some(id) = responds_to(&message) {
                self.pending.retain(|pending| !same_id(pending, id));
                let is_result = matches!(message, JsonRpcMessage::Response(_));
                if !self.discovery.takes(id, is_result) {
                    continue;
                }
            }
            return Some(message);
        }
    }

    /// Ends the server in the order of the specification: closes its input, sends the termination
    /// signal, kills it.
    async fn close(&mut self) -> Result<(), Self::Error> {
        // If a write holds the lock, the server does not read, and closing would not help.
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

/// A process and the processes that it started. All are killed when this is dropped.
struct Process {
    child: tokio::process::Child,
    /// The id of the process, which is also the id of its group.
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

    /// Waits for the process to end, up to [`GRACE`]. Returns whether it ended.
    async fn ends(&mut self) -> bool {
        matches!(tokio::time::timeout(GRACE, self.child.wait()).await, Ok(Ok(_)))
    }

    #[cfg(unix)]
    fn terminate(&self) {
        if let Some(group) = self.group {
            // An error means that the group has already ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
    }

    #[cfg(not(unix))]
    fn terminate(&self) {}

    /// Kills the process and its group, whose other processes may outlive it. The group is killed
    /// once only, because the id can be reused afterwards.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group.take() {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // tokio waits for the process itself.
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
