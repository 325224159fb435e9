//! The example `service`, with a model server of this test and a client in Rust.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::common::program;

/// A model that looks up or refunds the order that the user names, and repeats what the tool said.
async fn complete(Json(request): Json<Value>) -> ([(&'static str, &'static str); 1], String) {
    let last = request["messages"].as_array().unwrap().last().unwrap();
    let text = last["content"].as_str().unwrap_or_default();
    let number = text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
    let deltas = match (last["role"].as_str(), number) {
        (Some("user"), Some(number)) => {
            let name = if text.contains("efund") { "orders_refund" } else { "orders_find_order" };
            let arguments = format!("{{\"number\": {number}}}");
            let function = json!({"name": name, "arguments": arguments});
            let call =
                json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            vec![(json!({"tool_calls": [call]}), Value::Null), (json!({}), json!("tool_calls"))]
        }
        _ => {
            let words =
                text.split_inclusive(' ').map(|word| (json!({"content": word}), Value::Null));
            words.chain([(json!({}), json!("stop"))]).collect()
        }
    };
    let mut body = String::new();
    for (delta, finish) in deltas {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]});
        body += &format!("data: {chunk}\n\n");
    }
    ([("content-type", "text/event-stream")], body + "data: [DONE]\n\n")
}

struct Service {
    child: Child,
    base: String,
    client: reqwest::Client,
}

impl Service {
    async fn start(folder: &std::path::Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().route("/chat/completions", post(complete));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut command: Command = program("service");
        let mut child = command
            .env("FOLDER", folder)
            .env("PORT", "0")
            .env("OPENAI_API_KEY", "none")
            .env("OPENAI_BASE_URL", model)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut base = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base).unwrap();
        Self { child, base: base.trim().to_owned(), client: reqwest::Client::new() }
    }

    /// Sends a message, and reads updates until one of this kind.
    async fn say(&self, user: &str, text: &str, until: &str) -> Vec<Value> {
        let body = json!({"conversation": "c1", "text": text});
        let request = self.client.post(format!("{}/messages", self.base)).json(&body);
        let mut response = request.bearer_auth(format!("{user}-key")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let (mut updates, mut buffer) = (Vec::new(), String::new());
        while let Some(chunk) = response.chunk().await.unwrap() {
            buffer += std::str::from_utf8(&chunk).unwrap();
            while let Some(end) = buffer.find("\n\n") {
                let event: String = buffer.drain(..end + 2).collect();
                let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) else {
                    continue;
                };
                updates.push(serde_json::from_str::<Value>(data).unwrap());
                if updates.last().unwrap()["update"] == until {
                    return updates;
                }
            }
        }
        panic!("no `{until}` in {updates:#?}");
    }

    async fn decide(&self, user: &str, question: &Value, decision: &Value) -> u16 {
        let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
        let path = format!("{}/runs/{run}/questions/{id}", self.base);
        let request = self.client.post(path).bearer_auth(format!("{user}-key")).json(decision);
        request.send().await.unwrap().status().as_u16()
    }

    async fn questions(&self, user: &str) -> Vec<Value> {
        let request = self.client.get(format!("{}/questions", self.base));
        let response = request.bearer_auth(format!("{user}-key")).send().await.unwrap();
        response.json::<Value>().await.unwrap()["questions"].as_array().unwrap().clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_service_keeps_users_apart_and_questions_through_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path()).await;
    let response = service.client.get(format!("{}/questions", service.base)).send().await.unwrap();
    assert_eq!(response.status(), 401);

    let updates = service.say("kate", "Where is order 7?", "done").await;
    assert_eq!(updates.last().unwrap()["answer"], "a lamp, on its way");
    // Tom does not see Kate's order.
    let updates = service.say("tom", "Where is order 7?", "done").await;
    let answer = updates.last().unwrap()["answer"].as_str().unwrap();
    assert!(answer.contains("The user has no order 7."), "{answer}");

    let updates = service.say("kate", "Refund order 7.", "approval_asked").await;
    let question = updates.last().unwrap().clone();
    assert_eq!(question["name"], "orders_refund");
    // Killed, and started again.
    drop(service);
    let service = Service::start(folder.path()).await;
    let open = service.questions("kate").await;
    assert_eq!(open[0]["question"], question["question"]);
    assert!(service.questions("tom").await.is_empty());
    assert_eq!(service.decide("tom", &question, &json!("approve")).await, 404);
    assert_eq!(service.decide("kate", &question, &json!("approve")).await, 200);
    // 409 until the refund has ended.
    let mut answer = Value::Null;
    for _ in 0..100 {
        let request = service.client.get(format!("{}/conversations/c1", service.base));
        let told = request.bearer_auth("kate-key").send().await.unwrap();
        let told: Value = told.json().await.unwrap();
        let last = told["runs"][1]["updates"].as_array().unwrap().last().unwrap().clone();
        if last["update"] == "done" {
            answer = last["answer"].clone();
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(answer, "Order 7 is refunded.");
    assert_eq!(service.decide("kate", &question, &json!("approve")).await, 409);
}
