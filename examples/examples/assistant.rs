//! An assistant with tools: streams its answer and shows every tool call.
//!
//! `cargo run -p toolwright-examples --example assistant -- "Store the key color with
//! value blue, then tell me what you have stored."`
//!
//! Without a prompt it holds a conversation: each line of the input is a task.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolwright_module::model::Settings;

use clap::Parser;
use futures_util::future::join_all;
use serde_json::{Value, json};
use toolwright_examples::{
    Chosen, Input, McpArgs, ModelArgs, Screen, ToolArgs, decide, note, say, summary, tell,
    terminated,
};
use toolwright_mcp::McpClient;
use toolwright_module::approval::Approval;
use toolwright_module::budget::Ledger;
use toolwright_module::error::Stage;
use toolwright_module::testing::Recording;
use toolwright_module::{Cancellation, Context, Effect, Error as ModuleError};
use toolwright_orchestrator::{
    ApprovalPolicy, AwaitsApproval, Choosing, Ending, Finished, Limits, Run, ToolOrchestrator,
};

/// Recording of a run with a real model, which is replayed if there is no model.
const RECORDING: &str = include_str!("../recordings/assistant.json");

/// An assistant with tools, for one prompt or for a conversation.
#[derive(Parser)]
struct Args {
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
    approve: bool,

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
    /// text, spent).
    #[arg(long)]
    json: bool,

    /// Keep the lines of a conversation in this file, as the history for the next one
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    history: Option<PathBuf>,

    /// The task. Default: each line of the input is a task, all in one conversation
    prompt: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let json = args.json;
    let ended = tokio::select! {
        ended = run(args) => ended,
        // This drops the run, which also ends the servers that it started.
        () = terminated() => return ExitCode::from(143),
    };
    ended.unwrap_or_else(|error| {
        if json {
            tell(&json!({"error": {"stage": Stage::Setup, "text": error.to_string()}}));
        } else {
            note(&format!("error: {error}"));
        }
        ExitCode::FAILURE
    })
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let prompt = (!args.prompt.is_empty()).then(|| args.prompt.join(" "));
    let terminal = io::stdin().is_terminal();
    let approves = args.approve && terminal && !args.json;
    let input = match terminal {
        true if prompt.is_none() || approves => Some(Input::terminal(args.history.as_deref())?),
        false if prompt.is_none() => Some(Input::pipe()),
        _ => None,
    };
    let recording = Recording::parse(RECORDING, "recordings/assistant.json")?;
    let chosen = args.model.choose(prompt.as_deref(), recording).await?;
    note(&chosen.line);

    let mut limits = Limits::default();
    limits.budget.model_calls = args.max_model_calls;
    limits.max_time = args.max_time.map(Duration::from_secs);
    // A selection is JSON for the program, not text for the user.
    let streams = !args.model.no_stream && !args.selector;
    let mut tools = args.tools.tools().await?;
    let ours = tools.len();
    let servers = tokio::select! {
        servers = args.mcp.connect(&mut tools) => servers?,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(130)),
    };
    let mut approval = ApprovalPolicy::from_effect(Effect::Irreversible);
    for theirs in &tools[ours..] {
        approval = approval.with_tool(theirs.name());
    }
    let mut agent = ToolOrchestrator::new(Arc::clone(&chosen.model), tools)?
        .with_limits(limits.clone())
        .with_settings(Settings::default().with_max_output_tokens(512))?
        .with_streaming(streams);
    if args.selector {
        agent = agent.with_choosing(Choosing::Selector)?;
    }
    if args.approve {
        agent = agent.with_approval(approval)?;
    }

    let assistant = Assistant { agent, chosen, limits, streams, approves, json: args.json };
    let ended = match (prompt, input) {
        (Some(prompt), input) => assistant.once(prompt, input.as_ref()).await,
        (None, Some(input)) => assistant.converse(&input).await,
        (None, None) => Ok(ExitCode::SUCCESS),
    };
    // Close the servers properly. Without this, they would still end with this program.
    join_all(servers.into_iter().map(McpClient::close)).await;
    ended
}

struct Assistant {
    agent: ToolOrchestrator,
    chosen: Chosen,
    limits: Limits,
    streams: bool,
    approves: bool,
    json: bool,
}

#[derive(PartialEq)]
enum End {
    Finished,
    Failed,
    Cancelled,
}

impl Assistant {
    /// Carries out one task.
    async fn once(
        &self,
        prompt: String,
        input: Option<&Input>,
    ) -> Result<ExitCode, Box<dyn Error>> {
        let mut run = self.agent.start(prompt)?;
        Ok(match self.carry_out(&mut run, input).await? {
            End::Finished => ExitCode::SUCCESS,
            End::Failed => ExitCode::FAILURE,
            End::Cancelled => ExitCode::from(130),
        })
    }

    /// Carries out one line after the other, all in one conversation.
    async fn converse(&self, input: &Input) -> Result<ExitCode, Box<dyn Error>> {
        if input.is_terminal() {
            note("(one task per line; Ctrl-C ends a task, Ctrl-D the conversation)");
        }
        let mut so_far: Option<Run> = None;
        let mut code = ExitCode::SUCCESS;
        while let Some(task) = input.task().await? {
            if task.trim().is_empty() {
                continue;
            }
            let mut run = match &so_far {
                None => self.agent.start(task)?,
                Some(before) => self.follow_up(before.clone(), task)?,
            };
            let end = self.carry_out(&mut run, Some(input)).await?;
            if end == End::Finished {
                so_far = Some(run);
                continue;
            }
            // A run cannot be continued in the middle of a task.
            note("(the conversation continues without this task; changes by its tools remain)");
            if end == End::Failed {
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
    async fn carry_out(&self, run: &mut Run, input: Option<&Input>) -> Result<End, Box<dyn Error>> {
        let (cancellation, ledger) = (Cancellation::default(), Ledger::default());
        let cx =
            self.context(input).with_cancellation(cancellation.clone()).with_ledger(ledger.clone());
        let started = Instant::now();
        let mut running = std::pin::pin!(self.agent.drive(run, &cx));
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
                End::Finished
            }
            Err(error) if error.stage() == Stage::Cancelled => {
                note(&format!("\ncancelled after {cost}"));
                End::Cancelled
            }
            Err(error) => {
                if !self.json {
                    note(&format!("error: {error:#}"));
                }
                if error.downcast_ref::<AwaitsApproval>().is_some() {
                    note("--approve needs a terminal, and does not work with --json");
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
