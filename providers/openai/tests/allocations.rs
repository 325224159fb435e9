//! The number of allocations for each event of a streamed text.
//!
//! It is a program of its own, because the counts are those of the whole process.
#![cfg(test)]

use std::alloc::System;
use std::fmt::Write;

use futures_util::StreamExt;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolwright_module::model::Delta;
use toolwright_module::{LanguageModel, Message, Request};
use toolwright_openai::{Api, OpenAi};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const EVENTS: usize = 5000;

/// The events of a reply, in OpenAI's form.
fn stream(api: Api) -> String {
    let mut body = String::new();
    for event in 0..EVENTS {
        // Every eighth piece has characters that are escaped.
        let piece = if event % 8 == 0 { "a \"b\"\n" } else { " word" };
        let event = match api {
            Api::Chat => json!({
                "id": "chatcmpl-BzZLRkW3qzwWLlBLcXCfXIvzZZZZZ", "object": "chat.completion.chunk",
                "created": 1_754_000_000, "model": "gpt-5-mini-2025-08-07", "service_tier": "default",
                "system_fingerprint": null,
                "choices": [{"index": 0, "delta": {"content": piece}, "logprobs": null, "finish_reason": null}],
                "usage": null, "obfuscation": "k2Jd0sl",
            }),
            _ => json!({
                "type": "response.output_text.delta", "sequence_number": event,
                "item_id": "msg_68a1c0f1b3a881a1b2c3d4e5f60718290a0b0c0d0e0f1011", "output_index": 1,
                "content_index": 0, "delta": piece, "logprobs": [], "obfuscation": "k2Jd0sl",
            }),
        };
        writeln!(body, "data: {event}\n").unwrap();
    }
    let end = match api {
        Api::Chat => json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        _ => json!({"type": "response.completed", "response": {"status": "completed"}}),
    };
    body + &format!("data: {end}\n\ndata: [DONE]\n\n")
}

async fn allocations_per_event(api: Api) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let body = stream(api);
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer = head + &body;
    let server = async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = socket.read(&mut request).await.unwrap();
        // About as many bytes at a time as an event has, as a model's server sends them.
        for piece in answer.as_bytes().chunks(300) {
            socket.write_all(piece).await.unwrap();
        }
    };
    let model = OpenAi::at(&url, "gpt-5-mini").unwrap().with_api(api);
    let client = async {
        let mut stream = model.stream(Request::new([Message::user("Hi!")]));
        let first = stream.next().await;
        assert!(matches!(first, Some(Ok(Delta::Text(_)))), "{first:?}");
        let (region, mut pieces) = (Region::new(ALLOCATIONS), 1);
        while let Some(delta) = stream.next().await {
            pieces += usize::from(matches!(delta.unwrap(), Delta::Text(_)));
        }
        assert_eq!(pieces, EVENTS);
        let allocations = region.change().allocations;
        println!("{api}: {allocations} allocations for {EVENTS} events");
        allocations.div_ceil(EVENTS)
    };
    tokio::join!(client, server).0
}

#[tokio::test]
async fn a_streamed_text_event_allocates_at_most_five_times() {
    for api in [Api::Chat, Api::Responses] {
        let allocations = allocations_per_event(api).await;
        assert!(allocations <= 5, "{api}: {allocations} allocations for each event");
    }
}
