//! The requests that are sent: URLs, headers and bodies.

use std::sync::Arc;
use toolwright_module::model::Settings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::message::{Image, Part, Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::ToolChoice;
use toolwright_module::predict::Example;
use toolwright_module::{
    Context, Contract, LanguageModel, Message, Module, Predict, Request, Signature, ToolCall,
};
use toolwright_openai::{Api, OpenAi, ProviderError};
use toolwright_signature::Dialect;

use crate::common::{self, APIS, Answer, Server, hi, ok, ok_stream};

/// Store a value under a key.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryStore {
    /// The key.
    key: String,
    /// The value.
    value: String,
    /// Words to find it by.
    tags: Option<Vec<String>>,
}

impl Signature for MemoryStore {
    type Output = bool;
}

/// List all keys.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryList {}

impl Signature for MemoryList {
    type Output = Vec<String>;
}

/// A conversation with every kind of message and part.
fn conversation(images_in_results: bool) -> Request {
    let call = ToolCall::new("call_1", "memory_store", r#"{"key": "color", "value": "blue"}"#);
    let broken = ToolCall::new("call_2", "memory_list", r#"{"all": tru"#);
    let image = Image::url("data:image/png;base64,AAAA");
    let mut result = ToolResult::new(&call, "true");
    if images_in_results {
        result = result.with_parts([image.clone().into()]);
    }
    let own =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let messages = [
        Message::System { text: "Be brief.".to_owned() },
        Message::User { parts: vec![Part::Text("What is this?".to_owned()), Part::Image(image)] },
        Message::Assistant {
            parts: vec![
                ReplyPart::Reasoning(Reasoning::new("openai-responses", "A color.", own)),
                ReplyPart::Reasoning(Reasoning::new("another", "Secret.", json!({"a": 1}))),
                ReplyPart::text("Blue. "),
                ReplyPart::text("I keep that."),
                ReplyPart::Call(call),
                ReplyPart::Call(broken.clone()),
            ],
        },
        Message::Tool(result),
        Message::Tool(ToolResult::failed(&broken, "arguments do not fit")),
        Message::Assistant {
            parts: vec![ReplyPart::Call(ToolCall::new("call_3", "memory_list", ""))],
        },
        Message::Tool(ToolResult::new(&ToolCall::new("call_3", "memory_list", ""), r#"["color"]"#)),
        Message::User { parts: vec![Part::Text("Thanks \"you\"!\n".to_owned())] },
    ];
    let store = Arc::new(Contract::of::<MemoryStore>().unwrap());
    let list = Arc::new(Contract::of::<MemoryList>().unwrap());
    Request::new(messages.map(Arc::new))
        .with_tools([store, Arc::clone(&list)])
        .with_tool_choice(ToolChoice::Required)
        .with_output(list)
        .with_settings(Settings::default().with_max_output_tokens(300))
}

async fn sent(request: &Request, change: impl FnOnce(OpenAi) -> OpenAi, api: Api) -> Value {
    let server = Server::answering([ok(api)]).await;
    let model = change(server.model(api));
    model.generate(request).await.unwrap();
    server.seen()[0].body.clone()
}

#[tokio::test]
async fn the_body_for_chat_has_every_kind_of_message() {
    let body = sent(
        &conversation(false),
        |model| model.with_settings(Settings::default().with_temperature(0.1)),
        Api::Chat,
    )
    .await;
    insta::assert_json_snapshot!(body);
}

#[tokio::test]
async fn the_body_for_responses_has_every_kind_of_message() {
    let change = |model: OpenAi| {
        model.with_settings(Settings::default().with_temperature(0.1)).with_encrypted_reasoning()
    };
    let body = sent(&conversation(true), change, Api::Responses).await;
    insta::assert_json_snapshot!(body);
}

#[tokio::test]
async fn the_strict_dialect_sets_strict() {
    for api in APIS {
        let strict = |model: OpenAi| model.with_dialect(Dialect::OpenAiStrict);
        let body = sent(&conversation(false), strict, api).await;
        let (tool, format) = match api {
            Api::Chat => (&body["tools"][0]["function"], &body["response_format"]["json_schema"]),
            _ => (&body["tools"][0], &body["text"]["format"]),
        };
        assert_eq!(tool["strict"], true);
        assert_eq!(tool["parameters"]["required"], json!(["key", "value", "tags"]));
        assert_eq!(format["strict"], true);
        assert_eq!(format["name"], "memory_list");
    }
}

#[tokio::test]
async fn without_structured_output_predict_forces_a_tool_call() {
    for (api, name) in [(Api::Chat, "forced_call_chat"), (Api::Responses, "forced_call_responses")]
    {
        let server = Server::answering([ok(api), ok(api)]).await;
        let model = server.model(api).with_structured_output(false);
        let store = Predict::<MemoryStore>::new(model).unwrap();
        let (key, value) = ("a".to_owned(), "b".to_owned());
        let example = Example::new(MemoryStore { key, value, tags: None }, true);
        let store = store.with_examples([example]).unwrap();
        let (key, value) = ("c".to_owned(), "d".to_owned());
        // The server's text is not JSON, so there is a second request.
        store.call(MemoryStore { key, value, tags: None }, &Context::default()).await.unwrap_err();
        insta::assert_json_snapshot!(name, server.seen()[1].body);
    }
}

#[tokio::test]
async fn settings_that_are_not_set_are_not_sent() {
    let chat = sent(&hi(), |model| model, Api::Chat).await;
    assert_eq!(
        chat.to_string(),
        r#"{"model":"test-model","messages":[{"role":"user","content":"Hi!"}],"max_tokens":4096}"#
    );
    let responses = sent(&hi(), |model| model, Api::Responses).await;
    assert_eq!(
        responses.to_string(),
        r#"{"model":"test-model","input":[{"type":"message","role":"user","content":"Hi!"}],"max_output_tokens":4096}"#
    );
    let request = hi().with_tool_choice(ToolChoice::Required);
    for api in APIS {
        let body = sent(&request, |model| model, api).await;
        assert_eq!(body.get("tool_choice"), None, "there is no tool to choose");
        let request = conversation(false);
        let body = sent(&request, |model| model.with_structured_output(false), api).await;
        assert!(body.get("response_format").is_none() && body.get("text").is_none());
    }
}

#[tokio::test]
async fn a_request_for_a_stream_asks_for_usage() {
    for api in APIS {
        let server = Server::answering([Answer::events(&ok_stream(api), 64)]).await;
        common::streamed(&server.model(api), hi()).await.1.unwrap();
        let body = &server.seen()[0].body;
        assert_eq!(body["stream"], true);
        let usage = (api == Api::Chat).then(|| json!({"include_usage": true}));
        assert_eq!(body.get("stream_options"), usage.as_ref());
    }
}

#[tokio::test]
async fn a_longer_conversation_has_the_shorter_one_as_a_prefix() {
    for api in APIS {
        let field = if api == Api::Chat { "messages" } else { "input" };
        let text = |body: &Value| body[field].to_string();
        let longer = conversation(false);
        let mut shorter = longer.clone();
        shorter.messages.pop();
        let shorter = text(&sent(&shorter, |model| model, api).await);
        let longer = text(&sent(&longer, |model| model, api).await);
        assert!(longer.starts_with(shorter.trim_end_matches(']')));
    }
}

#[tokio::test]
async fn a_request_has_the_path_and_headers_of_its_api() {
    for (api, path) in [(Api::Chat, "/v1/chat/completions"), (Api::Responses, "/v1/responses")] {
        let server = Server::answering([ok(api), ok(api)]).await;
        let slash = OpenAi::at(&format!("{}/", server.url), "m").unwrap().with_api(api);
        slash.generate(&hi()).await.unwrap();
        let keyed = slash.with_key("sk-made-up").unwrap();
        keyed.generate(&hi()).await.unwrap();
        let seen = server.seen();
        assert!(seen[0].head.starts_with(&format!("post {path} http/1.1\r\n")));
        assert!(!seen[0].head.contains("authorization"), "{}", seen[0].head);
        assert!(seen[1].head.contains("\r\nauthorization: bearer sk-made-up\r\n"));
        assert!(seen[1].head.contains("\r\ncontent-type: application/json\r\n"));
    }
}

#[tokio::test]
async fn chat_sends_the_images_of_results_after_all_results_of_a_turn() {
    let body = sent(&conversation(true), |model| model, Api::Chat).await;
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user"
        ]
    );
    insta::assert_json_snapshot!(messages[6], @r#"
    {
      "role": "user",
      "content": [
        {
          "type": "text",
          "text": "Images and documents of the result of call call_1:"
        },
        {
          "type": "image_url",
          "image_url": {
            "url": "data:image/png;base64,AAAA"
          }
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_contract_that_cannot_be_lowered_is_an_error_before_sending() {
    let lost = json!({"type": "object", "properties": {"any": {"$ref": "#/$defs/nowhere"}}});
    let contract = Contract::dynamic("lost", "Anything.", lost, None).unwrap();
    let server = Server::answering([]).await;
    let model = server.model(Api::Chat).with_dialect(Dialect::OpenAiStrict);
    let request = hi().with_tools([Arc::new(contract)]);
    let error = model.generate(&request).await.unwrap_err();
    assert!(matches!(common::own(&error), ProviderError::Lowering(_)), "{error:?}");
    assert_eq!(error.stage(), toolwright_module::error::Stage::Setup);
}

#[tokio::test]
async fn a_schema_that_cannot_be_strict_is_sent_loose_and_the_others_strict() {
    let open = json!({"type": "object", "properties": {"any": {}}, "required": ["any"]});
    let output = json!({"type": "object", "properties": {"free": {"type": "object"}}});
    let open = Contract::dynamic("open", "Anything.", open, Some(output)).unwrap();
    let open = Arc::new(open);
    let store = Arc::new(Contract::of::<MemoryStore>().unwrap());
    let request = hi().with_tools([Arc::clone(&open), store]).with_output(open);
    for api in APIS {
        let strict = |model: OpenAi| model.with_dialect(Dialect::OpenAiStrict);
        let body = sent(&request, strict, api).await;
        let tool = |at: usize| match api {
            Api::Chat => &body["tools"][at]["function"],
            _ => &body["tools"][at],
        };
        let format = match api {
            Api::Chat => &body["response_format"]["json_schema"],
            _ => &body["text"]["format"],
        };
        assert_eq!(
            [&tool(0)["strict"], &tool(1)["strict"], &format["strict"]],
            [false, true, false]
        );
        assert_eq!(tool(0)["parameters"]["properties"], json!({"any": {}}));
        assert_eq!(format["schema"]["properties"], json!({"free": {"type": "object"}}));
    }
}

#[tokio::test]
async fn too_many_tools_are_an_error_before_sending() {
    let store = Contract::of::<MemoryStore>().unwrap();
    let tools: Vec<_> =
        (0..129).map(|i| Arc::new(store.named(&format!("store_{i}")).unwrap())).collect();
    let server = Server::answering([]).await;
    let error = server.model(Api::Chat).generate(&hi().with_tools(tools)).await.unwrap_err();
    assert!(error.to_string().contains("129 tools are more than the 128"), "{error}");
}
