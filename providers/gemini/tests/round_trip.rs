//! What goes back to the server after a reply: every part as it came.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::Delta;
use toolwright_module::{LanguageModel, Message, Reply, Request};

use crate::common::{Answer, Server, hi, ok, streamed};

/// Returns the parts that go back as the message of the model.
async fn sent_back(server: &Server, reply: Reply) -> Vec<Value> {
    let mut messages = hi().messages;
    let calls: Vec<_> = reply.tool_calls().cloned().collect();
    messages.push(Arc::new(Message::Assistant { parts: reply.parts }));
    let results = calls.iter().map(|call| Arc::new(Message::Tool(ToolResult::new(call, "ok"))));
    messages.extend(results);
    server.model().generate(&Request::new(messages)).await.unwrap();
    let contents = server.seen().pop().unwrap().body["contents"].take();
    let model = contents.as_array().unwrap().iter().filter(|content| content["role"] == "model");
    model.flat_map(|content| content["parts"].as_array().unwrap().clone()).collect()
}

fn part() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        "[a-z\"\\\\\n]{1,6}".prop_map(|text| json!({"text": text})),
        "[a-z]{1,6}".prop_map(|text| json!({"text": text, "thought": true})),
        ("[a-z]{1,3}", any::<i64>(), any::<bool>()).prop_map(|(name, number, has_id)| {
            let mut call = json!({"name": name, "args": {"n": number, "list": [1.5, null]}});
            if has_id {
                call["id"] = json!(format!("fc-{number}"));
            }
            json!({"functionCall": call})
        }),
        any::<u8>().prop_map(|n| json!({"executableCode": {"code": format!("print({n})")}})),
        any::<u8>().prop_map(|n| json!({"newKind": {"n": n}, "thought": true})),
    ];
    (kind, prop::option::of("[A-Za-z0-9+/]{4}")).prop_map(|(mut part, signature)| {
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    })
}

/// Texts without a signature that are beside each other are one.
fn joined(parts: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for part in parts {
        let is_bare =
            |part: &Value| part["text"].is_string() && part.get("thoughtSignature").is_none();
        match all.last_mut() {
            Some(last)
                if is_bare(last)
                    && is_bare(&part)
                    && last.get("thought") == part.get("thought") =>
            {
                let both =
                    format!("{}{}", last["text"].as_str().unwrap(), part["text"].as_str().unwrap());
                last["text"] = json!(both);
            }
            _ => all.push(part),
        }
    }
    all
}

fn event(parts: &[Value], finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_part_goes_back_as_it_came(parts in prop::collection::vec(part(), 1..8)) {
        // Calls with the same id get a new one.
        let ids: Vec<_> = parts.iter().filter_map(|part| part["functionCall"]["id"].as_str()).collect();
        prop_assume!(ids.iter().collect::<std::collections::HashSet<_>>().len() == ids.len());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (whole, stream) = runtime.block_on(async {
            let all = event(&parts, Some("STOP")).to_string();
            let mut events: String = parts
                .iter()
                .map(|part| format!("data: {}\n\n", event(std::slice::from_ref(part), None)))
                .collect();
            events += &format!("data: {}\n\n", event(&[], Some("STOP")));
            let answers = [Answer::json(all), ok(), Answer::events(&events, 4096), ok()];
            let server = Server::answering(answers).await;
            let reply = server.model().generate(&hi()).await.unwrap();
            let whole = sent_back(&server, reply).await;
            let reply = streamed(&server.model(), hi()).await.1.unwrap();
            (whole, sent_back(&server, reply).await)
        });
        let expected = joined(parts);
        prop_assert_eq!(&whole, &expected);
        prop_assert_eq!(&stream, &expected);
    }
}

/// White space may be the beginning of a mark, until another part shows that it is not.
#[tokio::test]
async fn white_space_before_a_thought_goes_back_before_it() {
    let parts = [json!({"text": "\n"}), json!({"text": "a", "thought": true})];
    let server = Server::answering([Answer::json(event(&parts, Some("STOP")).to_string()), ok()]);
    let server = server.await;
    let reply = server.model().generate(&hi()).await.unwrap();
    assert_eq!(sent_back(&server, reply).await, parts);
}

/// What is stored and loaded again goes back just the same.
#[tokio::test]
async fn a_stored_reply_goes_back_as_it_came() {
    let parts = [
        json!({"text": "Hm.", "thought": true, "thoughtSignature": "YQ=="}),
        json!({"text": "Yes", "thoughtSignature": "Yg=="}),
        json!({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "Yw=="}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
    ];
    let server =
        Server::answering([Answer::json(event(&parts, Some("STOP")).to_string()), ok()]).await;
    let mut reply = server.model().generate(&hi()).await.unwrap();
    let stored = serde_json::to_string(&reply.parts).unwrap();
    reply.parts = serde_json::from_str::<Vec<ReplyPart>>(&stored).unwrap();
    assert_eq!(sent_back(&server, reply).await, parts);
}

#[tokio::test]
async fn thoughts_in_a_text_are_reasoning_and_go_back_as_text() {
    for (text, thoughts, answer) in [
        ("<think>\nMaybe 4?\n</think>\n\n5", "Maybe 4?", "5"),
        ("<think>a</think>\n<think>b</think>5", "ab", "5"),
        ("<think>Maybe 4?</think>", "Maybe 4?", ""),
        ("<thinking>4?</thinking>5", "", "<thinking>4?</thinking>5"),
        ("5 <think>", "", "5 <think>"),
        ("<thi", "", "<thi"),
    ] {
        let chunk = |text: &str, reason: Option<&str>| {
            json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": reason}],
                "usageMetadata": {"promptTokenCount": 1}})
        };
        let server = Server::answering([Answer::json(chunk(text, Some("STOP")).to_string())]).await;
        let whole = server.model_of("gemma-3-27b-it").generate(&hi()).await.unwrap();
        let pieces = text.chars().map(|piece| chunk(&piece.to_string(), None));
        let chunks = pieces.chain([chunk("", Some("STOP"))]);
        let stream: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
        let server = Server::answering([Answer::events(&stream, 64)]).await;
        let (deltas, reply) = streamed(&server.model_of("gemma-3-27b-it"), hi()).await;
        let reply = reply.unwrap();
        assert_eq!(reply.parts, whole.parts, "{text}");
        let (mut thought, mut said) = (String::new(), String::new());
        for delta in deltas {
            match delta {
                Delta::Reasoning(piece) => thought += &piece,
                Delta::Text(piece) => said += &piece,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((&*thought, &*said, &*reply.to_text()), (thoughts, answer, answer), "{text}");
        let back = sent_back(&Server::answering([ok()]).await, reply).await;
        let back: String = back.iter().map(|part| part["text"].as_str().unwrap()).collect();
        assert_eq!(back, text);
    }
}

#[tokio::test]
async fn a_conversation_that_the_model_begins_has_a_message_of_the_user_before_it() {
    let server = Server::answering([ok()]).await;
    let request = Request::new([Message::assistant("Welcome."), Message::user("Hi!")]);
    server.model().generate(&request).await.unwrap();
    let contents = server.seen().pop().unwrap().body["contents"].take();
    assert_eq!((&contents[0]["role"], &contents[1]["role"]), (&json!("user"), &json!("model")));
}

/// The total says what no other count does, as an answer whose own count a gateway leaves out.
#[tokio::test]
async fn tokens_that_only_the_total_has_make_the_usage_incomplete() {
    for (usage, is_incomplete) in [
        (json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}), false),
        (json!({"promptTokenCount": 10, "thoughtsTokenCount": 5, "totalTokenCount": 15}), false),
        (json!({"promptTokenCount": 10, "totalTokenCount": 10}), true),
        (json!({"promptTokenCount": 10}), true),
        (json!({"promptTokenCount": 10, "totalTokenCount": 500}), true),
        (json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 500}), true),
    ] {
        let mut body = event(&[json!({"text": "a"})], Some("STOP"));
        body["usageMetadata"] = usage.clone();
        let server = Server::answering([Answer::json(body.to_string())]).await;
        let reply = server.model().generate(&hi()).await.unwrap();
        assert_eq!(reply.usage.incomplete, is_incomplete, "{usage}");
    }
}
