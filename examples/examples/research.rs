//! An agent with three tools: one is code, and two use models with different techniques.
//!
//! The search is code, the summary is `Predict` on a fast model, and the classification is
//! `ChainOfThought` on a smart model. A third model selects the tools. With
//! `--base-url URL --model NAME` all models are real (`--fast-model` and `--smart-model` name the
//! others). Otherwise test models answer.

use std::error::Error;
use std::sync::Arc;

use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::{Screen, ServerArgs, say};
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    ChainOfThought, Context, Effect, LanguageModel, Predict, Signature, Tool, from_fn,
};
use toolwright_orchestrator::Agent;
use toolwright_signature::Dialect;

/// Search legal documents by query.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SearchDocuments {
    /// Words to look for.
    query: String,
}

impl Signature for SearchDocuments {
    type Output = Vec<String>;
}

/// Summarize a document in one sentence.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SummarizeDocument {
    /// The document's text or title.
    document: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Summary {
    sentence: String,
}

impl Signature for SummarizeDocument {
    type Output = Summary;
}

/// Classify a document.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ClassifyDocument {
    /// The document's text or title.
    document: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Statute,
    CourtDecision,
    Commentary,
}

impl Signature for ClassifyDocument {
    type Output = Kind;
}

/// An agent with three tools and three models.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: ServerArgs,

    /// Model for summaries. Default: the model in --model
    #[arg(long, value_name = "PROVIDER:NAME")]
    fast_model: Option<String>,

    /// Model for classification. Default: the model in --model
    #[arg(long, value_name = "PROVIDER:NAME")]
    smart_model: Option<String>,

    /// Print the tools in the form of MCP, and exit
    #[arg(long)]
    mcp: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let model = |name: &Option<String>| -> Result<Arc<dyn LanguageModel>, Box<dyn Error>> {
        let server = args.server.clone().with_model(name.as_deref())?;
        Ok(match server.given()? {
            Some(model) => model,
            None => Arc::new(SchemaDriven::default()),
        })
    };
    let (fast, smart) = (model(&args.fast_model)?, model(&args.smart_model)?);
    let chooser = model(&None)?;

    let search = from_fn(async |input: SearchDocuments| {
        Ok(vec![format!("The {} act of 2026: rates fall from 20 to 18 percent.", input.query)])
    });
    let tools = [
        Tool::new(search.with_effect(Effect::Read))?,
        Tool::new(Predict::<SummarizeDocument>::new(fast)?)?,
        Tool::new(ChainOfThought::<ClassifyDocument>::new(smart)?)?,
    ];
    if args.mcp {
        for tool in &tools {
            say(&tool.contract().tool(Dialect::Mcp)?.to_string());
        }
        return Ok(());
    }

    let agent = Agent::new(chooser, tools)?;
    let screen = Screen::default();
    let cx = Context::default().with_events(move |event| screen.show(event));
    let finished = agent.run("Find and summarize recent tax law changes.", &cx).await?;
    say(&format!("tools used: {}", finished.tools_used.join(", ")));
    Ok(())
}
