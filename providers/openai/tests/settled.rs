//! What a stream says of a call at its end, beside what it said in pieces.

use serde_json::{Value, json};
use toolwright_module::{LanguageModel, Result};
use toolwright_openai::Api;

use crate::common::{Answer, Server, hi, streamed};

/// The arguments in pieces, those of the whole call, its name, and what may be made.
fn cases() -> Vec<(&'static [&'static str], &'static str, &'static str, Option<&'static str>)> {
    vec![
        (&[""], r#"{"prefix":"a"}"#, "purge", Some(r#"{"prefix":"a"}"#)),
        (&["{}"], r#"{"prefix":"a"}"#, "purge", Some(r#"{"prefix":"a"}"#)),
        (&[r#"{"pre"#], r#"{"prefix":"a"}"#, "purge", Some(r#"{"prefix":"a"}"#)),
        (&[r#"{"pre"#, r#"fix":"a"}"#], "{}", "purge", Some(r#"{"prefix":"a"}"#)),
        (&[r#"{"pre"#, r#"fix":"a"}"#], "", "purge", Some(r#"{"prefix":"a"}"#)),
        (&[r#"{"prefix":"a"}"#], r#"{ "prefix": "a" }"#, "", Some(r#"{"prefix":"a"}"#)),
        (&[r#"{"prefix":"a"}"#], r#"{"prefix":"b"}"#, "purge", None),
        (&[r#"{"pre"#], r#"{"place":"b"}"#, "purge", None),
        (&[r#"{"prefix":"a"}"#], r#"{"prefix":"a"}"#, "look", None),
        (&[""], "{}", "look", None),
    ]
}

/// Returns the name and the arguments of the calls that may be made.
async fn made(api: Api, events: &[Value]) -> Vec<(String, String)> {
    let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if api == Api::Chat {
        text.push_str("data: [DONE]\n\n");
    }
    let server = Server::answering([Answer::events(&text, 64)]).await;
    let reply = streamed(&server.model(api), hi()).await.1.unwrap();
    let calls = reply.tool_calls().filter(|call| !call.incomplete);
    let value = |json: &str| serde_json::from_str::<Value>(json).unwrap().to_string();
    calls.map(|call| (call.name.clone(), value(&call.arguments))).collect()
}

fn expected(arguments: Option<&str>) -> Vec<(String, String)> {
    arguments.into_iter().map(|arguments| ("purge".to_owned(), arguments.to_owned())).collect()
}

/// Some servers send the whole message after the deltas of Chat Completions.
#[tokio::test]
async fn a_message_after_the_deltas_settles_their_calls() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let delta = |index: u64, mut call: Value| {
        call["index"] = json!(index);
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    };
    let message = |message: Value| json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    for (pieces, whole, name, arguments) in cases() {
        for id in ["c1", "", "c2"] {
            let mut events = vec![delta(0, call("c1", "purge", ""))];
            events.extend(pieces.iter().map(|piece| delta(0, call("", "", piece))));
            events.push(message(json!({"tool_calls": [call(id, name, whole)]})));
            let made = made(Api::Chat, &events).await;
            assert_eq!(made, expected(arguments), "{pieces:?} {name} {whole} {id}");
        }
        let of_delta = |function: Value| json!({"choices": [{"index": 0, "delta": {"function_call": function}}]});
        let mut events = vec![of_delta(json!({"name": "purge"}))];
        events.extend(pieces.iter().map(|piece| of_delta(json!({"arguments": piece}))));
        events.push(message(json!({"function_call": {"name": name, "arguments": whole}})));
        let made = made(Api::Chat, &events).await;
        assert_eq!(made, expected(arguments), "{pieces:?} {name} {whole}");
    }
    let (a, b) = (call("c1", "purge", r#"{"prefix":"a"}"#), call("c2", "purge", "{}"));
    for (first, calls) in [(&a, json!([a, b])), (&a, json!([b, a])), (&b, json!([a, b]))] {
        let events = [delta(0, first.clone()), message(json!({"tool_calls": calls}))];
        let mut made = made(Api::Chat, &events).await;
        made.sort();
        let both = [r#"{"prefix":"a"}"#, "{}"].map(|arguments| expected(Some(arguments)));
        assert_eq!(made, both.concat(), "{first} {calls}");
    }
    let events = [
        delta(0, call("c1", "purge", "")),
        message(json!({"function_call": {"name": "purge", "arguments": "{\"prefix\":\"a\"}"}})),
    ];
    assert_eq!(made(Api::Chat, &events).await, expected(Some(r#"{"prefix":"a"}"#)));
}

#[tokio::test]
async fn a_call_of_responses_that_contradicts_itself_is_not_made() {
    let item = |name: &str, arguments: &str| json!({"type": "function_call", "id": "i1", "call_id": "c1", "name": name, "arguments": arguments, "status": "completed"});
    let event = |kind: &str, more: Value| {
        let mut event =
            json!({"type": format!("response.{kind}"), "output_index": 0, "item_id": "i1"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let end = |output: &[Value]| json!({"type": "response.completed", "response": {"status": "completed", "incomplete_details": null, "output": output}});
    for (pieces, whole, name, arguments) in cases() {
        let mut events = vec![event("output_item.added", json!({"item": item("purge", "")}))];
        let deltas = pieces
            .iter()
            .map(|piece| event("function_call_arguments.delta", json!({"delta": piece})));
        events.extend(deltas);
        let done = event("function_call_arguments.done", json!({"name": name, "arguments": whole}));
        let item = item(name, whole);
        let item_done = event("output_item.done", json!({"item": item}));
        for last in [
            vec![done, end(&[])],
            vec![item_done.clone(), end(&[])],
            vec![item_done, end(std::slice::from_ref(&item))],
            vec![end(&[item])],
        ] {
            let events = [events.clone(), last].concat();
            let made = made(Api::Responses, &events).await;
            assert_eq!(made, expected(arguments), "{events:?}");
        }
    }
}

/// What a stream says of the text in pieces, the whole text after them, and the reply's text. `None` is
/// an error, because it is not known which text the model meant.
fn texts() -> Vec<(&'static [&'static str], &'static str, Option<&'static str>)> {
    vec![
        (&["It ", "rains."], "It rains.", Some("It rains.")),
        (&["It ", "rains."], "", Some("It rains.")),
        // Servers differ in the white space.
        (&["\n\nIt ", "rains.\n"], "It rains.", Some("It rains.")),
        (&["It "], "It rains.", Some("It rains.")),
        (&["It rains."], "It snows.", None),
        (&["It rains."], "It", None),
        (&["It rains."], "So: It rains.", None),
        (&["<think>\nHm.\n</think>\n\nIt ", "rains."], "It rains.", Some("It rains.")),
        (&["<think>Hm.</think>It"], "<think>Hm.</think>It rains.", Some("It rains.")),
        (&["<think>Hm.</think>"], "It rains.", Some("It rains.")),
        (&["<think>Hm.</think>It rains."], "<think>Hm.</think>It snows.", None),
    ]
}

async fn text_of(api: Api, events: &[Value]) -> Result<String> {
    let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if api == Api::Chat {
        text.push_str("data: [DONE]\n\n");
    }
    let server = Server::answering([Answer::events(&text, 64)]).await;
    let reply = streamed(&server.model(api), hi()).await.1?;
    Ok(reply.to_text().trim().to_owned())
}

fn check(text: Result<String>, expected: Option<&str>, case: &str) {
    match (text, expected) {
        (Ok(text), Some(expected)) => assert_eq!(text, expected, "{case}"),
        (Err(error), None) => {
            assert!(error.to_string().contains("another text than its pieces"), "{case}: {error}");
        }
        (text, _) => panic!("{case}: {text:?}"),
    }
}

#[tokio::test]
async fn a_message_after_the_deltas_settles_their_text() {
    let event = |name: &str, content: &str, reason: Value| json!({"choices": [{"index": 0, name: {"content": content}, "finish_reason": reason}]});
    for (pieces, whole, expected) in texts() {
        let mut events: Vec<_> =
            pieces.iter().map(|piece| event("delta", piece, Value::Null)).collect();
        let mut beside = events.clone();
        events.push(event("message", whole, json!("stop")));
        check(text_of(Api::Chat, &events).await, expected, &format!("{events:?}"));
        // In the event of the last piece.
        let last = beside.last_mut().unwrap();
        last["choices"][0]["message"] = json!({"content": whole});
        last["choices"][0]["finish_reason"] = json!("stop");
        check(text_of(Api::Chat, &beside).await, expected, &format!("{beside:?}"));
        // The message so far, in each event.
        let mut so_far = String::new();
        let mut events: Vec<_> = pieces
            .iter()
            .map(|piece| {
                so_far += piece;
                let mut event = event("delta", piece, Value::Null);
                event["choices"][0]["message"] = json!({"content": so_far});
                event
            })
            .collect();
        events.push(event("message", &so_far, json!("stop")));
        assert!(text_of(Api::Chat, &events).await.is_ok(), "{events:?}");
    }
    let refusal =
        json!({"choices": [{"message": {"refusal": "I cannot help."}, "finish_reason": "stop"}]});
    let began = json!({"choices": [{"delta": {"refusal": "I cannot"}}]});
    assert_eq!(text_of(Api::Chat, &[began, refusal.clone()]).await.unwrap(), "I cannot help.");
    let other = json!({"choices": [{"delta": {"content": "Sure."}}]});
    check(text_of(Api::Chat, &[other, refusal]).await, None, "a refusal");
}

#[tokio::test]
async fn a_whole_text_of_responses_settles_its_deltas() {
    let place = json!({"item_id": "m1", "output_index": 0, "content_index": 0});
    let event = |kind: &str, field: &str, text: &str| {
        let mut event = place.clone();
        (event["type"], event[field]) = (json!(kind), json!(text));
        event
    };
    for (pieces, whole, expected) in texts() {
        let deltas: Vec<_> = pieces
            .iter()
            .map(|piece| event("response.output_text.delta", "delta", piece))
            .collect();
        let item = json!({"type": "message", "id": "m1", "content": [{"type": "output_text", "text": whole}]});
        let end = |output: Value| json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
        let done = event("response.output_text.done", "text", whole);
        let item_done =
            json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        for after in
            [vec![done, end(json!([]))], vec![item_done, end(json!([]))], vec![end(json!([item]))]]
        {
            let events: Vec<_> = deltas.iter().cloned().chain(after).collect();
            check(text_of(Api::Responses, &events).await, expected, &format!("{events:?}"));
        }
    }
}

/// Some servers send a call in the first form of the API beside today's.
#[tokio::test]
async fn a_call_in_both_forms_of_chat_is_one_call() {
    let function = |name: &str| json!({"name": name, "arguments": r#"{"prefix":"a"}"#});
    for (name, count) in [("purge", 1), ("look", 2)] {
        let call =
            json!({"index": 0, "id": "c1", "type": "function", "function": function("purge")});
        let message = json!({"tool_calls": [call], "function_call": function(name)});
        let event = |field: &str| json!({"choices": [{"index": 0, field: message, "finish_reason": "tool_calls"}]});
        assert_eq!(made(Api::Chat, &[event("delta")]).await.len(), count, "{name}");
        let server = Server::answering([Answer::json(event("message").to_string())]).await;
        let reply = server.model(Api::Chat).generate(&hi()).await.unwrap();
        assert_eq!(reply.tool_calls().count(), count, "{name}");
    }
}
