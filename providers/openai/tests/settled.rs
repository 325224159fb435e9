//! What a stream says of a call at its end, beside what it said in pieces.

use serde_json::{Value, json};
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
