//! What a request has of the replies before it: the server's own data in its place, and nothing
//! of another provider.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolwright_module::message::{CallKind, Opaque, Reasoning, ReplyPart, ToolResult};
use toolwright_module::{LanguageModel, Message, Reply, Request, ToolCall};
use toolwright_openai::{Api, OpenAi};

use crate::common::{Answer, Server, hi, ok, streamed};

/// Returns the messages or items after the first that follow a reply with results for its calls.
async fn next(name: &str, reply: Reply, api: Api) -> Value {
    let server = Server::answering([ok(api)]).await;
    let model = OpenAi::at(&server.url, name).unwrap().with_api(api);
    let results: Vec<_> = reply
        .tool_calls()
        .map(|call| Arc::new(Message::Tool(ToolResult::new(call, "ok"))))
        .collect();
    let said = Arc::new(Message::Assistant { parts: reply.parts });
    let messages = [Message::user("Hi!"), said].into_iter().chain(results);
    model.generate(&Request::new(messages)).await.unwrap();
    let list = if api == Api::Chat { "messages" } else { "input" };
    let mut body = server.seen()[0].body[list].take();
    body.as_array_mut().unwrap().remove(0);
    body
}

async fn read(answer: Answer, api: Api) -> Reply {
    let server = Server::answering([answer]).await;
    server.model(api).generate(&hi()).await.unwrap()
}

/// Returns the message that goes back of a message of Chat Completions.
async fn chat(name: &str, message: Value) -> Value {
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    let reply = read(Answer::json(body.to_string()), Api::Chat).await;
    next(name, reply, Api::Chat).await[0].take()
}

fn calls() -> Value {
    json!([{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}])
}

#[tokio::test]
async fn reasoning_goes_back_in_the_field_that_it_came_in() {
    let signed =
        json!([{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "c2ln"}]);
    for message in [
        json!({"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": calls()}),
        json!({"role": "assistant", "content": null, "reasoning": "Hm.", "tool_calls": calls()}),
        json!({"role": "assistant", "content": null, "reasoning_details": signed, "tool_calls": calls()}),
        json!({"role": "assistant", "content": "Blue.", "reasoning_content": "Hm."}),
        json!({"role": "assistant", "content": "Blue.", "reasoning_details": signed}),
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "Blue."},
        ]}),
        json!({"role": "assistant", "content": "Blue.", "extra_content": {"google": {"thought_signature": "c2ln"}}}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "c2ln"}}},
        ]}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
        ]}),
    ] {
        assert_eq!(chat("any", message.clone()).await, message);
    }
    // The signatures are enough.
    let both = json!({"content": null, "reasoning": "Hm.", "reasoning_details": signed, "tool_calls": calls()});
    let back = chat("any", both).await;
    assert_eq!((&back["reasoning_details"], back.get("reasoning")), (&signed, None));
}

#[tokio::test]
async fn thoughts_in_the_content_go_back_in_the_content() {
    for content in [
        "<think>\nMaybe 4?\n</think>\n\n5",
        "<think></think>\n5",
        "<think>Maybe 4?</think>",
        "<think>\nMaybe",
        "<think>a</think>\n<think> b </think>\n5",
        "[THINK]a[/THINK]5",
    ] {
        let message = json!({"role": "assistant", "content": content});
        assert_eq!(chat("any", message.clone()).await, message);
        let called = json!({"role": "assistant", "content": content, "tool_calls": calls()});
        assert_eq!(chat("any", called.clone()).await, called);
        let reply = read(
            Answer::json(
                json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string(),
            ),
            Api::Chat,
        )
        .await;
        // Another provider does not get them.
        let other = next("any", reply, Api::Responses).await;
        assert!(!other.to_string().contains("think"), "{other}");
    }
}

#[tokio::test]
async fn the_pieces_of_reasoning_details_are_put_together() {
    let deltas = [
        json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm, "}]}),
        json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "blue."}]}),
        json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "c2ln"}]}),
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "ZGF0YQ"}]}),
        json!({"content": "Blue."}),
    ];
    let events: String = deltas
        .iter()
        .map(|delta| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})))
        .collect();
    let server = Server::answering([Answer::events(&(events + "data: [DONE]\n\n"), 64)]).await;
    let (_, reply) = streamed(&server.model(Api::Chat), hi()).await;
    let back = next("any", reply.unwrap(), Api::Chat).await;
    insta::assert_snapshot!(back[0]["reasoning_details"], @r#"[{"type":"reasoning.text","index":0,"text":"Hm, blue.","signature":"c2ln"},{"type":"reasoning.encrypted","index":1,"data":"ZGF0YQ"}]"#);
}

#[tokio::test]
async fn models_that_need_the_reasoning_of_calls_always_get_it() {
    let call = || ReplyPart::Call(ToolCall::new("call_1", "look", "{}"));
    let of = |provider: &str| ReplyPart::Reasoning(Reasoning::new(provider, "Hm.", Value::Null));
    for (part, text) in
        [(of("openai-chat"), "Hm."), (of("openai-chat:groq"), "Hm."), (of("gemini"), "")]
    {
        let reply = Reply::new([part, call()]);
        let back = next("deepseek-chat", reply.clone(), Api::Chat).await;
        assert_eq!(back[0]["reasoning_content"], text);
        let back = next("gpt-5-mini", reply, Api::Chat).await;
        assert_eq!(back[0].get("reasoning_content"), None);
    }
}

#[tokio::test]
async fn a_message_of_which_nothing_is_left_is_left_out() {
    for api in [Api::Chat, Api::Responses] {
        let other = Opaque::new("anthropic", json!({"type": "server_tool_use"}));
        let thought = Reasoning::new("gemini", "Hm.", json!({}));
        let reply = Reply::new([ReplyPart::Other(other), ReplyPart::Reasoning(thought)]);
        assert_eq!(next("any", reply, api).await, json!([]));
    }
}

#[tokio::test]
async fn ids_of_other_providers_fit_and_results_have_the_same() {
    let ids = ["functions.look:0", &"x".repeat(70), "call_1"];
    for (api, most) in [(Api::Chat, 40), (Api::Responses, 64)] {
        for id in ids {
            let reply = Reply::calls([ToolCall::new(id, "look", "{}")]);
            let back = next("any", reply, api).await;
            let (call, result) = match api {
                Api::Chat => (&back[0]["tool_calls"][0]["id"], &back[1]["tool_call_id"]),
                _ => (&back[0]["call_id"], &back[1]["call_id"]),
            };
            assert_eq!(call, result);
            let sent = call.as_str().unwrap();
            assert!(sent.len() <= most && !sent.contains('.'), "{sent}");
            assert_eq!(sent == id, id == "call_1");
        }
    }
    // Kimi's models were trained with such ids. Mistral takes 9 letters and digits.
    for (name, id, sent) in [
        ("kimi-k2", "functions.look:0", "functions.look:0"),
        ("mistral-large", "9CharsLng", "9CharsLng"),
        ("mistral-large", "call_1", "cd843d74a"),
    ] {
        let reply = Reply::calls([ToolCall::new(id, "look", "{}")]);
        let back = next(name, reply, Api::Chat).await;
        assert_eq!(
            (&back[0]["tool_calls"][0]["id"], &back[1]["tool_call_id"]),
            (&json!(sent), &json!(sent))
        );
    }
}

#[tokio::test]
async fn items_of_responses_go_back_unchanged_and_in_place() {
    let output = json!([
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "ZGF0YQ"},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "namespace": "eyes"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "sql", "input": "select 1"},
    ]);
    let body = json!({"status": "completed", "output": output}).to_string();
    let reply = read(Answer::json(body), Api::Responses).await;
    assert_eq!(reply.tool_calls().map(|call| call.kind).last(), Some(CallKind::Custom));
    let back = next("any", reply.clone(), Api::Responses).await;
    let mut expected = output.as_array().unwrap().clone();
    expected[3]["content"] = json!("I look.");
    expected.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "ok"}));
    expected.push(json!({"type": "custom_tool_call_output", "call_id": "call_2", "output": "ok"}));
    assert_eq!(back, Value::Array(expected));
    // Another API gets the text and the calls.
    let back = next("any", reply, Api::Chat).await;
    assert_eq!(back.as_array().map(Vec::len), Some(3));
    assert_eq!(back[0]["content"], "I look.");
}

/// The server finds an item by its id only if it keeps the reply.
#[tokio::test]
async fn reasoning_that_the_server_does_not_keep_goes_back_only_with_its_content() {
    let with = |item: Value| json!({"status": "completed", "store": false, "output": [item]});
    let plain = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let encrypted =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZGF0YQ"});
    for (item, back) in [(plain, json!([])), (encrypted.clone(), json!([encrypted]))] {
        let reply = read(Answer::json(with(item).to_string()), Api::Responses).await;
        assert_eq!(next("any", reply, Api::Responses).await, back);
    }
}

/// A part of a reply of any provider. The number makes it unlike all others.
fn part(number: usize) -> impl Strategy<Value = ReplyPart> {
    let providers = ["openai-chat", "openai-responses", "openai-chat:groq", "anthropic", "gemini"];
    let provider = prop::sample::select(providers.to_vec());
    let item = move |provider: &str| json!({"type": "web_search_call", "id": format!("{provider}-{number}")});
    prop_oneof![
        Just(ReplyPart::text(format!("text-{number}"))),
        provider.clone().prop_map(move |of| ReplyPart::Other(Opaque::new(of, item(of)))),
        provider.clone().prop_map(move |of| {
            let mut opaque = item(of);
            opaque["field"] = json!("reasoning_content");
            ReplyPart::Reasoning(Reasoning::new(of, format!("thought-{of}-{number}"), opaque))
        }),
        ("[ -~]{0,60}", provider).prop_map(move |(id, of)| {
            let mut call = ToolCall::new(format!("{number}{id}"), "look", "{}");
            call.opaque =
                Some(Box::new(Opaque::new(of, json!({"extra_content": format!("{of}-{number}")}))));
            ReplyPart::Call(call)
        }),
    ]
}

/// A run goes on with another provider: its own parts are in place, those of others are not there,
/// and each call has its result.
#[test]
fn replies_of_any_provider_can_be_sent() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let parts = (0..6_usize).prop_flat_map(|count| (0..count).map(part).collect::<Vec<_>>());
    let check = |parts: Vec<ReplyPart>| {
        for (api, own, most) in
            [(Api::Chat, "openai-chat", 40), (Api::Responses, "openai-responses", 64)]
        {
            let back = runtime.block_on(next("any", Reply::new(parts.clone()), api)).to_string();
            for (number, part) in parts.iter().enumerate() {
                let (of, is_sent) = match part {
                    ReplyPart::Text(_) => ("text", true),
                    // A message of Chat Completions has no place for an item.
                    ReplyPart::Other(other) => {
                        (&*other.provider, api == Api::Responses && other.provider == own)
                    }
                    ReplyPart::Reasoning(reasoning) => {
                        (&*reasoning.provider, reasoning.provider == own)
                    }
                    ReplyPart::Call(call) => {
                        let of = &call.opaque.as_ref().unwrap().provider;
                        (&**of, of == own)
                    }
                    _ => unreachable!(),
                };
                let is_there = back.contains(&format!("{of}-{number}\""))
                    || back.contains(&format!("{of}-{number}text-"))
                    || back.contains(&format!("{of}-{number}thought-"));
                prop_assert_eq!(is_there, is_sent, "{} {:?} in {}", api, part, back);
            }
            let back: Value = serde_json::from_str(&back).unwrap();
            let entries = back.as_array().unwrap();
            let ids = |name: &str| -> Vec<Value> {
                entries.iter().map(|entry| entry[name].clone()).filter(Value::is_string).collect()
            };
            let (calls, results): (Vec<_>, Vec<_>) = match api {
                Api::Chat => {
                    let calls = entries.iter().filter_map(|entry| entry["tool_calls"].as_array());
                    (calls.flatten().map(|call| call["id"].clone()).collect(), ids("tool_call_id"))
                }
                _ => {
                    let ids = ids("call_id");
                    let (calls, results) = ids.split_at(ids.len() / 2);
                    (calls.to_vec(), results.to_vec())
                }
            };
            prop_assert_eq!(&calls, &results);
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            let is_portable = |id: &str| id.len() <= most && id.bytes().all(fits);
            prop_assert!(
                calls.iter().all(|id| is_portable(id.as_str().unwrap_or("."))),
                "{:?}",
                calls
            );
        }
        Ok(())
    };
    TestRunner::new(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })
        .run(&parts, check)
        .unwrap();
}

fn responses(output: Value) -> Answer {
    Answer::json(json!({"status": "completed", "output": output}).to_string())
}

/// The server knows what an item of reasoning led to by its id.
#[tokio::test]
async fn items_after_reasoning_go_back_with_their_ids() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let text = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let message = json!({"type": "message", "role": "assistant", "status": "completed",
        "content": [text("It "), text("rains.")], "id": "msg_1"});
    let call = json!({"type": "function_call", "call_id": "call_1", "name": "look",
        "arguments": "{}", "namespace": "house", "id": "fc_1"});
    let custom = json!({"type": "custom_tool_call", "call_id": "call_2", "name": "look",
        "input": "out", "id": "ctc_1"});
    let items = [&reasoning, &message, &call, &custom].map(Clone::clone);
    let whole = read(responses(json!(items)), Api::Responses).await;
    let done = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    let end =
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let events = items.iter().map(done).chain([end]);
    let events: String = events.map(|event| format!("data: {event}\n\n")).collect();
    let server = Server::answering([Answer::events(&events, 64)]).await;
    let (_, piecewise) = streamed(&server.model(Api::Responses), hi()).await;
    for reply in [whole, piecewise.unwrap()] {
        let back = next("any", reply.clone(), Api::Responses).await;
        assert_eq!(back.as_array().unwrap()[..4], items);

        // Another item with that id would not be known without its reasoning.
        let mut reply = reply;
        reply.parts.remove(0);
        let back = next("any", reply, Api::Responses).await.to_string();
        assert!(!back.contains("msg_1") && !back.contains("fc_1"), "{back}");
        assert!(back.contains("house"), "{back}");
    }
    // Without reasoning, and with reasoning that the server does not keep.
    let lost = json!({"store": false, "status": "completed", "output": items}).to_string();
    for answer in [responses(json!([message, call])), Answer::json(lost)] {
        let reply = read(answer, Api::Responses).await;
        let back = next("any", reply, Api::Responses).await.to_string();
        assert!(back.contains("rains.") && !back.contains("msg_1"), "{back}");
    }
}

/// Where the order of messages is strict, an empty message of the model is refused.
#[tokio::test]
async fn a_reply_of_thinking_alone_goes_back_to_a_server_with_a_strict_order() {
    let silent = "I have not answered yet.";
    let message = json!({"role": "assistant", "content": null, "reasoning_content": "Hm."});
    let back = chat("any", message).await;
    assert_eq!((&back["content"], &back["reasoning_content"]), (&json!(silent), &json!("Hm.")));
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]});
    let back = chat("mistral-small", json!({"role": "assistant", "content": [thinking]})).await;
    assert_eq!(back["content"], json!([thinking, {"type": "text", "text": silent}]));
    let details = json!([{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln"}]);
    let message = json!({"role": "assistant", "content": "", "reasoning_details": details});
    let back = chat("any", message).await;
    assert_eq!((&back["content"], &back["reasoning_details"]), (&json!(silent), &details));
}
