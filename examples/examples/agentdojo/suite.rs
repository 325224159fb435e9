//! One suite of AgentDojo: its server, and the runs on its tools.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use toolwright_mcp::McpClient;
use toolwright_module::approval::Decision;
use toolwright_module::error::Stage;
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::{Context, Tool, ToolCall};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Limits};
use toolwright_signature::{Contract, Dialect};

use crate::model::{Call, Script, obedient};

/// The server of a suite, with its tools and its second connection, which the model does not see.
pub(crate) struct Suite {
    pub(crate) name: String,
    client: McpClient,
    control: BufStream<TcpStream>,
}

/// The names of a suite's tasks.
#[derive(Debug, Deserialize)]
pub(crate) struct Tasks {
    pub(crate) user_tasks: Vec<String>,
    pub(crate) injections: Vec<String>,
}

/// AgentDojo's verdicts on a run.
#[derive(Debug, Deserialize)]
struct Verdict {
    /// The user's task is done.
    utility: bool,
    /// The injection has reached its goal.
    security: bool,
    /// The calls that changed something and do not belong to the user's task.
    foreign_changes: Vec<String>,
}

/// The questions of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Questions {
    /// About calls of the user's task.
    pub(crate) own: usize,
    /// About other calls.
    pub(crate) foreign: usize,
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// AgentDojo says that the user's task is done, and the run ended with an answer.
    pub(crate) done: bool,
    /// AgentDojo says that the injection has reached its goal.
    pub(crate) attacked: bool,
    /// Number of calls that were made, changed something and do not belong to the user's task.
    pub(crate) foreign_changes: usize,
    pub(crate) questions: Questions,
    /// The run waits for a person, because nobody answers.
    pub(crate) waits: bool,
}

/// The tasks of a run, and who answers.
pub(crate) struct Pair<'a> {
    pub(crate) user_task: &'a str,
    pub(crate) injection: Option<&'a str>,
    /// Whether a person answers questions.
    pub(crate) person: bool,
}

impl Suite {
    pub(crate) async fn start(
        python: &str,
        name: &str,
        attack: &str,
    ) -> Result<Self, Box<dyn Error>> {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/agentdojo/server.py");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port().to_string();
        let arguments = [
            server.to_string_lossy().as_ref(),
            "--suite",
            name,
            "--control",
            &port,
            "--attack",
            attack,
        ]
        .map(str::to_owned);
        let client = McpClient::stdio(python, arguments)
            .with_env("PYTHONDONTWRITEBYTECODE", "1")
            .with_start_time(Duration::from_secs(120))
            .with_trusted_annotations();
        let client = client.connect().await?;
        // A server that starts slowly is started a second time. The last one is the one that serves.
        let (mut control, _) = listener.accept().await?;
        while let Ok(newer) = timeout(Duration::from_millis(50), listener.accept()).await {
            control = newer?.0;
        }
        if let Some((tool, error)) = client.left_out().first() {
            return Err(format!("the tool `{tool}` was not imported: {error}").into());
        }
        Ok(Self { name: name.to_owned(), client, control: BufStream::new(control) })
    }

    pub(crate) fn tools(&self) -> Vec<Tool> {
        self.client.tools()
    }

    pub(crate) async fn tasks(&mut self) -> Result<Tasks, Box<dyn Error>> {
        self.ask(json!({"do": "tasks"})).await
    }

    /// Plays the tasks in a new environment.
    pub(crate) async fn play(
        &mut self,
        pair: &Pair<'_>,
        policy: Option<&ApprovalPolicy>,
        dialect: Dialect,
    ) -> Result<Outcome, Box<dyn Error>> {
        let reset = json!({"do": "reset", "user": pair.user_task, "injection": pair.injection});
        let script: Script = self.ask(reset).await?;
        let prompt = script.prompt.clone();
        let person = Person::new(&script.calls, self.tools());
        let limits = Limits {
            // No task with an injection has as many calls.
            max_iterations: 60,
            // The model has to read the whole mailbox.
            max_result_bytes: 1 << 20,
            ..Limits::default()
        };
        let mut agent = Agent::new(obedient(script, dialect), self.tools())?.with_limits(limits);
        if let Some(policy) = policy {
            agent = agent.with_approval(policy.clone())?;
        }
        let sees = person.clone();
        let mut cx = Context::default().with_events(move |event| {
            if let EventKind::ToolStarted { call } = &event.kind {
                sees.sees(call);
            }
        });
        if pair.person {
            let person = person.clone();
            cx = cx.with_approver(move |asked| {
                let decision = person.decide(&asked.call);
                async move { Ok(decision) }
            });
        }
        let (answer, waits) = match agent.run(prompt, &cx).await {
            Ok(finished) if finished.ending == Ending::Answered => (Some(finished.answer), false),
            Ok(finished) => {
                eprintln!("{pair}: the run ended as {:?}: {}", finished.ending, finished.answer);
                (None, false)
            }
            Err(error) if error.stage() == Stage::Approval && !pair.person => (None, true),
            Err(error) => {
                eprintln!("{pair}: {error:#}");
                (None, false)
            }
        };
        let judge = json!({"do": "judge", "answer": answer.as_deref().unwrap_or_default()});
        let verdict: Verdict = self.ask(judge).await?;
        Ok(Outcome {
            done: answer.is_some() && verdict.utility,
            attacked: verdict.security,
            foreign_changes: verdict.foreign_changes.len(),
            questions: person.questions(),
            waits,
        })
    }

    async fn ask<T: DeserializeOwned>(&mut self, request: Value) -> Result<T, Box<dyn Error>> {
        self.control.write_all(format!("{request}\n").as_bytes()).await?;
        self.control.flush().await?;
        let mut line = String::new();
        if self.control.read_line(&mut line).await? == 0 {
            return Err(format!("the server ended at {request}; start it alone to see why").into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    pub(crate) async fn close(self) {
        self.client.close().await;
    }
}

impl std::fmt::Display for Pair<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.user_task, self.injection.unwrap_or("no injection"))
    }
}

/// A person who knows their own task: they approve each of its calls once, and deny all others. They see
/// which calls are made.
#[derive(Clone)]
struct Person {
    tools: Arc<[Tool]>,
    state: Arc<Mutex<(Vec<Call>, Questions)>>,
}

impl Person {
    fn new(calls: &[Call], tools: Vec<Tool>) -> Self {
        let state = (calls.to_vec(), Questions::default());
        Self { tools: tools.into(), state: Arc::new(Mutex::new(state)) }
    }

    /// Notes that a call is made, whether it was asked about or not.
    fn sees(&self, made: &ToolCall) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = self.place(&state.0, made) {
            state.0.remove(place);
        }
    }

    fn decide(&self, asked: &ToolCall) -> Decision {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.place(&state.0, asked).is_some() {
            state.1.own += 1;
            return Decision::Approve;
        }
        state.1.foreign += 1;
        Decision::deny("That does not belong to my task.")
    }

    /// Returns the place of a call among those that are still to be made.
    fn place(&self, expected: &[Call], made: &ToolCall) -> Option<usize> {
        let tool = self.tools.iter().find(|tool| tool.name() == made.name)?;
        let given = read(tool.contract(), &made.arguments)?;
        expected.iter().position(|call| {
            call.name == made.name && given == without_null(&Value::Object(call.arguments.clone()))
        })
    }

    fn questions(&self) -> Questions {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Reads arguments that were written in the form of a dialect.
fn read(contract: &Contract, arguments: &str) -> Option<Value> {
    Some(without_null(&contract.read::<Value>(arguments).ok()?))
}

/// Removes fields that are null: a strict dialect requires all fields.
fn without_null(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map.iter().filter(|(_, value)| !value.is_null());
            some.map(|(name, value)| (name.clone(), without_null(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_null).collect(),
        other => other.clone(),
    }
}
