//! Readers who leave and come back.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_journal::Journal;
use toolwright_module::model::Reply;
use toolwright_module::{Error, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::Agent;
use toolwright_serve::Home;

use crate::support::{Server, Slow, asked, kinds, shown};

const POEM: &str = "one two three four five six seven eight nine ten";

fn poet() -> Slow {
    Slow::new(|_| Ok(Reply::text(POEM)))
}

#[tokio::test]
async fn a_reader_comes_back_and_misses_nothing() {
    let model = poet();
    let words = model.words.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let mut first = server.say("kate", "c1", "A poem.").await;
    let run = first.next().await.unwrap()["run"].as_str().unwrap().to_owned();
    words.add_permits(3);
    let mut seen = Vec::new();
    while shown(&seen) != "one two three " {
        seen.push(first.next().await.unwrap());
    }
    let position = first.position.clone();
    drop(first);
    // Closing the page does not end the run.
    words.add_permits(4);
    tokio::time::sleep(Duration::from_millis(50)).await;

    let mut second = server.resume("kate", &run, &position).await;
    words.add_permits(100);
    seen.extend(second.all().await);
    assert_eq!(shown(&seen), POEM);
    assert_eq!(kinds(&seen), ["text", "replied", "done"]);
    // From any position on, at any time.
    let all = server.resume("kate", &run, "").await.all().await;
    assert_eq!((kinds(&all).len(), shown(&all)), (4, POEM.to_owned()));
    assert!(server.resume("kate", &run, &second.position).await.all().await.is_empty());
}

#[tokio::test]
async fn ten_readers_of_one_run_see_the_same() {
    let model = poet();
    let words = model.words.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let mut first = server.say("kate", "c1", "A poem.").await;
    let run = first.next().await.unwrap()["run"].as_str().unwrap().to_owned();
    let mut readers = Vec::new();
    for n in 0..10 {
        words.add_permits(1);
        tokio::time::sleep(Duration::from_millis(5 * n)).await;
        let mut reader = server.resume("kate", &run, "").await;
        readers.push(tokio::spawn(async move { shown(&reader.all().await) }));
    }
    words.add_permits(100);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), POEM);
    }
}

#[tokio::test]
async fn a_run_that_was_cut_off_goes_on_and_its_lost_words_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let model = poet();
    let words = model.words.clone();
    let journal = || Journal::open(folder.path()).unwrap();
    let before = Server::start(journal(), Agent::new(model, []).unwrap()).await;
    let mut reader = before.say("kate", "c1", "A poem.").await;
    let run = reader.next().await.unwrap()["run"].as_str().unwrap().to_owned();
    words.add_permits(3);
    let mut seen = Vec::new();
    while shown(&seen) != "one two three " {
        seen.push(reader.next().await.unwrap());
    }
    before.service.shutdown(Duration::ZERO).await;
    seen.extend(reader.all().await);
    let position = reader.position.clone();

    // The next process. Its model writes something else.
    let model = Slow::fast(|_| Ok(Reply::text("another poem")));
    let after = Server::start(journal(), Agent::new(model, []).unwrap()).await;
    let mut reader = after.resume("kate", &run, &position).await;
    seen.extend(reader.all().await);
    assert_eq!(shown(&seen), "another poem");
    assert_eq!(seen.iter().filter(|update| update["update"] == "discarded").count(), 1);
}

#[tokio::test]
async fn a_run_goes_on_after_a_restart_without_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path()).unwrap();
    let before = Server::start(journal(), Agent::new(poet(), []).unwrap()).await;
    drop(before.say("kate", "c1", "A poem.").await);
    before.service.shutdown(Duration::ZERO).await;
    let model = Slow::fast(|_| Ok(Reply::text(POEM)));
    let after = Server::start(journal(), Agent::new(model, []).unwrap()).await;
    for _ in 0..200 {
        let told = after.json("kate", "/conversations/c1").await;
        if told["runs"][0]["rest"] == "over" {
            assert_eq!(shown(told["runs"][0]["updates"].as_array().unwrap()), POEM);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the run has not gone on");
}

#[tokio::test]
async fn a_run_can_be_stopped_and_the_conversation_goes_on() {
    let model = poet();
    let words = model.words.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let mut reader = server.say("kate", "c1", "A poem.").await;
    let run = reader.next().await.unwrap()["run"].as_str().unwrap().to_owned();
    words.add_permits(2);
    reader.until("text").await;
    let body = json!({"conversation": "c1", "text": "Quick!"});
    let (status, error) = Server::error(server.post("kate", "/messages", &body)).await;
    assert_eq!(status, 409, "{error}");
    // Another user cannot stop it.
    let path = format!("/runs/{run}/stop");
    let (status, _) = Server::error(server.post("tom", &path, &json!({}))).await;
    assert_eq!(status, 404);
    let response = server.post("kate", &path, &json!({})).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let updates = reader.all().await;
    assert_eq!(updates.last().unwrap()["reason"], "The run was stopped.");
    words.add_permits(1_000);
    let updates = server.say("kate", "c1", "Again.").await.all().await;
    assert_eq!(shown(&updates), POEM);
}

#[tokio::test]
async fn a_run_that_failed_goes_on_when_the_user_asks() {
    let failures = std::sync::atomic::AtomicUsize::new(1);
    let model =
        Slow::fast(move |_| match failures.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            1 => Err(Error::stop("the model is away")),
            _ => Ok(Reply::text(POEM)),
        });
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let mut reader = server.say("kate", "c1", "A poem.").await;
    let (before, stopped) = reader.until("stopped").await;
    assert_eq!(stopped["can_go_on"], true);
    let run = before[0]["run"].as_str().unwrap();
    let path = format!("/runs/{run}/go-on");
    assert_eq!(server.post("kate", &path, &json!({})).send().await.unwrap().status(), 200);
    let updates = server.resume("kate", run, &reader.position).await.all().await;
    assert_eq!(shown(&updates), POEM);
    assert_eq!(updates.last().unwrap()["update"], "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_goes_on_twice_at_once_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    // It fails at the first request of each conversation.
    let asked_before = Mutex::new(BTreeSet::new());
    let model =
        Slow::new(move |request| match asked_before.lock().unwrap().insert(asked(request)) {
            true => Err(Error::stop("the model is away")),
            false => Ok(Reply::text(POEM)),
        });
    let words = model.words.clone();
    let server = Server::start(journal, Agent::new(model, []).unwrap()).await;
    let body = json!({});
    for round in 0..10 {
        words.add_permits(1);
        let text = format!("Poem {round}.");
        server.say("kate", &format!("c{round}"), &text).await.until("stopped").await;
        let path = |what: &str| format!("/runs/kate:c{round}:1/{what}");
        let stop =
            async || server.post("kate", &path("stop"), &body).send().await.unwrap().status();
        let (go_on, poem) = (path("go-on"), json!({}));
        let (one, two) = tokio::join!(
            server.post("kate", &go_on, &poem).send(),
            server.post("kate", &go_on, &poem).send(),
        );
        assert_eq!(
            (one.unwrap().status(), two.unwrap().status()),
            (StatusCode::OK, StatusCode::OK)
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(stop().await, 200);
    }
}

#[tokio::test]
async fn a_position_behind_the_end_of_a_run_is_an_error() {
    let model = Slow::fast(|_| Ok(Reply::text(POEM)));
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let mut reader = server.say("kate", "c1", "A poem.").await;
    reader.all().await;
    assert!(server.resume("kate", "kate:c1:1", &reader.position).await.all().await.is_empty());
    let request = server.get("kate", "/runs/kate:c1:1/updates").header("last-event-id", "99.0");
    let (status, error) = Server::error(request).await;
    assert_eq!(status, 400, "{error}");
}

/// Blocks its thread.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Block {}

impl Signature for Block {
    type Output = String;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_with_the_service_although_a_tool_goes_on() {
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let tool = from_fn(move |_: Block| {
        // Until the test has ended. The other tasks of the thread go on.
        let _ = tokio::task::block_in_place(|| blocked.lock().unwrap().recv());
        async { Ok(String::new()) }
    });
    let model = Slow::fast(|_| Ok(Reply::calls([ToolCall::new("", "block", "{}")])));
    let agent = Agent::new(model, [Tool::new(tool).unwrap()]).unwrap();
    let server = Server::start(Home::memory(), agent).await;
    let mut reader = server.say("kate", "c1", "Block.").await;
    reader.until("replied").await;
    server.service.shutdown(Duration::from_millis(10)).await;
    assert!(reader.all().await.is_empty());
    drop(unblock);
}
