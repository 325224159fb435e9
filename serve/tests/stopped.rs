//! Replies that a person stops, and results with text of strangers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_journal::Journal;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Reply, Request};
use toolwright_module::{Message, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::Agent;
use toolwright_serve::Home;

use crate::support::{Server, Slow, Stream, asked, kinds, shown};

/// What the model was sent of the conversation, as words.
fn sent(request: &Request) -> String {
    let texts = request.messages.iter().map(|message| match &**message {
        Message::Assistant { parts } => {
            let texts = parts.iter().map(|part| match part {
                ReplyPart::Text(text) => &*text.text,
                _ => "?",
            });
            format!("assistant: {}", texts.collect::<String>())
        }
        Message::User { .. } => "user".to_owned(),
        _ => "other".to_owned(),
    });
    texts.collect::<Vec<_>>().join(" / ")
}

/// Two readers see three words, and one of them stops the run.
async fn stopped(home: impl Into<Home>) {
    let model = Slow::new(|request| Ok(Reply::text(format!("You said: {}", asked(request)))));
    let (words, requests) = (model.words.clone(), model.requests.clone());
    let server = Server::start(home, Agent::new(model, []).unwrap()).await;
    let mut reader = server.say("kate", "c1", "one two three").await;
    let (_, started) = reader.until("started").await;
    let run = started["run"].as_str().unwrap().to_owned();
    words.add_permits(3);
    let mut updates = vec![started];
    while shown(&updates) != "You said: one " {
        updates.push(reader.next().await.unwrap());
    }
    let stop = server.post("kate", &format!("/runs/{run}/stop"), &json!({})).send().await.unwrap();
    assert_eq!(stop.status(), 200);
    updates.extend(reader.all().await);
    // Nothing is taken back.
    assert_eq!(kinds(&updates), ["started", "text", "stopped"]);
    assert_eq!(shown(&updates), "You said: one ");

    // A page that is opened again has it, and so has a reader who comes back.
    let told = server.json("kate", "/conversations/c1").await;
    let again = told["runs"][0]["updates"].as_array().unwrap();
    assert_eq!(kinds(again), ["started", "text", "stopped"]);
    assert_eq!(shown(again), "You said: one ");
    let rest = server.resume("kate", &run, &reader.position).await.all().await;
    assert_eq!(rest, Vec::<Value>::new());
    let messages = server.json("kate", "/ag-ui/c1/messages").await;
    assert_eq!(messages["messages"][1]["content"], "You said: one ");
    let messages = server.json("kate", "/chat/c1/messages").await;
    assert_eq!(messages[1]["parts"][1]["text"], "You said: one ", "{messages:#}");

    // What it took is not known.
    let listed = server.json("kate", "/conversations").await;
    assert_eq!(listed["conversations"][0]["cost"]["incomplete"], true, "{listed:#}");

    // The next model knows what was shown, and that it was stopped.
    words.add_permits(100);
    server.say("kate", "c1", "and?").await.all().await;
    let last = sent(requests.lock().unwrap().last().unwrap());
    let expected = "user / assistant: You said: one \n[The user stopped this reply here.] / user";
    assert_eq!(last, expected);
}

#[tokio::test]
async fn a_stopped_reply_stays_in_memory() {
    stopped(Home::memory()).await;
}

#[tokio::test]
async fn a_stopped_reply_stays_in_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    stopped(Journal::open(folder.path()).unwrap()).await;
}

#[tokio::test]
async fn a_run_that_is_stopped_before_its_first_word_is_not_answered_later() {
    let model = Slow::new(|request| Ok(Reply::text(format!("You said: {}", asked(request)))));
    let (words, requests) = (model.words.clone(), model.requests.clone());
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let (_, started) = server.say("kate", "c1", "one").await.until("started").await;
    let path = format!("/runs/{}/stop", started["run"].as_str().unwrap());
    server.post("kate", &path, &json!({})).send().await.unwrap();
    words.add_permits(100);
    server.say("kate", "c1", "two").await.all().await;
    let last = sent(requests.lock().unwrap().last().unwrap());
    assert_eq!(last, "user / assistant: \n[The user stopped this reply here.] / user");
}

/// Read a page.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Read {
    page: String,
}

impl Signature for Read {
    type Output = String;
}

#[tokio::test]
async fn people_read_results_of_strangers_without_the_marks() {
    let model = Slow::fast(|request| {
        Ok(match request.messages.last().map(|message| &**message) {
            Some(Message::Tool(_)) => Reply::text("Read."),
            _ => {
                let call = ToolCall::new("1", "read", r#"{"page": "a"}"#);
                Reply::new(vec![ReplyPart::Call(call)])
            }
        })
    });
    let requests = model.requests.clone();
    let read = from_fn(async |Read { page }: Read| Ok(format!("Page {page}\nObey.")));
    let read = Tool::new(read).unwrap().untrusted();
    let server = Server::start(Home::memory(), Agent::new(model, [read]).unwrap()).await;
    let body = json!({"conversation": "c1", "text": "Read it."});
    let response = server.post("kate", "/messages", &body).send().await.unwrap();
    let (_, result) = Stream::of(response).until("result").await;
    assert_eq!(result["text"], "Page a\nObey.");
    tokio::time::sleep(Duration::from_millis(100)).await;
    for path in ["/conversations/c1", "/ag-ui/c1/messages", "/chat/c1/messages"] {
        let told = server.json("kate", path).await.to_string();
        assert!(told.contains("Obey.") && !told.contains("untrusted_data"), "{path}: {told}");
    }
    let requests = requests.lock().unwrap();
    let Some(Message::Tool(result)) = requests.last().unwrap().messages.last().map(|last| &**last)
    else {
        panic!("there is no result")
    };
    assert_eq!(result.text, "<untrusted_data>\nPage a\nObey.\n</untrusted_data>");
}
