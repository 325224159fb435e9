//! Servers that do harm: they repeat the key, send endless bodies, or never end a response.

use std::error::Error as StdError;
use std::time::{Duration, Instant};

use toolwright_module::error::Stage;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Delta;
use toolwright_module::{Error as ModuleError, LanguageModel};
use toolwright_openai::{Api, ErrorKind, OpenAi, ProviderError};

use crate::common::{self, APIS, Answer, Server, hi, http, ok_stream, own, streamed};

/// A key with characters that JSON may escape.
const KEY: &str = "sk-very/secret+0123456789";
const SILENCE: Duration = Duration::from_millis(300);
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

async fn fails(model: &OpenAi, stream: bool) -> ModuleError {
    let outcome = if stream { streamed(model, hi()).await.1 } else { model.generate(&hi()).await };
    outcome.unwrap_err()
}

/// All texts of an error and of its causes.
fn everything(error: &ModuleError) -> String {
    let own = own(error);
    let mut all = format!("{error}\n{error:#}\n{error:?}\n{own}\n{own:#}\n{own:?}\n");
    all += error.raw().unwrap_or_default();
    let mut cause = own.source();
    while let Some(error) = cause {
        all += &format!("\n{error}\n{error:?}");
        cause = error.source();
    }
    all
}

fn escaped(escape: impl Fn(char) -> String) -> String {
    KEY.chars().map(escape).collect()
}

#[tokio::test]
async fn an_error_never_shows_the_key_in_any_escaped_form() {
    let forms = [
        KEY.to_owned(),
        escaped(|c| if c == '/' { r"\/".to_owned() } else { c.to_string() }),
        escaped(|c| format!(r"\u{:04x}", u32::from(c))),
        escaped(|c| format!(r"\\u{:04X}", u32::from(c))),
    ];
    for key in forms {
        let said = format!(r#"{{"error": {{"message": "No such key: {key}", "code": "{key}"}}}}"#);
        let event = format!("data: {said}\n\n");
        let half =
            format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{key}\"}}}}]}}\n\n");
        let answers = [
            (Answer::new(401, &format!("content-type: {JSON}\r\n"), &said), false),
            (Answer::new(401, &format!("request-id: {KEY}\r\n"), &key), true),
            (Answer::json(&said), false),
            (Answer::json(&said), true),
            (Answer::events(&event, 4096), true),
            (Answer::events(&half, 4096), true),
            (Answer::events(&format!("data: {key}\n\n"), 4096), true),
            (Answer::json(&key), false),
            (Answer::json(&key), true),
            // The cause is an error of serde that contains the value.
            (Answer::json(format!(r#"{{"choices": "{key}"}}"#)), false),
            // The key is across the cut at 64 KiB.
            (Answer::new(401, "", "x".repeat(64 * 1024 - 9) + &key), false),
            (Answer::json("x".repeat(64 * 1024 - 9) + &key), false),
        ];
        for (case, (answer, stream)) in answers.into_iter().enumerate() {
            let server = Server::answering([answer]).await;
            let model = server
                .model(Api::Chat)
                .with_key(KEY)
                .unwrap()
                .with_connection(|c| Ok(c.with_retries(0)))
                .unwrap();
            let error = fails(&model, stream).await;
            let all = everything(&error);
            for part in ["secret", "0123456789", "sk-", r"\u0073"] {
                assert!(!all.contains(part), "{case} {key}: {all:.2000}");
            }
        }
    }
}

#[tokio::test]
async fn an_endless_body_is_an_error() {
    let much = "x".repeat(1 << 20);
    for (api, stream) in [(Api::Chat, false), (Api::Responses, false), (Api::Chat, true)] {
        let answer = Answer::endless(200, JSON, "{\"a\": \"", &much, Duration::ZERO);
        let server = Server::answering([answer]).await;
        let error = fails(&server.model(api), stream).await;
        assert!(matches!(http(&error), ErrorKind::TooLarge { .. }), "{error:?}");
        assert_eq!(error.stage(), Stage::Limit);
        assert!(!error.is_retryable());
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"the server sent more than 64 MiB as one reply; ask for a shorter reply, or check the base URL");
        }
    }
}

#[tokio::test]
async fn a_body_whose_content_length_is_too_large_is_not_read() {
    for stream in [false, true] {
        let mut answer = Answer::json("");
        answer.announce(1 << 40);
        let server = Server::answering([answer.then_hang()]).await;
        let error = fails(&server.model(Api::Chat), stream).await;
        assert!(matches!(http(&error), ErrorKind::TooLarge { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_endless_line_of_a_stream_is_an_error() {
    let much = "x".repeat(1 << 16);
    for api in APIS {
        let answer = Answer::endless(200, EVENTS, "data: ", &much, Duration::ZERO);
        let server = Server::answering([answer]).await;
        let error = fails(&server.model(api), true).await;
        assert!(matches!(http(&error), ErrorKind::TooLarge { .. }), "{error:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"the server sent more than 4 MiB as one line of a stream; ask for a shorter reply, or check the base URL");
        }
    }
}

#[tokio::test]
async fn a_long_line_in_small_pieces_is_read_in_linear_time() {
    let text = "x".repeat(1 << 20);
    let event = format!(
        "data: {{\"choices\": [{{\"delta\": {{\"content\": \"{text}\"}}, \"finish_reason\": \"stop\"}}]}}\n\n"
    );
    let server = Server::answering([Answer::events(&event, 512)]).await;
    let started = Instant::now();
    let outcome = streamed(&server.model(Api::Chat), hi()).await.1;
    assert_eq!(outcome.unwrap().to_text().len(), text.len());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_texts_of_an_error_are_cut() {
    let long = "äx".repeat(100_000);
    let said = format!(r#"{{"error": {{"message": "{long}", "code": "{long}"}}}}"#);
    let event = format!("data: {said}\n\n");
    for (answer, stream) in [
        (Answer::json(&said), false),
        (Answer::events(&event, 4096), true),
        (
            Answer::new(
                400,
                "",
                r#"{"error": {"message": ""#.to_owned() + &long[..9999] + r#""}}"#,
            ),
            false,
        ),
    ] {
        let server = Server::answering([answer]).await;
        let error = fails(&server.model(Api::Chat), stream).await;
        assert!(error.to_string().len() < 2000);
        assert!(error.to_string().contains("äxä"));
        assert!(error.raw().unwrap().len() <= 64 * 1024);
    }
    let server = Server::answering([Answer::json(format!(r#"{{"choices": "{long}"}}"#))]).await;
    let error = fails(&server.model(Api::Chat), false).await;
    assert!(own(&error).source().unwrap().to_string().len() < 2000);
    let half = format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{long}\"}}}}]}}\n\n");
    let server = Server::answering([Answer::events(&half, 4096)]).await;
    let error = fails(&server.model(Api::Chat), true).await;
    assert!(matches!(own(&error), ProviderError::Truncated { raw, .. } if raw.len() <= 64 * 1024));
}

#[tokio::test]
async fn a_page_instead_of_a_stream_is_an_error() {
    for api in APIS {
        for kind in ["text/html; charset=utf-8", "text/plain", ""] {
            let headers = format!("content-type: {kind}\r\n");
            let page = "\n<html>Welcome!</html>";
            let server = Server::answering([Answer::new(200, &headers, page)]).await;
            let error = fails(&server.model(api), true).await;
            assert!(matches!(own(&error), ProviderError::Decoding { .. }), "{error:?}");
            assert_eq!(error.raw(), Some(page));
            assert!(!error.is_retryable());
        }
        let server = Server::answering([Answer::json(r#"{"error": {"message": "No."}}"#)]).await;
        let error = fails(&server.model(api), true).await;
        assert_eq!(error.to_string(), "the server reported an error in its reply: No.");
    }
}

#[tokio::test]
async fn a_whole_reply_instead_of_a_stream_is_used() {
    for api in APIS {
        let server = Server::answering([common::ok(api)]).await;
        let (deltas, outcome) = streamed(&server.model(api), hi()).await;
        let reply = outcome.unwrap();
        assert!(matches!(&deltas[..], [Delta::Text(text)] if text == "ok"), "{deltas:?}");
        assert!(matches!(&reply.parts[..], [ReplyPart::Text(text)] if text == "ok"));

        let server = Server::answering([common::ok(api).then_reset()]).await;
        let error = fails(&server.model(api), true).await;
        assert!(matches!(own(&error), ProviderError::Truncated { .. }), "{error:?}");
        assert_eq!(server.seen().len(), 1, "a reply that has begun is not requested again");
    }
}

#[tokio::test]
async fn a_stream_with_a_wrong_content_type_is_read() {
    for api in APIS {
        for size in [1, 4096] {
            let stream = format!("\n: hello\n\n{}", ok_stream(api));
            let answer = Answer::events(&stream, size).named("text/plain");
            let server = Server::answering([answer]).await;
            let (deltas, outcome) = streamed(&server.model(api), hi()).await;
            assert_eq!(outcome.unwrap().to_text(), "ok");
            assert_eq!(deltas.len(), 2);
        }
    }
}

#[tokio::test]
async fn a_connection_that_stays_open_after_the_answer_is_left() {
    let finish = "data: {\"choices\": [{\"delta\": {\"content\": \"ok\"}, \"finish_reason\": \"stop\"}]}\n\n";
    let more = "data: {\"choices\": []}\n\n";
    for ping in [": ping\n\n", more] {
        let answer = Answer::endless(200, EVENTS, finish, ping, Duration::from_millis(20));
        let server = Server::answering([answer]).await;
        let model = server.model(Api::Chat).with_connection(|c| c.with_timeout(SILENCE)).unwrap();
        let waiting = tokio::time::timeout(SILENCE * 10, streamed(&model, hi()));
        let (_, outcome) = waiting.await.expect("an end");
        assert_eq!(outcome.unwrap().to_text(), "ok");
    }
}

#[tokio::test]
async fn a_reply_that_never_ends_is_an_error_after_the_maximum_time() {
    let piece = "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n\n";
    let most = SILENCE * 2;
    for (kind, first, again, pause, stream) in [
        (EVENTS, "", piece, Duration::from_millis(20), true),
        (EVENTS, "", ": ping\n\n", Duration::from_millis(20), true),
        // Without pauses there are always bytes to read.
        (EVENTS, "", ": ping\n\n", Duration::ZERO, true),
        (JSON, "{", " ", Duration::from_millis(20), false),
        (JSON, "{", " ", Duration::from_millis(20), true),
    ] {
        let server = Server::answering([Answer::endless(200, kind, first, again, pause)]).await;
        let model = server.model(Api::Chat).with_connection(|c| Ok(c.with_max_time(most))).unwrap();
        let waiting = tokio::time::timeout(most * 10, fails(&model, stream));
        let error = waiting.await.expect("an end");
        // Without pauses the body may first become too large.
        if pause.is_zero() && matches!(http(&error), ErrorKind::TooLarge { .. }) {
            continue;
        }
        assert!(
            matches!(http(&error), ErrorKind::TooSlow { after } if *after == most),
            "{error:?}"
        );
        assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false));
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"the reply was not complete after 600ms; allow more time with `with_max_time`");
        }
        if again == piece {
            assert!(error.raw().unwrap().contains("xxx"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn the_slow_body_of_a_refusal_does_not_delay_the_error() {
    let answer = Answer::endless(400, JSON, "{", " ", Duration::from_millis(20));
    let server = Server::answering([answer]).await;
    let model = server.model(Api::Chat).with_connection(|c| c.with_timeout(SILENCE)).unwrap();
    let waiting = tokio::time::timeout(SILENCE * 10, fails(&model, false));
    let error = waiting.await.expect("an end");
    assert!(matches!(own(&error), ProviderError::Status { status: 400, .. }));
}

#[tokio::test]
async fn the_error_of_a_redirect_has_the_target() {
    for (location, to) in [
        ("https://user:pw@elsewhere/v2/chat/completions?key=1#x", "https://elsewhere/v2"),
        ("/openai/v1/chat/completions", "{server}/openai/v1"),
        ("https://login.corp/?next=/v1", "https://login.corp/"),
    ] {
        let headers = format!("location: {location}\r\n");
        let server = Server::answering([Answer::new(307, &headers, "")]).await;
        let error = fails(&server.model(Api::Chat), false).await;
        let to = to.replace("{server}", server.url.trim_end_matches("/v1"));
        let said = format!(
            "the server redirects the request (307: Temporary Redirect to {to}); use that address as the base URL"
        );
        assert_eq!(error.to_string(), said);
    }
}

#[tokio::test]
async fn an_unknown_status_is_not_retried() {
    let server = Server::answering([Answer::new(999, "", "")]).await;
    let error = fails(&server.model(Api::Chat), false).await;
    assert!(!error.is_retryable());
    insta::assert_snapshot!(error, @"the server sent an unknown status (999: no reason given); check that the base URL is that of the provider's API");
}

#[tokio::test]
async fn the_long_form_of_an_error_has_the_response() {
    let server = Server::answering([Answer::json("<html>Welcome!</html>")]).await;
    let error = fails(&server.model(Api::Chat), false).await;
    let own = own(&error);
    assert_eq!(format!("{own:#}"), format!("{own}\nreply: <html>Welcome!</html>"));
    insta::assert_snapshot!(format!("{own:?}"), @"
    the server's response is not a reply of the API; check that the base URL is that of the provider's API
    reply: <html>Welcome!</html>
    cause: expected value at line 1 column 1
    ");
}
