//! A loop of your own, without an orchestrator, whose run survives a crash.
//!
//! After each step the run is stored as text. Before each step this program loads the text, as
//! another process would after a crash. With `--base-url URL --model NAME` a real model answers.
//! Otherwise a test model calls every tool once.

use std::sync::Arc;

use clap::Parser;
use toolwright_cli::{ServerArgs, say};
use toolwright_memory::Memory;
use toolwright_module::error::Audience;
use toolwright_module::message::ToolResult;
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{Context, LanguageModel, Result, Tool, ToolCall};
use toolwright_orchestrator::{Limits, Run, RunState, StepKind, StepResult};

/// A loop of your own over the memory toolset.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let model: Arc<dyn LanguageModel> = match Args::parse().server.given()? {
        Some(model) => model,
        None => Arc::new(SchemaDriven::default()),
    };
    let tools = Memory::default().tools()?;
    let cx = Context::default();

    let run = Run::new("Store the key color with value blue.", &tools, Limits::default())?;
    let mut stored = serde_json::to_string(&run)?;
    loop {
        let state: RunState = serde_json::from_str(&stored)?;
        // This is an error if an open call cannot go on with these tools.
        let mut run = Run::resume(state, &tools)?.run;

        let step = run.next();
        let answer = match step.kind {
            StepKind::CallModel(request) => {
                StepResult::model(step.number, model.generate(&request).await?)
            }
            StepKind::CallTools(calls) => {
                let mut results = Vec::new();
                for call in &calls {
                    say(&format!("step {}: {} {}", step.number, call.name, call.arguments));
                    let tool = tools.iter().find(|tool| tool.contract().name() == call.name);
                    // The run returns only calls of its own tools.
                    let tool = tool.ok_or("the run calls a tool that it was not given")?;
                    results.push(answer(tool, call, &cx).await?);
                }
                StepResult::tools(step.number, results)
            }
            StepKind::Done(result) => {
                say(&format!("done: {}", result.answer));
                return Ok(());
            }
            _ => return Err("this program does not know the step; update it".into()),
        };
        run.apply(answer)?;
        stored = serde_json::to_string(&run)?;
    }
}

/// Calls a tool and returns the result for the model. An error ends the run.
async fn answer(tool: &Tool, call: &ToolCall, cx: &Context) -> Result<ToolResult> {
    match ToolResult::of(call, tool.call(&call.arguments, cx).await) {
        (_, Some(error)) if error.audience() == Audience::Run => Err(error),
        (result, _) => Ok(result),
    }
}
