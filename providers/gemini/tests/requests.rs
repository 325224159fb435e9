//! The requests that are sent: bodies of every kind of message, part and setting.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_gemini::Gemini;
use toolwright_module::message::{
    Audio, Document, Image, Opaque, Part, Reasoning, ReplyPart, Text, ToolResult,
};
use toolwright_module::model::{Effort, Settings, ToolChoice};
use toolwright_module::{Contract, LanguageModel, Message, Request, Signature, ToolCall};

use crate::common::{Server, hi, ok, ok_stream, streamed};

/// Store a value under a key.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryStore {
    /// The key.
    key: String,
    /// Words to find it by.
    tags: Option<Vec<String>>,
}

impl Signature for MemoryStore {
    type Output = bool;
}

fn contract() -> Arc<Contract> {
    Arc::new(Contract::of::<MemoryStore>().unwrap())
}

/// Returns the body that a model sends.
async fn body_of(request: &Request, model: impl FnOnce(&Server) -> Gemini) -> Value {
    let server = Server::answering([ok()]).await;
    model(&server).generate(request).await.unwrap();
    server.seen().remove(0).body
}

async fn contents_of(model: &str, messages: impl IntoIterator<Item = Message>) -> Value {
    let request = Request::new(messages.into_iter().map(Arc::new));
    body_of(&request, |server| server.model_of(model)).await["contents"].take()
}

fn user(text: &str) -> Message {
    Message::User { parts: vec![text.into()] }
}

fn opaque(value: Value) -> Opaque {
    Opaque::new("gemini", value)
}

#[tokio::test]
async fn a_conversation_with_every_kind_of_part() {
    let mut first = ToolCall::new("call_1_2", "look", r#"{"at": 1.10, "at": 2}"#);
    first.opaque = Some(Box::new(opaque(json!({"thoughtSignature": "Yw=="}))));
    let second = ToolCall::new("toolu_2", "look", "[1");
    let reply = vec![
        ReplyPart::Reasoning(Reasoning::new("gemini", "Hm.", json!({"thoughtSignature": "YQ=="}))),
        ReplyPart::Reasoning(Reasoning::new("anthropic", "Secret.", json!({"signature": "x"}))),
        ReplyPart::text("I look."),
        ReplyPart::text(""),
        ReplyPart::Text(Text::from("").with_opaque(opaque(json!({"thoughtSignature": "Yg=="})))),
        ReplyPart::Text(Text::from("Now.").with_opaque(Opaque::new("anthropic", json!({"c": 1})))),
        ReplyPart::Other(opaque(json!({"executableCode": {"code": "1"}}))),
        ReplyPart::Other(opaque(json!({"details": {"groundingMetadata": {}}}))),
        ReplyPart::Other(Opaque::new("anthropic", json!({"type": "server_tool_use"}))),
        ReplyPart::Call(first.clone()),
        ReplyPart::Call(second.clone()),
    ];
    let messages = [
        Message::System { text: "Be brief.".to_owned() },
        Message::System { text: String::new() },
        Message::System { text: "Be kind.".to_owned() },
        user("What is \"this\"?\n"),
        Message::Assistant { parts: reply },
        // The results are in another order than the calls.
        Message::Tool(ToolResult::failed(&second, "arguments do not fit")),
        Message::Tool(ToolResult::new(&first, "{\"seen\": 12345678901234567890123}")),
        Message::Assistant {
            parts: vec![ReplyPart::Other(Opaque::new("openai", json!({"type": "x"})))],
        },
        user("Thanks."),
        user("Go on."),
    ];
    let request = Request::new(messages.map(Arc::new));
    let mut body = body_of(&request, Server::model).await;
    insta::assert_snapshot!(format!("{:#}", body["systemInstruction"].take()));
    insta::assert_snapshot!(format!("{:#}", body["contents"].take()));
}

#[tokio::test]
async fn the_digits_of_arguments_stay() {
    let call = ToolCall::new("id", "look", r#"{"a": 1.10, "b": 12345678901234567890123}"#);
    let parts = vec![ReplyPart::Call(call.clone())];
    let messages =
        [user("a"), Message::Assistant { parts }, Message::Tool(ToolResult::new(&call, "ok"))];
    let server = Server::answering([ok()]).await;
    server.model().generate(&Request::new(messages.map(Arc::new))).await.unwrap();
    let sent = &server.seen()[0].text;
    assert!(sent.contains(r#""args":{"a": 1.10, "b": 12345678901234567890123}"#), "{sent}");
}

#[tokio::test]
async fn a_call_of_another_model_gets_a_signature_that_gemini_3_accepts() {
    let call = |id: &str| ReplyPart::Call(ToolCall::new(id, "look", "{}"));
    let parts = vec![ReplyPart::text("I look."), call("a"), call("b")];
    let results = ["a", "b"].map(|id| ToolCall::new(id, "look", "{}"));
    let messages = || {
        [user("Hi!"), Message::Assistant { parts: parts.clone() }]
            .into_iter()
            .chain(results.clone().map(|call| Message::Tool(ToolResult::new(&call, "ok"))))
    };
    let new = contents_of("gemini-3-flash-preview", messages()).await;
    let [_, first, second] = &new[1]["parts"].as_array().unwrap()[..] else { panic!("{new}") };
    assert!(first["thoughtSignature"].is_string() && second["thoughtSignature"].is_null());
    let old = contents_of("gemini-2.5-flash", messages()).await;
    assert!(!old.to_string().contains("thoughtSignature"), "{old}");
}

#[tokio::test]
async fn media_are_inline_or_files() {
    let parts = vec![
        Part::Image(Image::bytes("image/png", [1, 2, 3])),
        Part::Image(Image::url("https://example.com/a.PNG?size=1")),
        Part::Document(Document::bytes("text/plain", *b"Hi!")),
        Part::Document(Document::file("gemini", "files/abc")),
        Part::Audio(Audio::url("gs://bucket/a.mp3")),
        Part::Image(Image::url("https://example.com/photo")),
    ];
    let contents = contents_of("gemini-2.5-flash", [Message::User { parts }]).await;
    insta::assert_snapshot!(contents[0]["parts"], @r#"[{"inlineData":{"mimeType":"image/png","data":"AQID"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.PNG?size=1"}},{"inlineData":{"mimeType":"text/plain","data":"SGkh"}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc"}},{"fileData":{"mimeType":"audio/mpeg","fileUri":"gs://bucket/a.mp3"}},{"fileData":{"fileUri":"https://example.com/photo"}}]"#);
}

#[tokio::test]
async fn media_that_the_api_does_not_take_are_errors() {
    let model = Gemini::at("https://example.com/v1beta", "m").unwrap();
    for (part, said) in [
        (Image::file("openai", "file-1"), "a file of `openai` cannot be sent to Gemini"),
        (Image::url("data:image/svg+xml,<svg/>"), "takes a `data:` URL only in base64"),
    ] {
        let request = Request::new([Message::user_parts([part.into()])]);
        let error = model.generate(&request).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn media_of_results_are_inside_or_beside() {
    let call = |id: &str| ToolCall::new(id, "shoot", "{}");
    let messages = || {
        let image = Image::bytes("image/png", [1, 2, 3]);
        let audio = Audio::bytes("audio/wav", [4]);
        [
            user("Hi!"),
            Message::Assistant { parts: ["a", "b"].map(|id| ReplyPart::Call(call(id))).into() },
            Message::Tool(
                ToolResult::new(&call("a"), "[image 1]").with_parts([image.into(), audio.into()]),
            ),
            Message::Tool(ToolResult::new(&call("b"), "none")),
            user("And?"),
        ]
    };
    let new = contents_of("gemini-3-flash-preview", messages()).await;
    insta::assert_snapshot!(json!(new.as_array().unwrap()[2..]), @r#"[{"role":"user","parts":[{"functionResponse":{"id":"a","name":"shoot","response":{"output":"[image 1]"}}},{"functionResponse":{"id":"b","name":"shoot","response":{"output":"none"}}}]},{"role":"user","parts":[{"text":"Images and documents of the result of call a:"},{"inlineData":{"mimeType":"image/png","data":"AQID"}},{"inlineData":{"mimeType":"audio/wav","data":"BA=="}},{"text":"And?"}]}]"#);
    let old = contents_of("gemini-2.5-flash", messages()).await;
    insta::assert_snapshot!(json!(old.as_array().unwrap()[2..]), @r#"[{"role":"user","parts":[{"functionResponse":{"id":"a","name":"shoot","response":{"output":"[image 1]"}}},{"functionResponse":{"id":"b","name":"shoot","response":{"output":"none"}}}]},{"role":"user","parts":[{"text":"Images and documents of the result of call a:"},{"inlineData":{"mimeType":"image/png","data":"AQID"}},{"inlineData":{"mimeType":"audio/wav","data":"BA=="}},{"text":"And?"}]}]"#);
}

#[tokio::test]
async fn tools_and_the_answer_have_schemas() {
    let request = hi().with_tools([contract()]).with_output(contract());
    let mut body = body_of(&request, Server::model).await;
    body["contents"].take();
    insta::assert_snapshot!(format!("{body:#}"));
    let model = |server: &Server| server.model().with_structured_output(false);
    let body = body_of(&request, model).await;
    assert!(body["generationConfig"]["responseJsonSchema"].is_null());
}

#[tokio::test]
async fn the_choice_of_a_tool_is_a_mode() {
    for (choice, config) in [
        (ToolChoice::Auto, json!(null)),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (
            ToolChoice::Tool("memory_store".to_owned()),
            json!({"mode": "ANY", "allowedFunctionNames": ["memory_store"]}),
        ),
    ] {
        let request = hi().with_tools([contract()]).with_tool_choice(choice.clone());
        let body = body_of(&request, Server::model).await;
        assert_eq!(body["toolConfig"]["functionCallingConfig"], config, "{choice:?}");
        let body = body_of(&hi().with_tool_choice(choice), Server::model).await;
        assert!(body["toolConfig"].is_null(), "without tools");
    }
}

#[tokio::test]
async fn settings_are_fields_of_the_configuration() {
    let settings = Settings::default()
        .with_temperature(0.1)
        .with_top_p(0.5)
        .with_seed(7)
        .with_stop(vec!["END".to_owned()])
        .with_max_output_tokens(50)
        .with_effort(Effort::Low)
        .with_extra("gemini", "generationConfig", json!({"topK": 40, "seed": 8}))
        .with_extra("gemini", "toolConfig", json!({"retrievalConfig": {"languageCode": "de"}}))
        .with_extra("gemini", "serviceTier", "flex")
        .with_extra("openai", "verbosity", "low");
    let model = |server: &Server| {
        server
            .model()
            .with_settings(settings)
            .with_thoughts(true)
            .with_safety("HARM_CATEGORY_HARASSMENT", "BLOCK_NONE")
            .with_safety("HARM_CATEGORY_HARASSMENT", "BLOCK_ONLY_HIGH")
            .with_server_tool(json!({"codeExecution": {}}))
    };
    let mut body = body_of(&hi().with_tools([contract()]), model).await;
    body["contents"].take();
    body["tools"][0].take();
    insta::assert_snapshot!(body, @r#"{"tools":[null,{"codeExecution":{}}],"toolConfig":{"retrievalConfig":{"languageCode":"de"}},"contents":null,"generationConfig":{"maxOutputTokens":50,"temperature":0.1,"topP":0.5,"stopSequences":["END"],"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024},"topK":40,"seed":8},"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_ONLY_HIGH"}],"serviceTier":"flex"}"#);
}

#[tokio::test]
async fn an_effort_is_the_nearest_that_the_model_has() {
    let efforts =
        [Effort::Off, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max];
    let mut table = String::new();
    for name in
        ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash-preview", "gemini-3-pro-preview"]
    {
        for effort in efforts {
            let request = hi().with_settings(Settings::default().with_effort(effort));
            let body = body_of(&request, |server| server.model_of(name)).await;
            let thinking = body["generationConfig"]["thinkingConfig"].as_object().unwrap();
            table += &format!(" {}", thinking.values().next().unwrap());
        }
        table += "\n";
    }
    insta::assert_snapshot!(table, @r#"
     0 512 1024 8192 16384 24576
     128 512 1024 8192 16384 32768
     "minimal" "minimal" "low" "medium" "high" "high"
     "low" "low" "low" "high" "high" "high"
    "#);
}

#[tokio::test]
async fn cached_content_has_the_instructions_and_tools() {
    let messages = [Message::System { text: "Be brief.".to_owned() }, user("Hi!")];
    let request = Request::new(messages.map(Arc::new)).with_tools([contract()]);
    let model = |server: &Server| server.model().with_cached_content("cachedContents/abc");
    let body = body_of(&request, model).await;
    insta::assert_snapshot!(body, @r#"{"cachedContent":"cachedContents/abc","contents":[{"role":"user","parts":[{"text":"Hi!"}]}],"generationConfig":{"maxOutputTokens":4096}}"#);
}

#[tokio::test]
async fn only_a_stream_has_streamed_arguments() {
    let server = Server::answering([ok(), ok_stream()]).await;
    let base_url = format!("{}/projects/p/locations/global", server.url);
    let metadata = [("team".to_owned(), "a".to_owned())].into();
    let model = Gemini::vertex_at(&base_url, "gemini-3-flash-preview")
        .unwrap()
        .with_settings(Settings::default().with_metadata(metadata))
        .with_server_tool(json!({"googleSearch": {}}))
        .with_streamed_arguments(true);
    let request = hi().with_tools([contract()]);
    model.generate(&request).await.unwrap();
    streamed(&model, request).await.1.unwrap();
    let [whole, stream] = <[_; 2]>::try_from(server.seen()).ok().unwrap();
    assert_eq!(whole.body["toolConfig"], json!(null));
    let config = json!({"functionCallingConfig": {"streamFunctionCallArguments": true}});
    assert_eq!(stream.body["toolConfig"], config);
    assert_eq!(stream.body["labels"], json!({"team": "a"}));
}

#[tokio::test]
async fn gemini_3_shows_the_calls_of_server_tools() {
    let model = |server: &Server| {
        server.model_of("gemini-3-flash-preview").with_server_tool(json!({"googleSearch": {}}))
    };
    let body = body_of(&hi(), model).await;
    assert_eq!(body["tools"], json!([{"googleSearch": {}}]));
    assert_eq!(body["toolConfig"], json!({"includeServerSideToolInvocations": true}));
}

/// The result stays in the conversation, so an error would end the run at each further request.
#[tokio::test]
async fn what_the_api_does_not_read_of_a_result_is_a_note() {
    let call = ToolCall::new("1", "look", "{}");
    let mut result = ToolResult::new(&call, "Here.");
    result.parts = vec![
        Image::bytes("image/svg+xml", *b"<svg/>").into(),
        Image::file("openai", "file-1").into(),
        Image::bytes("image/png", *b"\x89PNG").into(),
    ];
    let messages = [
        user("Look."),
        Message::Assistant { parts: vec![ReplyPart::Call(call)] },
        Message::Tool(result),
    ];
    let contents = contents_of("gemini-3-pro", messages).await.to_string();
    assert!(contents.contains("[image 1 is left out") && contents.contains("[image 2 is left out"));
    assert!(!contents.contains("[image 3") && contents.contains("image/png"), "{contents}");
}

/// The API refuses such a name with a status 400, for every request.
#[tokio::test]
async fn a_tool_whose_name_begins_with_a_digit_is_an_error_before_the_request() {
    for name in ["3d_render", "-a"] {
        let contract = Contract::of::<MemoryStore>().unwrap().named(name).unwrap();
        let server = Server::answering([ok()]).await;
        let request = hi().with_tools([Arc::new(contract)]);
        let error = server.model().generate(&request).await.unwrap_err().to_string();
        assert!(error.contains("must start with a letter or `_` there; rename it"), "{error}");
        assert!(server.seen().is_empty());
    }
}
