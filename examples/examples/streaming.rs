//! An answer whose fields are shown while the model writes it.
//!
//! With `--base-url URL --model NAME` a real model answers. Otherwise a test model answers, first
//! with an invalid reply: the partial answer is discarded, and the model is asked again.

use std::error::Error;
use std::sync::Arc;
use toolwright_module::model::Settings;

use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::{ServerArgs, note, say};
use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::predict::{Example, OutputMode, PredictEvent};
use toolwright_module::testing::Scripted;
use toolwright_module::{ChainOfThought, Context, LanguageModel, Reply, Signature};

/// Plan an excursion.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct PlanExcursion {
    /// Destination of the excursion.
    to: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Excursion {
    title: String,
    /// Things to take along.
    #[schemars(length(max = 5))]
    luggage: Vec<String>,
}

impl Signature for PlanExcursion {
    type Output = Excursion;
}

/// An answer whose fields are shown while the model writes it.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: ServerArgs,

    /// Output mode: schema, tool or prompted. Default: the best one that the model supports
    #[arg(long, value_parser = mode)]
    mode: Option<OutputMode>,
}

fn mode(word: &str) -> Result<OutputMode, String> {
    match word {
        "schema" => Ok(OutputMode::Schema),
        "tool" => Ok(OutputMode::Tool),
        "prompted" => Ok(OutputMode::Prompted),
        _ => Err("use schema, tool or prompted".to_owned()),
    }
}

const WRONG: &str = r#"{"reasoning": "It is cold up there.", "output": {"title": "To the top"}}"#;
const RIGHT: &str = r#"{"reasoning": "It is cold up there.", "output": {"title": "To the top", "luggage": ["a warm coat", "tea"]}}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let model: Arc<dyn LanguageModel> = match args.server.given()? {
        Some(model) => model,
        None => Arc::new(Scripted::replies([Reply::text(WRONG), Reply::text(RIGHT)])),
    };
    let example =
        Excursion { title: "A day in the woods".to_owned(), luggage: vec!["bread".to_owned()] };
    let example = Example::new(PlanExcursion { to: "the woods".to_owned() }, example)
        .with_reasoning("Walking makes you hungry.");
    let mut plan = ChainOfThought::<PlanExcursion>::new(model)?
        .with_examples([example])?
        .with_settings(Settings::default().with_max_output_tokens(300))?;
    if let Some(mode) = args.mode {
        plan = plan.with_output_mode(mode)?;
    }
    let ledger = Ledger::new(Budget { output_tokens: Some(2_000), ..Budget::default() });
    let cx = Context::default().with_ledger(ledger.clone());
    let mut events = plan.stream(PlanExcursion { to: "a mountain".to_owned() }, &cx);
    while let Some(event) = events.next().await {
        match event? {
            PredictEvent::Text(_) => {
                let field = |path| events.partial().text(path).so_far().unwrap_or_default();
                let luggage: Option<Vec<String>> =
                    events.partial().field("output.luggage").so_far();
                let (reasoning, title) = (field("reasoning"), field("output.title"));
                note(&format!(
                    "{reasoning} | {title} | {}",
                    luggage.unwrap_or_default().join(", ")
                ));
            }
            PredictEvent::Discard => note("(invalid reply: asking again)"),
            PredictEvent::Done(answer) => {
                say(&answer.reasoning);
                say(&format!("{}: {}", answer.output.title, answer.output.luggage.join(", ")));
            }
            _ => {}
        }
    }
    let usage = ledger.spent().usage;
    note(&format!("{} tokens", usage.input_tokens + usage.output_tokens));
    Ok(())
}
