//! The genai provider against a server on loopback that speaks Cohere's and OpenAI's APIs.
#![cfg(test)]

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint, ServiceTargetResolver};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolwright_genai::{GenAi, genai};
use toolwright_module::error::ContextExceeded;
use toolwright_module::message::{Image, Part, Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::{Effort, Finish, Settings};
use toolwright_module::{Contract, LanguageModel, Message, Request, Signature, ToolCall};

/// Answers one request with this reply, and returns the request's body.
async fn answer(listener: TcpListener, status: u16, reply: Value) -> Value {
    answer_with(listener, status, reply.to_string().as_bytes()).await
}

async fn answer_with(listener: TcpListener, status: u16, reply: &[u8]) -> Value {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        socket.read_buf(&mut bytes).await.unwrap();
        let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        if bytes.len() < head + 4 + length.unwrap().parse::<usize>().unwrap() {
            continue;
        }
        let pause = match status {
            429 => "retry-after: 7\r\n",
            503 => "retry-after-ms: 1500\r\n",
            _ => "",
        };
        let response = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{pause}content-length: {}\r\nconnection: close\r\n\r\n",
            reply.len()
        );
        socket.write_all(&[response.as_bytes(), reply].concat()).await.unwrap();
        return serde_json::from_slice(&bytes[head + 4..]).unwrap();
    }
}

async fn listen(kind: AdapterKind) -> (TcpListener, GenAi) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let target = move |mut target: genai::ServiceTarget| -> Result<_, genai::resolver::Error> {
        target.endpoint = Endpoint::from_owned(base.clone());
        target.auth = AuthData::from_single("sk-made-up");
        target.model = genai::ModelIden::new(kind, target.model.model_name);
        Ok(target)
    };
    let resolver = ServiceTargetResolver::from_resolver_fn(target);
    let client = genai::Client::builder().with_service_target_resolver(resolver).build().unwrap();
    (listener, GenAi::new(client, "bench"))
}

#[tokio::test]
async fn a_call_and_its_result_go_there_and_back() {
    let (listener, model) = listen(AdapterKind::OpenAI).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}});
    let reply = json!({
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Well.", "tool_calls": [call]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    });
    let settings = Settings::default().with_temperature(0.0).with_effort(Effort::Low);
    let model = model.with_settings(settings);
    let request = Request::new([Message::system("Be brief."), Message::user("Hi!")]);
    let (body, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
    let reply = reply.unwrap();
    let call = reply.tool_calls().next().unwrap();
    assert_eq!((reply.to_text().as_str(), &*call.arguments), ("Well.", r#"{"at":1}"#));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (7, 5));
    insta::assert_snapshot!(body, @r#"{"model":"bench","stream":false,"reasoning_effort":"low","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi!"}],"temperature":0.0,"max_tokens":4096}"#);
}

#[tokio::test]
async fn a_refusal_is_an_error_with_status_and_without_the_conversation() {
    let (listener, model) = listen(AdapterKind::Cohere).await;
    let request = Request::new([Message::user("A secret.")]);
    let refusal = json!({"message": "invalid api token"});
    let (_, reply) = tokio::join!(answer(listener, 401, refusal), model.generate(&request));
    let error = reply.unwrap_err();
    assert!(!format!("{error:?}").contains("A secret"), "{error:?}");
    insta::assert_snapshot!(error, @"the server refused the API key (401: invalid api token); check the key");
}

#[tokio::test]
async fn a_setting_without_a_field_is_an_error() {
    let (_, model) = listen(AdapterKind::Cohere).await;
    let model = model.with_settings(Settings::default().with_parallel_calls(false));
    let error = model.generate(&Request::new([Message::user("Hi!")])).await.unwrap_err();
    assert!(error.to_string().contains("parallel calls"), "{error}");
}

#[tokio::test]
async fn a_call_of_a_reply_that_was_cut_off_is_marked() {
    for (reason, is_complete) in [
        (json!("tool_calls"), true),
        (json!("stop"), true),
        (json!("length"), false),
        (json!("stop_sequence"), false),
        (json!("network_error"), false),
        (json!(null), false),
    ] {
        let (listener, model) = listen(AdapterKind::OpenAI).await;
        let call = json!({"id": "c1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let reply = json!({
            "model": "bench",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        });
        let request = Request::new([Message::user("Hi!")]);
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        let reply = reply.unwrap();
        let call = reply.tool_calls().next().unwrap();
        assert_eq!(!call.incomplete, is_complete, "{reason}");
    }
}

#[path = "../../tests/beside.rs"]
mod beside;

/// Delete files. Without a prefix, all of them.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Purge {
    prefix: Option<String>,
}

impl Signature for Purge {
    type Output = String;
}

/// genai has no arguments if the service gives them another name.
#[tokio::test]
async fn a_call_beside_which_its_arguments_may_stand_is_not_made() {
    let mut calls = beside::calls();
    calls.push((Value::Null, json!({}).as_object().unwrap().clone(), false));
    for (arguments, beside, is_made) in calls {
        let with = |mut call: Value| {
            call.as_object_mut().unwrap().extend(beside.clone());
            call
        };
        let block =
            with(json!({"type": "tool_use", "id": "c1", "name": "purge", "input": arguments}));
        let usage = json!({"input_tokens": 1, "output_tokens": 2});
        let anthropic = json!({"content": [block], "stop_reason": "tool_use", "model": "bench", "usage": usage});
        let call = with(json!({"name": "purge", "args": arguments}));
        let gemini = json!({"candidates": [{"content": {"parts": [{"functionCall": call}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2}});
        let call = with(
            json!({"id": "c1", "type": "function", "function": {"name": "purge", "arguments": arguments}}),
        );
        let chat = json!({"model": "bench", "choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        for (kind, reply) in [
            (AdapterKind::Anthropic, anthropic),
            (AdapterKind::Gemini, gemini),
            (AdapterKind::OpenAI, chat),
        ] {
            let (listener, model) = listen(kind).await;
            let tools = [Arc::new(Contract::of::<Purge>().unwrap())];
            let request = Request::new([Message::user("Hi!")]).with_tools(tools);
            let body = reply.to_string();
            let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
            // genai reads no call of OpenAI without arguments.
            let made = reply.is_ok_and(|reply| reply.tool_calls().any(|call| !call.incomplete));
            // Gemini leaves out arguments that are empty.
            let is_empty = kind == AdapterKind::Gemini && arguments.is_null() && beside.is_empty();
            assert_eq!(made, is_made || is_empty, "{body}");
        }
    }
}

#[tokio::test]
async fn a_pause_in_milliseconds_is_kept() {
    let (listener, model) = listen(AdapterKind::Cohere).await;
    let request = Request::new([Message::user("Hi!")]);
    let busy = json!({"message": "busy"});
    let (_, reply) = tokio::join!(answer(listener, 503, busy), model.generate(&request));
    let pause = reply.unwrap_err().retry_after();
    assert_eq!(pause, Some(std::time::Duration::from_millis(1500)));
}

/// A gateway that runs the tools itself sends the results, too.
#[tokio::test]
async fn a_call_with_its_result_in_the_reply_is_not_made_again() {
    for (id, is_read) in [("t1", false), ("t2", true)] {
        let content = json!([
            {"type": "tool_use", "id": "t1", "name": "purge", "input": {"prefix": "a"}},
            {"type": "tool_result", "tool_use_id": id, "content": "purged"},
            {"type": "text", "text": "Done."},
        ]);
        let usage = json!({"input_tokens": 1, "output_tokens": 2});
        let reply = json!({"content": content, "stop_reason": "end_turn", "model": "bench", "usage": usage});
        let (listener, model) = listen(AdapterKind::Anthropic).await;
        let request = Request::new([Message::user("Hi!")]);
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        assert_eq!(reply.is_ok(), is_read, "{reply:?}");
    }
}

#[tokio::test]
async fn a_reply_whose_first_choice_is_another_one_is_an_error() {
    for (indexes, is_read) in [([1, 0], false), ([0, 1], true), ([1, 2], true)] {
        let choice = |index: &u64| {
            let message = json!({"role": "assistant", "content": format!("choice {index}")});
            json!({"index": index, "message": message, "finish_reason": "stop"})
        };
        let choices: Vec<Value> = indexes.iter().map(choice).collect();
        let (listener, model) = listen(AdapterKind::OpenAI).await;
        let request = Request::new([Message::user("Hi!")]);
        let reply = json!({"model": "bench", "choices": choices});
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        match is_read {
            true => assert_eq!(reply.unwrap().to_text(), format!("choice {}", indexes[0])),
            false => {
                let error = reply.unwrap_err().to_string();
                assert!(error.contains("another one has the index 0"), "{error}");
            }
        }
    }
}

/// genai does not know these spellings, words and fields of gateways, vLLM and SGLang.
#[tokio::test]
async fn the_end_of_a_reply_is_read_as_other_providers_read_it() {
    for (word, field, value, finish, is_complete) in [
        ("tool_calls", "stop_reason", json!(null), Some(Finish::Stop), true),
        ("Tool-Calls", "stop_reason", json!(151_645), Some(Finish::Stop), true),
        ("tool_calls", "stop_reason", json!("</answer>"), Some(Finish::Stop), false),
        ("stop", "matched_stop", json!("END"), Some(Finish::Stop), false),
        ("stop", "matched_stop", json!("<|im_end|>"), Some(Finish::Stop), true),
        ("tool_calls", "native_finish_reason", json!("MAX_TOKENS"), Some(Finish::Stop), false),
        ("Max_Tokens", "stop_reason", json!(null), Some(Finish::Length), false),
        ("guardrail_intervened", "stop_reason", json!(null), Some(Finish::Refused), false),
        ("abort", "stop_reason", json!(null), None, false),
        ("Cancelled", "stop_reason", json!(null), None, false),
    ] {
        let (listener, model) = listen(AdapterKind::OpenAI).await;
        let call = json!({"id": "c1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let reply = json!({
            "model": "bench",
            "choices": [{"index": 0, "message": message, "finish_reason": word, field: value}],
        });
        let request = Request::new([Message::user("Hi!")]);
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        let Some(finish) = finish else {
            let error = reply.unwrap_err().to_string();
            assert!(error.contains("did not finish the reply"), "{error}");
            continue;
        };
        let reply = reply.unwrap();
        let call = reply.tool_calls().next().unwrap();
        assert_eq!((&reply.finish, !call.incomplete), (&finish, is_complete), "{word}, {value}");
    }
}

/// genai reads only a part of a reply. The rest says that the reply or its call is not whole.
#[tokio::test]
async fn what_the_rest_of_a_reply_says_of_its_end_counts() {
    let arguments = r#"{"prefix":"t"}"#;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "purge", "arguments": arguments}});
    let chat = |refusal: &str| {
        let message = json!({"content": null, "refusal": refusal, "tool_calls": [call]});
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    };
    let beside = |more: Value| {
        let mut reply = chat("");
        reply.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reply
    };
    let older = |kind: &str| {
        let mut reply = chat("");
        reply["choices"][0]["finish_reason"] = Value::Null;
        reply["choices"][0]["finish_details"] = json!({ "type": kind });
        reply
    };
    let incomplete = || Finish::Other("incomplete".to_owned());
    let gemini = |call: Value| {
        let content = json!({"role": "model", "parts": [{"functionCall": call}]});
        json!({"candidates": [{"content": content, "finishReason": "STOP"}]})
    };
    let piece = json!([{"jsonPath": "$.prefix", "stringValue": "t"}]);
    let item = |status: &str| json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "purge", "arguments": arguments, "status": status});
    let message = |status: &str, kind: &str| {
        let field = if kind == "refusal" { kind } else { "text" };
        let piece = json!({"type": kind, field: "a", "annotations": []});
        json!({"type": "message", "id": "m", "role": "assistant", "status": status, "content": [piece]})
    };
    let responses = |items: Value, status: &str, reason: Option<&str>| {
        let details = reason.map(|reason| json!({"reason": reason}));
        json!({"id": "r", "object": "response", "created_at": 1, "model": "m", "status": status, "incomplete_details": details, "output": items,
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
    };
    let whole = item("completed");
    let (openai, google, response) =
        (AdapterKind::OpenAI, AdapterKind::Gemini, AdapterKind::OpenAIResp);
    for (kind, reply, finish, is_complete) in [
        (openai, chat(""), Finish::Stop, true),
        (openai, chat("I cannot."), Finish::Refused, false),
        (openai, beside(json!({"status": "incomplete"})), incomplete(), false),
        (openai, older("max_tokens"), Finish::Length, false),
        (google, gemini(json!({"name": "purge", "args": {"prefix": "t"}})), Finish::Stop, true),
        (
            google,
            gemini(json!({"name": "purge", "args": {"prefix": "tm"}, "willContinue": true})),
            Finish::Stop,
            false,
        ),
        (google, gemini(json!({"name": "purge", "partialArgs": piece})), Finish::Stop, false),
        (response, responses(json!([whole]), "completed", None), Finish::Stop, true),
        (
            response,
            responses(json!([item("incomplete")]), "completed", None),
            Finish::Length,
            false,
        ),
        (
            response,
            responses(json!([whole]), "completed", Some("max_output_tokens")),
            Finish::Length,
            false,
        ),
        (
            response,
            responses(json!([message("incomplete", "output_text"), whole]), "completed", None),
            Finish::Length,
            false,
        ),
        (
            response,
            responses(json!([message("completed", "refusal"), whole]), "completed", None),
            Finish::Refused,
            false,
        ),
        (
            response,
            responses(json!([whole]), "incomplete", Some("content_filter")),
            Finish::Refused,
            false,
        ),
    ] {
        let (listener, model) = listen(kind).await;
        let request = Request::new([Message::user("Hi!")]);
        let shown = reply.to_string();
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        let reply = reply.unwrap_or_else(|error| panic!("{shown}: {error}"));
        let call = reply.tool_calls().next().unwrap();
        assert_eq!((&reply.finish, !call.incomplete), (&finish, is_complete), "{shown}");
    }
    let refused = json!({"choices": [{"message": {"content": null, "refusal": "I cannot."}, "finish_reason": "stop"}]});
    let (listener, model) = listen(openai).await;
    let request = Request::new([Message::user("Hi!")]);
    let (_, reply) = tokio::join!(answer(listener, 200, refused), model.generate(&request));
    let reply = reply.unwrap();
    assert_eq!((&reply.finish, &*reply.to_text()), (&Finish::Refused, "I cannot."));
}

/// genai replaces bytes that are not UTF-8, so that a call with U+FFFD may be another one. It cannot
/// read half of a character.
#[tokio::test]
async fn a_call_whose_arguments_were_cut_inside_a_character_is_not_made() {
    let reply = |arguments: &str| {
        json!({
            "choices": [{"index": 0, "message": {"content": "a", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "purge", "arguments": arguments}},
            ]}, "finish_reason": "tool_calls"}],
        })
        .to_string()
    };
    let bodies = [
        reply(r#"{"prefix": "MARK"}"#).into_bytes(),
        reply(r#"{"prefix": "t"}"#).into_bytes(),
        reply(r#"{"prefix": "HALF"}"#).replace("HALF", "\\ud83d").into_bytes(),
    ];
    let mut outcomes = Vec::new();
    for mut body in bodies {
        if let Some(at) = body.windows(4).position(|four| four == b"MARK") {
            body[at..at + 4].copy_from_slice(b"t\xf0\x9fs");
        }
        let (listener, model) = listen(AdapterKind::OpenAI).await;
        let request = Request::new([Message::user("Hi!")]);
        let (_, reply) = tokio::join!(answer_with(listener, 200, &body), model.generate(&request));
        outcomes.push(reply.ok().map(|reply| reply.tool_calls().next().unwrap().incomplete));
    }
    assert_eq!(outcomes, [Some(true), Some(false), None]);
}

#[tokio::test]
async fn thoughts_in_the_content_are_reasoning_and_go_back() {
    let content = "<think>\nMaybe 4?\n</think>\n\n5";
    let reply = json!({
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": -5, "total_tokens": 2},
    });
    let (listener, model) = listen(AdapterKind::OpenAI).await;
    let mut request = Request::new([Message::user("Hi!")]);
    let (_, read) = tokio::join!(answer(listener, 200, reply.clone()), model.generate(&request));
    let read = read.unwrap();
    assert_eq!((read.to_text().as_str(), read.usage.incomplete), ("5", true));
    request.messages.push(std::sync::Arc::new(Message::Assistant { parts: read.parts }));
    let (listener, model) = listen(AdapterKind::OpenAI).await;
    let (body, _) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
    assert_eq!(body["messages"][1]["content"], content);
}

/// Mistral and the chat templates of many models refuse a user message after another or after a
/// result, a later system message, and an empty message of the model.
#[tokio::test]
async fn messages_have_an_order_that_every_service_accepts() {
    let call = ToolCall::new("c1", "look", "{}");
    let image = Part::Image(Image::bytes("image/png", *b"png"));
    let result = ToolResult::new(&call, "ok").with_parts([image]);
    let thoughts = Reasoning::new("other", "Hm.", Value::Null);
    let request = Request::new([
        Message::assistant("Welcome."),
        Message::user("Hi!"),
        Message::user("Hi?"),
        Message::Assistant { parts: vec![ReplyPart::Call(call)] }.into(),
        Message::Tool(result).into(),
        Message::Assistant { parts: vec![ReplyPart::Reasoning(thoughts)] }.into(),
        Message::user("Your answer was empty."),
        Message::system("Be brief."),
    ]);
    let reply = json!({"choices": [{"message": {"content": "Well."}, "finish_reason": "stop"}]});
    let (listener, model) = listen(AdapterKind::OpenAI).await;
    let (body, _) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"],
    );
    assert_eq!(messages[3]["content"], "Hi!\n\nHi?");
    let shown = &messages[7]["content"];
    assert_eq!(shown[1]["type"], "image_url", "{shown}");
    assert_eq!(shown[2]["text"], "Your answer was empty.");
}

#[tokio::test]
async fn an_error_in_a_reply_of_status_200_says_whether_it_may_pass() {
    let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
    let google = json!({"code": 503, "message": "Busy", "status": "UNAVAILABLE"});
    for (kind, reply, text, is_retryable) in [
        (
            AdapterKind::OpenAI,
            json!({"error": {"code": 502, "message": "Bad gateway"}}),
            "Bad gateway",
            true,
        ),
        (AdapterKind::OpenAI, json!({"error": {"code": "invalid", "message": "No"}}), "No", false),
        (
            AdapterKind::OpenAI,
            json!({"choices": [{"error": {"code": 502, "message": "Gone"}, "message": {"content": "a"}}]}),
            "Gone",
            true,
        ),
        (AdapterKind::OpenAI, json!({"object": "error", "message": "Too long"}), "Too long", false),
        (AdapterKind::Anthropic, json!({"type": "error", "error": overloaded}), "Overloaded", true),
        (AdapterKind::Gemini, json!({"error": google}), "Busy", true),
        (AdapterKind::Cohere, json!({"message": "invalid request"}), "invalid request", false),
        (AdapterKind::Ollama, json!({"error": "model not found"}), "model not found", false),
    ] {
        let (listener, model) = listen(kind).await;
        let request = Request::new([Message::user("A secret.")]);
        let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        let error = reply.unwrap_err();
        assert_eq!(error.is_retryable(), is_retryable, "{error:?}");
        assert!(error.to_string().ends_with(text), "{error}");
        assert!(!format!("{error:?}").contains("A secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_a_refusal_with_its_reason() {
    let (listener, model) = listen(AdapterKind::Gemini).await;
    let request = Request::new([Message::user("Hi!")]);
    let reply = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    let (_, reply) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
    let reply = reply.unwrap();
    assert_eq!(reply.finish, Finish::Refused);
    assert_eq!(reply.reason.as_deref(), Some("PROHIBITED_CONTENT"));
}

#[tokio::test]
async fn the_pause_that_a_service_asks_for_is_kept() {
    let (listener, model) = listen(AdapterKind::OpenAI).await;
    let request = Request::new([Message::user("Hi!")]);
    let refusal = json!({"error": {"message": "slow down"}});
    let (_, reply) = tokio::join!(answer(listener, 429, refusal), model.generate(&request));
    let error = reply.unwrap_err();
    assert_eq!((error.is_retryable(), error.retry_after().map(|it| it.as_secs())), (true, Some(7)));
}

/// Only the beginning of a reply may have thoughts in its text.
#[tokio::test]
async fn a_later_text_that_begins_with_a_mark_of_thoughts_is_text() {
    for (texts, expected) in [
        (["5 ", "<think>6</think> 7"], "5 <think>6</think> 7"),
        (["<think>5</think>6 ", "<think>7</think> 8"], "6 <think>7</think> 8"),
        (["<think>5</think>", "6"], "6"),
    ] {
        let blocks = texts.map(|text| json!({"type": "text", "text": text}));
        let reply = json!({"type": "message", "role": "assistant", "model": "bench", "content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 7, "output_tokens": 5}});
        let (listener, model) = listen(AdapterKind::Anthropic).await;
        let request = Request::new([Message::user("Hi!")]);
        let (_, read) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        assert_eq!(read.unwrap().to_text(), expected, "{texts:?}");
    }
}

/// The reason says that the call is whole, and another field that it is not.
#[tokio::test]
async fn a_call_beside_a_block_a_refusal_or_a_stop_sequence_is_not_whole() {
    let part = json!({"functionCall": {"name": "purge", "args": {}}});
    let google = json!({
        "candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": "STOP"}],
        "promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "bench",
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
    });
    let anthropic = |name: &str, value: Value| {
        let block = json!({"type": "tool_use", "id": "1", "name": "purge", "input": {}});
        let mut reply = json!({"type": "message", "role": "assistant", "model": "bench", "content": [block], "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 5}});
        reply[name] = value;
        reply
    };
    for (kind, reply, is_whole) in [
        (AdapterKind::Gemini, google, false),
        (AdapterKind::Anthropic, anthropic("stop_sequence", json!("X")), false),
        (AdapterKind::Anthropic, anthropic("stop_details", json!({"type": "refusal"})), false),
        (AdapterKind::Anthropic, anthropic("stop_details", Value::Null), true),
    ] {
        let (listener, model) = listen(kind).await;
        let request = Request::new([Message::user("Hi!")]);
        let told = reply.to_string();
        let (_, read) = tokio::join!(answer(listener, 200, reply), model.generate(&request));
        let read = read.unwrap();
        let call = read.tool_calls().next().unwrap();
        assert_eq!(!call.incomplete && read.finish.is_complete(), is_whole, "{told}");
    }
}

#[tokio::test]
async fn a_conversation_longer_than_the_context_is_a_known_error() {
    let openai = json!({"error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "code": "context_length_exceeded",
    }});
    let by_code = json!({"error": {"message": "Too long.", "code": "context_length_exceeded"}});
    let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}});
    let google = json!({"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}});
    let full = json!({"type": "message", "role": "assistant", "content": [], "stop_reason": "model_context_window_exceeded", "usage": {"input_tokens": 5, "output_tokens": 0}});
    let two = |tokens, window| ContextExceeded::new(Some(tokens), Some(window));
    for (kind, status, reply, exceeded) in [
        (AdapterKind::OpenAI, 400, openai.clone(), two(9000, 8192)),
        (AdapterKind::OpenAI, 200, openai, two(9000, 8192)),
        (AdapterKind::OpenAI, 400, by_code, ContextExceeded::default()),
        (AdapterKind::Anthropic, 400, anthropic, two(210_000, 200_000)),
        (AdapterKind::Gemini, 400, google, two(1_200_000, 1_048_576)),
        (AdapterKind::Anthropic, 200, full, ContextExceeded::default()),
    ] {
        let (listener, model) = listen(kind).await;
        let request = Request::new([Message::user("Hi!")]);
        let (_, reply) = tokio::join!(answer(listener, status, reply), model.generate(&request));
        let error = reply.unwrap_err();
        assert_eq!(error.context_exceeded(), Some(exceeded), "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
}
