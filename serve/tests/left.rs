//! Runs that drives leave without a record, runs of other programs, and models that select tools in text.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_journal::Journal;
use toolwright_module::error::Stage;
use toolwright_module::model::Reply;
use toolwright_module::{Context, Error, Signature, Tool, from_fn};
use toolwright_orchestrator::{Agent, Choosing};

use crate::support::{Server, Slow, kinds};

/// Look at a place.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Look {
    /// Where.
    at: u64,
}

impl Signature for Look {
    type Output = String;
}

/// A model that cannot be asked. The run has no record of this.
fn unset() -> Slow {
    Slow::fast(|_| Err(Error::stop("no model was found").at(Stage::Setup)))
}

#[tokio::test]
async fn a_drive_that_fails_without_a_record_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let server = Server::start(journal, Agent::new(unset(), []).unwrap()).await;
    let updates = server.say("kate", "c1", "Hello.").await.all().await;
    assert_eq!(kinds(&updates), ["started", "stopped"]);
    assert_eq!(updates[1]["can_go_on"], true);
    let told = server.json("kate", "/conversations/c1").await;
    assert_eq!(told["runs"][0]["rest"], "over");
}

#[tokio::test]
async fn runs_of_other_programs_in_the_folder_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let other = Agent::new(unset(), []).unwrap();
    let run = journal.drive(&other, "theirs", "Hello.", &Context::default()).await;
    assert!(run.is_err());
    let model = Slow::fast(|_| Ok(Reply::text("Hello.")));
    let requests = model.requests.clone();
    let server = Server::start(journal, Agent::new(model, []).unwrap()).await;
    server.say("kate", "c1", "Hello.").await.all().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_tool_that_is_selected_in_a_text_is_a_call() {
    let look = Tool::new(from_fn(|_: Look| async { Ok("a tree".to_owned()) })).unwrap();
    let model = Slow::fast(|request| {
        let said = request.messages.len();
        Ok(Reply::text(match said {
            2 => {
                r#"{"selection":{"action":"call_tool","tool_name":"look","tool_input":{"at":12345678901234567890}}}"#
            }
            4 => r#"{"selection":{"action":"finish"}}"#,
            _ => "It is there.",
        }))
    });
    let agent = Agent::new(model, [look]).unwrap().with_choosing(Choosing::Selector).unwrap();
    let server = Server::start(toolwright_serve::Home::memory(), agent).await;
    let updates = server.say("kate", "c1", "Look.").await.all().await;
    assert_eq!(
        kinds(&updates),
        ["started", "called", "replied", "result", "replied", "text", "replied", "done"],
        "{updates:#?}"
    );
    assert_eq!(updates[1]["arguments"], json!(r#"{"at":12345678901234567890}"#));
    assert_eq!(updates[1]["id"], updates[3]["id"]);
}
