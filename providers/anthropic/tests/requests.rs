//! The requests that are sent: URL, headers and bodies.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_anthropic::{Anthropic, ApiVersion, CacheTime};
use toolwright_module::message::{
    Audio, Document, Image, Opaque, Part, Reasoning, ReplyPart, Text, ToolResult,
};
use toolwright_module::model::{Settings, ToolChoice};
use toolwright_module::{Contract, LanguageModel, Message, Request, Signature, ToolCall};

use crate::common::{Answer, Server, hi, ok, ok_stream, streamed};

/// Look at a thing.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Look {
    /// The number of the thing.
    id: u64,
}

impl Signature for Look {
    type Output = bool;
}

pub(crate) fn look() -> Arc<Contract> {
    Arc::new(Contract::of::<Look>().unwrap())
}

/// Returns the body that a model sends.
pub(crate) async fn sent(
    request: &Request,
    name: &str,
    change: impl FnOnce(Anthropic) -> Anthropic,
) -> Value {
    let server = Server::answering([ok()]).await;
    change(server.model(name)).generate(request).await.unwrap();
    server.seen()[0].body.clone()
}

/// Returns the error of a request that is not sent.
pub(crate) async fn unsent(
    request: &Request,
    name: &str,
    change: impl FnOnce(Anthropic) -> Anthropic,
) -> String {
    let model = change(Anthropic::at("http://127.0.0.1:9/v1", name).unwrap());
    model.generate(request).await.unwrap_err().to_string()
}

/// A conversation with every kind of message and part.
fn conversation() -> Request {
    let call = ToolCall::new("toolu_1", "look", r#"{"id": 12345678901234567890123}"#);
    let broken = ToolCall::new("functions.look:1", "look", r#"{"id": 1"#);
    let image = Image::bytes("image/png", *b"\x89PNG");
    let own = |value| Opaque::new("anthropic", value);
    let signed = json!({"type": "thinking", "thinking": "Hm.", "signature": "sig_1"});
    let cut_off = json!({"type": "thinking", "thinking": "Hm", "signature": ""});
    let cited = json!({"citations": [{"type": "char_location", "cited_text": "Blue."}]});
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let messages = [
        Message::System { text: "Be brief.".to_owned() },
        Message::System { text: " \n".to_owned() },
        Message::System { text: "Be kind.".to_owned() },
        Message::User {
            parts: vec![
                Part::Text("What is this?".to_owned()),
                image.clone().into(),
                Image::url("https://example.com/a.png").into(),
                Image::file("anthropic", "file_1").into(),
                Document::bytes("application/pdf", *b"%PDF").into(),
                Document::bytes("text/markdown", *b"# Notes").into(),
                Part::Text("  ".to_owned()),
            ],
        },
        Message::Assistant {
            parts: vec![
                ReplyPart::Reasoning(Reasoning::new("anthropic", "Hm.", signed)),
                ReplyPart::Reasoning(Reasoning::new("anthropic", "Hm", cut_off)),
                ReplyPart::Reasoning(Reasoning::new("another", "Secret.", json!({"a": 1}))),
                ReplyPart::Other(own(search)),
                ReplyPart::Other(Opaque::new("another", json!({"type": "b"}))),
                ReplyPart::text("\n\n"),
                ReplyPart::Text(Text::from("Blue.").with_opaque(own(cited))),
                ReplyPart::Text(Text::from("Yes.").with_opaque(Opaque::new("another", json!(1)))),
                ReplyPart::Call(call.clone()),
                ReplyPart::Call(broken.clone()),
            ],
        },
        Message::User { parts: vec![Part::Text("Quick!".to_owned())] },
        Message::Tool(ToolResult::new(&call, "true").with_parts([image.clone().into()])),
        Message::Tool(ToolResult::failed(&broken, "No JSON.").with_parts([image.into()])),
        Message::Assistant { parts: vec![ReplyPart::text(" ")] },
        Message::User { parts: vec![Part::Text("And \"now\"?\n".to_owned())] },
    ];
    Request::new(messages.map(Arc::new)).with_tools([look()])
}

#[tokio::test]
async fn the_body_has_every_kind_of_message() {
    let body = sent(&conversation(), "claude-sonnet-4-5", |model| model).await;
    insta::assert_json_snapshot!(body);
}

/// A value between 2^53 and infinity would be rounded, if it were read as a `Value`.
#[tokio::test]
async fn arguments_go_back_as_the_model_wrote_them() {
    let server = Server::answering([ok()]).await;
    server.model("claude-sonnet-4-5").generate(&conversation()).await.unwrap();
    let text = &server.seen()[0].text;
    assert!(text.contains(r#""input":{"id": 12345678901234567890123}"#), "{text}");
}

#[tokio::test]
async fn the_version_and_the_betas_are_headers() {
    let server = Server::answering([ok(), ok()]).await;
    let model = server.model("claude-sonnet-4-5").with_key("sk-made-up").unwrap();
    model.generate(&hi()).await.unwrap();
    let model = model.with_version(ApiVersion::V2026_10_21).unwrap();
    let model = model.with_beta("one-1").unwrap().with_beta("two-2").unwrap();
    model.generate(&hi()).await.unwrap();
    let [first, second] = <[_; 2]>::try_from(server.seen()).ok().unwrap();
    assert!(first.head.starts_with("post /v1/messages http/1.1"), "{}", first.head);
    assert!(first.head.contains("anthropic-version: 2023-06-01"), "{}", first.head);
    assert!(first.head.contains("x-api-key: sk-made-up"), "{}", first.head);
    assert!(!first.head.contains("anthropic-beta"), "{}", first.head);
    assert!(second.head.contains("anthropic-version: 2026-10-21"), "{}", second.head);
    assert!(second.head.contains("anthropic-beta: one-1,two-2"), "{}", second.head);
}

#[tokio::test]
async fn a_stream_is_the_same_request_with_a_field() {
    let server = Server::answering([ok(), Answer::events(&ok_stream(), 64)]).await;
    let model = server.model("claude-sonnet-4-5");
    model.generate(&conversation()).await.unwrap();
    let (deltas, reply) = streamed(&model, conversation()).await;
    assert_eq!((deltas.len(), reply.unwrap().to_text().as_str()), (1, "ok"));
    let [whole, mut stream] = <[_; 2]>::try_from(server.seen()).ok().unwrap();
    assert_eq!(stream.body.as_object_mut().unwrap().remove("stream"), Some(json!(true)));
    assert_eq!(whole.body, stream.body);
}

/// Returns the paths of all cache marks, with their values.
fn marks(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "cache_control" => found.push(format!("{path} {value}")),
                    name => marks(value, &format!("{path}.{name}"), found),
                }
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                marks(value, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

async fn marked(request: &Request, change: impl FnOnce(Anthropic) -> Anthropic) -> Vec<String> {
    let mut found = Vec::new();
    marks(&sent(request, "claude-sonnet-4-5", change).await, "", &mut found);
    found
}

#[tokio::test]
async fn the_stable_prefix_is_marked_for_the_cache() {
    let same = |model| model;
    insta::assert_json_snapshot!(marked(&conversation(), same).await, @r#"
    [
      ".system[1] {\"type\":\"ephemeral\"}",
      ".messages[0].content[5] {\"type\":\"ephemeral\"}",
      ".messages[2].content[5] {\"type\":\"ephemeral\"}"
    ]
    "#);
    let off = conversation().with_settings(Settings::default().with_cache(false));
    assert_eq!(marked(&off, same).await, <[String; 0]>::default());
    // Without a system text, the mark is on the last tool that is not loaded later.
    let without = hi().with_tools([look()]);
    let hour = |model: Anthropic| {
        model
            .with_cache_time(CacheTime::Hour)
            .with_server_tool(json!({"type": "tool_search_tool_bm25_20251119", "name": "find"}))
            .with_tool_field("look", "defer_loading", true)
    };
    insta::assert_json_snapshot!(marked(&without, hour).await, @r#"
    [
      ".tools[0] {\"type\":\"ephemeral\",\"ttl\":\"1h\"}",
      ".messages[0].content[0] {\"type\":\"ephemeral\",\"ttl\":\"1h\"}"
    ]
    "#);
}

/// The provider's cache only finds a prefix of the same bytes.
#[tokio::test]
async fn a_longer_conversation_begins_with_the_same_bytes() {
    let server = Server::answering([ok(), ok()]).await;
    let model = server.model("claude-sonnet-4-5");
    let longer = conversation();
    let mut shorter = longer.clone();
    shorter.messages.truncate(4);
    model.generate(&shorter).await.unwrap();
    model.generate(&longer).await.unwrap();
    let strip = |text: &str| text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let [first, second] = <[_; 2]>::try_from(server.seen()).ok().unwrap();
    let prefix = strip(&first.text);
    let (prefix, _) = prefix.rsplit_once("]}").unwrap();
    let (prefix, _) = prefix.rsplit_once("]}").unwrap_or((prefix, ""));
    assert!(prefix.len() > 300 && strip(&second.text).starts_with(prefix), "{prefix}");
}

#[tokio::test]
async fn tools_are_strict_within_the_limits_of_a_request() {
    let tools: Vec<_> = (0..25)
        .map(|n| {
            let input = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
            Arc::new(Contract::dynamic(&format!("tool_{n}"), "", input, None).unwrap())
        })
        .collect();
    let request = hi().with_tools(tools);
    let strict = |body: &Value| {
        let tools = body["tools"].as_array().unwrap();
        tools.iter().filter(|tool| tool["strict"] == true).count()
    };
    assert_eq!(strict(&sent(&request, "claude-sonnet-4-5", |model| model).await), 20);
    // Older models and compatible servers do not know the field.
    for name in ["claude-sonnet-4-0", "smollm2"] {
        assert_eq!(strict(&sent(&request, name, |model| model).await), 0);
    }
    let on = |model: Anthropic| model.with_strict_tools(true);
    assert_eq!(strict(&sent(&request, "smollm2", on).await), 20);
}

#[tokio::test]
async fn the_choice_of_tools_and_parallel_calls_are_sent() {
    let request = hi().with_tools([look()]);
    let serial = Settings::default().with_parallel_calls(false);
    for (choice, plain, one) in [
        (ToolChoice::Auto, json!(null), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (ToolChoice::None, json!({"type": "none"}), json!({"type": "none"})),
        (
            ToolChoice::Required,
            json!({"type": "any"}),
            json!({"type": "any", "disable_parallel_tool_use": true}),
        ),
        (
            ToolChoice::Tool("look".to_owned()),
            json!({"type": "tool", "name": "look"}),
            json!({"type": "tool", "name": "look", "disable_parallel_tool_use": true}),
        ),
    ] {
        let request = request.clone().with_tool_choice(choice);
        let body = sent(&request, "claude-sonnet-4-5", |model| model).await;
        assert_eq!(body["tool_choice"], plain);
        let request = request.with_settings(serial.clone());
        let body = sent(&request, "claude-sonnet-4-5", |model| model).await;
        assert_eq!(body["tool_choice"], one);
    }
}

#[tokio::test]
async fn a_definition_of_the_provider_takes_the_place_of_the_tools_own() {
    let memory = json!({"type": "memory_20250818", "name": "look"});
    let with = |model: Anthropic| model.with_server_tool(memory.clone());
    let body = sent(&hi().with_tools([look()]), "claude-sonnet-4-5", with).await;
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["tools"][0]["type"], memory["type"]);
}

/// The API refuses calls in a conversation without tools.
#[tokio::test]
async fn a_conversation_with_calls_has_tools() {
    let mut request = conversation();
    request.tools = Arc::default();
    let body = sent(&request, "claude-sonnet-4-5", |model| model).await;
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"][0]["name"], "look");
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_schema_of_the_answer_is_sent_or_told() {
    let strict = hi().with_output(look());
    let body = sent(&strict, "claude-sonnet-4-5", |model| model).await;
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
    assert_eq!(body["output_config"]["format"]["schema"]["additionalProperties"], false);
    assert_eq!(body["system"], json!(null));
    let list = json!({
        "type": "object",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "properties": {"head": {"$ref": "#/$defs/node"}},
    });
    let list = Contract::dynamic("list", "", json!({"type": "object"}), Some(list)).unwrap();
    let body = sent(&hi().with_output(Arc::new(list)), "claude-sonnet-4-5", |model| model).await;
    assert_eq!(body["output_config"], json!(null));
    let told = body["system"][0]["text"].as_str().unwrap();
    assert!(told.contains("JSON Schema") && told.contains("#/$defs/node"), "{told}");
}

#[tokio::test]
async fn documents_are_cited_if_the_model_is_asked_to() {
    let body = sent(&conversation(), "claude-sonnet-4-5", |model| model.with_citations(true)).await;
    for at in [4, 5] {
        let document = &body["messages"][0]["content"][at];
        assert_eq!(document["citations"], json!({"enabled": true}), "{document}");
    }
}

#[tokio::test]
async fn citations_beside_the_schema_of_an_answer_are_an_error_before_the_request() {
    let cited = |model: Anthropic| model.with_citations(true);
    let document = Document::bytes("text/plain", *b"Sales rose by 3 %.");
    let question = Request::new([Message::user_parts([document.into(), "Did they rise?".into()])]);
    let error = unsent(&question.clone().with_output(look()), "claude-sonnet-4-5", cited).await;
    assert!(error.contains("with_structured_output(false)"), "{error}");

    // Without a document, a schema or structured output there is nothing to refuse.
    let body = sent(&hi().with_output(look()), "claude-sonnet-4-5", cited).await;
    assert!(body["output_config"]["format"].is_object(), "{body}");
    let as_call = |model: Anthropic| model.with_citations(true).with_structured_output(false);
    for body in [
        sent(&question, "claude-sonnet-4-5", cited).await,
        sent(&question.with_output(look()), "claude-sonnet-4-5", as_call).await,
    ] {
        let document = &body["messages"][0]["content"][0];
        assert_eq!(document["citations"], json!({"enabled": true}), "{body}");
        assert_eq!(body["output_config"], Value::Null, "{body}");
    }
}

/// The model continues a text at the end of the conversation, and the API refuses white space
/// there.
#[tokio::test]
async fn white_space_at_the_end_of_a_text_to_continue_is_left_out() {
    let own = |value| Opaque::new("anthropic", value);
    let said = |parts: &[ReplyPart]| Arc::new(Message::Assistant { parts: parts.to_vec() });
    let text = ReplyPart::text("The answer \n is \n\t");
    let cited = Text::from("Blue. ").with_opaque(own(json!({"citations": []})));
    let container = ReplyPart::Other(own(json!({"container": {"id": "c1"}})));
    for (last, expected) in [
        (vec![text.clone()], "The answer \n is"),
        (vec![text.clone(), ReplyPart::text(" "), container], "The answer \n is"),
        (vec![ReplyPart::text("a "), ReplyPart::Text(cited)], "Blue."),
    ] {
        let mut request = hi();
        request.messages.push(said(&last));
        // A message without a block is not sent, so it does not end the conversation.
        request.messages.push(Message::user(" "));
        let body = sent(&request, "claude-sonnet-4-5", |model| model).await;
        let content = body["messages"][1]["content"].as_array().unwrap();
        assert_eq!(content.last().unwrap()["text"], expected);
        assert!(content.len() < 2 || content[0]["text"] == "a ", "{body}");

        // In the midst of a conversation it stays.
        request.messages.push(Message::user("Go on."));
        let body = sent(&request, "claude-sonnet-4-5", |model| model).await;
        let content = body["messages"][1]["content"].as_array().unwrap();
        assert_ne!(content.last().unwrap()["text"], expected);
    }
}

#[tokio::test]
async fn a_part_that_the_api_does_not_take_is_an_error() {
    for (part, says) in [
        (Part::from(Audio::bytes("audio/mpeg", *b"ID3")), "takes no audio"),
        (Image::bytes("image/bmp", *b"BM").into(), "convert it to PNG, JPEG, GIF or WebP"),
        (Image::file("openai", "file_1").into(), "a file of `openai` cannot be sent"),
        (Document::bytes("application/zip", *b"PK").into(), "convert it to PDF or text"),
        (Document::url("data:text/plain,Hi").into(), "not valid base64"),
    ] {
        let request = Request::new([Message::user_parts([part])]);
        let error = unsent(&request, "claude-sonnet-4-5", |model| model).await;
        assert!(error.contains(says), "{error}");
    }
}

/// Code in a container can only go on in the same container.
#[tokio::test]
async fn the_container_goes_back_with_the_results_of_its_calls() {
    let reply = include_str!("replies/server_tools_and_container.json");
    let server = Server::answering([Answer::json(reply), ok(), ok()]).await;
    let model = server.model("claude-sonnet-4-5");
    let mut request = hi().with_tools([look()]);
    let reply = model.generate(&request).await.unwrap();
    let call = reply.tool_calls().next().unwrap().clone();
    request.messages.push(Arc::new(Message::Assistant { parts: reply.parts }));
    request.messages.push(Arc::new(Message::Tool(ToolResult::new(&call, "true"))));
    model.generate(&request).await.unwrap();
    request.messages.push(Message::assistant("Done."));
    request.messages.push(Message::user("Thanks!"));
    model.generate(&request).await.unwrap();
    let [_, answer, later] = <[_; 3]>::try_from(server.seen()).ok().unwrap();
    assert_eq!(answer.body["container"], "container_1");
    assert_eq!(answer.body["messages"][1]["content"][1]["caller"]["tool_id"], "srvtoolu_1");
    assert_eq!(answer.body["messages"][1]["content"].as_array().unwrap().len(), 2);
    assert_eq!(later.body["container"], json!(null));
}

/// The result stays in the conversation, so an error would end the run at each further request.
#[tokio::test]
async fn what_the_api_does_not_read_of_a_result_is_a_note() {
    let call = ToolCall::new("1", "look", r#"{"id":1}"#);
    let mut result = ToolResult::new(&call, "See [image 1], [image 2] and [audio 1].");
    result.parts = vec![
        Image::bytes("image/svg+xml", *b"<svg/>").into(),
        Image::bytes("IMAGE/PNG; charset=binary", *b"\x89PNG").into(),
        Audio::bytes("audio/wav", *b"RIFF").into(),
        Document::file("openai", "file-1").into(),
    ];
    let messages =
        [Message::Assistant { parts: vec![ReplyPart::Call(call)] }, Message::Tool(result)];
    let request = Request::new([Message::user("Look.")].into_iter().chain(messages.map(Arc::new)));
    let body = sent(&request, "claude-test", |model| model).await;
    let content = &body["messages"][2]["content"][0]["content"];
    assert_eq!(
        content[0]["text"],
        "See [image 1], [image 2] and [audio 1].\n\
         [image 1 is left out: this model does not read the type `image/svg+xml`]\n\
         [audio 1 is left out: this model does not read the type `audio/wav`]\n\
         [document 1 is left out: this model does not read it in this form]",
    );
    assert_eq!(content[1]["source"]["media_type"], "image/png");
    assert_eq!(content.as_array().unwrap().len(), 2);
}

/// The prompt before the conversation stays as it was, so the server's cache of it stays valid.
#[tokio::test]
async fn tools_that_were_found_are_loaded_by_references() {
    let found = |names: &[&str]| {
        let call = ToolCall::new("toolu_1", "find_tools", r#"{"query":"look"}"#);
        let mut result = ToolResult::new(&call, "You can call these tools now:\n- look");
        result.found = names.iter().map(|&name| name.to_owned()).collect();
        [Message::Assistant { parts: vec![ReplyPart::Call(call)] }, Message::Tool(result)]
    };
    let find = Arc::new(Contract::of_input::<Look>("find_tools", "Find tools.").unwrap());
    let request = |names: &[&str]| {
        let messages = [Message::user("Look.")].into_iter().chain(found(names).map(Arc::new));
        Request::new(messages).with_tools([Arc::clone(&find), look()])
    };
    let refer = |model: Anthropic| model.with_tool_references(true);
    let body = sent(&request(&["look", "gone"]), "claude-sonnet-4-5", refer).await;
    let result = &body["messages"][2]["content"][0];
    assert_eq!(result["tool_use_id"], "toolu_1");
    assert_eq!(result["content"], json!([{"type": "tool_reference", "tool_name": "look"}]));
    assert_eq!(
        [&body["tools"][0]["defer_loading"], &body["tools"][1]["defer_loading"]],
        [&Value::Null, &json!(true)]
    );
    // The mark of the cached prefix is on the last tool that is loaded from the start.
    assert!(body["tools"][1]["cache_control"].is_null());

    // Without the reference, the tool is loaded from the start. So it is where the API has no references.
    for (names, change) in [(&[][..], true), (&["look"], false)] {
        let change = |model: Anthropic| model.with_tool_references(change);
        let body = sent(&request(names), "claude-sonnet-4-5", change).await;
        assert!(body["tools"][1]["defer_loading"].is_null(), "{body}");
        assert_eq!(
            body["messages"][2]["content"][0]["content"],
            "You can call these tools now:\n- look"
        );
    }
}
