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
use toolwright_gemini::Gemini;
use toolwright_module::model::Delta;
use toolwright_module::{LanguageModel, Message, Request};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const EVENTS: usize = 5000;

/// The events of a reply.
fn stream() -> String {
    let mut body = String::new();
    for event in 0..EVENTS {
        // Every eighth piece has characters that are escaped.
        let piece = if event % 8 == 0 { "a \"b\"\n" } else { " word" };
        let event = json!({
            "candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 8, "candidatesTokenCount": event, "totalTokenCount": event + 8,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
                "serviceTier": "standard",
            },
            "modelVersion": "gemini-2.5-flash", "responseId": "k2Jd0slLRkW3qzwWLlBLcXCfXIv",
        });
        writeln!(body, "data: {event}\n").unwrap();
    }
    let end = json!({"candidates": [{"finishReason": "STOP"}]});
    body + &format!("data: {end}\n\n")
}

async fn allocations_per_event() -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1beta", listener.local_addr().unwrap());
    let body = stream();
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
    let model = Gemini::at(&url, "gemini-2.5-flash").unwrap();
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
        println!("{allocations} allocations for {EVENTS} events");
        allocations.div_ceil(EVENTS)
    };
    tokio::join!(client, server).0
}

#[tokio::test]
async fn a_streamed_text_event_allocates_at_most_five_times() {
    let allocations = allocations_per_event().await;
    assert!(allocations <= 5, "{allocations} allocations for each event");
}
