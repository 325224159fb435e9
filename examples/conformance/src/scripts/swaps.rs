//! Changing the provider within a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::{Signature, Tool, from_fn};
use toolwright_orchestrator::{Ending, Finished, Task};

use crate::Check;
use crate::provider::{PROVIDERS, Provider};
use crate::script::{Saw, Script};
use crate::trial::{Trial, same};

/// Look up a word.
#[derive(Serialize, Deserialize, JsonSchema)]
struct LookUp {
    word: String,
}

impl Signature for LookUp {
    type Output = String;
}

/// One script for each provider: the provider under test goes on with its run, and it goes on with
/// the run of the provider under test.
pub(crate) fn all() -> Vec<Script> {
    let scripts = PROVIDERS.iter().map(|other| {
        Script::with_steps(
            format!("to {} and back", other.name),
            |_, _| {
                let words = ["crab", "ferris", "oxide"];
                words.into_iter().flat_map(|word| [call(word), json!({"text": "Found."})]).collect()
            },
            move |trial| there_and_back(trial, other),
        )
    });
    scripts.collect()
}

/// A reply with everything that a later request may have to leave out.
fn call(word: &str) -> Value {
    json!({
        "reasoning": format!("Think of {word}."),
        "text": format!("I look up {word}."),
        "calls": [
            {"name": "look_up", "arguments": {"word": word}},
            {"name": "look_up", "arguments": {"word": format!("{word}s")}},
        ],
    })
}

async fn there_and_back(trial: Trial, other: &Provider) -> Check<Saw> {
    let there = trial.with_provider(other)?;
    let mut history = Vec::new();
    for (trial, word) in [(&trial, "crab"), (&there, "ferris"), (&trial, "oxide")] {
        let finished = run(trial, history, word).await?;
        same("the ending", finished.ending, Ending::Answered)?;
        history = finished.history;
    }
    let seen = trial.seen(6).await?;
    let last = seen.last().map(|seen| seen.body.to_string()).unwrap_or_default();
    for word in ["crab", "crabs", "ferris", "ferriss", "oxide", "oxides"] {
        let meaning = format!("The meaning of {word}.");
        same("how often a result is sent", last.matches(&meaning).count(), 1)?;
    }
    for word in ["crab", "ferris", "oxide"] {
        let text = format!("I look up {word}.");
        same("how often a text is sent", last.matches(&text).count(), 1)?;
    }
    Ok(Saw::Works)
}

async fn run(
    trial: &Trial,
    history: Vec<std::sync::Arc<toolwright_module::Message>>,
    word: &str,
) -> Check<Finished> {
    let look_up =
        Tool::new(from_fn(async |LookUp { word }: LookUp| Ok(format!("The meaning of {word}."))))?;
    let task = Task::new(format!("Look up {word} and its plural.")).with_history(history);
    trial.run([look_up], task).await
}
