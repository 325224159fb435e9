//! An assistant with tools: streams its answer and shows every tool call.
//!
//! `cargo run -p toolwright-examples --example assistant -- "Store the key color with
//! value blue, then tell me what you have stored."`
//!
//! Without a prompt it is a conversation: each line is a task.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A run with a real model, for when there is none.
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

    /// Let the model choose tools by answering with a selection, for models that cannot
    /// call tools; replies come whole
    #[arg(long)]
    selector: bool,

    /// Ask before a call that cannot be undone, and before any of an MCP server's tools,
    /// whatever it says of them; needs a terminal
    #[arg(long)]
    approve: bool,

    /// How often the model may be asked for one task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_model_calls: Option<u64>,

    /// How long one task may take
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,

    /// Print JSON, one object a line, and nothing else on stdout
    ///
    /// Each event is an object with the field `event`. Last comes, for each task, an object
    /// with `result` (answer, ending, limit, iterations, spent, tools_used, failures) or
    /// one with `error` (stage, text, spent).
    #[arg(long)]
    json: bool,

    /// Keep the lines of a conversation in this file, for the next one
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    history: Option<PathBuf>,

    /// What to do; without it each line of the input is a task, all in one conversation
    prompt: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let json = args.json;
    let ended = tokio::select! {
        ended = run(args) => ended,
        // What it started ends with it.
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

    let mut limits = Limits::default().with_max_output_tokens(512);
    limits.budget.model_calls = args.max_model_calls;
    limits.max_time = args.max_time.map(Duration::from_secs);
    // A selection while it is written is nothing to read.
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
        .with_limits(limits)
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
    // In good order; whatever happened above, none of them outlives this program.
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

    /// Carries out line after line, each in the conversation of those before it.
    async fn converse(&self, input: &Input) -> Result<ExitCode, Box<dyn Error>> {
        if input.is_terminal() {
            note("(a task a line; Ctrl-C ends a task, Ctrl-D the conversation)");
        }
        let mut so_far: Option<Run> = None;
        let mut code = ExitCode::SUCCESS;
        while let Some(task) = input.task().await? {
            if task.trim().is_empty() {
                continue;
            }
            let mut run = match &so_far {
                None => self.agent.start(task)?,
                Some(before) => self.goes_on(before.clone(), task)?,
            };
            let end = self.carry_out(&mut run, Some(input)).await?;
            if end == End::Finished {
                so_far = Some(run);
                continue;
            }
            // In the middle of a task there is no asking on.
            note("(the conversation goes on without this task; what its tools did is done)");
            if end == End::Failed {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    /// Asks on. A run counts on, and the limits are for one task: it gets as much again.
    fn goes_on(&self, mut run: Run, task: String) -> Result<Run, Box<dyn Error>> {
        run.follow_up(task)?;
        let mut limits = self.limits;
        if let Some(calls) = &mut limits.budget.model_calls {
            *calls = calls.saturating_add(run.spent().model_calls);
        }
        if let Some(time) = &mut limits.max_time {
            *time = time.saturating_add(run.elapsed());
        }
        Ok(run.with_limits(limits))
    }

    /// Drives a run to its end and says what came of it.
    async fn carry_out(&self, run: &mut Run, input: Option<&Input>) -> Result<End, Box<dyn Error>> {
        let (cancellation, ledger) = (Cancellation::default(), Ledger::default());
        let cx =
            self.context(input).with_cancellation(cancellation.clone()).with_ledger(ledger.clone());
        let started = Instant::now();
        let mut running = std::pin::pin!(self.agent.drive(run, &cx));
        let finished = tokio::select! {
            finished = &mut running => finished,
            _ = tokio::signal::ctrl_c() => {
                // The run ends where it stands, and says so itself.
                cancellation.cancel();
                running.await
            }
        };
        // However it ended: what was said so far has been paid for.
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
                    note("--approve asks on a terminal, and not with --json");
                }
                End::Failed
            }
        })
    }

    /// Who watches, and who is asked.
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
                let tool = tool.ok_or(ModuleError::stop("a call of no tool waits for a person"))?;
                let decided = decide(&input, tool.contract(), &asked).await?;
                decided.ok_or(ModuleError::stop("the person ended the run").at(Stage::Cancelled))
            }
        })
    }
}

/// The last line of a run that came to its end, for another program.
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
