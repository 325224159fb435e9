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
use toolwright_serve::{Home, Serve};

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

/// A model that fails at its first request.
fn fails_once() -> Slow {
    let failures = std::sync::atomic::AtomicBool::new(true);
    Slow::fast(move |_| match failures.swap(false, std::sync::atomic::Ordering::SeqCst) {
        true => Err(Error::stop("the model is away")),
        false => Ok(Reply::text("Sent.")),
    })
}

#[tokio::test]
async fn a_failed_run_is_not_driven_again_by_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path()).unwrap();
    let before = Server::start(journal(), Agent::new(fails_once(), []).unwrap()).await;
    let mut reader = before.say("kate", "c1", "Mail Bob.").await;
    let run = reader.until("stopped").await.0[0]["run"].as_str().unwrap().to_owned();
    // Nothing is under way, so it ends at once.
    before.service.shutdown(Duration::MAX).await;
    drop(before);

    let model = Slow::fast(|_| Ok(Reply::text("Sent.")));
    let requests = model.requests.clone();
    let after = Server::start(journal(), Agent::new(model, []).unwrap()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(requests.lock().unwrap().len(), 0);
    // The user decides.
    let path = format!("/runs/{run}/go-on");
    assert_eq!(after.post("kate", &path, &json!({})).send().await.unwrap().status(), 200);
    after.resume("kate", &run, &reader.position).await.until("done").await;
    let (status, error) = Server::error(after.post("kate", &path, &json!({}))).await;
    assert_eq!((status, &*error), (409, "the run `kate:c1:1` has ended; send a message instead"));
}

#[tokio::test]
async fn a_failed_run_ends_when_the_user_says_something_else() {
    for replaces in [false, true] {
        for home in
            [Home::memory(), Journal::open(tempfile::tempdir().unwrap().keep()).unwrap().into()]
        {
            let model = fails_once();
            let requests = model.requests.clone();
            let server = Server::start(home, Agent::new(model, []).unwrap()).await;
            let say = async |body| {
                let response = server.post("kate", "/messages", &body).send().await.unwrap();
                crate::support::Stream::of(response).all().await
            };
            let body = json!({"conversation": "c1", "id": "a", "text": "Mail Bob."});
            assert_eq!(say(body).await.last().unwrap()["can_go_on"], true);
            let id = if replaces { "a" } else { "b" };
            let text = "Mail Bob, please.";
            let body = json!({"conversation": "c1", "id": id, "text": text, "replaces": replaces});
            assert_eq!(say(body).await.last().unwrap()["answer"], "Sent.");
            let request = server.post("kate", "/runs/kate:c1:1/go-on", &json!({}));
            assert_eq!(Server::error(request).await.0, 409);
            assert_eq!(requests.lock().unwrap().len(), 2);
        }
    }
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

#[tokio::test]
async fn runs_of_an_earlier_process_go_on_a_few_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let model = Slow::new(|_| Ok(Reply::text("Hello.")));
    let server = Server::start(journal.clone(), Agent::new(model, []).unwrap()).await;
    for conversation in ["1", "2", "3"] {
        server.say("kate", conversation, "Hello.").await.until("started").await;
    }
    server.service.shutdown(Duration::ZERO).await;

    let model = Slow::new(|_| Ok(Reply::text("Hello.")));
    let (words, requests) = (model.words.clone(), model.requests.clone());
    let agent = Agent::new(model, []).unwrap();
    let server = Server::of(Serve::new(journal, agent).with_most_drives(1)).await;
    while requests.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The user stops one that has not begun.
    let told = server.json("kate", "/conversations/3").await;
    let path = format!("/runs/{}/stop", told["runs"][0]["run"].as_str().unwrap());
    server.post("kate", &path, &json!({})).send().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(requests.lock().unwrap().len(), 1);
    words.add_permits(100);
    for _ in 0..200 {
        let listed = server.json("kate", "/conversations").await;
        let all = listed["conversations"].as_array().unwrap();
        let has = |status: &str| all.iter().filter(|one| one["status"] == status).count();
        if has("finished") == 2 {
            assert_eq!(has("failed"), 1);
            assert_eq!(requests.lock().unwrap().len(), 2);
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the runs did not go on");
}
