//! The contract server as a child process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Check;

/// Maximum time until the server listens.
const START: Duration = Duration::from_secs(20);

/// A server that plays one list of steps. It is killed when it is dropped.
pub(crate) struct ContractServer {
    pub(crate) url: String,
    report: PathBuf,
    child: Child,
    _folder: TempDir,
}

/// One request as the server saw it.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// Index of the step that answered it. `None` if all steps were used.
    pub(crate) step: Option<usize>,
    pub(crate) violations: Vec<Violation>,
    /// The body. `null` if it is not JSON.
    pub(crate) body: Value,
    /// Whether the client closed the connection before the end of the answer.
    pub(crate) client_closed: bool,
}

/// A rule of the API that a request broke.
#[derive(Debug, Deserialize)]
pub(crate) struct Violation {
    pub(crate) level: String,
    pub(crate) rule: String,
    pub(crate) path: String,
    pub(crate) msg: String,
}

impl ContractServer {
    pub(crate) async fn start(program: &Path, steps: &[Value]) -> Check<Self> {
        let folder = tempfile::tempdir()?;
        let (plan, report) = (folder.path().join("plan.json"), folder.path().join("report.jsonl"));
        fs::write(&plan, json!({"steps": steps}).to_string())?;
        let mut child = Command::new("python3")
            .arg(program)
            .args(["--port", "0", "--reject", "--plan"])
            .arg(&plan)
            .arg("--report")
            .arg(&report)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(output).lines();
        let line = timeout(START, lines.next_line()).await??;
        let line = line.ok_or("the server ended before it listened")?;
        let address = line.strip_prefix("listening ").ok_or("the server does not say its port")?;
        Ok(Self { url: format!("http://{address}"), report, child, _folder: folder })
    }

    /// Returns the requests whose answers have ended.
    pub(crate) fn seen(&self) -> Check<Vec<Seen>> {
        let text = fs::read_to_string(&self.report)?;
        // The last line may not be complete yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Ends the process.
    pub(crate) async fn stop(mut self) -> Check {
        Ok(self.child.kill().await?)
    }
}
