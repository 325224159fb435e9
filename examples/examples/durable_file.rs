//! A run that survives `kill -9`: a journal has every part of it, in a file.
//!
//! Start it, kill it, and start it again with the same file: the run goes on where it was. A call
//! that was under way and that changes something is asked about.
//!
//! ```text
//! cargo run -p toolwright-examples --example durable_file -- runs/letter.journal
//! ```
//!
//! The name of the file is the id of the run. The model is a script, so that the program needs no
//! key. Environment variables make the program kill itself at a chosen moment, or drive many runs
//! at once; a test of durability sets them.

#[path = "common/scripted_run.rs"]
mod scripted_run;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scripted_run::{EchoModule, Script, approve, die_at, effect, ended, log, plan};
use serde_json::Value;
use toolwright_cli::say;
use toolwright_journal::{Journal, Options};
use toolwright_module::{Context, Effect, Tool};
use toolwright_orchestrator::Agent;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).or_else(|| env::var("WF").ok());
    let file = PathBuf::from(file.ok_or("give the file of the run, such as runs/letter.journal")?);
    let id = file.file_stem().and_then(|name| name.to_str()).ok_or("the file has no name")?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let plan = plan()?;
    let journal = Journal::open(folder.unwrap_or(Path::new(".")))?;
    match env::var("RUNS").ok().and_then(|count| count.parse().ok()) {
        None => drive_one(journal, id, plan).await,
        Some(count) => drive_many(journal, id, &plan, count).await,
    }
}

async fn drive_one(journal: Journal, id: &str, plan: Vec<Value>) -> Result<(), Box<dyn Error>> {
    let prefix = String::new();
    let tool = Tool::new(EchoModule { effect: effect(), prefix: prefix.clone() })?;
    let agent = Agent::new(Script { plan, prefix }, [tool])?;
    let journal = journal.with_options(Options {
        listener: Some(Arc::new(|_, _, record| {
            if let Some(name) = ended(record) {
                die_at("after", &name);
            }
        })),
        ..Options::default()
    });
    let cx = Context::default().with_approver(|asked| approve(String::new(), asked));
    // Only this line differs from a run without a journal.
    let finished = journal.drive(&agent, id, "Repeat the numbers.", &cx).await?;
    say(&serde_json::to_string(&finished.answer)?);
    Ok(())
}

/// Drives runs with each kind of effect at once. The log has a line for each record, too.
async fn drive_many(
    journal: Journal,
    id: &str,
    plan: &[Value],
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let journal = journal.with_options(Options {
        listener: Some(Arc::new(|id, _, record| {
            if let Some(name) = ended(record) {
                // A log that cannot be written shows in the test.
                let _ = log(&format!("after:{id}/{name}"));
            }
        })),
        ..Options::default()
    });
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..count {
        let effect = [Effect::Read, Effect::Idempotent, Effect::Write][number % 3];
        let id = format!("{id}-{number}");
        let prefix = format!("{id}/");
        let tool = Tool::new(EchoModule { effect, prefix: prefix.clone() })?;
        let model = Script { plan: plan.to_vec(), prefix: prefix.clone() };
        let agent = Agent::new(model, [tool])?;
        let journal = journal.clone();
        let cx = Context::default().with_approver(move |asked| approve(prefix.clone(), asked));
        runs.spawn(async move {
            let finished = journal.drive(&agent, &id, "Repeat the numbers.", &cx).await?;
            Ok::<_, toolwright_module::Error>((id, finished.answer))
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (id, answer) = ended?.map_err(toolwright_module::Error::into_std)?;
        say(&serde_json::to_string(&(id, answer))?);
    }
    Ok(())
}
