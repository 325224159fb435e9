//! The assistant: an agent with the toolsets and servers that its arguments name, and its drives. The
//! runs may be kept in a journal.

use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use toolwright_journal::{Journal, JournalError};
use toolwright_mcp::McpClient;
use toolwright_module::approval::Approval;
use toolwright_module::budget::Ledger;
use toolwright_module::error::Stage;
use toolwright_module::model::Settings;
use toolwright_module::testing::Recording;
use toolwright_module::{Cancellation, Context, Effect, Error as ModuleError, Message};
use toolwright_orchestrator::perform::with_decider;
use toolwright_orchestrator::{
    ApprovalPolicy, AwaitsApproval, Choosing, Ending, Finished, Limits, Run, Task, ToolOrchestrator,
};

use crate::approve::decide;
use crate::choose::{Chosen, ModelArgs};
use crate::input::Input;
use crate::runs;
use crate::servers::McpArgs;
use crate::show::{Screen, note, say, summary, tell};
use crate::toolbox::ToolArgs;

/// Recording of a run with a real model, which is replayed if there is no model.
const RECORDING: &str = include_str!("../recordings/assistant.json");

/// Arguments that make an assistant.
#[derive(Clone, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    tools: ToolArgs,

    #[command(flatten)]
    mcp: McpArgs,

    /// Let the model select tools in its text, for models that cannot call tools; replies are not
    /// streamed
    #[arg(long)]
    selector: bool,

    /// Ask before each irreversible call, and before each call of an MCP server's tool; needs a
    /// terminal
    #[arg(long)]
    pub approve: bool,

    /// Maximum number of model calls for one task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_model_calls: Option<u64>,

    /// Maximum time for one task, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,

    /// Print only JSON on stdout, one object per line
    ///
    /// Each event is an object with the field `event`. The last object of each task has the field
    /// `result` (answer, ending, limit, iterations, spent, tools_used, failures) or `error` (stage,
    /// text, spent). With --journal, the first object of each task has the field `run`, its id.
    #[arg(long)]
    pub json: bool,
}

/// An assistant, with the servers that it started.
pub struct Assistant {
    agent: ToolOrchestrator,
    chosen: Chosen,
    limits: Limits,
    streams: bool,
    approves: bool,
    json: bool,
    journal: Option<Journal>,
    servers: Vec<McpClient>,
    /// Number of runs that were started.
    started: Cell<u32>,
}

/// The end of one task.
pub enum End {
    /// It has a result.
    Finished(Box<Finished>),
    /// It failed. The error was printed.
    Failed,
    /// The user ended it with Ctrl-C.
    Cancelled,
}

impl End {
    /// Returns the exit code of a program with one task.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        match self {
            Self::Finished(_) => ExitCode::SUCCESS,
            Self::Failed => ExitCode::FAILURE,
            Self::Cancelled => ExitCode::from(130),
        }
    }
}

/// A task to be carried out.
enum Work<'a> {
    /// A run in memory.
    Run(&'a mut Run),
    /// A run in the journal.
    Kept { journal: &'a Journal, id: &'a str, task: Task, metadata: Vec<(String, String)> },
}

impl AgentArgs {
    /// Makes the assistant, and connects to its servers. It can ask for approvals if `asks`. Returns
    /// `None` if the user ends the program with Ctrl-C meanwhile.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or there is no model for this prompt.
    pub async fn assistant(
        &self,
        prompt: Option<&str>,
        asks: bool,
        journal: Option<&Path>,
    ) -> Result<Option<Assistant>, Box<dyn Error>> {
        let journal = journal.map(Journal::open).transpose()?;
        let journal = journal.map(|journal| {
            let changed = |id: &str, change: &_| note(&format!("(run {id}: {change})"));
            journal.with_change_listener(changed)
        });
        let recording = Recording::parse(RECORDING, "recordings/assistant.json")?;
        let chosen = self.model.choose(prompt, recording).await?;
        note(&chosen.line);

        let mut limits = Limits::default();
        limits.budget.model_calls = self.max_model_calls;
        limits.max_time = self.max_time.map(Duration::from_secs);
        // A selection is JSON for the program, not text for the user.
        let streams = !self.model.no_stream && !self.selector;
        let mut tools = self.tools.tools().await?;
        let ours = tools.len();
        let servers = tokio::select! {
            servers = self.mcp.connect(&mut tools) => servers?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        let mut approval = ApprovalPolicy::from_effect(Effect::Irreversible);
        for theirs in &tools[ours..] {
            approval = approval.with_tool(theirs.name());
        }
        let mut agent = ToolOrchestrator::new(Arc::clone(&chosen.model), tools)?
            .with_limits(limits.clone())
            .with_settings(Settings::default().with_max_output_tokens(512))?
            .with_streaming(streams);
        if self.selector {
            agent = agent.with_choosing(Choosing::Selector)?;
        }
        if self.approve {
            agent = agent.with_approval(approval)?;
        }
        let (approves, json, started) = (asks, self.json, Cell::new(0));
        Ok(Some(Assistant {
            agent,
            chosen,
            limits,
            streams,
            approves,
            json,
            journal,
            servers,
            started,
        }))
    }
}

impl Assistant {
    /// Closes the servers properly. Without this, they would still end with this program.
    pub async fn close(self) {
        join_all(self.servers.into_iter().map(McpClient::close)).await;
    }

    /// Carries out one task. With a journal, goes on with a run of this task that was cut off.
    ///
    /// # Errors
    ///
    /// If the task cannot be started, or a file cannot be written.
    pub async fn once(&self, prompt: String, input: Option<&Input>) -> Result<End, Box<dyn Error>> {
        let Some(journal) = &self.journal else {
            let mut run = self.agent.start(prompt)?;
            return self.carry_out(Work::Run(&mut run), input).await;
        };
        let asked = Task::from(Message::user(prompt.as_str()));
        let mut others = Vec::new();
        for run in runs::open_runs(journal)? {
            if journal.task(&run.id)? == asked {
                return self.resume(&run.id, input).await;
            }
            others.push(run.id);
        }
        if !others.is_empty() {
            let others = others.join(", ");
            note(&format!("(open runs: {others}; without a prompt, they go on)"));
        }
        self.begin(journal, prompt, Vec::new(), input).await
    }

    /// Goes on with a run of the journal.
    ///
    /// # Errors
    ///
    /// There is no such run, or no journal.
    pub async fn resume(&self, id: &str, input: Option<&Input>) -> Result<End, Box<dyn Error>> {
        let journal = self.journal.as_ref().ok_or("there is no journal")?;
        let task = journal.task(id)?;
        note(&format!("(run {id} goes on)"));
        self.carry_out(Work::Kept { journal, id, task, metadata: Vec::new() }, input).await
    }

    /// Goes on with all runs of the journal that were cut off. Returns the last one that finished.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub async fn resume_all(&self, input: Option<&Input>) -> Result<Option<End>, Box<dyn Error>> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let mut last = None;
        for run in runs::open_runs(journal)? {
            last = Some(self.resume(&run.id, input).await?);
            if matches!(last, Some(End::Cancelled)) {
                break;
            }
        }
        Ok(last)
    }

    async fn begin(
        &self,
        journal: &Journal,
        task: String,
        history: Vec<Arc<Message>>,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        self.started.set(self.started.get() + 1);
        let id = runs::new_id(self.started.get());
        note(&format!("(run {id})"));
        let metadata = runs::metadata(&task).into_iter().collect();
        let task = Task::new(task).with_history(history);
        self.carry_out(Work::Kept { journal, id: &id, task, metadata }, input).await
    }

    /// Carries out one line after the other, all in one conversation. With a journal, the runs that
    /// were cut off go on first, and each line is a run.
    ///
    /// # Errors
    ///
    /// If a task cannot be started, or a file cannot be written.
    pub async fn converse(&self, input: &Input) -> Result<ExitCode, Box<dyn Error>> {
        let mut code = ExitCode::SUCCESS;
        let mut said = match self.resume_all(Some(input)).await? {
            Some(End::Finished(finished)) => without_instructions(&finished),
            Some(End::Failed) => {
                code = ExitCode::FAILURE;
                Vec::new()
            }
            _ => Vec::new(),
        };
        if input.is_terminal() {
            note("(one task per line; Ctrl-C ends a task, Ctrl-D the conversation)");
        }
        let mut so_far: Option<Run> = None;
        while let Some(task) = input.task().await? {
            if task.trim().is_empty() {
                continue;
            }
            let end = match &self.journal {
                Some(journal) => {
                    let end = self.begin(journal, task, said.clone(), Some(input)).await?;
                    if let End::Finished(finished) = &end {
                        said = without_instructions(finished);
                    }
                    end
                }
                None => {
                    let mut run = match &so_far {
                        None => self.agent.start(task)?,
                        Some(before) => self.follow_up(before.clone(), task)?,
                    };
                    let end = self.carry_out(Work::Run(&mut run), Some(input)).await?;
                    if matches!(end, End::Finished(_)) {
                        so_far = Some(run);
                    }
                    end
                }
            };
            if !matches!(end, End::Finished(_)) {
                // A run cannot be continued in the middle of a task.
                note("(the conversation continues without this task; changes by its tools remain)");
            }
            if matches!(end, End::Failed) {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    /// Continues a run with another task.
    ///
    /// The limits are for one task, but a run counts all its tasks. The limits are therefore raised
    /// by the amounts used so far.
    fn follow_up(&self, mut run: Run, task: String) -> Result<Run, Box<dyn Error>> {
        run.follow_up(task)?;
        let mut limits = self.limits.clone();
        if let Some(calls) = &mut limits.budget.model_calls {
            *calls = calls.saturating_add(run.spent().model_calls);
        }
        if let Some(time) = &mut limits.max_time {
            *time = time.saturating_add(run.elapsed());
        }
        Ok(run.with_limits(limits))
    }

    /// Drives a run to its end and prints the result.
    async fn carry_out(
        &self,
        work: Work<'_>,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        let kept = match &work {
            Work::Kept { id, .. } => Some((*id).to_owned()),
            Work::Run(_) => None,
        };
        if let (true, Some(id)) = (self.json, &kept) {
            tell(&json!({ "run": id }));
        }
        let (cancellation, ledger) = (Cancellation::default(), Ledger::default());
        let cx =
            self.context(input).with_cancellation(cancellation.clone()).with_ledger(ledger.clone());
        let started = Instant::now();
        let running = async {
            match work {
                Work::Run(run) => self.agent.drive(run, &cx).await,
                Work::Kept { journal, id, task, metadata } => {
                    let cx = cx.clone().with_run(id, metadata);
                    journal.drive(&self.agent, id, task, &cx).await
                }
            }
        };
        let mut running = std::pin::pin!(running);
        let finished = tokio::select! {
            finished = &mut running => finished,
            _ = tokio::signal::ctrl_c() => {
                // The run stops and returns an error with the stage `Cancelled`.
                cancellation.cancel();
                running.await
            }
        };
        // Save the replies after a failure too, because they cost money.
        if let Some(path) = self.chosen.save_recording()? {
            note(&format!("recorded in {}", path.display()));
        }
        let cost = summary(ledger.spent(), started.elapsed());
        if self.json {
            tell(&match &finished {
                Ok(finished) => result(finished),
                Err(error) => json!({"error": {
                    "stage": error.stage(),
                    "text": format!("{error:#}"),
                    "spent": ledger.spent(),
                }}),
            });
        }
        Ok(match finished {
            Ok(finished) => {
                if !self.streams && !self.json {
                    say(&finished.answer);
                }
                if finished.ending != Ending::Answered {
                    let limit = finished.limit.map(|limit| format!(", {limit}"));
                    let limit = limit.unwrap_or_default();
                    note(&format!("(the run ended at a limit: {:?}{limit})", finished.ending));
                }
                note(&cost);
                End::Finished(Box::new(finished))
            }
            Err(error) if error.stage() == Stage::Cancelled => {
                note(&format!("\ncancelled after {cost}"));
                if let Some(id) = &kept {
                    note(&format!("(run {id} stays open)"));
                }
                End::Cancelled
            }
            Err(error) => {
                if !self.json {
                    note(&format!("error: {error:#}"));
                }
                let awaits = error.downcast_ref::<AwaitsApproval>().is_some();
                match &kept {
                    None if awaits => {
                        note("--approve needs a terminal, and does not work with --json");
                    }
                    Some(id) if awaits => {
                        note(&format!("(run {id} waits; resume it at a terminal to decide)"));
                    }
                    Some(id) if !is_locked(&error) => note(&format!("(run {id} is kept)")),
                    _ => {}
                }
                End::Failed
            }
        })
    }

    /// Creates the context, which shows events and asks the user for approvals.
    fn context(&self, input: Option<&Input>) -> Context {
        let (json, screen) = (self.json, Screen::default());
        let cx = Context::default()
            .with_events(move |event| if json { tell(event) } else { screen.show(event) });
        let Some(input) = input.filter(|_| self.approves) else { return cx };
        let (input, agent) = (input.clone(), self.agent.clone());
        // Who decides at this terminal, for the page of the run.
        let user = ["USER", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        let cx =
            user.filter(|user| !user.is_empty()).map_or(cx.clone(), |user| with_decider(&cx, user));
        cx.with_approver(move |asked: Approval| {
            let (input, agent) = (input.clone(), agent.clone());
            async move {
                let mut tools = agent.tools().iter();
                let tool = tools.find(|tool| tool.name() == asked.call.name);
                let tool = tool.ok_or(ModuleError::stop(
                    "the call that waits for approval names an unknown tool",
                ))?;
                let decided = decide(&input, tool.contract(), &asked).await?;
                decided.ok_or(ModuleError::stop("the user ended the run").at(Stage::Cancelled))
            }
        })
    }
}

/// Returns the last object of a finished run, for `--json`.
fn result(finished: &Finished) -> Value {
    let failures = finished.failures.iter();
    let failures = failures.map(|failure| json!({"call": failure.call, "error": failure.error}));
    json!({"result": {
        "answer": finished.answer,
        "ending": finished.ending,
        "limit": finished.limit,
        "iterations": finished.iterations,
        "spent": finished.spent,
        "tools_used": finished.tools_used,
        "failures": failures.collect::<Vec<_>>(),
    }})
}

fn is_locked(error: &ModuleError) -> bool {
    matches!(error.downcast_ref(), Some(JournalError::Locked { .. }))
}

/// Returns the conversation for the next task.
fn without_instructions(finished: &Finished) -> Vec<Arc<Message>> {
    let mut said = finished.history.clone();
    said.retain(|message| !matches!(**message, Message::System { .. }));
    said
}
