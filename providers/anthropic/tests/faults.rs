//! Faults of the server: retries, and errors that name the fix. The connection's faults are tested
//! with `toolwright-openai`, because all providers share the code.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_anthropic::{ProviderError, stop_details};
use toolwright_module::LanguageModel;
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::model::Finish;

use crate::common::{Answer, Server, bare_errors, hi, ok, ok_stream, own, streamed};

fn refused(status: u16, headers: &str, kind: &str) -> Answer {
    let body = format!(
        r#"{{"type": "error", "error": {{"type": "{kind}", "message": "Not now."}}, "request_id": "req_1"}}"#
    );
    Answer::new(status, headers, body)
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again() {
    for (status, kind) in [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "api_error")]
    {
        for stream in [false, true] {
            let good = if stream { Answer::events(&ok_stream(), 64) } else { ok() };
            let busy = refused(status, "retry-after: 0\r\n", kind);
            let server = Server::answering([busy.clone(), busy, good]).await;
            let model = server.model("claude-test");
            let reply = match stream {
                true => streamed(&model, hi()).await.1,
                false => model.generate(&hi()).await,
            };
            assert_eq!(reply.unwrap().to_text(), "ok");
            assert_eq!(server.seen().len(), 3);
        }
    }
}

#[tokio::test]
async fn an_error_has_the_servers_pause_and_code() {
    let server = Server::answering([refused(529, "retry-after: 7\r\n", "overloaded_error")]).await;
    let started = Instant::now();
    let error = server
        .model("claude-test")
        .with_connection(|c| Ok(c.with_retries(0)))
        .unwrap()
        .generate(&hi())
        .await
        .unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    let ProviderError::Status { status: 529, code: Some(code), retry_after, .. } = own(&error)
    else {
        panic!("{error:?}")
    };
    assert_eq!((code.as_str(), *retry_after), ("overloaded_error", Some(Duration::from_secs(7))));
    assert_eq!((error.stage(), error.is_retryable()), (Stage::Provider, true));
}

#[tokio::test]
async fn a_wrong_key_and_an_unknown_model_are_not_retried() {
    for (status, kind, says) in [
        (401, "authentication_error", "check the key"),
        (404, "not_found_error", "check the model's name"),
        (413, "request_too_large", "fewer or smaller images"),
    ] {
        let server = Server::answering([refused(status, "", kind)]).await;
        let model = server.model("claude-test").with_key("sk-made-up").unwrap();
        let error = model.generate(&hi()).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn an_error_in_a_stream_has_the_usage_so_far() {
    for body in [
        include_str!("streams/error_without_a_name.sse"),
        include_str!("streams/error_in_the_midst.sse"),
    ] {
        let server = Server::answering([Answer::events(body, 64)]).await;
        let model = server.model("claude-test").with_connection(|c| Ok(c.with_retries(0))).unwrap();
        let (_, reply) = streamed(&model, hi()).await;
        let error = reply.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert_eq!(error.usage().input_tokens, 30);
    }
}

#[tokio::test]
async fn a_failed_server_in_a_stream_is_known() {
    for kind in ["api_error", "timeout_error"] {
        let event = format!(
            "event: error\ndata: {{\"type\": \"error\", \"error\": {{\"type\": \"{kind}\", \"message\": \"Not now.\"}}}}\n\n"
        );
        let server = Server::answering([Answer::events(&event, 64)]).await;
        let error = streamed(&server.model("claude-test"), hi()).await.1.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
    }
}

#[tokio::test]
async fn a_conversation_longer_than_the_context_is_a_known_error() {
    let body = r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}"#;
    let event = format!("event: error\ndata: {body}\n\n");
    let exceeded = ContextExceeded::new(Some(210_000), Some(200_000));
    for answer in [Answer::new(400, "", body), Answer::json(body)] {
        let server = Server::answering([answer]).await;
        let error = server.model("claude-test").generate(&hi()).await.unwrap_err();
        assert_eq!(error.context_exceeded(), Some(exceeded), "{error:?}");
    }
    for answer in [Answer::new(400, "", body), Answer::json(body), Answer::events(&event, 64)] {
        let server = Server::answering([answer]).await;
        let error = streamed(&server.model("claude-test"), hi()).await.1.unwrap_err();
        assert_eq!(error.context_exceeded(), Some(exceeded), "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("longer than the model's context"), "{error}");
        assert_eq!(server.seen().len(), 1, "it is not tried again");
    }
}

/// A reply that ends because the context is full has no answer, unless there is a text or a call.
#[tokio::test]
async fn a_reply_without_content_because_the_context_is_full_is_the_same_error() {
    let reply = |content: Value| {
        let usage = json!({"input_tokens": 200_000, "output_tokens": 0});
        json!({"type": "message", "role": "assistant", "content": content, "usage": usage,
            "stop_reason": "model_context_window_exceeded"})
        .to_string()
    };
    let server = Server::answering([Answer::json(reply(json!([])))]).await;
    let error = server.model("claude-test").generate(&hi()).await.unwrap_err();
    assert_eq!(error.context_exceeded(), Some(ContextExceeded::default()), "{error:?}");
    assert_eq!(error.usage().input_tokens, 200_000);
    let text = json!([{"type": "text", "text": "It "}]);
    let server = Server::answering([Answer::json(reply(text))]).await;
    let reply = server.model("claude-test").generate(&hi()).await.unwrap();
    assert_eq!((reply.to_text(), reply.finish), ("It ".to_owned(), Finish::Length));
}

#[tokio::test]
async fn a_refusal_says_why() {
    let body = include_str!("replies/refusal_with_details.json");
    let server = Server::answering([Answer::json(body)]).await;
    let reply = server.model("claude-test").generate(&hi()).await.unwrap();
    assert_eq!(reply.finish, Finish::Refused);
    assert_eq!(stop_details(&reply).unwrap()["category"], "bio");
}

/// A server or a proxy before it may report an error in another form than the API, at any place of a
/// stream.
#[tokio::test]
async fn an_error_in_another_form_is_the_servers_own() {
    for (json, says, passes) in bare_errors::FORMS {
        let event = format!("data: {json}\n\n");
        let begun = format!(
            "data: {}\n\n{event}",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It "}}"#
        );
        for (answer, is_begun) in [
            (Answer::json(json), false),
            (Answer::events(&event, 64), false),
            (Answer::events(&begun, 64), true),
        ] {
            let server = Server::answering([answer.clone(), answer]).await;
            let model = server
                .model("claude-test")
                .with_connection(|connection| Ok(connection.with_retries(1)))
                .unwrap();
            let error = streamed(&model, hi()).await.1.unwrap_err();
            assert!(error.to_string().contains(says), "{json}: {error}");
            let is_retried = passes && !is_begun;
            assert_eq!(server.seen().len(), 1 + usize::from(is_retried), "{json}");
        }
    }
}

/// Some servers always stream, and some never do.
#[tokio::test]
async fn a_reply_in_the_form_that_was_not_asked_for_is_read() {
    let stream = || Answer::events(&ok_stream(), 64);
    for answer in [stream(), stream().named("application/json")] {
        let server = Server::answering([answer]).await;
        let reply = server.model("claude-test").generate(&hi()).await.unwrap();
        assert_eq!(reply.to_text(), "ok");
    }
    let server = Server::answering([ok()]).await;
    assert_eq!(streamed(&server.model("claude-test"), hi()).await.1.unwrap().to_text(), "ok");
}

#[tokio::test]
async fn the_pause_in_the_headers_of_a_reply_that_breaks_off_is_kept() {
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    for answer in
        [Answer::new(200, headers, "{\"con"), Answer::new(200, headers, "{\"con").then_reset()]
    {
        let server = Server::answering([answer]).await;
        let error = server.model("claude-test").generate(&hi()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
    }
}
