//! A typed answer in a conversation, shown while the model writes it, over every home of runs.
//!
//! ```text
//! cargo run -p toolwright-examples --example letter
//! cargo run -p toolwright-examples --example letter -- folder runs
//! cargo run -p toolwright-examples --example letter -- postgres postgres://user@127.0.0.1/database
//! ```
//!
//! Over a folder or a database, the second time finds the answer of the first. A workflow of Restate
//! drives the same agent; see the example `restate_service` of `toolwright-restate`.

#[path = "common/letter.rs"]
mod letter;

use std::error::Error;

use letter::{agent, task, watched};
use toolwright_cli::{note, say};
use toolwright_journal::Journal;
use toolwright_postgres::Runs;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = agent()?;
    let cx = watched(|letter| {
        let lines: Vec<String> = letter.field("lines").so_far().unwrap_or_default();
        let to = letter.text("to").so_far().unwrap_or_default();
        note(&format!("{to}: {}", lines.join(" ")));
    });
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = match arguments.as_slice() {
        [] => agent.run(task(), &cx).await,
        ["folder", folder] => Journal::open(folder)?.drive(&agent, "letter", task(), &cx).await,
        ["postgres", url] => {
            Runs::connect(url, "letters").await?.drive(&agent, "letter", task(), &cx).await
        }
        _ => return Err("give no argument, `folder FOLDER`, or `postgres URL`".into()),
    };
    let letter = finished.map_err(toolwright_module::Error::into_std)?.answer;
    say(&format!("Dear {}, {}", letter.to, letter.lines.join(" ")));
    Ok(())
}
