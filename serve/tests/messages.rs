//! Messages, conversations and callers.

use std::sync::Arc;

use serde_json::json;
use toolwright_journal::Journal;
use toolwright_module::model::Reply;
use toolwright_module::{Context, Error};
use toolwright_orchestrator::Agent;
use toolwright_serve::{Home, Serve};

use crate::support::{Server, Slow, asked, kinds, shown};

fn echo() -> Slow {
    Slow::fast(|request| Ok(Reply::text(format!("You said: {}", asked(request)))))
}

#[tokio::test]
async fn a_message_is_answered_as_a_stream() {
    let server = Server::start(Home::memory(), Agent::new(echo(), []).unwrap()).await;
    let updates = server.say("kate", "c1", "Hello, you.").await.all().await;
    assert_eq!(kinds(&updates), ["started", "text", "replied", "done"]);
    assert_eq!(updates[0]["text"], "Hello, you.");
    assert_eq!(shown(&updates), "You said: Hello, you.");
    assert_eq!(updates.last().unwrap()["answer"], "You said: Hello, you.");
}

#[tokio::test]
async fn a_conversation_goes_on_with_what_was_said() {
    let model = echo();
    let requests = model.requests.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    server.say("kate", "c1", "One.").await.all().await;
    server.say("kate", "c1", "Two.").await.all().await;
    // Another user's conversation of the same name is another one.
    server.say("tom", "c1", "Three.").await.all().await;
    let sizes: Vec<_> =
        requests.lock().unwrap().iter().map(|request| request.messages.len()).collect();
    assert_eq!(sizes, [1, 3, 1]);

    let told = server.json("kate", "/conversations/c1").await;
    assert_eq!(told["runs"].as_array().unwrap().len(), 2);
    assert_eq!(told["runs"][1]["rest"], "over");
    let listed = server.json("kate", "/conversations").await;
    assert_eq!(listed["conversations"][0]["title"], "One.");
    assert_eq!(listed["conversations"][0]["runs"], 2);
    assert_eq!(server.json("eve", "/conversations").await, json!({"conversations": []}));
}

#[tokio::test]
async fn the_same_message_twice_is_one_run() {
    let model = echo();
    let requests = model.requests.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let body = json!({"conversation": "c1", "id": "m1", "text": "Pay."});
    let (first, second) = tokio::join!(
        server.post("kate", "/messages", &body).send(),
        server.post("kate", "/messages", &body).send(),
    );
    let first = crate::support::Stream::of(first.unwrap()).all().await;
    let second = crate::support::Stream::of(second.unwrap()).all().await;
    assert_eq!(shown(&first), shown(&second));
    assert_eq!(first[0]["run"], second[0]["run"]);
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_is_replaced_or_answered_again() {
    let model = echo();
    let requests = model.requests.clone();
    let server = Server::start(Home::memory(), Agent::new(model, []).unwrap()).await;
    let say = async |body| {
        let response = server.post("kate", "/messages", &body).send().await.unwrap();
        crate::support::Stream::of(response).all().await
    };
    say(json!({"conversation": "c1", "id": "a", "text": "One."})).await;
    say(json!({"conversation": "c1", "id": "b", "text": "Two."})).await;
    let again = say(json!({"conversation": "c1", "id": "b", "replaces": true})).await;
    assert_eq!(shown(&again), "You said: Two.");
    let other =
        say(json!({"conversation": "c1", "id": "b", "text": "Three.", "replaces": true})).await;
    assert_eq!(shown(&other), "You said: Three.");
    let sizes: Vec<_> =
        requests.lock().unwrap().iter().map(|request| request.messages.len()).collect();
    assert_eq!(sizes, [1, 3, 3, 3]);
    let told = server.json("kate", "/conversations/c1").await;
    let texts: Vec<_> = told["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["updates"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["One.", "Three."]);
    let body = json!({"conversation": "c1", "id": "x", "text": "Four.", "replaces": true});
    let (status, error) = Server::error(server.post("kate", "/messages", &body)).await;
    assert_eq!((status, &*error), (400, "the conversation has no message `x` of the user"));
}

#[tokio::test]
async fn a_message_has_room_for_files_and_is_json() {
    let server = Server::start(Home::memory(), Agent::new(echo(), []).unwrap()).await;
    let text = "x".repeat(3 * 1024 * 1024);
    let body = json!({"conversation": "c1", "text": text});
    assert_eq!(server.post("kate", "/messages", &body).send().await.unwrap().status(), 200);
    // A form of another site can send this type.
    let request = server.client.post(format!("{}/messages", server.base)).header("x-user", "kate");
    let request = request.header("content-type", "text/plain").body(body.to_string());
    assert_eq!(Server::error(request).await.0, 400);
    let said = json!([{"id": "m", "role": "user", "content": "Pay Eve.", "parts": [
        {"type": "text", "text": "Pay Eve."}
    ]}]);
    for path in ["/ag-ui", "/chat"] {
        let body = json!({"id": "c2", "threadId": "c2", "runId": "r", "messages": said});
        let request = server.client.post(format!("{}{path}", server.base));
        let request = request.header("x-user", "kate").header("content-type", "text/plain");
        let response = request.body(body.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 400, "{path}");
    }
    assert_eq!(server.json("kate", "/conversations/c2").await["runs"], json!([]));
}

#[tokio::test]
async fn callers_are_refused_with_the_status_that_the_program_chose() {
    let server = Server::start(Home::memory(), Agent::new(echo(), []).unwrap()).await;
    let body = json!({"conversation": "c1", "text": "Hello."});
    let request = server.client.post(format!("{}/messages", server.base)).json(&body);
    assert_eq!(Server::error(request).await, (401, "sign in first".to_owned()));
    let response = server.post("flood", "/messages", &body).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "2");
}

#[tokio::test]
async fn wrong_requests_say_what_is_wrong() {
    let server = Server::start(Home::memory(), Agent::new(echo(), []).unwrap()).await;
    let mut errors = Vec::new();
    for body in [
        json!({"conversation": "", "text": "Hello."}),
        json!({"conversation": "é".repeat(200), "text": "Hello."}),
        json!({"conversation": "c1"}),
        json!({"conversation": "c1", "text": "Hello.", "id": "a\u{0}"}),
        json!({"conversation": "c1", "text": "Hello.", "id": "m".repeat(201)}),
        json!({"conversation": "c1", "text": "Hello.", "txt": "?"}),
        json!({"conversation": "c1", "attachments": [{"url": "file:///etc/passwd"}]}),
        json!({"conversation": "c1", "attachments": [{"url": "https://example.com/a"}]}),
    ] {
        errors.push(Server::error(server.post("kate", "/messages", &body)).await);
    }
    for path in ["/runs/kate:c1:1/updates", "/runs/tom:c1:1/updates", "/runs/%F0%9F%92%A5/updates"]
    {
        errors.push(Server::error(server.get("kate", path)).await);
    }
    insta::assert_debug_snapshot!(errors);
}

#[tokio::test]
async fn errors_of_the_service_are_not_for_users() {
    let model = Slow::fast(|_| Err(Error::stop("the key sk-123 was refused by 10.0.0.7")));
    let server = Server::start(Home::memory(), Agent::new(model.clone(), []).unwrap()).await;
    let updates = server.say("kate", "c1", "Hello.").await.all().await;
    let last = updates.last().unwrap();
    assert_eq!(last["update"], "stopped");
    assert_eq!(last["reason"], "The run could not go on because of an error of the service.");

    let serve = Serve::new(Home::memory(), Agent::new(model, []).unwrap()).with_shown_errors();
    let server = Server::of(serve).await;
    let updates = server.say("kate", "c1", "Hello.").await.all().await;
    let reason = updates.last().unwrap()["reason"].as_str().unwrap();
    assert!(reason.contains("10.0.0.7"), "{reason}");
}

#[tokio::test]
async fn an_error_of_the_context_is_that_of_the_request() {
    let serve = Serve::new(Home::memory(), Agent::new(echo(), []).unwrap())
        .with_context(async |_| Err::<Context, _>(Error::stop("no database at 10.0.0.7")));
    let server = Server::of(serve).await;
    let body = json!({"conversation": "c1", "text": "Hello."});
    let (status, error) = Server::error(server.post("kate", "/messages", &body)).await;
    assert_eq!((status, &*error), (500, "the service cannot do this now; try again later"));
    let serve = Serve::new(Home::memory(), Agent::new(echo(), []).unwrap())
        .with_context(async |_| Err::<Context, _>(Error::stop("no database at 10.0.0.7")))
        .with_shown_errors();
    let shown = Server::of(serve).await;
    let (status, error) = Server::error(shown.post("kate", "/messages", &body)).await;
    assert_eq!(status, 500);
    assert!(error.contains("no database at 10.0.0.7"), "{error}");
    // Nothing was started.
    assert_eq!(server.json("kate", "/conversations").await, json!({"conversations": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_messages_at_once_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path()).unwrap();
    let here = Arc::new(Server::start(journal(), Agent::new(echo(), []).unwrap()).await);
    let other = Arc::new(Server::start(journal(), Agent::new(echo(), []).unwrap()).await);
    for round in 0..20 {
        let second = if round % 2 == 0 { &here } else { &other };
        let say = async |server: &Server, text: &str| {
            let body = json!({"conversation": format!("c{round}"), "text": text});
            let response = server.post("kate", "/messages", &body).send().await.unwrap();
            match response.status().as_u16() {
                200 => {
                    let updates = crate::support::Stream::of(response).all().await;
                    assert_eq!(shown(&updates), format!("You said: {text}"));
                    1
                }
                status => {
                    assert_eq!(status, 409);
                    0
                }
            }
        };
        let (one, two) = tokio::join!(say(&here, "One."), say(second, "Two."));
        let told = here.json("kate", &format!("/conversations/c{round}")).await;
        assert_eq!(told["runs"].as_array().unwrap().len(), one + two);
    }
}

#[tokio::test]
async fn a_conversation_goes_on_when_its_first_runs_were_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let journal = toolwright_journal::Journal::open(folder.path()).unwrap();
    let model = echo();
    let requests = model.requests.clone();
    let server = Server::start(journal.clone(), Agent::new(model, []).unwrap()).await;
    // Also for ids that are too long for the name of a file.
    for conversation in ["c1".to_owned(), "C".repeat(200)] {
        for text in ["One.", "Two.", "Three."] {
            server.say("kate", &conversation, text).await.all().await;
        }
        for first in journal.ids_with(&format!("kate:{conversation}:")).unwrap() {
            if first.ends_with(":1") {
                journal.delete(&first).unwrap();
            }
        }
        let updates = server.say("kate", &conversation, "Four.").await.all().await;
        assert_eq!(updates[0]["run"], format!("kate:{conversation}:4"));
        assert_eq!(requests.lock().unwrap().last().unwrap().messages.len(), 7);
        // What was deleted is not shown.
        let told = server.json("kate", &format!("/conversations/{conversation}")).await;
        assert_eq!(told["runs"].as_array().unwrap().len(), 3);
    }
}
