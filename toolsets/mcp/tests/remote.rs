//! A server's tools, taken and called: over HTTP, and as a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod support;

use std::sync::Arc;

use serde_json::json;
use support::{Seen, clients, listen, server};
use toolwright_mcp::{McpClient, Remote};
use toolwright_module::{Context, Effect, Stage, Tool};

fn named<'a>(tools: &'a [Tool], name: &str) -> &'a Tool {
    tools.iter().find(|tool| tool.name() == name).unwrap()
}

async fn over_http(seen: &Arc<Seen>) -> Remote {
    let (url, _) = listen(server(seen)).await;
    McpClient::http(&url).unwrap().connect().await.unwrap()
}

async fn over_stdio() -> Remote {
    McpClient::stdio(clients(), [""; 0]).connect().await.unwrap()
}

#[tokio::test]
async fn tools_are_taken_in_order_with_their_contracts() {
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let tools = remote.tools();
        let names: Vec<&str> = tools.iter().map(Tool::name).take(8).collect();
        let all = ["add", "store_note", "hello", "fail", "wait", "tell", "picture", "promise"];
        assert_eq!(names, all);
        assert_eq!(tools[0].contract().description(), "Add two numbers.");
        assert!(tools.iter().all(|tool| tool.effect() == Effect::Write));
        assert_eq!(remote.left_out().len(), 0);
    }
}

#[tokio::test]
async fn arguments_and_results_are_held_to_the_servers_schemas() {
    let cx = Context::default();
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let tools = remote.tools();
        let sum = named(&tools, "add").call(r#"{"a": "2", "b": 3}"#, &cx).await.unwrap();
        assert_eq!(sum.text(), "5");
        assert_eq!(sum.value().unwrap(), Some(json!({"result": 5})));

        let stored = named(&tools, "store_note").call(r#"{"title": "A"}"#, &cx).await.unwrap();
        assert_eq!(stored.text(), "Stored 'A'.\n{\"title\":\"A\",\"replaced\":false}");

        let error = named(&tools, "add").call(r#"{"a": 5000}"#, &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Arguments);
        let told = error.for_model();
        let expected = "input of `add` does not fit: \
             $.a: expected an integer of at most 1000, got the number 5000";
        assert_eq!(told, expected);
    }
}
