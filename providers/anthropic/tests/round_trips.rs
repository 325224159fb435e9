//! A reply that goes back has the blocks that came, in their places.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_anthropic::Anthropic;
use toolwright_module::message::ToolResult;
use toolwright_module::model::Delta;
use toolwright_module::{LanguageModel, Message, Reply, Request};

use crate::common::{Answer, Server, events, hi, ok, streamed};

/// A random number generator (SplitMix64). Each conversation has its own seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % most.max(1) as u64).unwrap()
    }

    fn text(&mut self) -> String {
        let pieces = ["rain", "\"", "\\", "é", "\n", "{\"a\":", "🌧", " ", "1.0", "\u{2028}"];
        let text: String =
            (0..1 + self.below(6)).map(|_| pieces[self.below(pieces.len())]).collect();
        format!("{text}.")
    }

    fn block(&mut self, at: usize) -> Value {
        let text = self.text();
        match self.below(9) {
            0 => json!({"type": "thinking", "thinking": text, "signature": format!("s{at}")}),
            1 => json!({"type": "thinking", "thinking": "", "signature": format!("s{at}")}),
            2 => json!({"type": "redacted_thinking", "data": text}),
            3 => json!({"type": "text", "text": text}),
            4 => {
                json!({"type": "text", "text": text, "citations": [{"type": "char_location", "cited_text": text}]})
            }
            5 => {
                json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": "look", "input": {"text": text, "n": at}})
            }
            6 => {
                json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": "look", "input": {}, "caller": {"type": "code", "tool_id": text}})
            }
            7 => {
                json!({"type": "server_tool_use", "id": format!("s_{at}"), "name": "web_search", "input": {"query": text}})
            }
            _ => json!({"type": "hologram", "rays": [at, 1.5, null, {"deep": text}]}),
        }
    }

    /// Returns the events that stream a block.
    fn streamed(&mut self, at: usize, block: &Value) -> Vec<Value> {
        let mut start = block.clone();
        let mut pieces = Vec::new();
        let mut cut = |kind: &str, field: &str, text: &str| {
            let mut left = text;
            while !left.is_empty() {
                let most = 1 + self.below(5);
                let end = left.char_indices().nth(most).map_or(left.len(), |(end, _)| end);
                pieces.push(json!({"type": kind, field: &left[..end]}));
                left = &left[end..];
            }
        };
        let word = |name: &str| block[name].as_str().unwrap_or_default();
        match word("type") {
            "text" => {
                cut("text_delta", "text", word("text"));
                start["text"] = json!("");
                if let Some(citations) = block["citations"].as_array() {
                    start["citations"] = json!([]);
                    pieces.extend(
                        citations
                            .iter()
                            .map(|it| json!({"type": "citations_delta", "citation": it})),
                    );
                }
            }
            "thinking" => {
                cut("thinking_delta", "thinking", word("thinking"));
                cut("signature_delta", "signature", word("signature"));
                start["thinking"] = json!("");
                start["signature"] = json!("");
            }
            "tool_use" | "server_tool_use" => {
                cut("input_json_delta", "partial_json", &block["input"].to_string());
                start["input"] = json!({});
            }
            _ => {}
        }
        let mut events =
            vec![json!({"type": "content_block_start", "index": at, "content_block": start})];
        events.extend(
            pieces
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": at, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": at}));
        events
    }
}

/// A generated reply, whole and as the events of a stream.
fn reply(chance: &mut Chance) -> (Vec<Value>, String, String) {
    let count = 1 + chance.below(6);
    let content: Vec<Value> = (0..count).map(|at| chance.block(at)).collect();
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let bad = ["max_tokens", "pause_turn", "stop_sequence", "odd", "model_context_window_exceeded"];
    // The last one is an error without an answer.
    let is_answer = |block: &Value| {
        block["type"] == "tool_use" || block["text"].as_str().is_some_and(|text| !text.is_empty())
    };
    let bad = &bad[..4 + usize::from(content.iter().any(is_answer))];
    let reason = match content.iter().any(|block| block["type"] == "tool_use") {
        _ if chance.below(3) == 0 => bad[chance.below(bad.len())],
        true => "tool_use",
        false => "end_turn",
    };
    let whole =
        json!({"type": "message", "content": content, "stop_reason": reason, "usage": usage});
    let mut stream =
        vec![json!({"type": "message_start", "message": {"content": [], "usage": usage}})];
    for (at, block) in content.iter().enumerate() {
        stream.extend(chance.streamed(at, block));
    }
    stream.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
    stream.push(json!({"type": "message_stop"}));
    let stream: Vec<_> = stream.iter().map(Value::to_string).collect();
    let stream: Vec<_> = stream.iter().map(String::as_str).collect();
    (content, whole.to_string(), events(&stream))
}

#[tokio::test]
async fn generated_replies_come_back_whole_and_streamed() {
    let replies: Vec<_> = (0..300)
        .map(|seed| {
            let mut chance = Chance(seed);
            (reply(&mut chance), 1 + chance.below(200))
        })
        .collect();
    let answers = replies.iter().flat_map(|((_, whole, stream), size)| {
        [Answer::json(whole), Answer::events(stream, *size), ok()]
    });
    let server = Server::answering(answers).await;
    let model = server.model("claude-test");
    for (seed, ((content, whole, _), _)) in replies.into_iter().enumerate() {
        let reply = model.generate(&hi()).await.unwrap();
        let is_whole = whole.contains(r#""stop_reason":"tool_use""#);
        assert!(reply.tool_calls().all(|call| call.incomplete != is_whole), "seed {seed}");
        assert_eq!(streamed(&model, hi()).await.1.unwrap(), reply, "seed {seed}");

        let calls: Vec<_> = reply.tool_calls().cloned().collect();
        let mut request = hi();
        request.messages.push(Arc::new(Message::Assistant { parts: reply.parts }));
        let results = calls.iter().map(|call| Arc::new(Message::Tool(ToolResult::new(call, "ok"))));
        request.messages.extend(results);
        model.generate(&request).await.unwrap();
        let sent = &server.seen()[3 * seed + 2].body["messages"][1]["content"];
        assert_eq!(sent, &Value::Array(content), "seed {seed}");
    }
}

/// Servers of other vendors do not sign, and refuse a call whose thinking is missing.
#[tokio::test]
async fn thinking_without_a_signature_goes_back_to_servers_that_do_not_sign() {
    let call = json!({"type": "tool_use", "id": "a", "name": "look", "input": {}});
    for thinking in [
        json!({"type": "thinking", "thinking": "Hm."}),
        json!({"type": "thinking", "thinking": "Hm.", "signature": ""}),
    ] {
        let followed = json!({"content": [thinking, call], "stop_reason": "tool_use"});
        let cut_off = json!({"content": [thinking], "stop_reason": "max_tokens"});
        for (base_url, body, goes_back) in [
            ("http://api.deepseek.com/anthropic/v1", &followed, true),
            ("http://api.moonshot.ai/anthropic/v1", &followed, true),
            ("http://models.example.com/v1", &followed, true),
            // It is not complete.
            ("http://api.deepseek.com/anthropic/v1", &cut_off, false),
            ("http://api.anthropic.com/v1", &followed, false),
            ("http://bedrock-runtime.us-east-1.amazonaws.com/v1", &followed, false),
        ] {
            // The rules are those of the host, so the host is a proxy's here.
            let server = Server::answering([Answer::json(body.to_string()), ok()]).await;
            let proxy = server.url.replace("/v1", "");
            let proxy = toolwright_anthropic::reqwest::Proxy::http(proxy).unwrap();
            let http = toolwright_anthropic::reqwest::Client::builder().proxy(proxy);
            let model = Anthropic::at(base_url, "any")
                .unwrap()
                .with_connection(|c| Ok(c.with_http(http.build().unwrap())))
                .unwrap();
            let reply = model.generate(&hi()).await.unwrap();
            let results: Vec<_> =
                reply.tool_calls().map(|call| ToolResult::new(call, "ok")).collect();
            let mut messages =
                vec![Message::user("Hi!"), Arc::new(Message::Assistant { parts: reply.parts })];
            messages.extend(results.into_iter().map(|result| Arc::new(Message::Tool(result))));
            messages.push(Message::user("And?"));
            model.generate(&Request::new(messages)).await.unwrap();
            let sent = server.seen()[1].body["messages"].to_string();
            assert_eq!(sent.contains(r#""thinking":"Hm.""#), goes_back, "{base_url}: {sent}");
        }
    }
}

/// Returns the deltas of a reply with this text, which arrives `size` characters at a time, and the reply.
async fn read_text(text: &str, size: usize) -> (Vec<Delta>, Reply) {
    let mut data = vec![
        json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    let letters: Vec<char> = text.chars().collect();
    data.extend(letters.chunks(size).map(|piece| {
        let delta = json!({"type": "text_delta", "text": piece.iter().collect::<String>()});
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    }));
    data.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]);
    let data: Vec<String> = data.iter().map(Value::to_string).collect();
    let data: Vec<&str> = data.iter().map(|event| &**event).collect();
    let server = Server::answering([Answer::events(&events(&data), 64)]).await;
    let (deltas, reply) = streamed(&server.model("MiniMax-M2"), hi()).await;
    (deltas, reply.unwrap())
}

#[tokio::test]
async fn thoughts_in_a_text_are_reasoning_and_go_back_in_the_text() {
    for (text, thoughts, answer) in [
        ("<think>\nMaybe 4?\n</think>\n\n5", "Maybe 4?", "5"),
        ("<think>a</think>\n<think>b</think>5", "ab", "5"),
        ("<think>Maybe 4?</think>", "Maybe 4?", ""),
        ("<think>Maybe", "Maybe", ""),
        ("<thinking>4?</thinking>5", "", "<thinking>4?</thinking>5"),
        ("5 <think>", "", "5 <think>"),
        ("<thi", "", "<thi"),
    ] {
        let body = json!({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"});
        let server = Server::answering([Answer::json(body.to_string())]).await;
        let whole = server.model("MiniMax-M2").generate(&hi()).await.unwrap();
        for size in [1, 3, 100] {
            let (deltas, reply) = read_text(text, size).await;
            assert_eq!(reply.parts, whole.parts, "{text}");
            let (mut thought, mut said) = (String::new(), String::new());
            for delta in deltas {
                match delta {
                    Delta::Reasoning(piece) => thought += &piece,
                    Delta::Text(piece) => said += &piece,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((&*thought, &*said), (thoughts, answer), "{text}");
            assert_eq!(reply.to_text(), answer);
        }
        let server = Server::answering([ok()]).await;
        let mut messages = hi().messages;
        messages
            .extend([Arc::new(Message::Assistant { parts: whole.parts }), Message::user("And?")]);
        server.model("MiniMax-M2").generate(&Request::new(messages)).await.unwrap();
        assert_eq!(
            server.seen()[0].body["messages"][1]["content"],
            json!([{"type": "text", "text": text}])
        );
    }
}

#[tokio::test]
async fn thoughts_stay_before_the_block_that_they_led_to() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}});
    let text = json!({"type": "text", "text": "<think>a</think>\n"});
    let content = json!([text, call, {"type": "text", "text": "<think>b</think>5"}]);
    let body = json!({"type": "message", "content": content, "stop_reason": "tool_use"});
    let server = Server::answering([Answer::json(body.to_string()), ok()]).await;
    let model = server.model("MiniMax-M2");
    let reply = model.generate(&hi()).await.unwrap();
    assert_eq!(reply.to_text(), "5");
    let mut messages = hi().messages;
    let result = ToolResult::new(reply.tool_calls().next().unwrap(), "ok");
    messages
        .extend([Message::Assistant { parts: reply.parts }, Message::Tool(result)].map(Arc::new));
    model.generate(&Request::new(messages)).await.unwrap();
    let texts = json!(["<think>a</think>", "<think>b</think>5"]);
    let sent = &server.seen()[1].body["messages"][1]["content"];
    assert_eq!(json!([sent[0]["text"], sent[2]["text"]]), texts);
    assert_eq!(sent[1]["type"], "tool_use");
}

/// Some servers send an object where the API has a piece of text.
#[tokio::test]
async fn the_pieces_of_blocks_may_be_objects() {
    let data = [
        json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": {"value": "two"}}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "purge", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": {"prefix": "t"}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
    .map(|event| event.to_string());
    let stream = events(&data.each_ref().map(|event| &**event));
    let server = Server::answering([Answer::events(&stream, 64)]).await;
    let reply = streamed(&server.model("m"), hi()).await.1.unwrap();
    assert_eq!(reply.to_text(), "two");
    assert_eq!(reply.tool_calls().next().unwrap().arguments, r#"{"prefix":"t"}"#);
}

#[tokio::test]
async fn a_conversation_that_the_model_begins_has_a_message_of_the_user_before_it() {
    let server = Server::answering([ok()]).await;
    let request = Request::new([Message::assistant("Welcome."), Message::user("Hi!")]);
    server.model("m").generate(&request).await.unwrap();
    let messages = &server.seen()[0].body["messages"];
    assert_eq!((&messages[0]["role"], &messages[1]["role"]), (&json!("user"), &json!("assistant")));
}
