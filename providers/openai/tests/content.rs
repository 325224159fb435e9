//! The forms of content: what is the answer, what are the model's thoughts, and what is neither.

use serde_json::{Value, json};
use toolwright_module::message::ReplyPart;
use toolwright_module::{LanguageModel, Reply};
use toolwright_openai::Api;

use crate::common::{APIS, Answer, Server, hi, streamed};

/// The replies with these pieces of content, whole and streamed.
async fn of_content(api: Api, content: &str) -> [toolwright_module::Result<Reply>; 2] {
    let message = format!(r#"{{"type":"message","content":{content}}}"#);
    let whole = match api {
        Api::Chat => format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#),
        _ => format!(r#"{{"id":"r","status":"completed","output":[{message}]}}"#),
    };
    let event = match api {
        Api::Chat => whole.replace("\"message\":", "\"delta\":"),
        _ => format!(r#"{{"type":"response.completed","response":{whole}}}"#),
    };
    let events = format!("data: {event}\n\ndata: [DONE]\n\n");
    let server = Server::answering([Answer::json(whole), Answer::events(&events, 64)]).await;
    let model = server.model(api);
    [model.generate(&hi()).await, streamed(&model, hi()).await.1]
}

fn thoughts(reply: &Reply) -> String {
    let text = |part: &ReplyPart| match part {
        ReplyPart::Reasoning(reasoning) => Some(reasoning.text.clone()),
        _ => None,
    };
    reply.parts.iter().filter_map(text).collect()
}

#[tokio::test]
async fn thoughts_are_not_part_of_the_answer() {
    for (piece, thought) in [
        (json!({"type": "reasoning", "text": "hm"}), "hm"),
        (json!({"type": "reasoning_text", "text": "hm"}), "hm"),
        (json!({"type": "thinking", "thinking": "hm"}), "hm"),
        (json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}), "hm"),
        (json!({"type": "redacted_thinking", "text": "hm"}), "hm"),
        (json!({"type": "redacted_thinking", "data": "hm"}), ""),
        (json!({"type": "text", "text": "hm", "thought": true}), "hm"),
        (json!({"type": "text", "text": ""}), ""),
    ] {
        for api in APIS {
            let content = json!([piece, {"type": "output_text", "text": "a"}]).to_string();
            for reply in of_content(api, &content).await {
                let reply = reply.unwrap();
                let found = (&*reply.to_text(), &*thoughts(&reply));
                assert_eq!(found, ("a", thought), "{api:?}: {piece}");
            }
        }
    }
}

/// A text of an unknown type may be anything, such as the result of a tool of the server.
#[tokio::test]
async fn a_text_of_an_unknown_type_is_an_error() {
    for (piece, is_read) in [
        (json!({"type": "thought", "text": "hm"}), false),
        (json!({"type": "analysis", "text": "hm"}), false),
        (json!({"type": "tool_result", "text": "SECRET"}), false),
        (json!({"type": "text", "said": "b"}), false),
        (json!({"type": "text", "text": "b", "value": "c"}), false),
        (json!({"type": "text"}), true),
        (json!({"type": "text", "text": null}), true),
        (json!({"type": "image_url", "image_url": {"url": "x"}}), true),
        (json!({"type": "reference", "reference_ids": [1]}), true),
    ] {
        for api in APIS {
            let content = json!([{"type": "text", "text": "a"}, piece]).to_string();
            for reply in of_content(api, &content).await {
                let text = reply.ok().map(|reply| reply.to_text());
                assert_eq!(text.as_deref(), is_read.then_some("a"), "{api:?}: {piece}");
            }
        }
    }
    // A call belongs into an item of its own.
    let call = json!([{"type": "tool_use", "id": "1", "name": "purge", "input": {}}]).to_string();
    for reply in of_content(Api::Responses, &call).await {
        assert!(reply.is_err(), "{reply:?}");
    }
}

#[tokio::test]
async fn numbers_in_content_keep_their_digits() {
    for number in ["12345678901234567890123", "1.50", "0"] {
        for content in [
            format!("[{number}]"),
            format!(r#"{{"text":{number}}}"#),
            format!(r#"[{{"type":"text","text":{number}}}]"#),
            format!(r#"[{{"type":"text","text":{{"value":[{number}]}}}}]"#),
            format!(r#"[{{"type":"refusal","refusal":{number}}}]"#),
        ] {
            for api in APIS {
                if number == "0" && content.contains("refusal") {
                    continue;
                }
                for reply in of_content(api, &content).await {
                    assert_eq!(reply.unwrap().to_text(), number, "{api:?}: {content}");
                }
            }
        }
    }
}

#[tokio::test]
async fn numbers_in_other_fields_of_content_keep_their_digits() {
    for number in ["12345678901234567890123", "1.50"] {
        for (fields, text, thought) in [
            (format!(r#""message":{{"refusal":{number}}}"#), number, ""),
            (format!(r#""message":{{"content":"a","reasoning_content":{number}}}"#), "a", number),
            (format!(r#""message":{{"content":"a","reasoning":[{number}]}}"#), "a", number),
            (format!(r#""text":{number}"#), number, ""),
        ] {
            let body = format!(r#"{{"choices":[{{{fields},"finish_reason":"stop"}}]}}"#);
            let server = Server::answering([Answer::json(body)]).await;
            let reply = server.model(Api::Chat).generate(&hi()).await.unwrap();
            assert_eq!((&*reply.to_text(), &*thoughts(&reply)), (text, thought), "{fields}");
        }
    }
}

#[tokio::test]
async fn pieces_of_a_stream_of_responses_are_read_as_content() {
    for (delta, text) in [
        ("12345678901234567890123", Some("12345678901234567890123")),
        ("0.10", Some("0.10")),
        (r#""a""#, Some("a")),
        (r#"{"text":"a"}"#, Some("a")),
        (r#"[{"type":"output_text","text":"a"}]"#, Some("a")),
        (r#"{"said":"a"}"#, None),
    ] {
        let end: Value = json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}});
        let events = format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":{delta}}}\n\ndata: {end}\n\n"
        );
        let server = Server::answering([Answer::events(&events, 64)]).await;
        let reply = streamed(&server.model(Api::Responses), hi()).await.1;
        let found = reply.ok().map(|reply| reply.to_text());
        assert_eq!(found.as_deref(), text, "{delta}");
    }
}

#[tokio::test]
async fn counts_of_responses_and_chat_are_read_alike() {
    for (usage, expected) in [
        (
            json!({"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 2000}),
            (2100, 50),
        ),
        (json!({"prompt_tokens": 100, "completion_tokens": 50}), (100, 50)),
    ] {
        let chat = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage});
        let message = json!({"type": "message", "content": "a"});
        let responses = json!({"status": "completed", "output": [message], "usage": usage});
        for (api, body) in [(Api::Chat, chat), (Api::Responses, responses)] {
            let server = Server::answering([Answer::json(body.to_string())]).await;
            let found = server.model(api).generate(&hi()).await.unwrap().usage;
            let found = (found.input_tokens, found.output_tokens, found.incomplete);
            assert_eq!(found, (expected.0, expected.1, false), "{api:?}: {usage}");
        }
    }
}
