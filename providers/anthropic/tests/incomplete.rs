//! Calls of replies that were cut off are marked, so that nobody makes them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::model::Finish;
use toolwright_module::{Contract, LanguageModel, Reply, Signature};

use crate::common::{Answer, Server, beside, hi, streamed};

fn body(reason: &Value, input: &Value) -> Value {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "purge", "input": input});
    json!({
        "type": "message", "role": "assistant", "model": "m", "content": [call],
        "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 2},
    })
}

/// The stream of a call. The API begins a call with `{}`, and sends no piece for one without
/// arguments or one that it cut off at once.
fn events(reason: &Value, pieces: &[&str]) -> String {
    let mut start = body(&Value::Null, &json!({}));
    let block = start["content"][0].take();
    start["content"] = json!([]);
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    events.extend(pieces.iter().map(|piece| {
        let delta = json!({"type": "input_json_delta", "partial_json": piece});
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    }));
    events.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]);
    let text =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(text).collect()
}

#[tokio::test]
async fn a_call_is_complete_only_if_its_reply_ended_with_a_call_or_a_turn() {
    for (reason, is_complete) in [
        (json!("tool_use"), true),
        (json!("end_turn"), true),
        (json!("max_tokens"), false),
        (json!("model_context_window_exceeded"), false),
        (json!("pause_turn"), false),
        (json!("compaction"), false),
        (json!("stop_sequence"), false),
        (json!("refusal"), false),
        (json!("malformed_tool_use"), false),
        (json!("new_reason"), false),
        (Value::Null, false),
    ] {
        for (input, pieces) in [
            (json!({}), &[][..]),
            (json!({}), &[""][..]),
            (json!({"prefix": "t"}), &["{\"prefix\"", ": \"t\"}"][..]),
        ] {
            let whole = Answer::json(body(&reason, &input).to_string());
            let stream = Answer::events(&events(&reason, pieces), 64);
            let server = Server::answering([whole, stream]).await;
            let model = server.model("claude-test");
            let replies =
                [model.generate(&hi()).await.unwrap(), streamed(&model, hi()).await.1.unwrap()];
            for reply in replies {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!(!call.incomplete, is_complete, "{reason}: {call:?}");
                if is_complete {
                    assert_eq!(serde_json::from_str::<Value>(&call.arguments).unwrap(), input);
                }
            }
        }
    }
}

/// Gateways with this API send the words of others, in any case and with any separators.
#[tokio::test]
async fn a_word_in_another_spelling_is_that_word() {
    for (word, finish, is_complete) in [
        ("End_Turn", Finish::Stop, true),
        ("TOOL-USE", Finish::Stop, true),
        ("stop", Finish::Stop, true),
        ("STOP_SEQUENCE", Finish::Stop, false),
        ("MAX_TOKENS", Finish::Length, false),
        ("maxTokens", Finish::Length, false),
        ("Pause_Turn", Finish::Paused, false),
        ("REFUSAL", Finish::Refused, false),
        ("content-filter", Finish::Refused, false),
    ] {
        let word = json!(word);
        let mut later = events(&word, &[]);
        later += &format!("event: message_delta\ndata: {}\n\n", ends("END_TURN")[0]);
        let server = Server::answering([
            Answer::json(body(&word, &json!({})).to_string()),
            Answer::events(&events(&word, &[]), 64),
            Answer::events(&later, 64),
        ])
        .await;
        let model = server.model("claude-test");
        let mut replies = vec![model.generate(&hi()).await.unwrap()];
        for _ in 0..2 {
            replies.push(streamed(&model, hi()).await.1.unwrap());
        }
        for reply in replies {
            let call = reply.tool_calls().next().unwrap();
            assert_eq!((&reply.finish, !call.incomplete), (&finish, is_complete), "{word}");
        }
    }
}

/// A stop sequence ends an answer as its caller asked.
#[tokio::test]
async fn an_answer_that_ends_with_a_stop_sequence_is_complete() {
    let body = json!({
        "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "One, two"}],
        "stop_reason": "stop_sequence", "stop_sequence": ", three",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    });
    let server = Server::answering([Answer::json(body.to_string())]).await;
    let reply = server.model("claude-test").generate(&hi()).await.unwrap();
    assert_eq!((&reply.finish, reply.to_text().as_str()), (&Finish::Stop, "One, two"));
}

#[tokio::test]
async fn a_refusal_has_the_apis_reason() {
    let mut body = body(&json!("refusal"), &json!({}));
    body["content"] = json!([]);
    body["stop_details"] =
        json!({"type": "refusal", "category": "bio", "explanation": "Not this."});
    let server = Server::answering([Answer::json(body.to_string())]).await;
    let reply = server.model("claude-test").generate(&hi()).await.unwrap();
    assert_eq!(reply.reason.as_deref(), Some("refusal: bio: Not this."));
}

async fn streamed_reply(events: &[Value]) -> toolwright_module::Result<toolwright_module::Reply> {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let server = Server::answering([Answer::events(&text, 64)]).await;
    streamed(&server.model("claude-test"), hi()).await.1
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}})
}

fn begins(index: u64, input: &Value) -> Value {
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "purge", "input": input});
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn piece(index: u64, piece: &str) -> Value {
    let delta = json!({"type": "input_json_delta", "partial_json": piece});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stops(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ends(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]
}

#[tokio::test]
async fn a_later_end_does_not_make_a_call_complete() {
    for later in ["end_turn", "tool_use"] {
        for first in ["max_tokens", "refusal", "pause_turn", "stop_sequence", "new_reason"] {
            let mut events = vec![start(), begins(0, &json!({})), stops(0)];
            events.push(ends(first)[0].clone());
            events.extend(ends(later));
            let reply = streamed_reply(&events).await.unwrap();
            assert!(reply.tool_calls().all(|call| call.incomplete), "{first}, {later}");
        }
    }
}

/// Some servers send the whole input at the start and an empty object as its piece, and some both.
#[tokio::test]
async fn an_empty_object_does_not_replace_the_input_of_a_call() {
    let whole = json!({"prefix": "tmp"});
    for (pieces, expected) in [
        (&["{}"][..], Some(&whole)),
        (&["{", "}"][..], Some(&whole)),
        (&[r#"{"prefix":"tmp"}"#][..], Some(&whole)),
        (&[r#"{"prefix":"#, r#""t"}"#][..], None),
    ] {
        let mut events = vec![start(), begins(0, &whole)];
        events.extend(pieces.iter().map(|text| piece(0, text)));
        events.push(stops(0));
        events.extend(ends("tool_use"));
        let reply = streamed_reply(&events).await.unwrap();
        let call = reply.tool_calls().next().unwrap();
        let found =
            (!call.incomplete).then(|| serde_json::from_str::<Value>(&call.arguments).unwrap());
        assert_eq!(found.as_ref(), expected, "{pieces:?}");
    }
}

#[tokio::test]
async fn a_call_without_its_end_or_its_input_is_not_complete() {
    let text = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hm."}});
    for (events, is_complete) in [
        // The server ends no block.
        (vec![begins(0, &json!({}))], false),
        (vec![begins(0, &json!({})), piece(0, "{}")], true),
        (vec![begins(0, &json!({})), stops(0)], true),
        // The input goes to another block.
        (
            vec![
                text.clone(),
                begins(1, &json!({})),
                piece(0, r#"{"prefix": "t"}"#),
                stops(0),
                stops(1),
            ],
            false,
        ),
        (
            vec![text, stops(0), begins(1, &json!({})), piece(0, r#"{"prefix": "t"}"#), stops(1)],
            false,
        ),
    ] {
        let all: Vec<_> =
            [start()].into_iter().chain(events.clone()).chain(ends("tool_use")).collect();
        let is_made = match streamed_reply(&all).await {
            Ok(reply) => reply.tool_calls().all(|call| !call.incomplete),
            Err(_) => false,
        };
        assert_eq!(is_made, is_complete, "{events:?}");
    }
}

/// Some servers count everything at the start or end, and send zeros beside it.
#[tokio::test]
async fn a_later_zero_does_not_replace_a_count() {
    for (later, expected) in [
        (json!({"input_tokens": 0, "output_tokens": 7}), (40, 7)),
        (json!({"input_tokens": 50, "output_tokens": 7}), (50, 7)),
        (json!({"output_tokens": 0}), (40, 3)),
        (json!(null), (40, 3)),
    ] {
        let first = json!({"content": [], "usage": {"input_tokens": 40, "output_tokens": 3}});
        let events = [
            json!({"type": "message_start", "message": first}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": later}),
            json!({"type": "message_stop"}),
        ];
        let usage = streamed_reply(&events).await.unwrap().usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), expected, "{later}");
    }
}

/// A server that cuts a text inside a character sends half of it. The API's texts have U+FFFD for it.
#[tokio::test]
async fn a_call_with_half_a_character_in_its_input_is_incomplete() {
    let half = |json: String| json.replace("HALF", "\\ud83d");
    let sent = "\u{fffd}";
    for (path, is_complete) in [("HALF", false), (sent, true), ("\u{1f600}", true)] {
        let input = json!({"path": path});
        let whole = Answer::json(half(body(&json!("tool_use"), &input).to_string()));
        let pieces = [r#"{"path": ""#, path, r#""}"#];
        let stream = Answer::events(&half(events(&json!("tool_use"), &pieces)), 64);
        let server = Server::answering([whole, stream]).await;
        let model = server.model("claude-test");
        let replies =
            [model.generate(&hi()).await.unwrap(), streamed(&model, hi()).await.1.unwrap()];
        for reply in replies {
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(!call.incomplete, is_complete, "{call:?}");
        }
    }
}

/// Only the beginning of a reply may have thoughts in its text, whatever the number of its blocks.
#[tokio::test]
async fn a_later_text_that_begins_with_a_mark_of_thoughts_is_text() {
    let block = |index: u64, text: &str| {
        [
            json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
            stops(index),
        ]
    };
    for (texts, answer) in [
        (["5 ", "<think>6</think> 7"], "5 <think>6</think> 7"),
        (["<think>5</think>6 ", "<think>7</think> 8"], "6 <think>7</think> 8"),
        (["<think>5</think>", "<think>6</think>7"], "7"),
        ([" ", "<think>6</think>7"], " 7"),
        (["", "<think>6</think>7"], "7"),
    ] {
        let mut events = vec![start()];
        events.extend(block(0, texts[0]).into_iter().chain(block(1, texts[1])));
        events.extend(ends("end_turn"));
        let streamed = streamed_reply(&events).await.unwrap();
        let blocks: Vec<_> =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let mut whole = body(&json!("end_turn"), &json!({}));
        whole["content"] = json!(blocks);
        let server = Server::answering([Answer::json(whole.to_string())]).await;
        let whole = server.model("claude-test").generate(&hi()).await.unwrap();
        assert_eq!((&*streamed.to_text(), &*whole.to_text()), (answer, answer), "{texts:?}");
    }
}

/// The reason says that the call is whole, and another field that it is not.
#[tokio::test]
async fn a_call_beside_a_refusal_or_a_stop_sequence_is_incomplete() {
    for (name, value, finish, is_complete) in [
        ("stop_details", json!({"type": "refusal", "category": "bio"}), Finish::Refused, false),
        ("stop_sequence", json!("X"), Finish::Stop, false),
        ("stop_sequence", Value::Null, Finish::Stop, true),
        ("stop_sequence", json!(""), Finish::Stop, true),
        ("stop_details", Value::Null, Finish::Stop, true),
        ("stop_details", json!({"type": "end_turn"}), Finish::Stop, true),
    ] {
        for reason in ["tool_use", "end_turn"] {
            let mut whole = body(&json!(reason), &json!({"prefix": "t"}));
            whole[name] = value.clone();
            let server = Server::answering([Answer::json(whole.to_string())]).await;
            let whole = server.model("claude-test").generate(&hi()).await.unwrap();
            let [mut delta, stop] = ends(reason);
            delta["delta"][name] = value.clone();
            let events = [start(), begins(0, &json!({})), piece(0, "{}"), stops(0), delta, stop];
            let streamed = streamed_reply(&events).await.unwrap();
            for reply in [whole, streamed] {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!(!call.incomplete && reply.finish.is_complete(), is_complete, "{value}");
                assert_eq!(reply.finish, finish, "{value}");
            }
        }
    }
}

/// What a server has parsed is not the text of the model.
#[tokio::test]
async fn content_that_was_parsed_is_an_error() {
    for (content, is_text) in [
        (json!([{"text": "Ada", "age": 36}]), false),
        (json!([{"text": "Ada", "citations": []}]), true),
    ] {
        let body = json!({"type": "message", "content": content, "stop_reason": "end_turn"});
        let server = Server::answering([Answer::json(body.to_string())]).await;
        let reply = server.model("claude-test").generate(&hi()).await;
        assert_eq!(reply.is_ok_and(|reply| reply.to_text() == "Ada"), is_text, "{content}");
    }
}

/// Some servers leave the type of a piece out, as that of a block.
#[tokio::test]
async fn a_piece_without_its_type_is_not_lost() {
    let bare = |index: u64, piece: Value| json!({"type": "content_block_delta", "index": index, "delta": piece});
    let block = |block: Value, index: u64| json!({"type": "content_block_start", "index": index, "content_block": block});
    let mut events = vec![
        start(),
        block(json!({"type": "thinking", "thinking": ""}), 0),
        bare(0, json!({"thinking": "Hm."})),
        stops(0),
        block(json!({"type": "text", "text": ""}), 1),
        bare(1, json!({"text": "hel"})),
        bare(1, json!({"text": {"value": "lo"}})),
        stops(1),
        begins(2, &json!({})),
        bare(2, json!({"partial_json": "{\"prefix\": \"t\"}"})),
        stops(2),
    ];
    events.extend(ends("tool_use"));
    let reply = streamed_reply(&events).await.unwrap();
    let call = reply.tool_calls().next().unwrap();
    assert_eq!((&*reply.to_text(), &*call.arguments), ("hello", r#"{"prefix": "t"}"#));
}

/// A server with this API may have other names in the pieces of a call.
#[tokio::test]
async fn a_piece_of_a_call_in_another_form_is_read_or_an_error() {
    let text = r#"{"prefix":"t"}"#;
    let delta = |kind: &str, delta: Value| json!({"type": kind, "index": 0, "delta": delta});
    let piece = |piece| delta("content_block_delta", piece);
    for (event, is_read) in [
        (piece(json!({"partial_json": text})), true),
        (piece(json!({"type": null, "partial_json": text})), true),
        (piece(json!({"type": "input_delta", "partial_json": text})), true),
        (piece(json!({"type": "text_delta", "text": "", "partial_json": text})), true),
        (delta("tool_use_delta", json!({"partial_json": text})), true),
        (piece(json!({"type": "tool_use_delta", "input": text})), false),
        (piece(json!({"type": "input_json_delta", "input": {"prefix": "t"}})), false),
        (piece(json!({"type": "input_json_delta", "partial_json": "", "arguments": text})), false),
        (piece(json!({"type": "text_delta", "input": text})), false),
        (piece(json!(text)), false),
        (json!({"type": "content_block_delta", "index": 0, "partial_json": text}), false),
    ] {
        let mut events = vec![start(), begins(0, &json!({})), event.clone(), stops(0)];
        events.extend(ends("tool_use"));
        match streamed_reply(&events).await {
            Ok(reply) => {
                let call = reply.tool_calls().next().unwrap();
                assert!(is_read && !call.incomplete && call.arguments == text, "{event}: {call:?}");
            }
            Err(error) => assert!(!is_read && error.to_string().contains("piece"), "{error}"),
        }
    }
    // A piece without content changes nothing.
    for empty in [json!({"type": "input_json_delta"}), json!({"type": "ping", "input": {}})] {
        let mut events = vec![start(), begins(0, &json!({})), piece(empty), stops(0)];
        events.extend(ends("tool_use"));
        assert!(!streamed_reply(&events).await.unwrap().tool_calls().next().unwrap().incomplete);
    }
}

#[tokio::test]
async fn a_piece_of_a_text_in_another_form_is_read_or_an_error() {
    for (delta, is_read) in [
        (json!({"text": "hello"}), true),
        (json!({"type": "new_delta", "text": "hello"}), true),
        (json!({"type": "text_delta", "content": "hello"}), false),
    ] {
        let block = json!({"type": "text", "text": ""});
        let mut events = vec![
            start(),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            stops(0),
        ];
        events.extend(ends("end_turn"));
        let text = streamed_reply(&events).await.ok().map(|reply| reply.to_text());
        assert_eq!(text.as_deref(), is_read.then_some("hello"), "{delta}");
    }
}

/// Returns the reply with a block, whole and as the start of a streamed one.
async fn replies(block: &str) -> Vec<toolwright_module::Result<toolwright_module::Reply>> {
    let whole =
        body(&json!("tool_use"), &json!({})).to_string().replace(&begun_block(&json!({})), block);
    let mut events = vec![start(), begins(0, &json!({})), stops(0)];
    events.extend(ends("tool_use"));
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let events = events.replace(&begun_block(&json!({})), block);
    let server = Server::answering([Answer::json(whole), Answer::events(&events, 64)]).await;
    let model = server.model("claude-test");
    let request = || {
        let tools = [Contract::of::<Purge>(), Contract::of::<Ping>()];
        hi().with_tools(tools.map(|contract| Arc::new(contract.unwrap())))
    };
    vec![model.generate(&request()).await, streamed(&model, request()).await.1]
}

fn begun_block(input: &Value) -> String {
    begins(0, input)["content_block"].to_string()
}

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

#[tokio::test]
async fn a_block_with_a_field_twice_is_an_error() {
    for block in [
        r#"{"type":"tool_use","id":"t","name":"other","name":"purge","input":{}}"#,
        r#"{"type":"tool_use","id":"t","name":"purge","input":{"prefix":"x"},"input":{}}"#,
        r#"{"type":"text","text":"one","text":"two"}"#,
        r#"{"type":"text","text":{"value":"one","value":"two"}}"#,
        r#"{"type":"text","text":"one","citations":[{"start":1,"start":2}]}"#,
    ] {
        for reply in replies(block).await {
            assert!(reply.is_err(), "{block}: {reply:?}");
        }
    }
    // The input of a call is checked by its tool, and the model can correct it.
    let input = r#"{"prefix":"a","prefix":"b"}"#;
    let block = format!(r#"{{"type":"tool_use","id":"t","name":"purge","input":{input}}}"#);
    for reply in replies(&block).await {
        assert_eq!(reply.unwrap().tool_calls().next().unwrap().arguments, input);
    }
}

#[tokio::test]
async fn a_piece_of_a_text_with_a_field_twice_is_an_error() {
    let (begin, piece) = (json!({"type": "text", "text": ""}), r#"{"value":"one","value":"two"}"#);
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "PIECE"}});
    let begin = json!({"type": "content_block_start", "index": 0, "content_block": begin});
    let mut events = vec![start(), begin, delta, stops(0)];
    events.extend(ends("end_turn"));
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let events = events.replace("\"PIECE\"", piece);
    let server = Server::answering([Answer::events(&events, 64)]).await;
    let reply = streamed(&server.model("claude-test"), hi()).await.1;
    assert!(reply.is_err(), "{reply:?}");
}

#[tokio::test]
async fn the_input_of_a_call_under_another_name_is_read_or_the_call_is_not_made() {
    for (block, is_made) in [
        (json!({"name": "purge", "arguments": {"prefix": "t"}}), true),
        (json!({"name": "purge", "parameters": {"prefix": "t"}}), true),
        (json!({"name": "purge", "args": r#"{"prefix":"t"}"#}), true),
        (json!({"name": "purge", "kwargs": {"prefix": "t"}}), false),
        (json!({"name": "purge"}), false),
        (json!({"name": "purge", "input": null}), false),
        (json!({"name": "ping", "kwargs": {"prefix": "t"}}), false),
    ] {
        let mut block = block;
        (block["type"], block["id"]) = (json!("tool_use"), json!("t"));
        for reply in replies(&block.to_string()).await {
            let reply = reply.unwrap();
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(!call.incomplete, is_made, "{block}: {call:?}");
            assert!(!is_made || call.arguments == r#"{"prefix":"t"}"#, "{block}: {call:?}");
        }
    }
    // A tool without fields needs no input.
    for reply in replies(r#"{"type":"tool_use","id":"t","name":"ping"}"#).await {
        assert!(!reply.unwrap().tool_calls().next().unwrap().incomplete);
    }
}

#[tokio::test]
async fn a_call_beside_which_its_input_may_stand_is_not_made() {
    for (input, beside, is_made) in beside::calls() {
        let mut block = json!({"type": "tool_use", "id": "t", "name": "purge", "input": input});
        block.as_object_mut().unwrap().extend(beside);
        for reply in replies(&block.to_string()).await {
            let reply = reply.unwrap();
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(!call.incomplete, is_made, "{block}: {call:?}");
        }
    }
}

async fn outcomes(content: Value, reason: &str) -> [toolwright_module::Result<Reply>; 2] {
    let usage = json!({"input_tokens": 1, "output_tokens": 2});
    let whole =
        json!({"type": "message", "content": content, "stop_reason": reason, "usage": usage});
    let mut events =
        vec![json!({"type": "message_start", "message": {"content": [], "usage": usage}})];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
    events.push(json!({"type": "message_stop"}));
    let events: String =
        events.iter().map(|event| format!("event: e\ndata: {event}\n\n")).collect();
    let answers = [Answer::json(whole.to_string()), Answer::events(&events, 64)];
    let server = Server::answering(answers).await;
    let model = server.model("claude-test");
    [model.generate(&hi()).await, streamed(&model, hi()).await.1]
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
        for reply in outcomes(content, "end_turn").await {
            assert_eq!(reply.is_ok(), is_read, "{reply:?}");
        }
    }
}

/// A server that sends a call again at the end must not have it made twice.
#[tokio::test]
async fn a_call_that_stands_twice_is_one_call() {
    let call =
        json!({"type": "tool_use", "id": "toolu_1", "name": "purge", "input": {"prefix": "t"}});
    for reply in outcomes(json!([call, call]), "tool_use").await {
        assert_eq!(reply.unwrap().tool_calls().count(), 1);
    }
}

/// A call under a word that is not known would otherwise be lost beside an answer.
#[tokio::test]
async fn a_reply_that_ended_for_a_call_has_one() {
    let text = json!({"type": "text", "text": "I delete it now."});
    for reply in outcomes(json!([text]), "tool_use").await {
        let error = reply.unwrap_err().to_string();
        assert!(error.contains("there is no call"), "{error}");
    }
    for kind in ["function_call", "tool_call", "function", "Tool_Use", ""] {
        let mut call = json!({"type": kind, "id": "1", "name": "purge", "input": {"prefix": "t"}});
        if kind.is_empty() {
            call.as_object_mut().unwrap().remove("type");
        }
        for reply in outcomes(json!([text, call]), "tool_use").await {
            let reply = reply.unwrap();
            let call = reply.tool_calls().next().unwrap();
            assert_eq!((&*call.name, &*call.arguments), ("purge", r#"{"prefix":"t"}"#), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_reply_that_the_server_did_not_finish_is_an_error() {
    for word in ["error", "failed", "cancelled", "in_progress", "aborted"] {
        for reply in outcomes(json!([{"type": "text", "text": "I delete"}]), word).await {
            assert!(reply.is_err(), "{word}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_call_with_two_sets_of_arguments_is_not_whole() {
    for (other, is_whole) in [
        (json!({"prefix": "b"}), false),
        (json!({"prefix": "a"}), true),
        (json!(r#"{"prefix":"a"}"#), true),
        (json!({}), true),
        (Value::Null, true),
    ] {
        let mut whole = body(&json!("tool_use"), &json!({"prefix": "a"}));
        whole["content"][0]["arguments"] = other.clone();
        let block = whole["content"][0].clone();
        let mut stream = events(&json!("tool_use"), &[]);
        let begun = body(&Value::Null, &json!({}))["content"][0].to_string();
        assert!(stream.contains(&begun));
        stream = stream.replace(&begun, &block.to_string());
        let server =
            Server::answering([Answer::json(whole.to_string()), Answer::events(&stream, 64)]).await;
        let model = server.model("claude-test");
        let replies =
            [model.generate(&hi()).await.unwrap(), streamed(&model, hi()).await.1.unwrap()];
        for reply in replies {
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(call.incomplete, !is_whole, "{other}: {call:?}");
        }
    }
}

/// Part of an answer must not be lost because a gateway has another name for it.
#[tokio::test]
async fn a_text_under_another_name_or_type_is_read_or_an_error() {
    for (block, answer) in [
        (json!({"type": "text", "text": "but no."}), Some("Yes, but no.")),
        (json!({"type": "text", "content": "but no."}), Some("Yes, but no.")),
        (json!({"type": "text", "value": "but no.", "text": ""}), Some("Yes, but no.")),
        (json!({"type": "output_text", "text": "but no."}), Some("Yes, but no.")),
        (json!({"value": "but no."}), Some("Yes, but no.")),
        (json!({"type": "text", "said": "but no."}), None),
        (json!({"type": "text", "text": "but no.", "value": "or yes."}), None),
        (json!({"type": "answer", "text": "but no."}), None),
        (json!({"said": "but no."}), None),
        (json!({"type": "message", "content": [{"type": "tool_use", "name": "purge"}]}), None),
        (json!({"type": "text"}), Some("Yes, ")),
        (json!({"type": "reasoning", "text": "hm"}), Some("Yes, ")),
        (json!({"type": "redacted_thinking", "data": "x"}), Some("Yes, ")),
        (json!({"type": "compaction", "content": "They talked."}), Some("Yes, ")),
    ] {
        let text = json!({"type": "text", "text": "Yes, "});
        for reply in outcomes(json!([text, block]), "end_turn").await {
            let found = reply.ok().map(|reply| reply.to_text());
            assert_eq!(found.as_deref(), answer, "{block}");
        }
    }
    // In a stream, the text may also be in the pieces of a block.
    let piece = json!({"type": "text_delta", "text": "but no."});
    let block = json!({"type": "answer"});
    let mut events = vec![
        start(),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": piece}),
        stops(0),
    ];
    events.extend(ends("end_turn"));
    let reply = streamed_reply(&events).await;
    assert!(reply.is_err(), "{reply:?}");
}

#[tokio::test]
async fn a_text_that_is_a_number_keeps_its_digits() {
    for number in ["12345678901234567890123", "1.50"] {
        for text in [number.to_owned(), format!(r#"[{{"type":"text","text":{number}}}]"#)] {
            let block = format!(r#"{{"type":"text","text":{text}}}"#);
            let whole = format!(r#"{{"content":[{block}],"stop_reason":"end_turn"}}"#);
            let delta = json!({"type": "text_delta", "text": "TEXT"});
            let begin = json!({"type": "text", "text": ""});
            let mut events = vec![
                start(),
                json!({"type": "content_block_start", "index": 0, "content_block": begin}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                stops(0),
            ];
            events.extend(ends("end_turn"));
            let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let events = events.replace("\"TEXT\"", &text);
            let server =
                Server::answering([Answer::json(whole), Answer::events(&events, 64)]).await;
            let model = server.model("claude-test");
            let replies = [model.generate(&hi()).await, streamed(&model, hi()).await.1];
            for reply in replies {
                assert_eq!(reply.unwrap().to_text(), number, "{text}");
            }
        }
    }
}

#[tokio::test]
async fn counts_under_other_names_are_read_or_the_usage_is_incomplete() {
    for (usage, expected) in [
        (json!({"input_tokens": 100, "output_tokens": 50, "total_tokens": 150}), (100, false)),
        (json!({"input_tokens": 100, "output_tokens": 50, "total_tokens": 1150}), (100, true)),
        (
            json!({"input_tokens": 100, "output_tokens": 50, "cache_creation": {"ephemeral_5m_input_tokens": 1000}}),
            (1100, false),
        ),
    ] {
        let mut whole = body(&json!("tool_use"), &json!({}));
        whole["usage"] = usage.clone();
        let begun = json!({"type": "message_start", "message": {"content": [], "usage": usage}});
        let mut events = vec![begun, begins(0, &json!({})), stops(0)];
        let [mut delta, stop] = ends("tool_use");
        delta["usage"] = usage.clone();
        events.extend([delta, stop]);
        let server = Server::answering([Answer::json(whole.to_string())]).await;
        let whole = server.model("claude-test").generate(&hi()).await.unwrap();
        for reply in [whole, streamed_reply(&events).await.unwrap()] {
            let found = (reply.usage.input_tokens, reply.usage.incomplete);
            assert_eq!(found, expected, "{usage}");
        }
    }
}

/// More levels than the reader of JSON values takes.
fn deep() -> Value {
    (0..400).fold(json!(1), |value, _| json!({"prefix": value}))
}

#[tokio::test]
async fn an_input_with_too_many_levels_is_the_models_to_correct() {
    for name in ["input", "arguments"] {
        let block = json!({"type": "tool_use", "id": "t", "name": "purge", name: deep()});
        for reply in replies(&block.to_string()).await {
            let reply = reply.unwrap();
            let call = reply.tool_calls().next().unwrap();
            assert_eq!((&*call.id, &*call.name), ("t", "purge"));
            assert_eq!(call.arguments, deep().to_string());
            assert!(!call.incomplete);
        }
    }
    let mut events = vec![start(), begins(0, &json!({})), piece(0, &deep().to_string()), stops(0)];
    events.extend(ends("tool_use"));
    let reply = streamed_reply(&events).await.unwrap();
    assert_eq!(reply.tool_calls().next().unwrap().arguments, deep().to_string());
}
