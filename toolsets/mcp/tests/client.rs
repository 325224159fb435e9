//! `McpClient` with servers of this crate: over HTTP, and as a child process.

use std::sync::Arc;

use crate::support::{Seen, clients, listen, server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_mcp::{McpClient, McpError};
use toolwright_module::error::Stage;
use toolwright_module::{AnyModule, Context, Effect, Module, Signature, Tool, from_fn};

fn named<'a>(tools: &'a [Tool], name: &str) -> &'a Tool {
    tools.iter().find(|tool| tool.name() == name).unwrap()
}

async fn over_http(seen: &Arc<Seen>) -> McpClient {
    let (url, _) = listen(server(seen)).await;
    McpClient::http(&url).unwrap().connect().await.unwrap()
}

async fn over_stdio() -> McpClient {
    McpClient::stdio(clients(), [""; 0]).connect().await.unwrap()
}

#[tokio::test]
async fn tools_are_imported_in_order_with_their_contracts() {
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
async fn arguments_and_results_are_validated_against_the_servers_schemas() {
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
        let message = error.for_model();
        let expected = "input of `add` does not fit: \
             $.a: expected an integer of at most 1000, got the number 5000";
        assert_eq!(message, expected);
    }
}

/// Add two numbers.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Sum {
    #[schemars(range(min = 0, max = 1000))]
    a: i64,
    b: i64,
}

impl Signature for Sum {
    type Output = i64;
}

/// A caller that works with a local and a remote module.
async fn sum(module: impl Module<Signature = Sum>) -> i64 {
    module.call(Sum { a: 2, b: 3 }, &Context::default()).await.unwrap()
}

#[tokio::test]
async fn a_remote_tool_can_replace_a_local_module() {
    let local = from_fn(async |Sum { a, b }: Sum| Ok(a + b));
    assert_eq!(sum(local).await, 5);
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let module = remote.typed::<Sum>("add").unwrap();
        assert_eq!(module.effect(), Effect::Write);
        let tool = Tool::new(remote.typed::<Sum>("add").unwrap()).unwrap();
        assert_eq!(tool.name(), "sum");
        let said = tool.call(r#"{"a": 2, "b": 3}"#, &Context::default()).await.unwrap();
        assert_eq!(said.text(), "5");
        assert_eq!(sum(module).await, 5);
        assert_eq!(sum(AnyModule::new(remote.typed::<Sum>("add").unwrap())).await, 5);
    }
}

#[tokio::test]
async fn typed_reports_all_differences_from_the_signature() {
    let remote = over_http(&Arc::default()).await;

    /// Store a note.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct StoreNote {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<u8>,
    }

    impl Signature for StoreNote {
        type Output = bool;
    }

    let error = remote.typed::<StoreNote>("store_note").unwrap_err();
    assert!(matches!(&error, McpError::Differs { differences, .. } if differences.len() > 1));
    insta::assert_snapshot!(error, @"the server's tool `store_note` does not fit the signature `store_note`: input $.title: ours may be missing, theirs is required; input $.title: ours is an integer or null, theirs takes a string; output $: ours takes true or false, theirs is an object with `title`, `replaced`");
    let error = remote.typed::<StoreNote>("store").unwrap_err();
    assert!(matches!(error, McpError::NoSuchTool { .. }), "{error}");
}

#[tokio::test]
async fn tools_without_an_output_schema_fit_string_and_unit_outputs() {
    let remote = over_http(&Arc::default()).await;

    /// Draw.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Draw {}

    impl Signature for Draw {
        type Output = String;
    }

    /// Draw without a result.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct DrawOnly {}

    impl Signature for DrawOnly {
        type Output = ();
    }

    let drawn =
        remote.typed::<Draw>("picture").unwrap().call(Draw {}, &Context::default()).await.unwrap();
    assert!(drawn.starts_with("A house."), "{drawn}");
    remote
        .typed::<DrawOnly>("picture")
        .unwrap()
        .call(DrawOnly {}, &Context::default())
        .await
        .unwrap();
}
