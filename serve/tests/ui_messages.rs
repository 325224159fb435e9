//! The routes of `useChat`. The script `ui_messages.sh` checks them with the real client.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use toolwright_journal::Journal;
use toolwright_module::model::Reply;
use toolwright_orchestrator::Agent;
use toolwright_serve::Home;

use crate::approvals::payer;
use crate::support::{Server, Slow, asked};

const POEM: &str = "one two three four five six seven eight nine ten";

fn poet() -> Slow {
    Slow::new(|_| Ok(Reply::text(POEM)))
}

/// The user's message `m1`, `m2` and so on, with the messages before it.
fn body(conversation: &str, texts: &[&str]) -> Value {
    let messages = texts.iter().zip(1..).map(|(text, nth)| {
        let part = json!({ "type": "text", "text": text });
        json!({ "id": format!("m{nth}"), "role": "user", "parts": [part] })
    });
    let messages: Vec<_> = messages.collect();
    json!({ "id": conversation, "messages": messages, "trigger": "submit-message" })
}

/// The chunks of a whole stream. The last is `null` if the connection was cut.
async fn chunks(mut response: Response) -> Vec<Value> {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-vercel-ai-ui-message-stream"], "v1");
    let (mut text, mut is_cut) = (String::new(), false);
    loop {
        let piece = tokio::time::timeout(Duration::from_secs(20), response.chunk());
        match piece.await.expect("a chunk within 20 s") {
            Ok(Some(piece)) => text.push_str(std::str::from_utf8(&piece).unwrap()),
            Ok(None) => break,
            Err(_) => {
                is_cut = true;
                break;
            }
        }
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut data: Vec<_> = data.collect();
    assert_eq!(data.last() == Some(&"[DONE]"), !is_cut, "{data:#?}");
    if !is_cut {
        data.pop();
    }
    let chunks = data.into_iter().map(|data| serde_json::from_str(data).unwrap());
    chunks.chain(is_cut.then_some(Value::Null)).collect()
}

/// The texts of chunks, joined.
fn shown(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["delta"].as_str()).collect()
}

/// The types of chunks, where pieces of text in a row are one.
fn types(chunks: &[Value]) -> Vec<&str> {
    let mut types: Vec<_> = chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect();
    types.dedup_by(|a, b| a == b && *a == "text-delta");
    types
}

impl Server {
    async fn chat(&self, body: &Value) -> Vec<Value> {
        chunks(self.post("kate", "/chat", body).send().await.unwrap()).await
    }

    async fn back(&self, conversation: &str) -> Vec<Value> {
        let path = format!("/chat/{conversation}/stream");
        chunks(self.get("kate", &path).send().await.unwrap()).await
    }

    /// The text of a failed request, with its status.
    async fn refused(&self, body: &Value) -> (u16, String) {
        let response = self.post("kate", "/chat", body).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn a_message_streams_its_answer() {
    let server =
        Server::start(Home::memory(), Agent::new(poet_without_pauses(), []).unwrap()).await;
    let answer = server.chat(&body("c1", &["A poem."])).await;
    assert_eq!(
        types(&answer),
        [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "message-metadata",
            "finish-step",
            "finish"
        ]
    );
    assert_eq!((shown(&answer).as_str(), &answer[0]["messageId"]), (POEM, &json!("kate:c1:1")));
    // The same message again is the same answer, also when it comes back later.
    assert_eq!(shown(&server.chat(&body("c1", &["A poem."])).await), POEM);
    assert_eq!(shown(&server.back("c1").await), POEM);
    let messages = server.json("kate", "/chat/c1/messages").await;
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[0]["id"], "m1");
    assert_eq!(messages[1]["parts"][1]["text"], POEM);
    // Another user has none of it.
    assert_eq!(server.json("tom", "/chat/c1/messages").await, json!([]));
    let theirs = server.get("tom", "/chat/c1/stream").send().await.unwrap();
    assert_eq!(theirs.status(), StatusCode::NO_CONTENT);
}

fn poet_without_pauses() -> Slow {
    Slow::fast(|_| Ok(Reply::text(POEM)))
}

#[tokio::test]
async fn errors_are_plain_texts_for_people() {
    let server =
        Server::start(Home::memory(), Agent::new(poet_without_pauses(), []).unwrap()).await;
    let forgotten = body("c1", &["Hi!", "And?"]);
    let (status, text) = server.refused(&forgotten).await;
    assert_eq!(status, 410);
    assert!(text.starts_with("the service does not know the 1 earlier messages"), "{text}");
    let (status, text) = server.refused(&json!({ "id": "c1" })).await;
    assert_eq!(status, 400);
    assert!(text.starts_with("`messages` is empty"), "{text}");
    let response = server.client.post(format!("{}/chat", server.base)).json(&forgotten);
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(response.text().await.unwrap(), "sign in first");
    // A form of another site.
    let form = server.client.post(format!("{}/chat", server.base)).header("x-user", "kate");
    let form = form.header("content-type", "text/plain").body(forgotten.to_string());
    assert_eq!(form.send().await.unwrap().status(), 400);
    let mut again = forgotten;
    again["trigger"] = json!("regenerate-message");
    assert_eq!(server.refused(&again).await.0, 410);
    let response = server.post("kate", "/chat?version=8", &body("c1", &["Hi!"])).send().await;
    assert_eq!(response.unwrap().status(), 400);
}

#[tokio::test]
async fn a_stream_of_a_service_that_ends_is_cut_and_goes_on_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path()).unwrap();
    let (model, said) = (poet(), body("c1", &["A poem."]));
    model.words.add_permits(3);
    let before = Server::start(journal(), Agent::new(model, []).unwrap()).await;
    let response = before.post("kate", "/chat", &said).send().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    before.service.shutdown(Duration::ZERO).await;
    let cut = chunks(response).await;
    assert_eq!((cut.last(), shown(&cut).as_str()), (Some(&Value::Null), "one two three "));

    let after = Server::start(journal(), Agent::new(poet_without_pauses(), []).unwrap()).await;
    assert_eq!(shown(&after.back("c1").await), POEM);
}

/// A run that a person stops says so in each of its streams, at whatever moment it happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stopped_run_ends_its_streams_with_its_stop() {
    let model = poet();
    let server = Server::start(Home::memory(), Agent::new(model.clone(), []).unwrap()).await;
    for nth in 0..100 {
        let conversation = format!("c{nth}");
        let response = server.post("kate", "/chat", &body(&conversation, &["A poem."]));
        let response = response.send().await.unwrap();
        let mut readers = vec![tokio::spawn(chunks(response))];
        for _ in 0..4 {
            let path = format!("/chat/{conversation}/stream");
            let response = server.get("kate", &path).send().await.unwrap();
            readers.push(tokio::spawn(chunks(response)));
        }
        let path = format!("/chat/{conversation}/stop");
        let stopped = server.post("kate", &path, &json!({})).send().await.unwrap();
        assert_eq!(stopped.status(), StatusCode::NO_CONTENT);
        for reader in readers {
            let chunks = reader.await.unwrap();
            assert_eq!(chunks.last().unwrap()["type"], "abort", "round {nth}");
        }
    }
}

/// The messages of a client that has answered the question.
fn answered(question: &str, approval: &Value) -> Value {
    let mut body = body("c1", &["Pay Ann."]);
    let mut approval = approval.clone();
    approval["id"] = json!(question);
    let part =
        json!({ "type": "dynamic-tool", "state": "approval-responded", "approval": approval });
    let answer = json!({ "id": "kate:c1:1", "role": "assistant", "parts": [part] });
    body["messages"].as_array_mut().unwrap().push(answer);
    body["messageId"] = json!("kate:c1:1");
    body
}

#[tokio::test]
async fn an_answer_goes_on_where_the_client_is_and_counts_once() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let asked = server.chat(&body("c1", &["Pay Ann."])).await;
    assert_eq!(asked.last().unwrap()["finishReason"], "tool-calls");
    let request = asked.iter().find(|chunk| chunk["type"] == "tool-approval-request").unwrap();
    let question = request["approvalId"].as_str().unwrap();
    assert_eq!(
        server.json("kate", "/chat/c1/messages").await[1]["parts"][1]["state"],
        "approval-requested"
    );

    let yes = answered(question, &json!({ "approved": true }));
    let rest = server.chat(&yes).await;
    assert_eq!(rest[0]["messageId"], "kate:c1:1");
    assert_eq!(shown(&rest), "Result: 5 sent to Ann");
    assert!(!types(&rest).contains(&"tool-approval-request"));
    // The request comes twice, or another page says something else. Both get what followed.
    let no = answered(question, &json!({ "approved": false, "reason": "No." }));
    for late in [yes, no] {
        assert_eq!(server.chat(&late).await, rest);
    }
    assert_eq!(sent.load(std::sync::atomic::Ordering::SeqCst), 1);
    let unknown = answered("another", &json!({ "approved": true }));
    assert_eq!(server.refused(&unknown).await.0, 409);
}

#[tokio::test]
async fn an_answer_is_regenerated_and_a_message_edited() {
    let model = Slow::fast(|request| Ok(Reply::text(format!("{}!", asked(request)))));
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    for texts in [&["One"][..], &["One", "Two"], &["One", "Two", "Three"]] {
        server.chat(&body("c1", texts)).await;
    }
    let mut again = body("c1", &["One", "Two"]);
    again["trigger"] = json!("regenerate-message");
    let answer = server.chat(&again).await;
    assert_eq!((shown(&answer).as_str(), &answer[0]["messageId"]), ("Two!", &json!("kate:c1:4")));
    let mut edited = body("c1", &["One", "2"]);
    edited["messageId"] = json!("m2");
    assert_eq!(shown(&server.chat(&edited).await), "2!");
    let messages = server.json("kate", "/chat/c1/messages").await;
    let texts: Vec<_> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            message["parts"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap()
        })
        .collect();
    assert_eq!(texts, ["One", "One!", "2", "2!"]);

    // The service did not receive the message that is answered again.
    let mut lost = body("c1", &["One", "2", "Four"]);
    lost["trigger"] = json!("regenerate-message");
    assert_eq!(shown(&server.chat(&lost).await), "Four!");
    // There are others after it, so its place is not known.
    lost["messages"][0]["id"] = json!("m9");
    lost["messages"].as_array_mut().unwrap().truncate(1);
    let (status, text) = server.refused(&lost).await;
    assert_eq!((status, text.as_str()), (400, "the conversation has no message `m9` of the user"));
}
