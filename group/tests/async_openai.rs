//! Groups of tools in OpenAI's JSON and in async-openai's types.

use std::sync::Arc;

use async_openai::types::chat::{
    ChatCompletionMessageCustomToolCall, ChatCompletionMessageToolCall,
    ChatCompletionMessageToolCalls, CreateChatCompletionResponse, CustomTool, FunctionCall,
};
use async_openai::types::responses::{CustomToolCall, FunctionToolCall, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_group::async_openai::{
    Api, DefinitionExt, GroupExt, IntoToolCall, OutcomeExt, ReplyExt, read_call,
};
use toolwright_group::{Custom, Definition, Format, Handle, ToolGroup};
use toolwright_module::message::{Audio, Document, Image, Part};
use toolwright_module::{Context, Contract, Dialect, Effect, Result, Tool, ToolCall, ToolOutput};

const APIS: [Api; 2] = [Api::Chat, Api::Responses];

/// Say hello to somebody.
#[derive(Deserialize, JsonSchema)]
struct SayHello {
    /// Whom to greet.
    name: String,
    /// How to say it.
    greeting: Option<String>,
}

impl Handle for SayHello {
    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        let greeting = self.greeting.unwrap_or("Message".to_owned());
        Ok((format!("{greeting} delivered to {}.", self.name), ()))
    }
}

/// The same, guaranteed by the provider.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its definition counts")]
struct SayHelloStrictly {
    name: String,
    greeting: Option<String>,
}

impl Handle for SayHelloStrictly {
    fn strict() -> bool {
        true
    }

    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((String::new(), ()))
    }
}

/// Says its schema itself.
#[derive(Deserialize, JsonSchema)]
struct GetStockPrice {}

impl Handle for GetStockPrice {
    fn schema() -> Option<Value> {
        Some(json!({"title": "As it is", "type": "object", "properties": {}}))
    }

    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((String::new(), ()))
    }
}

macro_rules! custom {
    ($name:ident, $format:expr) => {
        impl Custom for $name {
            fn format() -> Option<Format> {
                $format
            }

            async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
                Ok((self.0, ()))
            }
        }
    };
}

/// Write a biography.
#[derive(Deserialize, JsonSchema)]
struct Bio(String);
custom!(Bio, None);

#[derive(Deserialize, JsonSchema)]
struct Note(String);
custom!(Note, Some(Format::Text));

/// Say when.
#[derive(Deserialize, JsonSchema)]
struct Timestamp(String);
custom!(Timestamp, Some(Format::Regex(r"\d{2}:\d{2}".into())));

/// Say where to.
#[derive(Deserialize, JsonSchema)]
struct Direction(String);
custom!(Direction, Some(Format::Lark(r#"start: "left" | "right""#.into())));

fn group() -> ToolGroup {
    ToolGroup::new()
        .handler::<SayHello>()
        .and_then(|group| group.handler::<SayHelloStrictly>())
        .and_then(|group| group.handler::<GetStockPrice>())
        .and_then(|group| group.custom::<Bio>())
        .and_then(|group| group.custom::<Note>())
        .and_then(|group| group.custom::<Timestamp>())
        .and_then(|group| group.custom::<Direction>())
        .unwrap()
}

fn value(raw: &serde_json::value::RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

#[test]
fn the_definitions_for_chat_completions() {
    insta::assert_json_snapshot!(value(&group().tools(Api::Chat).unwrap()));
}

#[test]
fn the_definitions_for_responses() {
    insta::assert_json_snapshot!(value(&group().tools(Api::Responses).unwrap()));
}

/// People, places and numbers that a text names.
#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its definition counts")]
struct EntitiesResponse {
    people: Vec<String>,
    places: Vec<String>,
    numbers: Vec<String>,
}

#[test]
fn structured_output_for_both_apis() {
    let loose = Definition::output::<EntitiesResponse>().unwrap();
    let strict = loose.clone().with_strict(true);
    let formats: Vec<_> = [&loose, &strict]
        .iter()
        .flat_map(|definition| APIS.map(|api| value(&definition.format_json(api).unwrap())))
        .collect();
    insta::assert_json_snapshot!(formats);
    for (definition, formats) in [&loose, &strict].into_iter().zip(formats.chunks(2)) {
        let typed = serde_json::to_value(definition.response_format().unwrap()).unwrap();
        assert_eq!(typed, formats[0]);
        let typed = serde_json::to_value(definition.text_format().unwrap()).unwrap();
        assert_eq!(typed, formats[1]);
    }
}

#[test]
fn definitions_in_async_openais_types_are_the_same_json() {
    let group = group();
    let typed = |api| match api {
        Api::Chat => serde_json::to_value(group.chat_tools().unwrap()).unwrap(),
        _ => serde_json::to_value(group.responses_tools().unwrap()).unwrap(),
    };
    for api in APIS {
        let mut own = value(&group.tools(api).unwrap());
        // async-openai always sends these fields; their default has the same meaning.
        for tool in own.as_array_mut().unwrap() {
            if tool["type"] != "custom" {
                continue;
            }
            let inner = if api == Api::Chat { &mut tool["custom"] } else { tool };
            let inner = inner.as_object_mut().unwrap();
            inner.entry("description").or_insert("".into());
            inner.entry("format").or_insert(json!({"type": "text"}));
        }
        assert_eq!(typed(api), own);
    }
}

#[test]
fn definitions_are_cached_and_equal_to_single_ones() {
    let group = group();
    for api in APIS {
        let all = group.tools(api).unwrap();
        assert!(Arc::ptr_eq(&all, &group.tools(api).unwrap()));
        let each: Vec<_> = group.definitions().iter().map(|one| one.tool(api).unwrap()).collect();
        assert_eq!(serde_json::to_string(&each).unwrap(), all.get());
    }
    let none = ToolGroup::<(), ()>::new();
    assert_eq!(none.tools(Api::Chat).unwrap().get(), "[]");
}

#[test]
fn all_four_call_types_convert_to_tool_calls() {
    let function = ToolCall::new("call_1", "say_hello", r#"{"name": "Kate"}"#);
    let custom = ToolCall::custom("call_2", "bio", "I am Kate.");
    let chat_function = ChatCompletionMessageToolCall {
        id: function.id.clone(),
        function: FunctionCall {
            name: function.name.clone(),
            arguments: function.arguments.clone(),
        },
    };
    let chat_custom = ChatCompletionMessageCustomToolCall {
        id: custom.id.clone(),
        custom_tool: CustomTool { name: custom.name.clone(), input: custom.arguments.clone() },
    };
    let responses_function = FunctionToolCall {
        call_id: function.id.clone(),
        id: Some("fc_1".to_owned()),
        name: function.name.clone(),
        arguments: function.arguments.clone(),
        ..FunctionToolCall::default()
    };
    let responses_custom: CustomToolCall = serde_json::from_value(json!({
        "id": "ctc_1", "call_id": custom.id, "name": custom.name, "input": custom.arguments,
    }))
    .unwrap();

    assert_eq!((&chat_function).into_tool_call(), function);
    assert_eq!((&chat_custom).into_tool_call(), custom);
    assert_eq!(responses_function.into_tool_call(), function);
    assert_eq!(responses_custom.into_tool_call(), custom);
    let either = ChatCompletionMessageToolCalls::Function(chat_function);
    assert_eq!(either.into_tool_call(), function);
    let either = ChatCompletionMessageToolCalls::Custom(chat_custom);
    assert_eq!(either.into_tool_call(), custom);
    // A tool call converts to itself.
    assert_eq!(function.clone().into_tool_call(), function);
}

#[test]
fn all_four_forms_of_calls_are_read_from_json() {
    let function = ToolCall::new("1", "add", "{}");
    let custom = ToolCall::custom("2", "bio", "text");
    for (item, call) in [
        (
            json!({"type": "function", "id": "1", "function": {"name": "add", "arguments": "{}"}}),
            &function,
        ),
        (
            json!({"type": "function_call", "id": "fc", "call_id": "1", "name": "add", "arguments": "{}"}),
            &function,
        ),
        (json!({"type": "custom", "id": "2", "custom": {"name": "bio", "input": "text"}}), &custom),
        (
            json!({"type": "custom", "id": "2", "custom_tool": {"name": "bio", "input": "text"}}),
            &custom,
        ),
        (
            json!({"type": "custom_tool_call", "call_id": "2", "name": "bio", "input": "text"}),
            &custom,
        ),
    ] {
        assert_eq!(read_call(&item).as_ref(), Some(call), "{item}");
    }
    for item in
        [json!({}), json!([]), json!({"type": "reasoning"}), json!({"type": "function", "id": "1"})]
    {
        assert_eq!(read_call(&item), None, "{item}");
    }
}

#[tokio::test]
async fn outcomes_become_a_message_and_an_item() {
    let group = group();
    let calls = [
        ToolCall::new("call_1", "say_hello", r#"{"name": "Kate"}"#),
        ToolCall::custom("call_2", "bio", "I am Kate."),
        ToolCall::new("call_3", "unknown", "{}"),
    ];
    let outcomes = group.dispatch(&calls, &(), &Context::default()).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let messages: Vec<_> = outcomes.iter().map(OutcomeExt::tool_message).collect();
    let items: Vec<_> = outcomes.iter().map(OutcomeExt::output_item).collect();
    insta::assert_json_snapshot!(json!({"messages": messages, "items": items}));
}

#[tokio::test]
async fn images_are_in_the_item_and_in_a_message_of_their_own() {
    let contract = || {
        let input = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Contract::dynamic("screenshot", "Take a picture.", input, None).unwrap()
    };
    let image = Image::url("data:image/png;base64,AAAA");
    let tool = Tool::dynamic(contract(), Effect::Read, move |_, _| {
        let output = ToolOutput::text_only("Taken.").with_parts([image.clone().into()]);
        async { Ok(output) }
    });
    let group = ToolGroup::<(), ()>::new().tool(tool).unwrap();
    let call = ToolCall::new("call_1", "screenshot", "{}");
    let outcome = group.run(&call, &(), &Context::default()).await.unwrap();
    insta::assert_json_snapshot!(json!({
        "messages": [outcome.tool_message(), outcome.parts_message()],
        "item": outcome.output_item(),
    }));
}

/// The content of each part, over Chat Completions and over Responses.
async fn sent(parts: Vec<Part>) -> Vec<(Value, Value)> {
    let input = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let contract = Contract::dynamic("read", "Read.", input, None).unwrap();
    let tool = Tool::dynamic(contract, Effect::Read, move |_, _| {
        let output = ToolOutput::text_only("Read.").with_parts(parts.clone());
        async { Ok(output) }
    });
    let group = ToolGroup::<(), ()>::new().tool(tool).unwrap();
    let call = ToolCall::new("call_1", "read", "{}");
    let outcome = group.run(&call, &(), &Context::default()).await.unwrap();
    let message = serde_json::to_value(outcome.parts_message()).unwrap();
    let item = serde_json::to_value(outcome.output_item()).unwrap();
    // The first one introduces the parts, or is the text of the result.
    let content = |of: &Value| of.as_array().unwrap()[1..].to_vec();
    content(&message["content"]).into_iter().zip(content(&item["output"])).collect()
}

#[tokio::test]
async fn each_document_has_the_form_that_the_api_has_for_it() {
    let url = "https://example.com/a.pdf";
    let pdf = "data:application/pdf;base64,JVBERg==";
    let sent = sent(vec![
        Document::bytes("text/plain", *b"Plain.").into(),
        Document::bytes("application/pdf", *b"%PDF").into(),
        Document::url(url).into(),
        Document::file("openai", "file-1").into(),
        "More.".into(),
    ])
    .await;
    let file = |file: Value| json!({"type": "file", "file": file});
    let expected = [
        (
            json!({"type": "text", "text": "Plain."}),
            json!({"type": "input_text", "text": "Plain."}),
        ),
        (
            file(json!({"file_data": pdf, "filename": "file.pdf"})),
            json!({"type": "input_file", "file_data": pdf, "filename": "file.pdf"}),
        ),
        (
            // Chat Completions cannot fetch a document.
            json!({"type": "text", "text": format!("[A document: {url}]")}),
            json!({"type": "input_file", "file_url": url}),
        ),
        (file(json!({"file_id": "file-1"})), json!({"type": "input_file", "file_id": "file-1"})),
        (json!({"type": "text", "text": "More."}), json!({"type": "input_text", "text": "More."})),
    ];
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn a_part_without_a_form_is_a_note_and_the_id_of_another_provider_is_not_sent() {
    let sent = sent(vec![
        Document::file("anthropic", "file_2").into(),
        Image::file("gemini", "files/3").into(),
        Audio::bytes("audio/wav", *b"RIFF").into(),
        Image::file("openai", "file-4").into(),
    ])
    .await;
    let note = "[A file of the result could not be sent: the API has no form for it.]";
    for (over_chat, over_responses) in &sent[..3] {
        assert_eq!(*over_chat, json!({"type": "text", "text": note}));
        assert_eq!(*over_responses, json!({"type": "input_text", "text": note}));
    }
    // Chat Completions takes an image only by its address or its bytes.
    assert_eq!(sent[3].0["text"], note);
    assert_eq!(sent[3].1["file_id"], "file-4");
}

fn chat_reply(messages: &[Value]) -> CreateChatCompletionResponse {
    chat_reply_ending(messages, Some("tool_calls"))
}

fn chat_reply_ending(messages: &[Value], reason: Option<&str>) -> CreateChatCompletionResponse {
    let choice =
        |(index, message)| json!({"index": index, "message": message, "finish_reason": reason});
    let choices: Vec<_> = messages.iter().enumerate().map(choice).collect();
    serde_json::from_value(json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices,
    }))
    .unwrap()
}

#[test]
fn a_reply_of_chat_completions_is_its_first_choice() {
    let call =
        json!({"type": "function", "id": "call_1", "function": {"name": "add", "arguments": "{"}});
    let first = json!({"role": "assistant", "content": "Well.", "tool_calls": [call]});
    let reply = chat_reply(&[first.clone(), json!({"role": "assistant", "content": "No."})]);
    assert_eq!(reply.calls(), [ToolCall::new("call_1", "add", "{")]);
    assert_eq!(reply.text().as_deref(), Some("Well."));
    assert_eq!(serde_json::to_value(reply.to_input()).unwrap(), json!([first]));

    let refused = json!({"role": "assistant", "refusal": "I may not."});
    let reply = chat_reply(std::slice::from_ref(&refused));
    assert_eq!((reply.calls(), reply.text()), (vec![], None));
    assert_eq!(serde_json::to_value(reply.to_input()).unwrap(), json!([refused]));

    let nothing = chat_reply(&[]);
    assert_eq!((nothing.calls(), nothing.text()), (vec![], None));
    assert!(nothing.to_input().is_empty());
}

#[tokio::test]
async fn repaired_calls_are_sent_back() {
    /// Add.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Add {
        a: i64,
    }
    impl toolwright_group::Handle for Add {
        async fn handle(
            self,
            (): &(),
            _: &toolwright_module::Context,
        ) -> toolwright_module::Result<(String, ())> {
            Ok((self.a.to_string(), ()))
        }
    }
    let written = [r#"{"a": 1}"#, "{'a': '2'}", "{", ""];
    let sent = [r#"{"a": 1}"#, r#"{"a":2}"#, r#"{"invalid_arguments":"{"}"#, "{}"];
    let group = toolwright_group::ToolGroup::new().handler::<Add>().unwrap();
    let cx = toolwright_module::Context::default();
    // Some servers give all calls the same id.
    let ids: [fn(usize) -> String; 2] = [|place| format!("call_{place}"), |_| "c".to_owned()];
    for id in ids {
        let chat = |arguments: &[&str]| {
            let calls = arguments.iter().enumerate().map(|(place, arguments)| {
                let function = json!({"name": "add", "arguments": arguments});
                json!({"type": "function", "id": id(place), "function": function})
            });
            json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
        };
        let reply = chat_reply(&[chat(&written)]);
        let outcomes = group.dispatch(&reply.calls(), &(), &cx).await;
        let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        let mut expected = chat(&sent);
        expected.as_object_mut().unwrap().remove("content");
        let input = serde_json::to_value(reply.to_input_with(&outcomes)).unwrap();
        assert_eq!(input, json!([expected]));

        let items = |arguments: &[&str]| {
            let items = arguments.iter().enumerate().map(|(place, arguments)| {
                json!({"type": "function_call", "call_id": id(place), "name": "add", "arguments": arguments})
            });
            items.collect::<Vec<_>>()
        };
        let reply: Response = serde_json::from_value(json!({
            "id": "resp_1", "object": "response", "created_at": 0, "status": "completed",
            "model": "m", "output": items(&written),
        }))
        .unwrap();
        let input = serde_json::to_value(reply.to_input_with(&outcomes)).unwrap();
        let input = input.as_array().unwrap().iter();
        let arguments: Vec<_> = input.map(|item| item["arguments"].as_str().unwrap()).collect();
        assert_eq!(arguments, sent);
    }
}

/// The choices of a reply may have any order.
#[test]
fn the_choice_with_index_0_is_used() {
    let choice = |index: u64, text: &str| json!({"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": text}});
    let reply = |choices: Value| -> CreateChatCompletionResponse {
        let reply = json!({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices});
        serde_json::from_value(reply).unwrap()
    };
    let both = reply(json!([choice(1, "wrong"), choice(0, "right")]));
    assert_eq!(both.text().as_deref(), Some("right"));
    assert_eq!(reply(json!([choice(1, "only")])).text().as_deref(), Some("only"));
}

#[test]
fn a_reply_of_responses_is_sent_back_whole_and_in_order() {
    let output = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Well."}],
         "id": "msg_1", "role": "assistant", "status": "completed"},
        {"type": "function_call", "arguments": "{}", "call_id": "call_1", "name": "add", "id": "fc_1"},
        {"type": "web_search_call", "action": {"type": "search", "query": "x", "queries": [], "sources": []}, "id": "ws_1", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "call_2", "input": "text", "name": "bio", "id": "ctc_1"},
    ]);
    let mut sent = output.clone();
    // Some servers omit these lists, and async-openai would send `null`.
    sent[1]["content"][0].as_object_mut().unwrap().remove("logprobs");
    sent[3]["action"] = json!({"type": "search", "query": "x"});
    let reply = json!({
        "id": "resp_1", "object": "response", "created_at": 0, "status": "completed",
        "model": "m", "output": sent,
    });
    let reply: Response = serde_json::from_value(reply).unwrap();
    let calls = [ToolCall::new("call_1", "add", "{}"), ToolCall::custom("call_2", "bio", "text")];
    assert_eq!(reply.calls(), calls);
    assert_eq!(reply.text().as_deref(), Some("Well."));
    assert_eq!(serde_json::to_value(reply.to_input()).unwrap(), output);
}

/// A strict tool whose schema strict mode does not support.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its definition counts")]
struct StoreAnything {
    value: Value,
}

impl Handle for StoreAnything {
    fn strict() -> bool {
        true
    }

    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((String::new(), ()))
    }
}

#[test]
fn a_strict_definition_without_a_strict_schema_is_sent_loose() {
    let group = ToolGroup::new().handler::<StoreAnything>().unwrap();
    for api in [Api::Chat, Api::Responses] {
        let tools: Value = serde_json::from_str(group.tools(api).unwrap().get()).unwrap();
        let tool = if api == Api::Chat { &tools[0]["function"] } else { &tools[0] };
        assert_eq!(tool["strict"], false);
        assert!(tool["parameters"]["properties"]["value"].is_object());
    }
    let parameters = group.definitions()[0].parameters(Dialect::OpenAiStrict).unwrap();
    assert!(!parameters.strict);
    assert_eq!(
        (&*parameters.losses[0].path, &*parameters.losses[0].keyword),
        ("$.value", "strict")
    );
}

#[test]
fn a_group_with_too_many_tools_is_rejected_in_every_form() {
    let tool = |i: usize| {
        let contract =
            Definition::output::<SayHelloStrictly>().unwrap().contract().named(&format!("t{i}"));
        Tool::dynamic(contract.unwrap(), Effect::Read, |_, _| async {
            Ok(ToolOutput::text_only("done"))
        })
    };
    let group = (0..128).fold(ToolGroup::<(), ()>::new(), |group, i| group.tool(tool(i)).unwrap());
    assert!(group.tools(Api::Chat).is_ok());
    let group = group.tool(tool(128)).unwrap();
    let refused =
        [group.tools(Api::Chat).err(), group.chat_tools().err(), group.responses_tools().err()];
    for error in refused {
        let error = error.unwrap().to_string();
        assert!(error.contains("129 tools are more than the 128"), "{error}");
    }
}

/// Greet everybody, or one person.
#[derive(Deserialize, JsonSchema)]
struct Greet {
    name: Option<String>,
}

impl Handle for Greet {
    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((format!("Greeted {}.", self.name.as_deref().unwrap_or("everybody")), ()))
    }
}

async fn is_made(calls: &[ToolCall]) -> bool {
    let group = ToolGroup::new().handler::<Greet>().unwrap();
    let outcome = group.run(&calls[0], &(), &Context::default()).await.unwrap();
    let is_made = outcome.content.starts_with("Greeted");
    assert!(is_made || outcome.content.contains("was not made"), "{}", outcome.content);
    is_made
}

#[tokio::test]
async fn a_call_of_a_chat_reply_that_was_cut_off_is_not_made() {
    for (reason, arguments, made) in [
        (Some("tool_calls"), "{}", true),
        (Some("stop"), "{}", true),
        (Some("function_call"), "{}", true),
        (Some("length"), "{}", false),
        (Some("length"), r#"{"name": "A"}"#, false),
        (Some("content_filter"), r#"{"name": "A"}"#, false),
        (None, r#"{"name": "A"}"#, true),
        (None, "", false),
    ] {
        let function = json!({"name": "greet", "arguments": arguments});
        let call = json!({"type": "function", "id": "1", "function": function});
        let message = json!({"role": "assistant", "tool_calls": [call]});
        let reply = chat_reply_ending(&[message], reason);
        assert_eq!(is_made(&reply.calls()).await, made, "{reason:?}: {arguments}");
    }
}

/// The first form of the API had one call, without an id.
#[tokio::test]
async fn a_call_in_the_first_form_of_the_api_is_one() {
    let function = |name: &str| json!({"name": name, "arguments": r#"{"name": "A"}"#});
    let message = json!({"role": "assistant", "function_call": function("greet")});
    for (reason, made) in [("function_call", true), ("length", false)] {
        let reply = chat_reply_ending(std::slice::from_ref(&message), Some(reason));
        assert_eq!(is_made(&reply.calls()).await, made, "{reason}");
    }
    // It goes back as a call of today's form, and its answer belongs to it.
    let reply = chat_reply(&[message]);
    let [call] = &reply.calls()[..] else { panic!("{:?}", reply.calls()) };
    let sent = serde_json::to_value(reply.to_input()).unwrap();
    assert!(!call.id.is_empty());
    assert_eq!(sent[0]["tool_calls"][0]["id"], *call.id);
    assert_eq!(sent[0]["tool_calls"][0]["function"], function("greet"));
    assert_eq!(sent[0].get("function_call"), None);
    // Some servers send both forms of a call.
    let call = json!({"id": "c1", "type": "function", "function": function("greet")});
    for (name, count) in [("greet", 1), ("leave", 2)] {
        let both =
            json!({"role": "assistant", "tool_calls": [call], "function_call": function(name)});
        let reply = chat_reply(&[both]);
        assert_eq!(reply.calls().len(), count, "{name}");
        assert_eq!(reply.calls()[0].id, "c1");
        let sent = serde_json::to_value(reply.to_input()).unwrap();
        assert_eq!(sent[0]["tool_calls"].as_array().unwrap().len(), count, "{name}");
    }
    // Some servers send an empty one in every reply.
    let empty = json!({"role": "assistant", "content": "Hi.", "function_call": {"name": "", "arguments": ""}});
    assert!(chat_reply(&[empty]).calls().is_empty());
}

#[tokio::test]
async fn a_call_of_a_responses_reply_that_was_cut_off_is_not_made() {
    for (status, of_item, arguments, made) in [
        ("completed", "completed", "{}", true),
        ("completed", "incomplete", "{}", false),
        ("completed", "in_progress", "{}", false),
        ("completed", "completed", "", false),
        ("incomplete", "completed", "{}", false),
        ("incomplete", "incomplete", r#"{"name": "A"}"#, false),
        ("failed", "completed", "{}", false),
    ] {
        let item = json!({"type": "function_call", "call_id": "1", "id": "fc", "name": "greet", "arguments": arguments, "status": of_item});
        let reply: Response = serde_json::from_value(json!({
            "id": "r", "object": "response", "created_at": 0, "status": status, "model": "m",
            "output": [item],
        }))
        .unwrap();
        assert_eq!(is_made(&reply.calls()).await, made, "{status}, {of_item}: {arguments}");
        if status == "completed" && !arguments.is_empty() {
            assert_eq!(is_made(&[read_call(&item).unwrap()]).await, made, "{of_item}");
        }
    }
    let item = json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": "{}"});
    let reply: Response = serde_json::from_value(json!({
        "id": "r", "object": "response", "created_at": 0, "status": "completed", "model": "m",
        "output": [item], "incomplete_details": {"reason": "max_output_tokens"},
    }))
    .unwrap();
    assert!(!is_made(&reply.calls()).await);
    for status in ["failed", "interrupted"] {
        let mut item = item.clone();
        item["status"] = json!(status);
        assert!(!is_made(&[read_call(&item).unwrap()]).await, "{status}");
    }
}

#[test]
fn the_text_of_a_reply_has_no_thoughts() {
    for (content, text) in [
        ("<think>\nMaybe 4?\n</think>\n\n5", Some("5")),
        ("<think>Maybe", None),
        ("<think>4?</think>", None),
        ("[", Some("[")),
        ("5 <think>", Some("5 <think>")),
        ("Maybe 4?\n</think>\n\n5", Some("5")),
        ("</think>\n\n5", Some("5")),
        ("Maybe 4?\n</think>", None),
        ("Write `</think>` at the end.", Some("Write `</think>` at the end.")),
        ("<|START_THINKING|>4?<|END_THINKING|><|START_RESPONSE|>5<|END_RESPONSE|>", Some("5")),
    ] {
        let reply: CreateChatCompletionResponse = serde_json::from_value(json!({
            "id": "1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
        }))
        .unwrap();
        assert_eq!(reply.text().as_deref(), text, "{content}");
    }
}

#[tokio::test]
async fn a_call_beside_a_message_that_is_not_whole_or_a_refusal_is_not_made() {
    let text = json!({"type": "output_text", "text": "Hal", "annotations": []});
    let refusal = json!({"type": "refusal", "refusal": "No."});
    for (status, piece, made) in
        [("completed", &text, true), ("incomplete", &text, false), ("completed", &refusal, false)]
    {
        let call =
            json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": "{}"});
        let message = json!({"type": "message", "id": "m", "role": "assistant", "status": status, "content": [piece]});
        let reply: Response = serde_json::from_value(json!({
            "id": "r", "object": "response", "created_at": 0, "status": "completed", "model": "m",
            "output": [message, call],
        }))
        .unwrap();
        assert_eq!(is_made(&reply.calls()).await, made, "{status}: {piece}");
    }
    let function = json!({"name": "greet", "arguments": "{}"});
    let call = json!({"type": "function", "id": "1", "function": function});
    for (refusal, made) in [(json!("No."), false), (json!(""), true), (Value::Null, true)] {
        let message = json!({"role": "assistant", "tool_calls": [call], "refusal": refusal});
        let reply = chat_reply_ending(&[message], Some("tool_calls"));
        assert_eq!(is_made(&reply.calls()).await, made, "{refusal}");
    }
    let item = json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": ""});
    assert!(!is_made(&[read_call(&item).unwrap()]).await);
}

#[tokio::test]
async fn arguments_of_read_call_under_another_name_are_read_or_the_call_is_not_made() {
    let item = |status: Value| json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": "{}", "status": status});
    for (item, answer) in [
        (json!({"function": {"name": "greet", "parameters": {"name": "A"}}}), Some("A")),
        (json!({"function": {"name": "greet", "input": {"name": "A"}}}), Some("A")),
        (json!({"function": {"name": "greet", "args": {"name": "A"}}}), Some("A")),
        (json!({"function": {"name": "greet"}, "arguments": {"name": "A"}}), Some("A")),
        (json!({"function": {"name": "greet", "arguments": "{}"}}), Some("everybody")),
        (json!({"function": {"name": "greet", "arguments": ""}}), Some("everybody")),
        (json!({"function": {"name": "greet"}}), None),
        (json!({"function": {"name": "greet", "kwargs": {"name": "A"}}}), None),
        (json!({"name": "greet", "arguments": "{}", "kwargs": {"name": "A"}}), None),
        (json!({"function": {"name": "greet", "arguments": "", "kwargs": {"name": "A"}}}), None),
        (json!({"function": {"name": "greet", "arguments": "{}"}, "error": "no JSON"}), None),
        // Two names, or two sets of arguments.
        (json!({"name": "leave", "function": {"name": "greet", "arguments": "{}"}}), None),
        (
            json!({"function": {"name": "greet", "arguments": {"name": "A"}, "input": {"name": "B"}}}),
            None,
        ),
        (
            json!({"function": {"name": "greet", "args": {"name": "A"}}, "input": {"name": "B"}}),
            None,
        ),
        (
            json!({"function": {"name": "greet", "args": {"name": "A"}}, "input": r#"{"name":"A"}"#}),
            Some("A"),
        ),
        (
            json!({"name": "greet", "arguments": null, "input": {"name": "A"}, "args": {}}),
            Some("A"),
        ),
        (item(json!("completed")), Some("everybody")),
        (item(Value::Null), Some("everybody")),
        (item(json!({"type": "incomplete"})), None),
    ] {
        let call = read_call(&item).unwrap();
        assert_eq!(is_made(std::slice::from_ref(&call)).await, answer.is_some(), "{item}");
        let group = ToolGroup::new().handler::<Greet>().unwrap();
        let outcome = group.run(&call, &(), &Context::default()).await.unwrap();
        assert!(answer.is_none_or(|name| outcome.content.contains(name)), "{}", outcome.content);
    }
}

#[tokio::test]
async fn a_call_after_reasoning_that_is_not_whole_is_not_made() {
    for (status, made) in [("completed", true), ("incomplete", false)] {
        let call =
            json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": "{}"});
        let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "status": status});
        let reply: Response = serde_json::from_value(json!({
            "id": "r", "object": "response", "created_at": 0, "status": "completed", "model": "m",
            "output": [reasoning, call],
        }))
        .unwrap();
        assert_eq!(is_made(&reply.calls()).await, made, "{status}");
    }
}

/// A gateway that runs the tools itself sends the results, too.
#[test]
fn a_call_with_its_result_in_the_reply_is_not_a_call() {
    for (id, count) in [("1", 0), ("2", 1)] {
        let call =
            json!({"type": "function_call", "call_id": "1", "name": "greet", "arguments": "{}"});
        let output = json!({"type": "function_call_output", "id": "o", "call_id": id, "output": "Hi!", "status": "completed"});
        let reply: Response = serde_json::from_value(json!({
            "id": "r", "object": "response", "created_at": 0, "status": "completed", "model": "m",
            "output": [call, output],
        }))
        .unwrap();
        assert_eq!(reply.calls().len(), count);
    }
}

/// Some servers repeat a call at the end of a reply.
#[test]
fn a_call_that_stands_twice_is_one_call() {
    let call = |id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": id, "type": "function", "function": function})
    };
    let calls = [
        call("1", "save", r#"{"a": 1}"#),
        call("2", "save", r#"{"a": 1}"#),
        call("1", "save", r#"{"a":1}"#),
        call("1", "save", r#"{"a": 2}"#),
    ];
    let message = json!({"role": "assistant", "tool_calls": calls});
    let reply = chat_reply(&[message]);
    let found = reply.calls();
    let kept: Vec<_> =
        found.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(kept, [("1", r#"{"a": 1}"#), ("2", r#"{"a": 1}"#), ("1", r#"{"a": 2}"#)]);
    let sent = serde_json::to_value(reply.to_input()).unwrap();
    assert_eq!(sent[0]["tool_calls"].as_array().unwrap().len(), 3);

    let item = |arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": "1", "name": "save", "arguments": arguments, "status": "completed"});
    let reply: Response = serde_json::from_value(json!({
        "id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed",
        "output": [item(r#"{"a": 1}"#), item(r#"{"a":1}"#)],
    }))
    .unwrap();
    assert_eq!((reply.calls().len(), reply.to_input().len()), (1, 1));
    assert_eq!(reply.to_input_with::<()>(&[]).len(), 1);
}
