//! Faults of the server and of the connection: retries, and errors that name the fix.

use std::time::{Duration, Instant};

use toolwright_gemini::ProviderError;
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::{LanguageModel, Reply, Result};

use crate::common::{Answer, Server, bare_errors, hi, ok, ok_stream, own, said, streamed};

/// The refusal of a request over the quota, with the pause in its details.
fn limited(delay: &str) -> Answer {
    let details = format!(
        r#"[{{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}}, {{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "{delay}"}}]"#
    );
    let error = format!(
        r#"{{"error": {{"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": {details}}}}}"#
    );
    Answer::new(429, "content-type: application/json\r\n", error)
}

/// The result of a whole and of a streamed call to a server that sends these answers and then
/// a good one, and the number of requests.
async fn outcomes(answers: &[Answer]) -> [(Result<Reply>, usize); 2] {
    let whole = Server::answering(answers.iter().cloned().chain([ok()])).await;
    let stream = Server::answering(answers.iter().cloned().chain([ok_stream()])).await;
    let replies = [whole.model().generate(&hi()).await, streamed(&stream.model(), hi()).await.1];
    let [a, b] = replies;
    [(a, whole.seen().len()), (b, stream.seen().len())]
}

#[tokio::test]
async fn what_passes_is_retried() {
    let broken = Answer::new(503, "retry-after-ms: 1\r\n", r#"{"error": {"code": 503}}"#);
    for answer in [limited("0.001s"), limited("0s"), broken, Answer::reset()] {
        for (outcome, requests) in outcomes(&[answer]).await {
            assert_eq!((outcome.unwrap().to_text().as_str(), requests), ("ok", 2));
        }
    }
}

#[tokio::test]
async fn the_pause_is_that_of_the_details() {
    let started = Instant::now();
    let server = Server::answering([limited("1s"), ok()]).await;
    server.model().generate(&hi()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));

    let server = Server::answering([limited("3600.5s")]).await;
    let error = server.model().generate(&hi()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_millis(3_600_500)));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_refusal_names_the_fix() {
    let body = r#"{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}"#;
    for (outcome, requests) in outcomes(&[Answer::new(400, "", body)]).await {
        let error = outcome.unwrap_err();
        assert_eq!((error.stage(), requests), (Stage::Provider, 1));
        assert!(matches!(own(&error), ProviderError::Status { status: 400, .. }));
        let said = "the server refused the request (400: API key not valid. Please pass a valid API key.; the request had no key: give one with `with_key`, or use `from_env`); change the request as the message says";
        assert_eq!(error.to_string(), said);
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    let body = r#"{"error": {"code": 403, "message": "No access for AIza-made-up."}}"#;
    let server = Server::answering([Answer::new(403, "", body)]).await;
    let model = server.model().with_key("AIza-made-up").unwrap();
    let error = model.generate(&hi()).await.unwrap_err();
    for text in [said(&error, &server), format!("{error:?}")] {
        assert!(!text.contains("AIza-made-up"), "{text}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_end_is_an_error() {
    let event = |end: &str| {
        format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"a\"}}]}}{end}}}]}}\n\n"
        )
    };
    let last = event(", \"finishReason\": \"STOP\"");
    for broken in [
        Answer::events(&event(""), 4096),
        Answer::events(&event(""), 4096).then_reset(),
        Answer::events(&(event("") + "data: {\"candi"), 4096),
    ] {
        let server = Server::answering([broken]).await;
        let error = streamed(&server.model(), hi()).await.1.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Truncated { .. }), "{error:?}");
        assert_eq!(error.raw(), Some(r#"[{"text":"a"}]"#));
        assert!(error.is_retryable());
    }
    // After the end it does no harm.
    for late in [Answer::events(&last, 4096).then_reset(), Answer::events(&last, 4096).then_hang()]
    {
        let server = Server::answering([late]).await;
        let model =
            server.model().with_connection(|c| c.with_timeout(Duration::from_millis(200))).unwrap();
        assert_eq!(streamed(&model, hi()).await.1.unwrap().to_text(), "a");
    }
}

#[tokio::test]
async fn an_error_in_a_stream_has_the_usage_so_far() {
    let begins = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"a\"}]}}], \"usageMetadata\": {\"promptTokenCount\": 30}}\n\n";
    let error = "data: {\"error\": {\"code\": 503, \"message\": \"Overloaded.\"}}\n\n";
    for name in ["", "event: error\n"] {
        let body = format!("{begins}{name}{error}");
        let server = Server::answering([Answer::events(&body, 4096)]).await;
        let error = streamed(&server.model(), hi()).await.1.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Reported { .. }), "{error:?}");
        assert_eq!(error.usage().input_tokens, 30);
    }
}

#[tokio::test]
async fn the_end_after_a_tool_of_the_server_may_not_be_the_last() {
    let code = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"executableCode\": {\"code\": \"1\"}}]}, \"finishReason\": \"STOP\"}]}\n\n";
    let server = Server::answering([Answer::events(code, 4096).then_reset()]).await;
    let error = streamed(&server.model(), hi()).await.1.unwrap_err();
    assert!(matches!(own(&error), ProviderError::Truncated { .. }), "{error:?}");
    // Without more, the server had nothing to add.
    let server = Server::answering([Answer::events(code, 4096)]).await;
    assert_eq!(streamed(&server.model(), hi()).await.1.unwrap().parts.len(), 1);
}

#[tokio::test]
async fn silence_ends_in_an_error() {
    let event = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"a\"}]}}]}\n\n";
    for answer in [Answer::hang(), Answer::events(event, 4096).then_hang()] {
        let server = Server::answering([answer]).await;
        let model =
            server.model().with_connection(|c| c.with_timeout(Duration::from_millis(200))).unwrap();
        let error = streamed(&model.with_connection(|c| Ok(c.with_retries(0))).unwrap(), hi())
            .await
            .1
            .unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
    }
}

/// A server or a proxy before it may report an error in another form than the API, at any place of a
/// stream.
#[tokio::test]
async fn an_error_in_another_form_is_the_servers_own() {
    for (json, says, passes) in bare_errors::FORMS {
        let event = format!("data: {json}\n\n");
        let begun = format!(
            "data: {}\n\n{event}",
            r#"{"candidates":[{"content":{"parts":[{"text":"It "}]}}]}"#
        );
        for (answer, is_begun) in [
            (Answer::json(json), false),
            (Answer::events(&event, 64), false),
            (Answer::events(&begun, 64), true),
        ] {
            let server = Server::answering([answer.clone(), answer]).await;
            let model = server
                .model()
                .with_connection(|connection| Ok(connection.with_retries(1)))
                .unwrap();
            let error = streamed(&model, hi()).await.1.unwrap_err();
            assert!(error.to_string().contains(says), "{json}: {error}");
            let is_retried = passes && !is_begun;
            assert_eq!(server.seen().len(), 1 + usize::from(is_retried), "{json}");
        }
    }
}

#[tokio::test]
async fn a_conversation_longer_than_the_context_is_a_known_error() {
    let error = r#"{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}"#;
    let exceeded = ContextExceeded::new(Some(1_200_000), Some(1_048_576));
    let listed = format!("[{error}]");
    for answer in [Answer::new(400, "", error), Answer::new(400, "", &*listed), Answer::json(error)]
    {
        for (outcome, requests) in outcomes(&[answer]).await {
            let error = outcome.unwrap_err();
            assert_eq!((error.context_exceeded(), requests), (Some(exceeded), 1), "{error:?}");
        }
    }
    let server = Server::answering([Answer::events(&format!("data: {error}\n\n"), 64)]).await;
    let error = streamed(&server.model(), hi()).await.1.unwrap_err();
    assert_eq!(error.context_exceeded(), Some(exceeded), "{error:?}");
    // A gateway may send the word of another API.
    let full =
        r#"{"candidates": [{"content": {}, "finishReason": "MODEL_CONTEXT_WINDOW_EXCEEDED"}]}"#;
    let server = Server::answering([Answer::json(full)]).await;
    let error = server.model().generate(&hi()).await.unwrap_err();
    assert_eq!(error.context_exceeded(), Some(ContextExceeded::default()), "{error:?}");
}

/// Some servers always stream, and some never do.
#[tokio::test]
async fn a_reply_in_the_form_that_was_not_asked_for_is_read() {
    for answer in [ok_stream(), ok_stream().named("application/json")] {
        let server = Server::answering([answer]).await;
        let reply = server.model().generate(&hi()).await.unwrap();
        assert_eq!(reply.to_text(), "ok");
    }
    let server = Server::answering([ok()]).await;
    assert_eq!(streamed(&server.model(), hi()).await.1.unwrap().to_text(), "ok");
}

#[tokio::test]
async fn the_pause_in_the_headers_of_a_reply_that_breaks_off_is_kept() {
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    for answer in
        [Answer::new(200, headers, "{\"con"), Answer::new(200, headers, "{\"con").then_reset()]
    {
        let server = Server::answering([answer]).await;
        let error = server.model().generate(&hi()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
    }
}
