//! The forms of every kind of part and of every setting in the bodies of both APIs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Opaque, Part, ReplyPart, ToolResult};
use toolwright_module::model::{Effort, Setting, Settings, ToolChoice};
use toolwright_module::{Contract, Error, LanguageModel, Message, Request, ToolCall};
use toolwright_openai::Api;

use crate::common::{APIS, Server, hi, ok};

async fn sent(request: &Request, api: Api) -> Value {
    let server = Server::answering([ok(api)]).await;
    server.model(api).generate(request).await.unwrap();
    server.seen()[0].body.clone()
}

/// The error of a request that cannot be sent.
async fn refused(request: &Request, api: Api) -> Error {
    let server = Server::answering([]).await;
    let error = server.model(api).generate(request).await.unwrap_err();
    assert!(server.seen().is_empty());
    error
}

fn with(parts: impl IntoIterator<Item = Part>) -> Request {
    Request::new([Message::user_parts(parts)])
}

/// The parts that both APIs take.
fn common() -> Vec<Part> {
    vec![
        "Look.".into(),
        Image::url("https://example.com/a.png").into(),
        Image::bytes("image/png", *b"\x89PNG").into(),
        Document::bytes("application/pdf", *b"%PDF").into(),
        Document::bytes("text/plain", *b"Call Ada.").into(),
        Document::file("openai", "file-1").into(),
    ]
}

fn pieces(content: &Value) -> String {
    content.as_array().unwrap().iter().map(|piece| format!("{piece}\n")).collect()
}

#[tokio::test]
async fn chat_has_a_form_for_each_kind_of_part() {
    let parts = common().into_iter().chain([Audio::bytes("audio/mpeg", *b"ID3").into()]);
    let body = sent(&with(parts), Api::Chat).await;
    insta::assert_snapshot!(pieces(&body["messages"][0]["content"]), @r#"
    {"type":"text","text":"Look."}
    {"type":"image_url","image_url":{"url":"https://example.com/a.png"}}
    {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}
    {"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERg==","filename":"file.pdf"}}
    {"type":"text","text":"Call Ada."}
    {"type":"file","file":{"file_id":"file-1"}}
    {"type":"input_audio","input_audio":{"data":"SUQz","format":"mp3"}}
    "#);
}

#[tokio::test]
async fn responses_has_a_form_for_each_kind_of_part() {
    let more =
        [Image::file("openai", "file-2").into(), Document::url("https://example.com/a.pdf").into()];
    let parts: Vec<_> = common().into_iter().chain(more).collect();
    let body = sent(&with(parts.clone()), Api::Responses).await;
    let content = &body["input"][0]["content"];
    insta::assert_snapshot!(pieces(content), @r#"
    {"type":"input_text","text":"Look."}
    {"type":"input_image","image_url":"https://example.com/a.png","detail":"auto"}
    {"type":"input_image","image_url":"data:image/png;base64,iVBORw==","detail":"auto"}
    {"type":"input_file","file_data":"data:application/pdf;base64,JVBERg==","filename":"file.pdf"}
    {"type":"input_text","text":"Call Ada."}
    {"type":"input_file","file_id":"file-1"}
    {"type":"input_image","file_id":"file-2","detail":"auto"}
    {"type":"input_file","file_url":"https://example.com/a.pdf"}
    "#);
    // A tool's result has the same forms, after its text.
    let call = ToolCall::new("1", "look", "{}");
    let result = ToolResult::new(&call, "Look.").with_parts(parts[1..].to_vec());
    let said = Arc::new(Message::Assistant { parts: vec![ReplyPart::Call(call)] });
    let body = sent(&Request::new([said, Arc::new(Message::Tool(result))]), Api::Responses).await;
    assert_eq!(&body["input"][1]["output"], content);
}

#[tokio::test]
async fn a_part_that_an_api_does_not_take_is_an_error_before_sending() {
    let cases: [(Part, Api); 7] = [
        (Image::file("openai", "file-1").into(), Api::Chat),
        (Document::url("https://example.com/a.pdf").into(), Api::Chat),
        (Audio::url("https://example.com/a.mp3").into(), Api::Chat),
        (Document::file("anthropic", "file-1").into(), Api::Chat),
        (Document::file("anthropic", "file-1").into(), Api::Responses),
        (Image::file("gemini", "files/a").into(), Api::Responses),
        (Audio::bytes("audio/wav", *b"RIFF").into(), Api::Responses),
    ];
    let mut texts = Vec::new();
    for (part, api) in cases {
        let error = refused(&with([part]), api).await;
        assert!(!error.is_retryable());
        assert_eq!(error.stage(), Stage::Setup);
        texts.push(format!("{api:?}: {error}"));
    }
    insta::assert_snapshot!(texts.join("\n"), @r"
    Chat: the request cannot be sent: Chat Completions takes no image by file id; send its bytes or its address, or use `Api::Responses`
    Chat: the request cannot be sent: Chat Completions takes no document by address; send its bytes, or use `Api::Responses`
    Chat: the request cannot be sent: Chat Completions takes audio only as bytes
    Chat: the request cannot be sent: a file of `anthropic` cannot be sent to OpenAI; send its bytes or its address
    Responses: the request cannot be sent: a file of `anthropic` cannot be sent to OpenAI; send its bytes or its address
    Responses: the request cannot be sent: a file of `gemini` cannot be sent to OpenAI; send its bytes or its address
    Responses: the request cannot be sent: Responses takes no audio; use `Api::Chat`
    ");
}

/// Only its own provider gets an opaque part.
#[tokio::test]
async fn an_opaque_part_goes_back_to_its_own_api() {
    let search = json!({"type": "web_search_call", "id": "ws_1"});
    let parts = vec![
        ReplyPart::Other(Opaque::new("anthropic", json!({"id": "s1"}))),
        ReplyPart::Other(Opaque::new("openai-responses", search.clone())),
        ReplyPart::text("Found."),
    ];
    let request = Request::new([Message::user("Hi!"), Arc::new(Message::Assistant { parts })]);
    let body = sent(&request, Api::Responses).await;
    let text = json!({"type": "message", "role": "assistant", "content": "Found."});
    assert_eq!([&body["input"][1], &body["input"][2]], [&search, &text]);
    let body = sent(&request, Api::Chat).await;
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "Found."}));
}

/// Every setting that both APIs have.
fn both() -> Settings {
    Settings::default()
        .with_temperature(0.5)
        .with_top_p(0.25)
        .with_effort(Effort::Max)
        .with_max_output_tokens(50)
        .with_parallel_calls(false)
        .with_user("u1".to_owned())
        .with_metadata(BTreeMap::from([("team".to_owned(), "a".to_owned())]))
}

/// A request with a tool that it forces.
fn choosing() -> Request {
    let look =
        Contract::dynamic("look", "Look.", json!({"type": "object", "properties": {}}), None);
    let choice = ToolChoice::Tool("look".to_owned());
    hi().with_tools([Arc::new(look.unwrap())]).with_tool_choice(choice)
}

/// Returns the fields of a body beside the conversation and the tools.
fn rest(mut body: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    for name in ["model", "messages", "input", "tools"] {
        fields.shift_remove(name);
    }
    body
}

#[tokio::test]
async fn every_setting_has_its_field() {
    let chat = both().with_seed(7).with_stop(vec!["END".to_owned()]);
    let body = sent(&choosing().with_settings(chat), Api::Chat).await;
    insta::assert_snapshot!(rest(body), @r#"{"tool_choice":{"type":"function","function":{"name":"look"}},"max_tokens":50,"temperature":0.5,"top_p":0.25,"seed":7,"stop":["END"],"reasoning_effort":"xhigh","parallel_tool_calls":false,"user":"u1","metadata":{"team":"a"}}"#);
    let body = sent(&choosing().with_settings(both()), Api::Responses).await;
    insta::assert_snapshot!(rest(body), @r#"{"tool_choice":{"type":"function","name":"look"},"max_output_tokens":50,"temperature":0.5,"top_p":0.25,"reasoning":{"effort":"xhigh"},"parallel_tool_calls":false,"safety_identifier":"u1","metadata":{"team":"a"}}"#);
    // Without tools there are no calls to make in parallel.
    for api in APIS {
        let body = sent(&hi().with_settings(both()), api).await;
        assert_eq!((body.get("parallel_tool_calls"), body.get("tool_choice")), (None, None));
    }
    let efforts = [Effort::Off, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];
    for (effort, word) in efforts.into_iter().zip(["none", "minimal", "low", "medium", "high"]) {
        let request = hi().with_settings(Settings::default().with_effort(effort));
        assert_eq!(sent(&request, Api::Chat).await["reasoning_effort"], word);
        assert_eq!(sent(&request, Api::Responses).await["reasoning"]["effort"], word);
    }
}

#[tokio::test]
async fn a_setting_that_the_api_does_not_have_is_an_error_before_sending() {
    let seed = hi().with_settings(Settings::default().with_seed(7));
    let error = refused(&seed, Api::Responses).await;
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error, @"the model does not support the setting `seed`; leave it out, or call `Settings::supported_by` to leave out all that it does not support");
    let cache = hi().with_settings(Settings::default().with_cache(false));
    let nan = hi().with_settings(Settings::default().with_temperature(f32::NAN));
    for api in APIS {
        let error = refused(&cache, api).await.to_string();
        assert!(error.contains("`prompt cache`"), "{error}");
        let error = refused(&nan, api).await.to_string();
        assert!(error.contains("`temperature` is not a finite number"), "{error}");
    }
    // The capabilities say the same.
    let server = Server::answering([]).await;
    let supported = APIS.map(|api| server.model(api).capabilities().settings);
    assert!(supported.iter().all(|set| !set.has(Setting::Cache)));
    assert_eq!(supported.map(|set| set.has(Setting::Seed)), [true, false]);
}

#[tokio::test]
async fn the_requests_settings_win_and_extra_fields_replace_others() {
    for api in APIS {
        let server = Server::answering([ok(api)]).await;
        let own = Settings::default()
            .with_temperature(1.0)
            .with_max_output_tokens(9)
            .with_extra("openai", "verbosity", "low")
            .with_extra("openai", "service_tier", "flex")
            .with_extra("anthropic", "top_k", 5);
        let near = Settings::default()
            .with_temperature(0.5)
            .with_extra("openai", "verbosity", "high")
            .with_extra("openai", "model", "another");
        let model = server.model(api).with_settings(own);
        model.generate(&hi().with_settings(near)).await.unwrap();
        let body = server.seen()[0].body.clone();
        let most = if api == Api::Chat { "max_tokens" } else { "max_output_tokens" };
        assert_eq!((&body["temperature"], &body[most]), (&json!(0.5), &json!(9)));
        assert_eq!((&body["verbosity"], &body["service_tier"]), (&json!("high"), &json!("flex")));
        assert_eq!((&body["model"], body.get("top_k")), (&json!("another"), None));
        assert_eq!(body.to_string().matches("\"model\"").count(), 1);
    }
}

/// The result stays in the conversation, so an error would end the run at each further request.
#[tokio::test]
async fn what_the_api_does_not_read_of_a_result_is_a_note() {
    let call = ToolCall::new("1", "look", "{}");
    let mut result = ToolResult::new(&call, "Here.");
    result.parts = vec![
        Image::bytes("image/svg+xml", *b"<svg/>").into(),
        Image::bytes("image/png", *b"\x89PNG").into(),
        Audio::bytes("audio/wav", *b"RIFF").into(),
        Image::file("openai", "file-1").into(),
        Document::url("https://example.com/a.pdf").into(),
    ];
    let messages =
        [Message::Assistant { parts: vec![ReplyPart::Call(call)] }, Message::Tool(result)];
    let request = Request::new([Message::user("Look.")].into_iter().chain(messages.map(Arc::new)));
    for (api, left_out) in [
        (Api::Chat, ["image 1", "image 3", "document 1"].as_slice()),
        (Api::Responses, &["image 1", "audio 1"]),
    ] {
        let body = sent(&request, api).await.to_string();
        for what in ["image 1", "image 2", "image 3", "audio 1", "document 1"] {
            let is_noted = body.contains(&format!("[{what} is left out"));
            assert_eq!(is_noted, left_out.contains(&what), "{api:?} {what}: {body}");
        }
    }
}

/// What is before the conversation stays as it was, so the server's cache of it stays valid.
#[tokio::test]
async fn tools_that_were_found_stand_behind_the_search() {
    let named = |name: &str| {
        Arc::new(Contract::dynamic(name, "A tool.", json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}), None).unwrap())
    };
    let round = |id: &str, found: &[&str]| {
        let call = ToolCall::new(id, "find_tools", r#"{"a":"x"}"#);
        let mut result = ToolResult::new(&call, "Found.");
        result.found = found.iter().map(|&name| name.to_owned()).collect();
        [Message::Assistant { parts: vec![ReplyPart::Call(call)] }, Message::Tool(result)]
    };
    let messages = [round("c_1", &["look", "gone"]), round("c_2", &["look", "tidy"])];
    let messages =
        [Message::user("Look.")].into_iter().chain(messages.into_iter().flatten().map(Arc::new));
    let request = Request::new(messages).with_tools(["find_tools", "look", "tidy"].map(named));
    let body = async |additional: bool, api: Api| {
        let server = Server::answering([ok(api)]).await;
        let model = server.model(api).with_additional_tools(additional);
        model.generate(&request).await.unwrap();
        server.seen()[0].body.clone()
    };
    let names = |tools: &Value| -> Vec<String> {
        let tools = tools.as_array().unwrap().iter();
        let name = |tool: &Value| {
            tool.get("name").unwrap_or(&tool["function"]["name"]).as_str().unwrap().to_owned()
        };
        tools.map(name).collect()
    };
    let sent = body(true, Api::Responses).await;
    assert_eq!(names(&sent["tools"]), ["find_tools"]);
    let input = sent["input"].as_array().unwrap();
    let kinds: Vec<&str> =
        input.iter().map(|item| item["type"].as_str().unwrap_or("message")).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "function_call",
            "function_call_output",
            "additional_tools",
            "function_call",
            "function_call_output",
            "additional_tools"
        ]
    );
    assert_eq!(names(&input[3]["tools"]), ["look"]);
    assert_eq!(names(&input[6]["tools"]), ["tidy"], "each tool once");
    assert_eq!(
        (&input[3]["role"], &input[3]["tools"][0]["type"]),
        (&json!("developer"), &json!("function"))
    );
    assert_eq!(input[3]["tools"][0]["strict"], sent["tools"][0]["strict"]);

    for (additional, api) in [(false, Api::Responses), (true, Api::Chat)] {
        let sent = body(additional, api).await;
        assert_eq!(names(&sent["tools"]), ["find_tools", "look", "tidy"]);
        assert!(!sent.to_string().contains("additional_tools"), "{sent}");
    }
}
