//! Calls of replies that were cut off are marked, so that nobody makes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use toolwright_module::model::{Finish, Settings};
use toolwright_module::{Contract, LanguageModel, Reply, Request, Signature};
use toolwright_openai::Api;

use crate::common::{Answer, Server, beside, hi, streamed};

/// Delete files. Without a prefix, all of them.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Purge {
    prefix: Option<String>,
}

impl Signature for Purge {
    type Output = String;
}

/// Check whether the server is there.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Ping {}

impl Signature for Ping {
    type Output = String;
}

fn request() -> Request {
    let tools = [Contract::of::<Purge>(), Contract::of::<Ping>()];
    hi().with_tools(tools.map(|contract| Arc::new(contract.unwrap())))
}

async fn read(api: Api, whole: &Value, stream: &[Value]) -> [Reply; 2] {
    let mut events: String = stream.iter().map(|event| format!("data: {event}\n\n")).collect();
    if api == Api::Chat {
        events.push_str("data: [DONE]\n\n");
    }
    // Half of a character, which no JSON value of a test can have.
    let half = |json: &str| json.replace("HALF", "\\ud83d");
    let whole = Answer::json(half(&whole.to_string()));
    let server = Server::answering([whole, Answer::events(&half(&events), 64)]).await;
    let model = server.model(api);
    [model.generate(&request()).await.unwrap(), streamed(&model, request()).await.1.unwrap()]
}

fn incomplete(reply: &Reply) -> bool {
    let call = reply.tool_calls().next().unwrap();
    assert!(
        call.kind != toolwright_module::message::CallKind::Function
            || call.name == "purge"
            || call.name == "ping"
    );
    call.incomplete
}

async fn chat(reason: &Value, arguments: &Value) -> [Reply; 2] {
    let call = json!({"index": 0, "id": "1", "type": "function", "function": {"name": "purge", "arguments": arguments}});
    let whole = json!({"model": "m", "choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": reason}]});
    let stream = [
        json!({"model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
    ];
    read(Api::Chat, &whole, &stream).await
}

#[tokio::test]
async fn a_call_of_chat_is_complete_only_beside_a_reason_that_says_so() {
    for (reason, is_complete) in [
        ("tool_calls", true),
        ("stop", true),
        ("function_call", true),
        ("tool_use", true),
        ("length", false),
        ("max_tokens", false),
        ("content_filter", false),
        ("network_error", false),
        ("sensitive", false),
        ("repetition_truncation", false),
        ("insufficient_system_resource", false),
        ("model_context_window_exceeded", false),
        ("stop_sequence", false),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", false),
        ("malformed_function_call", false),
        ("unknown", false),
        ("new_reason", false),
    ] {
        for arguments in
            [json!("{}"), json!(r#"{"prefix": "t"}"#), json!({}), json!({"prefix": "t"})]
        {
            for reply in chat(&json!(reason), &arguments).await {
                assert_eq!(!incomplete(&reply), is_complete, "{reason}: {arguments}");
            }
        }
    }
}

/// Gateways send the words of other APIs, in any case and with any separators.
#[tokio::test]
async fn a_reply_of_chat_is_incomplete_wherever_the_server_says_so() {
    let call = json!({"index": 0, "id": "1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
    let whole = |choice: Value, more: Value| {
        let message = json!({"role": "assistant", "tool_calls": [call]});
        let mut reply = json!({"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
        let choices = &mut reply["choices"][0];
        choices.as_object_mut().unwrap().extend(choice.as_object().unwrap().clone());
        reply.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reply
    };
    let none = json!({});
    for (choice, more, expected) in [
        (none.clone(), json!({"status": "incomplete"}), Finish::Other("incomplete".to_owned())),
        (
            none.clone(),
            json!({"status": "completed", "incomplete_details": {"reason": "max_output_tokens"}}),
            Finish::Length,
        ),
        (
            json!({"finish_reason": null, "finish_details": {"type": "max_tokens"}}),
            none.clone(),
            Finish::Length,
        ),
        (
            json!({"finish_reason": null, "finish_details": {"type": "stop", "stop": "<|end|>"}}),
            none.clone(),
            Finish::Stop,
        ),
        (none.clone(), json!({"status": "success", "incomplete_details": null}), Finish::Stop),
    ] {
        let reply = whole(choice, more);
        let mut event = reply.clone();
        event["choices"][0]["delta"] = event["choices"][0]["message"].take();
        for read in read(Api::Chat, &reply, &[event]).await {
            assert_eq!(read.finish, expected, "{reply}");
        }
    }
}

#[tokio::test]
async fn a_call_of_chat_has_its_status_in_either_place() {
    for (status, is_cut) in [("incomplete", true), ("in_progress", true), ("completed", false)] {
        let function = json!({"name": "purge", "arguments": "{}", "status": status});
        let call = json!({"index": 0, "id": "1", "type": "function", "function": function});
        let choice = |of: &str| json!({"choices": [{"index": 0, of: {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        for reply in read(Api::Chat, &choice("message"), &[choice("delta")]).await {
            assert_eq!(incomplete(&reply), is_cut, "{status}");
        }
    }
}

#[tokio::test]
async fn a_call_with_its_result_was_made_by_the_server() {
    let made = json!({"id": "1", "type": "function", "function": {"name": "purge", "arguments": "{}", "output": "Gone."}});
    let chat = json!({"choices": [{"index": 0, "message": {"tool_calls": [made]}, "finish_reason": "tool_calls"}]});
    let mut item = item("purge", "{}", Some("completed"));
    item["output"] = json!("Gone.");
    for (api, reply) in [(Api::Chat, chat), (Api::Responses, response("completed", None, &[item]))]
    {
        let server = Server::answering([Answer::json(reply.to_string())]).await;
        let error = server.model(api).generate(&request()).await.unwrap_err();
        assert!(error.to_string().contains("makes calls itself"), "{error}");
    }
}

#[tokio::test]
async fn an_item_that_is_cut_off_and_whole_is_cut_off() {
    let cut = json!({"type": "response.output_item.done", "output_index": 0, "item": item("purge", "{}", Some("incomplete"))});
    let whole = response("completed", None, &[item("purge", "{}", Some("completed"))]);
    let end = json!({"type": "response.completed", "response": whole});
    let [_, streamed] = read(Api::Responses, &whole, &[cut, end]).await;
    assert!(incomplete(&streamed));
}

#[tokio::test]
async fn a_word_in_another_spelling_is_that_word() {
    for (word, finish, is_complete) in [
        ("EndTurn", Finish::Stop, true),
        ("tool-calls", Finish::Stop, true),
        ("STOP_SEQUENCE", Finish::Stop, false),
        ("max-tokens", Finish::Length, false),
        ("MODEL_CONTEXT_WINDOW_EXCEEDED", Finish::Length, false),
        ("Content-Filter", Finish::Refused, false),
        ("SAFETY", Finish::Refused, false),
    ] {
        for reply in chat(&json!(word), &json!("{}")).await {
            assert_eq!((&reply.finish, !incomplete(&reply)), (&finish, is_complete), "{word}");
        }
    }
    for (status, why, finish) in [
        ("COMPLETED", None, Finish::Stop),
        ("Incomplete", Some("MaxOutputTokens"), Finish::Length),
        ("INCOMPLETE", Some("CONTENT_FILTER"), Finish::Refused),
        ("completed", Some("max-output-tokens"), Finish::Length),
        ("incomplete", Some("stop"), Finish::Other("stop".to_owned())),
    ] {
        let items = [item("purge", "{}", Some("Completed"))];
        for reply in responses("response.completed", &response(status, why, &items)).await {
            let is_complete = finish == Finish::Stop;
            assert_eq!((&reply.finish, !incomplete(&reply)), (&finish, is_complete), "{status}");
        }
    }
    // A text for the details that nobody knows says that the reply is not whole.
    for (details, is_complete) in [
        (json!("max_output_tokens reached"), false),
        (json!(true), false),
        (json!("None"), true),
        (json!(" n/a"), true),
        (json!(false), true),
        (json!({}), true),
    ] {
        let mut whole = response("completed", None, &[item("purge", "{}", Some("completed"))]);
        whole["incomplete_details"] = details.clone();
        for reply in responses("response.completed", &whole).await {
            assert_eq!(!incomplete(&reply), is_complete, "{details}");
        }
    }
    for word in ["ABORT", "In-Progress", "Error"] {
        let choice = json!({"message": {"content": "a"}, "finish_reason": word});
        let whole = json!({"choices": [choice]});
        let server = Server::answering([Answer::json(whole.to_string())]).await;
        let error = server.model(Api::Chat).generate(&request()).await.unwrap_err();
        assert!(error.to_string().contains("did not finish the reply"), "{error}");
    }
}

/// What a server has parsed is not the text of the model, and of two fields any may be meant.
#[tokio::test]
async fn content_and_items_that_lose_a_field_are_errors() {
    let chat = |content: &str| {
        format!(r#"{{"choices":[{{"message":{{"content":{content}}},"finish_reason":"stop"}}]}}"#)
    };
    let twice = r#"{"type":"function_call","call_id":"1","name":"purge","arguments":"{}","arguments":"{\"prefix\":\"t\"}"}"#;
    let output = |output: &str| format!(r#"{{"status":"completed","output":{output}}}"#);
    for (api, body) in [
        (Api::Chat, chat(r#"{"text":"Ada","age":36}"#)),
        (Api::Chat, chat(r#"[{"text":"Ada","age":36}]"#)),
        (Api::Chat, chat(r#"{"answer":"Ada"}"#)),
        (Api::Responses, output(r#"{"type":"message","content":{"text":"Ada","age":36}}"#)),
        (Api::Responses, output(r#"[{"type":"message","content":[{"text":"Ada","age":36}]}]"#)),
        (Api::Responses, output(twice)),
        (Api::Responses, output(&format!("[{twice}]"))),
    ] {
        let server = Server::answering([Answer::json(body.clone())]).await;
        assert!(server.model(api).generate(&request()).await.is_err(), "{body}");
    }
    let body = chat(r#"[{"text":"Ada","annotations":[],"refusal":null}]"#);
    let server = Server::answering([Answer::json(body)]).await;
    assert_eq!(server.model(Api::Chat).generate(&request()).await.unwrap().to_text(), "Ada");
}

/// Snowflake has no reason, or an empty one.
#[tokio::test]
async fn without_a_reason_only_an_object_shows_that_a_call_is_complete() {
    for reason in [Value::Null, json!("")] {
        for (arguments, is_complete) in [
            (json!(r#"{"prefix": "t"}"#), true),
            (json!("{}"), true),
            (json!(""), false),
            (json!(null), false),
        ] {
            for reply in chat(&reason, &arguments).await {
                assert_eq!(!incomplete(&reply), is_complete, "{reason}: {arguments}");
            }
        }
    }
}

#[tokio::test]
async fn a_later_stop_does_not_make_a_call_of_chat_complete() {
    let call = json!({"index": 0, "id": "1", "function": {"name": "purge", "arguments": "{}"}});
    let stream = [
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "network_error"}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ];
    let [_, reply] =
        read(Api::Chat, &json!({"choices": [{"message": {"content": "a"}}]}), &stream).await;
    assert!(incomplete(&reply));
}

#[tokio::test]
async fn a_filtered_reply_of_chat_has_the_word() {
    let whole =
        json!({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]});
    let stream =
        [json!({"choices": [{"delta": {"content": ""}, "finish_reason": "content_filter"}]})];
    for reply in read(Api::Chat, &whole, &stream).await {
        assert_eq!(
            (reply.finish, reply.reason.as_deref()),
            (Finish::Refused, Some("content_filter"))
        );
    }
}

fn response(status: &str, why: Option<&str>, items: &[Value]) -> Value {
    let details = why.map(|reason| json!({"reason": reason}));
    json!({"id": "r", "model": "m", "status": status, "incomplete_details": details, "output": items,
        "usage": {"input_tokens": 1, "output_tokens": 2}})
}

async fn responses(kind: &str, response: &Value) -> [Reply; 2] {
    let event = json!({"type": kind, "response": response});
    read(Api::Responses, response, &[event]).await
}

fn item(tool: &str, arguments: &str, status: Option<&str>) -> Value {
    json!({"type": "function_call", "id": "fc", "call_id": "1", "name": tool, "arguments": arguments, "status": status})
}

#[tokio::test]
async fn a_call_of_responses_is_complete_only_if_reply_and_item_are() {
    for arguments in ["{}", r#"{"prefix": "t"}"#] {
        for (kind, status, why, of_item, is_complete) in [
            ("response.completed", "completed", None, Some("completed"), true),
            ("response.completed", "completed", None, None, true),
            ("response.completed", "completed", None, Some("incomplete"), false),
            ("response.completed", "completed", None, Some("in_progress"), false),
            (
                "response.incomplete",
                "incomplete",
                Some("max_output_tokens"),
                Some("completed"),
                false,
            ),
            (
                "response.incomplete",
                "incomplete",
                Some("max_output_tokens"),
                Some("incomplete"),
                false,
            ),
            (
                "response.incomplete",
                "incomplete",
                Some("content_filter"),
                Some("incomplete"),
                false,
            ),
            ("response.incomplete", "incomplete", Some("new_reason"), None, false),
            ("response.incomplete", "incomplete", None, None, false),
            ("response.completed", "new_status", None, Some("completed"), false),
        ] {
            let response = response(status, why, &[item("purge", arguments, of_item)]);
            for reply in responses(kind, &response).await {
                assert_eq!(!incomplete(&reply), is_complete, "{status}, {of_item:?}, {why:?}");
            }
        }
    }
    let custom = json!({"type": "custom_tool_call", "call_id": "1", "name": "bio", "input": "bo", "status": "incomplete"});
    for reply in responses("response.completed", &response("completed", None, &[custom])).await {
        assert!(incomplete(&reply));
    }
    let message = json!({"type": "message", "status": "incomplete", "content": [{"type": "output_text", "text": "Hal"}]});
    for reply in responses("response.completed", &response("completed", None, &[message])).await {
        assert_eq!(reply.finish, Finish::Length);
    }
}

#[tokio::test]
async fn empty_arguments_of_responses_are_complete_only_for_a_tool_without_fields() {
    for (tool, is_complete) in [("purge", false), ("ping", true)] {
        let response = response("completed", None, &[item(tool, "", Some("completed"))]);
        for reply in responses("response.completed", &response).await {
            assert_eq!(!incomplete(&reply), is_complete, "{tool}");
        }
    }
}

#[tokio::test]
async fn a_completed_reply_is_not_cut_off_because_of_its_count_of_tokens() {
    let message = |text: &str| json!({"type": "message", "status": "completed", "content": [{"type": "output_text", "text": text}]});
    let mut cases = Vec::new();
    // The server says that nothing is incomplete.
    let mut whole = response("completed", None, &[message("Paris.")]);
    whole["usage"]["output_tokens"] = json!(4);
    cases.push(whole.clone());
    // It counts beyond the maximum, so it counts something else.
    whole.as_object_mut().unwrap().remove("incomplete_details");
    whole["usage"]["output_tokens"] = json!(9);
    cases.push(whole.clone());
    // A JSON object has its end.
    whole["usage"]["output_tokens"] = json!(4);
    whole["output"] = json!([message(r#"{"city": "Paris"}"#)]);
    cases.push(whole);
    for whole in cases {
        let server = Server::answering([Answer::json(whole.to_string())]).await;
        let request = hi().with_settings(Settings::default().with_max_output_tokens(4));
        let reply = server.model(Api::Responses).generate(&request).await.unwrap();
        assert_eq!(reply.finish, Finish::Stop, "{whole}");
    }
}

#[tokio::test]
async fn a_filtered_reply_of_responses_has_the_reason() {
    let response = response("incomplete", Some("content_filter"), &[]);
    for reply in responses("response.incomplete", &response).await {
        assert_eq!(
            (reply.finish, reply.reason.as_deref()),
            (Finish::Refused, Some("content_filter"))
        );
    }
}

/// Gateways put the model's own word beside theirs, and theirs says only that there are calls.
#[tokio::test]
async fn the_word_of_the_model_behind_a_gateway_counts() {
    for (word, is_complete) in [
        (json!("tool_calls"), true),
        (json!("STOP"), true),
        (json!("tool_use"), true),
        (json!("completed"), true),
        (Value::Null, true),
        (json!("max_tokens"), false),
        (json!("MAX_TOKENS"), false),
        (json!("length"), false),
        (json!("max_output_tokens"), false),
        (json!("MALFORMED_FUNCTION_CALL"), false),
        (json!("stop_sequence"), false),
        (json!("SAFETY"), false),
        (json!("PROHIBITED_CONTENT"), false),
        (json!("model_context_window_exceeded"), false),
        (json!("pause_turn"), false),
        (json!("incomplete"), false),
        (json!("cancelled"), false),
        (json!("ERROR"), false),
        (json!("ERROR_LIMIT"), false),
        (json!("guardrail_intervened"), false),
        (json!("insufficient_system_resource"), false),
        (json!("TIMEOUT"), false),
        (json!("FINISH_REASON_MAX_TOKENS"), false),
        (json!("new_reason"), false),
    ] {
        let call = json!({"index": 0, "id": "1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
        let whole = json!({"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls", "native_finish_reason": word}]});
        let stream = [
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "native_finish_reason": word}]}),
        ];
        for reply in read(Api::Chat, &whole, &stream).await {
            assert_eq!(!incomplete(&reply), is_complete, "{word}");
        }
    }
}

#[tokio::test]
async fn anything_that_says_that_a_reply_of_responses_was_cut_counts() {
    let call = || [item("purge", "{}", Some("completed"))];
    for (kind, status, why) in [
        ("response.completed", "completed", Some("max_output_tokens")),
        ("response.completed", "", Some("max_output_tokens")),
        ("response.completed", "completed", Some("content_filter")),
        ("response.completed", "completed", Some("new_reason")),
    ] {
        for reply in responses(kind, &response(status, why, &call())).await {
            assert!(incomplete(&reply), "{kind}, {status}, {why:?}");
        }
    }
    let mut text = response("completed", None, &call());
    text["incomplete_details"] = json!("max_output_tokens");
    for reply in responses("response.completed", &text).await {
        assert!(incomplete(&reply));
    }
    let whole = response("completed", None, &call());
    for events in [
        vec![json!({"type": "response.incomplete", "response": whole})],
        vec![
            json!({"type": "response.incomplete", "response": response("incomplete", None, &call())}),
            json!({"type": "response.completed", "response": whole}),
        ],
        vec![
            json!({"type": "response.incomplete"}),
            json!({"type": "response.completed", "response": whole}),
        ],
    ] {
        let [_, reply] = read(Api::Responses, &whole, &events).await;
        assert!(incomplete(&reply), "{events:?}");
    }
    for status in ["failed", "cancelled", "queued", "interrupted"] {
        let items = [item("purge", "{}", Some(status))];
        for reply in responses("response.completed", &response("completed", None, &items)).await {
            assert!(incomplete(&reply), "{status}");
        }
    }
}

/// A server begins a call with `{}` or nothing. Only the call's own end shows that this is all.
#[tokio::test]
async fn a_streamed_call_of_responses_without_an_end_is_incomplete() {
    let added = |arguments: &str| json!({"type": "response.output_item.added", "output_index": 0, "item": item("purge", arguments, Some("in_progress"))});
    let piece = |piece: &str| json!({"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 0, "delta": piece});
    let done = |text: &str| json!({"type": "response.function_call_arguments.done", "item_id": "fc", "output_index": 0, "arguments": text});
    let item_done = || json!({"type": "response.output_item.done", "output_index": 0, "item": item("purge", "{}", Some("completed"))});
    let end =
        || json!({"type": "response.completed", "response": response("completed", None, &[])});
    let whole = response("completed", None, &[item("purge", "{}", None)]);
    for (events, is_complete) in [
        (vec![added("{}"), end()], false),
        (vec![added(""), end()], false),
        (vec![added(""), piece("{"), piece("}"), end()], false),
        (vec![added("{}"), done("{}"), end()], true),
        (vec![added(""), piece("{}"), done("{}"), end()], true),
        (vec![added("{}"), item_done(), end()], true),
        (vec![added(""), piece(r#"{"prefix": "t"}"#), end()], true),
    ] {
        let [_, reply] = read(Api::Responses, &whole, &events).await;
        assert_eq!(!incomplete(&reply), is_complete, "{events:?}");
    }
}

#[tokio::test]
async fn a_later_usage_of_zeros_does_not_replace_the_counts() {
    let usage = |read, written| json!({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": written}});
    let text =
        json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]});
    let whole = json!({"choices": [{"message": {"content": "a"}}]});
    for (first, second) in [((40, 3), (0, 0)), ((0, 0), (40, 3))] {
        let stream = [text.clone(), usage(first.0, first.1), usage(second.0, second.1)];
        let [_, reply] = read(Api::Chat, &whole, &stream).await;
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (40, 3), "{first:?}");
    }
}

/// A server that cuts a text inside a character sends half of it. Texts have U+FFFD for it.
#[tokio::test]
async fn a_call_with_half_a_character_in_its_arguments_is_incomplete() {
    for (prefix, is_complete) in [("HALF", false), ("\u{fffd}", true), ("\u{1f600}", true)] {
        let object = json!({"prefix": prefix});
        for arguments in [object.clone(), json!(object.to_string())] {
            for reply in chat(&json!("tool_calls"), &arguments).await {
                assert_eq!(!incomplete(&reply), is_complete, "{arguments}");
            }
            let item = json!({"type": "function_call", "id": "fc_1", "call_id": "1", "name": "purge", "arguments": arguments});
            let response =
                json!({"status": "completed", "output": [item], "incomplete_details": null});
            let events = [
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "purge", "arguments": ""}}),
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": object.to_string()}),
                json!({"type": "response.completed", "response": {"status": "completed", "output": [], "incomplete_details": null}}),
            ];
            for reply in read(Api::Responses, &response, &events).await {
                assert_eq!(!incomplete(&reply), is_complete, "{arguments}");
            }
        }
        let custom = json!({"type": "custom_tool_call", "id": "c_1", "call_id": "1", "name": "purge", "input": prefix});
        let response =
            json!({"status": "completed", "output": [custom], "incomplete_details": null});
        let events = [json!({"type": "response.completed", "response": response})];
        for reply in read(Api::Responses, &response, &events).await {
            assert_eq!(!incomplete(&reply), is_complete, "{prefix}");
        }
    }
}

/// A text with half a character is shown, and does not stop the calls beside it.
#[tokio::test]
async fn half_a_character_in_the_text_does_not_stop_a_call() {
    let call = json!({"index": 0, "id": "1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
    let message = json!({"content": "HALF", "tool_calls": [call]});
    let whole =
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let event = json!({"choices": [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]});
    for reply in read(Api::Chat, &whole, &[event]).await {
        assert_eq!((&*reply.to_text(), incomplete(&reply)), ("\u{fffd}", false));
        assert!(reply.has_lost_half);
    }
    // The same character, which the model wrote itself.
    let message = json!({"content": "\u{fffd}", "tool_calls": []});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    let event = json!({"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]});
    for reply in read(Api::Chat, &whole, &[event]).await {
        assert_eq!((&*reply.to_text(), reply.has_lost_half), ("\u{fffd}", false));
    }
}

/// vLLM and SGLang report a stop text in a field of its own, beside `tool_calls` or `stop`.
#[tokio::test]
async fn a_call_that_a_stop_text_ended_is_incomplete() {
    for (field, stop, is_complete) in [
        ("stop_reason", json!("END"), false),
        ("matched_stop", json!("</answer>"), false),
        ("stop_reason", Value::Null, true),
        ("stop_reason", json!(151_645), true),
        ("stop_reason", json!("end_turn"), true),
        ("matched_stop", json!("<|im_end|>"), true),
        ("matched_stop", json!(""), true),
    ] {
        let call = json!({"index": 0, "id": "1", "type": "function", "function": {"name": "purge", "arguments": "{}"}});
        let whole = json!({"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls", field: stop}]});
        let stream = [
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", field: stop}]}),
        ];
        for reply in read(Api::Chat, &whole, &stream).await {
            assert_eq!(!incomplete(&reply), is_complete, "{field}: {stop}");
        }
    }
}

/// Some servers send more after the finish reason. The reason says nothing of it.
#[tokio::test]
async fn a_reply_that_breaks_after_its_finish_reason_but_within_more_content_is_cut_off() {
    let event = |delta: Value, reason: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let call = |at: u8, arguments: &str| {
        let function = json!({"name": "purge", "arguments": arguments});
        json!({"tool_calls": [{"index": at, "id": format!("{at}"), "function": function}]})
    };
    let text = |text: &str| json!({"content": text});
    let first = event(call(0, r#"{"prefix": "t"}"#), Some("tool_calls"));
    for (events, is_whole) in [
        (vec![event(text("It is"), Some("stop")), event(text(" not"), None)], false),
        (vec![first.clone(), event(call(1, ""), None)], false),
        (vec![first.clone(), event(call(1, "{}"), Some("tool_calls"))], true),
        (vec![event(text("It is"), Some("stop")), event(json!({}), None)], true),
    ] {
        let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let server = Server::answering([Answer::events(&events, 4096).then_reset()]).await;
        let reply = streamed(&server.model(Api::Chat), request()).await.1;
        assert_eq!(reply.is_ok(), is_whole, "{events}: {reply:?}");
    }
    // Without `[DONE]`, only the arguments show that a call has an end.
    for (arguments, end, is_complete) in
        [("", "", false), ("{}", "", true), ("", "data: [DONE]\n\n", true)]
    {
        let events = [first.clone(), event(call(1, arguments), None)];
        let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let server = Server::answering([Answer::events(&(events + end), 4096)]).await;
        let reply = streamed(&server.model(Api::Chat), request()).await.1.unwrap();
        let calls: Vec<bool> = reply.tool_calls().map(|call| call.incomplete).collect();
        assert_eq!(calls, [false, !is_complete], "{arguments}, {end:?}");
    }
}

#[tokio::test]
async fn counts_that_come_in_several_events_are_put_together() {
    let end = |usage: &Value| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]});
    let usage = |usage: &Value| json!({"choices": [], "usage": usage});
    let text = json!({"choices": [{"index": 0, "delta": {"content": "a"}}]});
    let whole = json!({"choices": [{"message": {"content": "a"}}]});
    for events in [
        // Moonshot has the usage in the choice.
        vec![end(&json!({"prompt_tokens": 40, "completion_tokens": 3}))],
        vec![
            usage(&json!({"prompt_tokens": 40, "completion_tokens": 0})),
            end(&Value::Null),
            usage(&json!({"completion_tokens": 3})),
        ],
        vec![
            usage(&json!({"prompt_tokens": 40, "completion_tokens": 1})),
            usage(&json!({"prompt_tokens": "n/a", "completion_tokens": 3})),
            end(&Value::Null),
        ],
        vec![end(&Value::Null), usage(&json!({"input_tokens": 40, "output_tokens": 3}))],
    ] {
        let stream: Vec<Value> = [text.clone()].into_iter().chain(events).collect();
        let [_, reply] = read(Api::Chat, &whole, &stream).await;
        let usage = reply.usage;
        let found = (usage.input_tokens, usage.output_tokens, usage.incomplete);
        assert_eq!(found, (40, 3, false), "{stream:?}");
    }
}

/// Any part of the input of a custom tool is an input, so only its end shows that it is whole.
#[tokio::test]
async fn a_streamed_custom_call_of_responses_without_an_end_is_incomplete() {
    let item = |input: &str, status: &str| json!({"type": "custom_tool_call", "id": "ct", "call_id": "1", "name": "bio", "input": input, "status": status});
    let added = |input: &str| json!({"type": "response.output_item.added", "output_index": 0, "item": item(input, "in_progress")});
    let piece = |piece: &str| json!({"type": "response.custom_tool_call_input.delta", "item_id": "ct", "output_index": 0, "delta": piece});
    let done = |text: &str| json!({"type": "response.custom_tool_call_input.done", "item_id": "ct", "output_index": 0, "input": text});
    let item_done = |input: &str| json!({"type": "response.output_item.done", "output_index": 0, "item": item(input, "completed")});
    let end =
        || json!({"type": "response.completed", "response": response("completed", None, &[])});
    let whole = response("completed", None, &[item("rm -r tmp/x", "completed")]);
    for (events, is_complete) in [
        (vec![added(""), piece("rm -r tmp"), end()], false),
        (vec![added("rm -r tmp"), end()], false),
        (vec![added(""), end()], false),
        (vec![added(""), piece("rm -r tmp"), done("rm -r tmp/x"), end()], true),
        (vec![added(""), piece("rm -r tmp"), item_done("rm -r tmp/x"), end()], true),
    ] {
        let [_, reply] = read(Api::Responses, &whole, &events).await;
        assert_eq!(!incomplete(&reply), is_complete, "{events:?}");
    }
}

#[tokio::test]
async fn a_reply_of_responses_that_is_incomplete_without_a_reason_has_a_word() {
    for why in [None, Some("")] {
        for reply in responses(
            "response.incomplete",
            &response("incomplete", why, &[item("purge", "{}", None)]),
        )
        .await
        {
            assert_eq!(reply.finish, Finish::Other("incomplete".to_owned()));
            let said = reply.finish.why_not_made().unwrap();
            assert!(said.contains(r#"ended with "incomplete""#), "{said}");
        }
    }
}

#[tokio::test]
async fn arguments_of_chat_under_another_name_are_read_or_the_call_is_not_made() {
    let args = || json!({"prefix": "t"});
    for (call, is_made) in [
        (json!({"function": {"name": "purge", "args": args()}}), true),
        (json!({"name": "purge", "args": args()}), true),
        (json!({"function": {"name": "purge"}, "args": args()}), true),
        (json!({"function": {"name": "purge", "kwargs": args()}}), false),
        (json!({"function": {"name": "purge"}, "kwargs": r#"{"prefix":"t"}"#}), false),
    ] {
        let mut call = call;
        (call["index"], call["id"]) = (json!(0), json!("1"));
        let whole = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let stream = [
            json!({"choices": [{"delta": {"tool_calls": [call]}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        ];
        for reply in read(Api::Chat, &whole, &stream).await {
            let arguments = &reply.tool_calls().next().unwrap().arguments;
            assert_eq!(!incomplete(&reply), is_made, "{call}");
            assert!(!is_made || arguments == r#"{"prefix":"t"}"#, "{call}: {arguments}");
        }
    }
    // The first form of the API.
    for (call, is_made) in [
        (json!({"name": "purge", "args": args()}), true),
        (json!({"name": "purge", "kwargs": args()}), false),
    ] {
        let message = json!({"function_call": call});
        let whole = json!({"choices": [{"message": message, "finish_reason": "function_call"}]});
        let stream = [json!({"choices": [{"delta": message, "finish_reason": "function_call"}]})];
        for reply in read(Api::Chat, &whole, &stream).await {
            assert_eq!(!incomplete(&reply), is_made, "{call}");
        }
    }
    // What is known to be something else hides nothing.
    let call = json!({"id": "1", "function": {"name": "purge"}, "extra_content": {"google": {"thought_signature": "a"}}});
    let whole =
        json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let [reply, _] = read(Api::Chat, &whole, std::slice::from_ref(&whole)).await;
    assert!(!incomplete(&reply));
}

#[tokio::test]
async fn a_call_beside_which_its_arguments_may_stand_is_not_made() {
    for (arguments, beside, is_made) in beside::calls() {
        let text = format!("{arguments} {beside:?}");
        let with = |mut call: Value, beside: &serde_json::Map<String, Value>| {
            call.as_object_mut().unwrap().extend(beside.clone());
            call
        };
        let function = json!({"name": "purge", "arguments": arguments});
        let chat =
            with(json!({"index": 0, "id": "1", "type": "function", "function": function}), &beside);
        let nested = json!({"index": 0, "id": "1", "function": with(function.clone(), &beside)});
        let is_of_function = !beside.contains_key("status");
        for message in [
            json!({"tool_calls": [chat]}),
            json!({"tool_calls": [nested]}),
            json!({"function_call": with(function, &beside)}),
        ] {
            if !is_of_function && message["tool_calls"][0] != chat {
                continue;
            }
            let choice = |name: &str| json!({"choices": [{"index": 0, name: message, "finish_reason": "tool_calls"}]});
            for reply in read(Api::Chat, &choice("message"), &[choice("delta")]).await {
                assert_eq!(!incomplete(&reply), is_made, "{text}: {message}");
            }
        }
        let item = json!({"type": "function_call", "call_id": "1", "name": "purge", "arguments": arguments});
        let item = with(item, &beside);
        let whole = response("completed", None, std::slice::from_ref(&item));
        let event = |kind: &str| json!({"type": format!("response.{kind}"), "output_index": 0, "item": item});
        let end = json!({"type": "response.completed", "response": whole});
        let stream = [event("output_item.added"), event("output_item.done"), end];
        for reply in read(Api::Responses, &whole, &stream).await {
            assert_eq!(!incomplete(&reply), is_made, "{text}");
        }
    }
}

/// A gateway that runs the tools itself sends the results, too.
#[tokio::test]
async fn a_call_with_its_result_in_the_reply_is_not_made_again() {
    let call =
        json!({"type": "function_call", "call_id": "c1", "name": "purge", "arguments": "{}"});
    for (id, is_read) in [("c1", false), ("c2", true)] {
        let output = json!({"type": "function_call_output", "call_id": id, "output": "purged"});
        let message = json!({"type": "message", "content": "Done."});
        let whole = response("completed", None, &[call.clone(), output, message]);
        let end = json!({"type": "response.completed", "response": whole});
        let events = Answer::events(&format!("data: {end}\n\n"), 64);
        let server = Server::answering([Answer::json(whole.to_string()), events]).await;
        let model = server.model(Api::Responses);
        for reply in [model.generate(&request()).await, streamed(&model, request()).await.1] {
            assert_eq!(reply.is_ok(), is_read, "{reply:?}");
        }
    }
}

/// Azure filters a reply beside the usual reason.
#[tokio::test]
async fn a_call_of_chat_beside_the_mark_of_a_filter_is_not_made() {
    for (is_filtered, finish) in [(true, Finish::Refused), (false, Finish::Stop)] {
        let call = json!({"index": 0, "id": "1", "function": {"name": "purge", "arguments": "{}"}});
        let marks = json!({"hate": {"filtered": is_filtered, "severity": "high"}, "violence": {"filtered": false}});
        let choice = |name: &str| json!({"choices": [{name: {"tool_calls": [call]}, "finish_reason": "tool_calls", "content_filter_results": marks}]});
        let stream =
            [choice("delta"), json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})];
        for reply in read(Api::Chat, &choice("message"), &stream).await {
            assert_eq!(reply.finish, finish);
            let why = is_filtered.then_some("content_filter: hate");
            assert_eq!(reply.reason.as_deref(), why);
        }
        // The same of the prompt, and of a reply of Responses.
        let prompt = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": marks}]});
        let server = Server::answering([Answer::json(prompt.to_string())]).await;
        let reply = server.model(Api::Chat).generate(&request()).await.unwrap();
        assert_eq!(reply.finish, finish);
        for filters in [json!({"content_filter_results": marks}), json!({"blocked": is_filtered})] {
            let mut body = response("completed", None, &[item("purge", "{}", None)]);
            body["content_filters"] = json!([filters]);
            for reply in responses("response.completed", &body).await {
                assert_eq!(reply.finish, finish, "{filters}");
                assert_eq!(reply.reason.is_some(), is_filtered, "{filters}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_of_responses_after_reasoning_that_is_incomplete_is_not_made() {
    for (status, is_complete) in [("incomplete", false), ("in_progress", true), ("completed", true)]
    {
        let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "status": status});
        let items = [reasoning, item("purge", "{}", Some("completed"))];
        for reply in responses("response.completed", &response("completed", None, &items)).await {
            let is_made = !incomplete(&reply) && reply.finish.is_complete();
            assert_eq!(is_made, is_complete, "{status}");
        }
    }
}

#[tokio::test]
async fn content_that_is_a_number_keeps_its_digits() {
    for number in ["12345678901234567890123", "1.10", "-0.0", "1E2", "true", "false"] {
        let choice = format!(
            r#"{{"choices":[{{"message":{{"content":{number}}},"finish_reason":"stop"}}]}}"#
        );
        let server = Server::answering([Answer::json(choice)]).await;
        let reply = server.model(Api::Chat).generate(&request()).await.unwrap();
        assert_eq!(reply.to_text(), number);
        for content in [number.to_owned(), format!("[{number}]")] {
            let response = format!(
                r#"{{"id":"r","status":"completed","output":[{{"type":"message","content":{content}}}]}}"#
            );
            let server = Server::answering([Answer::json(response)]).await;
            let reply = server.model(Api::Responses).generate(&request()).await.unwrap();
            assert_eq!(reply.to_text(), number);
        }
    }
}

/// A server that does not count sends zeros, which would be an answer that costs nothing.
#[tokio::test]
async fn a_usage_of_zero_for_a_reply_with_content_is_unknown() {
    for (read_, written, is_known) in [(0, 0, false), (0, 7, false), (7, 0, false), (7, 7, true)] {
        let chat = json!({
            "choices": [{"message": {"content": "A long answer."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": read_, "completion_tokens": written, "total_tokens": read_ + written},
        });
        let message =
            json!({"type": "message", "content": [{"type": "output_text", "text": "A."}]});
        let mut responses = response("completed", None, &[message]);
        responses["usage"] = json!({"input_tokens": read_, "output_tokens": written});
        for (api, body) in [(Api::Chat, chat), (Api::Responses, responses)] {
            let server = Server::answering([Answer::json(body.to_string())]).await;
            let reply = server.model(api).generate(&request()).await.unwrap();
            assert_eq!(!reply.usage.incomplete, is_known, "{body}");
        }
    }
    // The prompt was read, and nothing was written.
    let empty = json!({
        "choices": [{"message": {"content": ""}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 0},
    });
    let server = Server::answering([Answer::json(empty.to_string())]).await;
    let reply = server.model(Api::Chat).generate(&request()).await.unwrap();
    assert!(!reply.usage.incomplete);
}

#[tokio::test]
async fn a_piece_of_content_with_a_field_twice_is_an_error() {
    let chat = r#"{"choices":[{"message":{"content":[PIECE]},"finish_reason":"stop"}]}"#;
    let responses = r#"{"status":"completed","output":[{"type":"message","content":[PIECE]}]}"#;
    for piece in [
        r#"{"type":"text","text":"one","text":"two"}"#,
        r#"{"type":"text","text":{"value":"one","value":"two"}}"#,
        r#"{"type":"text","text":[{"type":"text","text":"one","text":"two"}]}"#,
        r#"{"type":"refusal","refusal":{"text":"one","text":"two"}}"#,
    ] {
        for (api, body) in [(Api::Chat, chat), (Api::Responses, responses)] {
            let server = Server::answering([Answer::json(body.replace("PIECE", piece))]).await;
            let reply = server.model(api).generate(&request()).await;
            assert!(reply.is_err(), "{piece}: {reply:?}");
        }
    }
    // The arguments of a call are checked by its tool, and the model can correct them.
    let call = r#"{"type":"tool_use","id":"1","name":"purge","input":{"prefix":"a","prefix":"b"}}"#;
    let server = Server::answering([Answer::json(chat.replace("PIECE", call))]).await;
    let reply = server.model(Api::Chat).generate(&request()).await.unwrap();
    let call = reply.tool_calls().next().unwrap();
    assert_eq!(call.arguments, r#"{"prefix":"a","prefix":"b"}"#);
}

/// Such an item has a name and a `call_id`, like a call that the program has to make.
#[tokio::test]
async fn results_and_calls_of_the_server_are_not_made() {
    let with = |kind: &str, more: Value| {
        let mut item =
            json!({"type": kind, "id": "i_1", "call_id": "c_1", "name": "ping", "arguments": "{}"});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let items = [
        with("function_call_output", json!({"output": "pong"})),
        with("custom_tool_call_output", json!({})),
        with("tool_search_output", json!({"tools": []})),
        with("tool_result", json!({})),
        with("mcp_call", json!({"server_label": "shop", "output": "pong"})),
        with("mcp_approval_request", json!({})),
        with("web_search_call", json!({})),
        with("new_call", json!({"output": "pong"})),
        with("new_call", json!({"server_label": "shop"})),
    ];
    for item in items {
        let whole = response("completed", None, std::slice::from_ref(&item));
        let added = json!({"type": "response.output_item.added", "output_index": 0, "item": item});
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        let end = json!({"type": "response.completed", "response": whole});
        for reply in read(Api::Responses, &whole, &[added, done, end]).await {
            assert_eq!(reply.tool_calls().count(), 0, "{item}");
        }
    }
    let call = with("new_call", json!({}));
    let whole = response("completed", None, &[call]);
    let end = json!({"type": "response.completed", "response": whole});
    for reply in read(Api::Responses, &whole, &[end]).await {
        assert_eq!(reply.tool_calls().count(), 1);
    }
}

/// A server that sends a call again at the end must not have it made twice.
#[tokio::test]
async fn a_call_that_stands_twice_is_one_call() {
    let item = |arguments: &str| {
        json!({
            "type": "function_call", "id": "i_1", "call_id": "c_1", "name": "purge",
            "status": "completed", "arguments": arguments,
        })
    };
    let again = r#"{ "prefix": "t" }"#;
    let whole = response("completed", None, &[item(r#"{"prefix":"t"}"#), item(again)]);
    let end = json!({"type": "response.completed", "response": whole});
    for reply in read(Api::Responses, &whole, &[end]).await {
        assert_eq!(reply.tool_calls().count(), 1);
    }
    let whole = response("completed", None, &[item(r#"{"prefix":"t"}"#), item("{}")]);
    let end = json!({"type": "response.completed", "response": whole});
    for reply in read(Api::Responses, &whole, &[end]).await {
        assert_eq!(reply.tool_calls().count(), 2, "they differ");
    }
    let call = |index: u64| json!({"index": index, "id": "c_1", "type": "function", "function": {"name": "purge", "arguments": again}});
    let calls = json!([call(0), call(1)]);
    let whole =
        json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
    let piece = json!({"choices": [{"delta": {"tool_calls": calls}}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    for reply in read(Api::Chat, &whole, &[piece, end]).await {
        assert_eq!(reply.tool_calls().count(), 1);
    }
}

/// The calls with two names or two sets of arguments, and whether each may be made.
fn given_twice() -> Vec<(Value, bool)> {
    let (a, b) = (json!({"prefix": "a"}), json!({"prefix": "b"}));
    vec![
        (json!({"name": "ping", "function": {"name": "purge", "arguments": "{}"}}), false),
        (json!({"function": {"name": "purge", "arguments": a, "input": b}}), false),
        (json!({"function": {"name": "purge", "arguments": a.to_string(), "args": b}}), false),
        (json!({"function": {"name": "purge", "arguments": a}, "arguments": b}), false),
        (json!({"name": "purge", "parameters": a, "input": b}), false),
        (json!({"name": "purge", "function": {"name": "purge", "arguments": "{}"}}), true),
        (json!({"function": {"name": "purge", "arguments": a, "input": a.to_string()}}), true),
        (json!({"function": {"name": "purge", "arguments": a}, "arguments": {}, "args": ""}), true),
        (json!({"name": "purge", "parameters": null, "arguments": " ", "input": a}), true),
        (json!({"name": "", "function": {"name": "purge", "arguments": a}}), true),
    ]
}

#[tokio::test]
async fn a_call_with_two_names_or_two_sets_of_arguments_is_not_whole() {
    for (mut call, is_whole) in given_twice() {
        let text = call.to_string();
        call["id"] = json!("1");
        call["call_id"] = json!("1");
        let mut chat = call.clone();
        chat["index"] = json!(0);
        let whole = json!({"choices": [{"message": {"tool_calls": [chat]}, "finish_reason": "tool_calls"}]});
        let stream = [
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [chat]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        ];
        let of_chat = read(Api::Chat, &whole, &stream).await;
        call["type"] = json!("function_call");
        let response = json!({"status": "completed", "output": [call]});
        let stream = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": call}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
            json!({"type": "response.completed", "response": response}),
        ];
        let mut of_responses = read(Api::Responses, &response, &stream).await.to_vec();
        // Without the output at the end, the reply is what was streamed.
        let end = json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
        let streamed = [stream[1].clone(), end];
        of_responses.extend(read(Api::Responses, &response, &streamed).await);
        for reply in of_chat.iter().chain(&of_responses) {
            assert_eq!(incomplete(reply), !is_whole, "{text}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_piece_of_a_call_with_two_sets_of_arguments_is_not_whole() {
    let piece = |function: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": function}]}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let event = |kind: &str, fields: Value| {
        let mut event =
            json!({"type": format!("response.{kind}"), "output_index": 0, "item_id": "i"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let begun = json!({"item": {"type": "function_call", "id": "i", "call_id": "1", "name": "purge", "arguments": ""}});
    for (input, is_whole) in [(r#""a"}"#, true), (r#""b"}"#, false), ("", true)] {
        let stream = [
            piece(json!({"name": "purge", "arguments": r#"{"prefix": "#})),
            piece(json!({"arguments": r#""a"}"#, "input": input})),
            end.clone(),
        ];
        let [_, reply] =
            read(Api::Chat, &json!({"choices": [{"message": {"content": "Hi."}}]}), &stream).await;
        assert_eq!(incomplete(&reply), !is_whole, "{input}: {reply:?}");

        let other =
            if input.is_empty() { String::new() } else { format!(r#"{{"prefix": {input}"#) };
        let done = json!({"arguments": r#"{"prefix": "a"}"#, "input": other});
        let stream = [
            event("output_item.added", begun.clone()),
            event("function_call_arguments.done", done),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ];
        let [_, reply] = read(
            Api::Responses,
            &json!({"status": "completed", "output": [begun["item"]]}),
            &stream,
        )
        .await;
        assert_eq!(incomplete(&reply), !is_whole, "{input}: {reply:?}");
    }
}

#[tokio::test]
async fn a_call_of_the_first_form_with_two_sets_of_arguments_is_not_whole() {
    for (input, is_whole) in [(json!({"prefix": "a"}), true), (json!({"prefix": "b"}), false)] {
        let call = json!({"name": "purge", "arguments": r#"{"prefix":"a"}"#, "input": input});
        let whole = json!({"choices": [{"message": {"function_call": call}, "finish_reason": "function_call"}]});
        let stream = [
            json!({"choices": [{"index": 0, "delta": {"function_call": call}, "finish_reason": "function_call"}]}),
        ];
        for reply in read(Api::Chat, &whole, &stream).await {
            assert_eq!(incomplete(&reply), !is_whole, "{input}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_custom_call_with_two_names_or_inputs_is_not_whole() {
    for (custom, is_whole) in [
        (json!({"name": "purge", "custom": {"name": "purge", "input": "a"}, "input": "a"}), true),
        (json!({"name": "ping", "custom": {"name": "purge", "input": "a"}}), false),
        (json!({"custom": {"name": "purge", "input": "a"}, "input": "b"}), false),
        (json!({"custom": {"name": "purge", "input": "a"}, "function": {"name": "ping"}}), false),
    ] {
        let mut call = custom.clone();
        (call["id"], call["type"]) = (json!("1"), json!("custom"));
        let whole = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let stream = [
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}),
        ];
        for reply in read(Api::Chat, &whole, &stream).await {
            assert_eq!(incomplete(&reply), !is_whole, "{custom}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn arguments_with_too_many_levels_are_the_models_to_correct() {
    let deep = (0..400).fold(json!(1), |value, _| json!({"prefix": value}));
    for given in [deep.clone(), json!(deep.to_string())] {
        let mut replies: Vec<Reply> = Vec::from(chat(&json!("tool_calls"), &given).await);
        let call = json!({"name": "purge", "arguments": given});
        for message in [
            json!({"function_call": call}),
            json!({"tool_calls": [call]}),
            json!({"tool_calls": {"id": "1", "function": {"name": "purge", "parameters": given}}}),
            json!({"content": [{"type": "tool_use", "id": "1", "name": "purge", "input": given}]}),
        ] {
            let choice = |name: &str| json!({"model": "m", "choices": [{"index": 0, name: message, "finish_reason": "tool_calls"}]});
            replies.extend(read(Api::Chat, &choice("message"), &[choice("delta")]).await);
        }
        for item in [
            json!({"type": "function_call", "id": "fc", "call_id": "1", "name": "purge", "arguments": given}),
            json!({"type": "function_call", "id": "fc", "call_id": "1", "function": call}),
        ] {
            let response = response("completed", None, std::slice::from_ref(&item));
            replies.extend(responses("response.completed", &response).await);
            let done =
                json!({"type": "response.output_item.done", "output_index": 0, "item": item});
            let end = json!({"type": "response.completed", "response": self::response("completed", None, &[])});
            replies.extend(read(Api::Responses, &response, &[done, end]).await);
        }
        for reply in replies {
            let call = reply.tool_calls().next().unwrap();
            assert_eq!((&*call.name, call.incomplete), ("purge", false));
            assert_eq!(call.arguments, deep.to_string());
        }
    }
}
