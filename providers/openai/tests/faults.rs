//! Faults of the server and of the connection: retries, and errors that name the fix.

use std::time::{Duration, Instant, SystemTime};
use toolwright_module::model::Settings;

use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Context, Error as ModuleError, LanguageModel, Reply, Result};
use toolwright_openai::{Api, ErrorKind, OpenAi, ProviderError};

use crate::common::{
    APIS, Answer, Server, bare_errors, hi, http, ok, ok_stream, own, said, streamed,
};

const LIMITED: &str = r#"{"error": {"message": "Rate limit reached for test-model.", "type": "requests", "param": null, "code": "rate_limit_exceeded"}}"#;

fn limited(headers: &str) -> Answer {
    Answer::new(429, headers, LIMITED)
}

fn broken() -> Answer {
    let body = r#"{"error": {"message": "The server had an error.", "type": "server_error"}}"#;
    Answer::new(500, "retry-after-ms: 1\r\n", body)
}

/// The result of a whole and of a streamed call to a server that sends these answers and then
/// a good one, and the number of requests.
async fn outcomes(api: Api, answers: &[Answer]) -> Vec<(Result<Reply>, usize)> {
    let mut outcomes = Vec::new();
    for stream in [false, true] {
        let good = if stream { Answer::events(&ok_stream(api), 64) } else { ok(api) };
        let server = Server::answering(answers.iter().cloned().chain([good])).await;
        let model = server.model(api);
        let outcome =
            if stream { streamed(&model, hi()).await.1 } else { model.generate(&hi()).await };
        outcomes.push((outcome, server.seen().len()));
    }
    outcomes
}

async fn recovers(answers: &[Answer]) {
    for api in APIS {
        for (outcome, requests) in outcomes(api, answers).await {
            assert_eq!(outcome.unwrap().to_text(), "ok");
            assert_eq!(requests, answers.len() + 1);
        }
    }
}

/// The text without the port of the test's server, which is another one each time.
fn without_port(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        without += "127.0.0.1";
        without += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    without
}

/// The error of a fault that is not retried. It is the same for both APIs, whole and streamed.
async fn fails(answer: Answer) -> ModuleError {
    let mut first = None;
    for api in APIS {
        for (outcome, requests) in outcomes(api, std::slice::from_ref(&answer)).await {
            let error = outcome.unwrap_err();
            assert_eq!(requests, 1, "{error:?}");
            let text = without_port(&format!("{error:#}"));
            let first = first.get_or_insert_with(|| text.clone());
            assert_eq!(*first, text);
        }
    }
    let [(outcome, _), _] = <[_; 2]>::try_from(outcomes(Api::Chat, &[answer]).await).unwrap();
    outcome.unwrap_err()
}

#[tokio::test]
async fn a_request_over_the_rate_limit_is_retried() {
    recovers(&[limited("retry-after: 0\r\n")]).await;
    recovers(&[limited("retry-after: 0.001\r\n"), limited("retry-after-ms: 1\r\n")]).await;
}

#[tokio::test]
async fn the_pause_is_as_long_as_the_server_asks_for() {
    let server = Server::answering([limited("retry-after: 1\r\n"), ok(Api::Chat)]).await;
    let started = Instant::now();
    server.model(Api::Chat).generate(&hi()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn there_is_no_retry_if_the_pause_ends_after_the_maximum_time() {
    let server = Server::answering([limited("retry-after: 30\r\n")]).await;
    let model = server
        .model(Api::Chat)
        .with_connection(|c| Ok(c.with_max_time(Duration::from_secs(20))))
        .unwrap();
    let started = Instant::now();
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(matches!(own(&error), ProviderError::Status { status: 429, .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_pause_until_a_date_is_read() {
    let date = |wait| httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(wait));
    let over = "Sun, 06 Nov 1994 08:49:37 GMT";
    recovers(&[limited(&format!("retry-after: {over}\r\n"))]).await;
    let server = Server::answering([limited(&format!("retry-after: {}\r\n", date(3600)))]).await;
    let error = server.model(Api::Chat).generate(&hi()).await.unwrap_err();
    let ProviderError::Status { retry_after: Some(wait), .. } = own(&error) else {
        panic!("{error:?}")
    };
    assert_eq!(error.retry_after(), Some(*wait));
    assert!((3500..=3600).contains(&wait.as_secs()), "{wait:?}");
}

#[tokio::test]
async fn a_failure_of_the_server_is_retried() {
    recovers(&[broken(), broken()]).await;
}

#[tokio::test]
async fn a_connection_reset_before_the_response_is_retried() {
    recovers(&[Answer::reset()]).await;
}

#[tokio::test]
async fn after_the_last_retry_the_last_failure_is_returned() {
    for api in APIS {
        for (outcome, requests) in outcomes(api, &[broken(), broken(), broken()]).await {
            let error = outcome.unwrap_err();
            assert_eq!(requests, 3);
            assert_eq!(error.stage(), Stage::Provider);
            assert!(error.is_retryable());
        }
    }
    let server = Server::answering([broken()]).await;
    let model = server.model(Api::Chat).with_connection(|c| Ok(c.with_retries(0))).unwrap();
    let error = model.generate(&hi()).await.unwrap_err();
    insta::assert_snapshot!(said(&error, &server), @r#"
    the server failed (500: The server had an error.); try again later
    stage: provider (may succeed later)
    reply: {"error": {"message": "The server had an error.", "type": "server_error"}}
    "#);
}

#[tokio::test]
async fn there_is_no_retry_if_the_server_asks_for_a_long_pause() {
    let error = fails(limited("retry-after: 3600\r\n")).await;
    let own = own(&error);
    assert!(matches!(
        own,
        ProviderError::Status {
            status: 429,
            retry_after: Some(wait),
            ..
        } if wait.as_secs() == 3600
    ));
    assert!(error.is_retryable());
    insta::assert_snapshot!(format!("{own:#}"), @r#"
    the rate limit is reached (429: Rate limit reached for test-model.); send fewer requests, after 3600s or later
    request: req_1
    code: rate_limit_exceeded
    body: {"error": {"message": "Rate limit reached for test-model.", "type": "requests", "param": null, "code": "rate_limit_exceeded"}}
    "#);
}

#[tokio::test]
async fn a_permanent_refusal_is_not_retried() {
    let mut all = String::new();
    for (status, body) in [
        (301, ""),
        (
            400,
            r#"{"error": {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error", "param": "x", "code": "unknown_parameter"}}"#,
        ),
        (
            400,
            r#"{"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}"#,
        ),
        (400, r#"{"error": {"code": "context_length_exceeded", "message": "too long"}}"#),
        (
            401,
            r#"{"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}"#,
        ),
        (402, r#"{"error": {"message": "Insufficient Balance", "type": "unknown_error"}}"#),
        (403, r#"{"detail": "Not yours."}"#),
        (404, r#"{"error": "model 'x' not found"}"#),
        (413, "<html>\n<h1>413 Request Entity Too Large</h1></html>"),
        (
            422,
            r#"{"object": "error", "message": "[{'loc': ['body']}]", "type": "BadRequestError", "param": null, "code": 422}"#,
        ),
        (
            429,
            r#"{"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}}"#,
        ),
    ] {
        let error = fails(Answer::new(status, "location: http://127.0.0.1:1/\r\n", body)).await;
        assert!(!error.is_retryable());
        assert_eq!(error.raw(), Some(body).filter(|body| !body.is_empty()));
        all += &without_port(&format!("{error}\n"));
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn a_conversation_longer_than_the_context_is_a_known_error() {
    let error = r#"{"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}"#;
    let body = format!(r#"{{"error": {error}}}"#);
    let exceeded = ContextExceeded::new(Some(9000), Some(8192));
    for answer in [Answer::new(400, "", &*body), Answer::json(&*body)] {
        let error = fails(answer).await;
        assert_eq!(error.context_exceeded(), Some(exceeded), "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
    let code = r#"{"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model. Please adjust your input and try again."}"#;
    let none = ContextExceeded::default();
    let full = r#"{"choices": [{"delta": {}, "finish_reason": "model_context_window_exceeded"}]}"#;
    for (api, event, exceeded) in [
        (Api::Chat, body, exceeded),
        (Api::Chat, full.to_owned(), none),
        (Api::Responses, format!(r#"{{"type": "error", "error": {code}}}"#), none),
        (Api::Responses, format!(r#"{{"type": "error", {}"#, &code[1..]), none),
        (
            Api::Responses,
            format!(
                r#"{{"type": "response.failed", "response": {{"status": "failed", "error": {code}}}}}"#
            ),
            none,
        ),
        (
            Api::Responses,
            r#"{"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "context_length_exceeded"}, "output": []}}"#.to_owned(),
            none,
        ),
    ] {
        let server = Server::answering([Answer::events(&format!("data: {event}\n\n"), 64)]).await;
        let error = streamed(&server.model(api), hi()).await.1.unwrap_err();
        assert_eq!(error.context_exceeded(), Some(exceeded), "{event}: {error:?}");
        assert_eq!(server.seen().len(), 1, "it is not tried again");
    }
}

#[tokio::test]
async fn the_error_message_of_the_server_is_read_in_any_form() {
    let mut all = String::new();
    for (status, body) in [
        (422, r#"{"detail": "Model not found."}"#),
        (
            422,
            r#"{"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "field required", "type": "missing"}, {"loc": ["body"], "msg": "too long"}]}"#,
        ),
        (400, r#"{"errors": [{"message": "No such model.", "code": 5007}]}"#),
        (400, r#"{"errors": "Nothing is left."}"#),
        (400, r#"{"errors": {"message": "Nothing is left."}}"#),
        (
            400,
            r#"[{"error": {"code": 400, "message": "Not valid.", "status": "INVALID_ARGUMENT"}}]"#,
        ),
        (400, r#"{"error": {"error": {"message": "Wrapped twice."}}}"#),
        (400, r#"{"message": "Flat."}"#),
        (400, r#""Only a text.""#),
        (400, r#"{"error": null, "detail": "Beside it."}"#),
    ] {
        let error = fails(Answer::new(status, "", body)).await;
        all += &format!("{error}\n");
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn a_refusal_without_a_key_says_how_to_set_one() {
    let body = r#"{"error": {"message": "Missing bearer authentication in header"}}"#;
    for status in [401, 400] {
        let error = fails(Answer::new(status, "", body)).await;
        for name in ["with_key", "from_env", "Missing bearer"] {
            assert!(error.to_string().contains(name), "{error}");
        }
        let server = Server::answering([Answer::new(status, "", body)]).await;
        let model = server.model(Api::Chat).with_key("sk-made-up").unwrap();
        let error = model.generate(&hi()).await.unwrap_err();
        assert!(!error.to_string().contains("with_key"), "{error}");
    }
    let error = fails(Answer::new(400, "", r#"{"error": "Unknown parameter: x"}"#)).await;
    assert!(!error.to_string().contains("with_key"), "{error}");
}

#[tokio::test]
async fn a_body_that_is_not_utf8_is_an_error_and_not_retried() {
    const JSON: &str = "content-type: application/json\r\n";
    const EVENTS: &str = "content-type: text/event-stream\r\n";
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xabV*J-.\xcd)Q\xb2";
    let latin = b"{\"choices\": [{\"message\": {\"content\": \"caf\xe9\"}}]}";
    let latin_events = b"data: {\"choices\": [{\"delta\": {\"content\": \"caf\xe9\"}}]}\n\n";
    let coded = |head: &str| format!("{head}content-encoding: gzip\r\n");
    let mut all = String::new();
    for (head, body, stream) in [
        (coded(JSON), &gzip[..], false),
        (JSON.to_owned(), gzip, false),
        (JSON.to_owned(), latin, false),
        (coded(EVENTS), gzip, true),
        (EVENTS.to_owned(), gzip, true),
        (String::new(), gzip, true),
        (EVENTS.to_owned(), latin_events, true),
    ] {
        for api in APIS {
            let server = Server::answering([Answer::bytes(&head, body), ok(api)]).await;
            let model = server.model(api);
            let outcome =
                if stream { streamed(&model, hi()).await.1 } else { model.generate(&hi()).await };
            let error = outcome.unwrap_err();
            assert!(matches!(http(&error), ErrorKind::Encoding { .. }), "{head} {error:?}");
            assert!(!error.is_retryable());
            assert_eq!(server.seen().len(), 1);
            if api == Api::Chat {
                all += &format!("{error}\n");
            }
        }
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn usage_that_is_not_reported_is_unknown() {
    for api in APIS {
        for stream in [false, true] {
            let answer = if stream { Answer::events(&ok_stream(api), 64) } else { ok(api) };
            let server = Server::answering([answer]).await;
            let model = server.model(api);
            let reply = match stream {
                true => streamed(&model, hi()).await.1.unwrap(),
                false => model.generate(&hi()).await.unwrap(),
            };
            assert_eq!(reply.usage, Usage::unknown());
        }
    }
}

#[tokio::test]
async fn an_error_page_of_a_proxy_is_a_failure_of_the_server() {
    let page = "<html><body><h1>502 Bad Gateway</h1></body></html>";
    let page = Answer::new(502, "content-type: text/html\r\nretry-after: 0\r\n", page);
    recovers(std::slice::from_ref(&page)).await;
    let server = Server::answering([page.clone(), page.clone(), page]).await;
    let error = server.model(Api::Chat).generate(&hi()).await.unwrap_err();
    insta::assert_snapshot!(said(&error, &server), @"
    the server failed (502: Bad Gateway); try again later
    stage: provider (may succeed later)
    reply: <html><body><h1>502 Bad Gateway</h1></body></html>
    ");
}

#[tokio::test]
async fn a_page_instead_of_a_reply_is_an_error() {
    for api in APIS {
        let server = Server::answering([Answer::json("<html>Welcome!</html>")]).await;
        let error = server.model(api).generate(&hi()).await.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Decoding { .. }));
        insta::allow_duplicates! {
            insta::assert_snapshot!(said(&error, &server), @"
            the server's response is not a reply of the API; check that the base URL is that of the provider's API
            stage: decoding
            cause: expected value at line 1 column 1
            reply: <html>Welcome!</html>
            ");
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_cut_off_is_an_error() {
    for api in APIS {
        let half = Answer::json(r#"{"choices": [{"message": {"content": "o"#);
        let server = Server::answering([half]).await;
        let error = server.model(api).generate(&hi()).await.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Truncated { .. }));
        assert_eq!(error.raw(), Some(r#"{"choices": [{"message": {"content": "o"#));
        assert!(error.is_retryable());

        let server = Server::answering([ok(api).then_reset()]).await;
        let error = server.model(api).generate(&hi()).await.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Truncated { source: Some(_), .. }));
        assert_eq!(error.stage(), Stage::Transport);
    }
}

#[tokio::test]
async fn the_error_of_a_broken_stream_has_the_parts_so_far() {
    for api in APIS {
        let stream = ok_stream(api);
        let first = stream.split_inclusive("\n\n").next().unwrap();
        let server = Server::answering([Answer::events(first, 4096).then_reset()]).await;
        let (deltas, outcome) = streamed(&server.model(api), hi()).await;
        assert_eq!(deltas.len(), 1);
        let error = outcome.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Truncated { source: Some(_), .. }));
        assert_eq!(error.raw(), Some(r#"[{"text":"o"}]"#));
        assert_eq!(server.seen().len(), 1, "a reply that has begun is not requested again");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_the_answer_is_a_success() {
    for api in APIS {
        let stream = ok_stream(api).replace("data: [DONE]\n\n", "");
        let server = Server::answering([Answer::events(&stream, 4096).then_reset()]).await;
        let (_, outcome) = streamed(&server.model(api), hi()).await;
        assert_eq!(outcome.unwrap().to_text(), "ok");
    }
}

#[tokio::test]
async fn silence_is_an_error() {
    let silence = Duration::from_millis(200);
    let impatient = |server: &Server, api| -> OpenAi {
        server.model(api).with_connection(|c| c.with_timeout(silence)).unwrap()
    };
    for api in APIS {
        let first = ok_stream(api).split_inclusive("\n\n").next().unwrap().to_owned();
        let cases = [
            (Answer::hang(), false),
            (Answer::hang(), true),
            (ok(api).then_hang(), false),
            (Answer::events(&first, 4096).then_hang(), true),
            (broken().then_hang(), false),
        ];
        for (case, (answer, stream)) in cases.into_iter().enumerate() {
            let server = Server::answering([answer]).await;
            let model = impatient(&server, api).with_connection(|c| Ok(c.with_retries(0))).unwrap();
            let started = Instant::now();
            let outcome =
                if stream { streamed(&model, hi()).await.1 } else { model.generate(&hi()).await };
            let (error, took) = (outcome.unwrap_err(), started.elapsed());
            assert!((silence..silence * 10).contains(&took), "{case}: {took:?}");
            // If the body of a refusal hangs, the error still has the status.
            let known = match own(&error) {
                ProviderError::Http { error, .. } => {
                    *error.kind() == ErrorKind::Silent { after: silence }
                }
                ProviderError::Status { status, .. } => case == 4 && *status == 500,
                _ => false,
            };
            assert!(known, "{case}: {error:?}");
            if case == 0 {
                assert_eq!(error.stage(), Stage::Transport);
                insta::allow_duplicates! {
                    insta::assert_snapshot!(error, @"the server sent nothing for 200ms; allow more time with `with_timeout`");
                }
            }
        }
    }
}

#[tokio::test]
async fn silence_is_not_retried() {
    let server = Server::answering([Answer::hang(), ok(Api::Chat)]).await;
    let model = server
        .model(Api::Chat)
        .with_connection(|c| c.with_timeout(Duration::from_millis(100)))
        .unwrap();
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(matches!(http(&error), ErrorKind::Silent { .. }));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn comments_in_a_stream_end_the_silence() {
    // The stream takes longer than the allowed silence, and has only comments at first.
    let slow = format!("{}{}", ": thinking\n\n".repeat(400), ok_stream(Api::Chat));
    let server = Server::answering([Answer::events(&slow, 4)]).await;
    let model = server
        .model(Api::Chat)
        .with_connection(|c| c.with_timeout(Duration::from_millis(500)))
        .unwrap();
    assert_eq!(streamed(&model, hi()).await.1.unwrap().to_text(), "ok");
}

#[tokio::test]
async fn a_server_that_does_not_run_is_a_connection_error() {
    // Port 1 is reserved and closed.
    let model = OpenAi::at("http://127.0.0.1:1/v1", "m")
        .unwrap()
        .with_connection(|c| Ok(c.with_retries(1)))
        .unwrap();
    for outcome in [model.generate(&hi()).await, streamed(&model, hi()).await.1] {
        let error = outcome.unwrap_err();
        assert!(matches!(http(&error), ErrorKind::Connect { .. }));
        assert!(error.is_retryable());
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"no connection to http://127.0.0.1:1/v1; check the base URL, the network and that the server runs");
        }
    }
}

#[tokio::test]
async fn the_budget_gets_tokens_back_only_if_the_request_cost_nothing() {
    let server = |answer| Server::answering([answer]);
    let silent = server(Answer::hang()).await;
    let silent = silent
        .model(Api::Chat)
        .with_connection(|c| c.with_timeout(Duration::from_millis(100)))
        .unwrap();
    let refusing =
        server(broken()).await.model(Api::Chat).with_connection(|c| Ok(c.with_retries(0))).unwrap();
    let no_reply = server(Answer::json("[]"))
        .await
        .model(Api::Chat)
        .with_connection(|c| Ok(c.with_retries(0)))
        .unwrap();
    let unreachable = OpenAi::at("http://127.0.0.1:1/v1", "m")
        .unwrap()
        .with_connection(|c| Ok(c.with_retries(0)))
        .unwrap();
    for (model, taken) in [(unreachable, 0), (refusing, 0), (silent, 9), (no_reply, 9)] {
        let ledger = Ledger::new(Budget { output_tokens: Some(9), ..Budget::default() });
        let cx = Context::default().with_ledger(ledger.clone());
        let request = hi().with_settings(Settings::default().with_max_output_tokens(9));
        let error = cx.ask(&model, request, false).await.unwrap_err();
        assert_eq!(ledger.committed().usage.output_tokens, taken, "{error:?}");
    }
}

#[tokio::test]
async fn a_stream_can_be_dropped_before_its_end() {
    let first = ok_stream(Api::Chat).split_inclusive("\n\n").next().unwrap().to_owned();
    let server = Server::answering([Answer::events(&first, 4096).then_hang()]).await;
    let model = server.model(Api::Chat);
    let mut stream = model.stream(hi());
    assert!(futures_util::StreamExt::next(&mut stream).await.unwrap().is_ok());
    drop(stream);
}

/// A reply of status 200 with this JSON, whole and as a stream of one event.
fn reported(json: &str) -> [Answer; 2] {
    [Answer::json(json), Answer::events(&format!("data: {json}\n\n"), 64)]
}

#[tokio::test]
async fn an_error_that_may_pass_is_retried_also_within_a_success() {
    let failed = r#"{"status":"failed","error":{"code":"server_error","message":"Oh."}}"#;
    let event = format!(r#"{{"type":"response.failed","response":{failed}}}"#);
    let cases = [
        (Api::Chat, r#"{"error":{"code":502,"message":"Bad gateway"}}"#),
        (
            Api::Chat,
            r#"{"choices":[{"error":{"code":503,"message":"Oh."},"finish_reason":"error"}]}"#,
        ),
        (Api::Chat, r#"{"choices":[{"finish_reason":"error"}]}"#),
        (Api::Chat, r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#),
        (Api::Responses, failed),
        (Api::Responses, r#"{"status":"failed","usage":{"input_tokens":0,"output_tokens":0}}"#),
        (Api::Responses, r#"{"type":"response.failed","response":{}}"#),
        (Api::Responses, &event),
        (Api::Responses, r#"{"type":"error","code":"rate_limit_exceeded","message":"Slower."}"#),
    ];
    for (api, json) in cases {
        let [whole, events] = reported(json);
        let good = Answer::events(&ok_stream(api), 64);
        for (bad, good, is_streamed) in [(whole, ok(api), false), (events, good, true)] {
            // An event is not a whole reply, nor a reply of Responses an event.
            if is_streamed == json.starts_with("{\"status") || !is_streamed && json.contains("type")
            {
                continue;
            }
            let server = Server::answering([bad, good]).await;
            let model = server.model(api);
            let reply = match is_streamed {
                true => streamed(&model, hi()).await.1,
                false => model.generate(&hi()).await,
            };
            assert_eq!(reply.unwrap().to_text(), "ok", "{json}");
            assert_eq!(server.seen().len(), 2, "{json}");
        }
    }
}

/// A budget has room for one reply. A caller without one may ask again, because the error is
/// retryable.
#[tokio::test]
async fn a_reply_that_failed_and_costs_tokens_is_not_retried() {
    let usage =
        r#""usage":{"prompt_tokens":7,"completion_tokens":2,"input_tokens":7,"output_tokens":2}"#;
    let failed = r#""status":"failed","error":{"code":"server_error","message":"Oh."}"#;
    let event = format!(r#"{{"type":"response.failed","response":{{{failed},{usage}}}}}"#);
    for (api, json, is_whole) in [
        (Api::Chat, format!(r#"{{"error":{{"code":429,"message":"Slower."}},{usage}}}"#), true),
        (Api::Chat, format!(r#"{{"choices":[{{"finish_reason":"error"}}],{usage}}}"#), true),
        (Api::Responses, format!("{{{failed},{usage}}}"), true),
        (Api::Responses, format!(r#"{{"status":"failed",{usage}}}"#), true),
        (Api::Responses, event, false),
    ] {
        let [whole, events] = reported(&json);
        for (bad, is_streamed) in [(whole, false), (events, true)] {
            if api == Api::Responses && is_whole == is_streamed {
                continue;
            }
            let good = if is_streamed { Answer::events(&ok_stream(api), 64) } else { ok(api) };
            let server = Server::answering([bad, good]).await;
            let model = server.model(api);
            let reply = match is_streamed {
                true => streamed(&model, hi()).await.1,
                false => model.generate(&hi()).await,
            };
            let error = reply.unwrap_err();
            assert!(error.is_retryable(), "{json}: {error}");
            assert_eq!(error.usage(), Usage::new(7, 2), "{json}");
            assert_eq!(server.seen().len(), 1, "{json}");
        }
    }
}

#[tokio::test]
async fn an_error_within_a_success_that_does_not_pass_is_not_retried() {
    for json in [
        r#"{"error":{"code":400,"message":"Bad request"}}"#,
        r#"{"error":{"code":"insufficient_quota","message":"Pay."}}"#,
        r#"{"error":{"type":"invalid_request_error","message":"No."}}"#,
    ] {
        for (outcome, asked) in outcomes(Api::Chat, &[Answer::json(json)]).await {
            let error = outcome.unwrap_err();
            assert_eq!((asked, error.is_retryable()), (1, false), "{json}");
        }
    }
    // The caller has seen a part of the reply.
    let begun = r#"data: {"choices":[{"delta":{"content":"It "}}]}"#;
    let events = format!("{begun}\n\ndata: {}\n\n", r#"{"error":{"code":502,"message":"Oh."}}"#);
    let server = Server::answering([Answer::events(&events, 64), ok(Api::Chat)]).await;
    let (deltas, outcome) = streamed(&server.model(Api::Chat), hi()).await;
    assert_eq!((deltas.len(), server.seen().len()), (1, 1));
    assert!(outcome.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_missing_key_is_named_only_where_a_key_is_missing() {
    let says = async |status, message: &str| {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        fails(Answer::new(status, "", body)).await.to_string().contains("the request had no key")
    };
    for (status, message) in [
        (401, "No."),
        (403, "No."),
        (400, "API key not valid. Please pass a valid API key."),
        (400, "Missing bearer authentication"),
    ] {
        assert!(says(status, message).await, "{status}: {message}");
    }
    for (status, message) in [
        (400, "max_tokens: 9000 > 4096, the maximum number of output tokens"),
        (400, "Unknown author of message 3"),
        (404, "No such model; check the API key"),
        (422, "Input token count exceeds the maximum"),
    ] {
        assert!(!says(status, message).await, "{status}: {message}");
    }
}

#[tokio::test]
async fn an_account_without_credit_is_not_asked_again_whatever_the_server_calls_it() {
    for error in [
        r#"{"code": "429", "type": "insufficient_quota", "message": "Pay."}"#,
        r#"{"code": 429, "type": "insufficient_quota", "message": "Pay."}"#,
        r#"{"type": "exceeded_current_quota_error", "message": "Pay."}"#,
        r#"{"code": "1113", "message": "Pay."}"#,
        r#"{"code": "Arrearage", "message": "Pay."}"#,
    ] {
        let refused = Answer::new(429, "", format!(r#"{{"error": {error}}}"#));
        let error = fails(refused).await;
        assert!(error.to_string().contains("no credit left (429: Pay.)"), "{error}");
    }
}

#[tokio::test]
async fn the_reason_of_a_reply_without_an_answer_is_in_the_error() {
    for json in [
        r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"Pay."}}"#,
        r#"{"error_code":17,"error_msg":"Pay."}"#,
    ] {
        for (answer, is_streamed) in reported(json).into_iter().zip([false, true]) {
            let server = Server::answering([answer]).await;
            let model = server.model(Api::Chat).with_connection(|c| Ok(c.with_retries(0))).unwrap();
            let reply = match is_streamed {
                true => streamed(&model, hi()).await.1,
                false => model.generate(&hi()).await,
            };
            let error = reply.unwrap_err();
            assert!(error.to_string().contains("Pay."), "{json}, {is_streamed}: {error}");
        }
    }
    // The usual end of MiniMax's replies is not an error.
    let json = r#"{"choices":null,"base_resp":{"status_code":0,"status_msg":"success"}}"#;
    let server = Server::answering([Answer::json(json)]).await;
    let error = server
        .model(Api::Chat)
        .with_connection(|c| Ok(c.with_retries(0)))
        .unwrap()
        .generate(&hi())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is empty"), "{error}");
}

#[tokio::test]
async fn the_pause_in_the_headers_of_a_success_with_an_error_is_kept() {
    keeps_the_pause(r#"{"error":{"code":429,"message":"Slow down."}}"#).await;
}

#[tokio::test]
async fn the_pause_in_the_headers_of_a_reply_that_was_not_finished_is_kept() {
    keeps_the_pause(r#"{"choices":[{"message":{"content":""},"finish_reason":"error"}]}"#).await;
    // A reply without content is not asked for again, but a hook may do it.
    let empty = r#"{"choices":[]}"#;
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    let server = Server::answering([Answer::new(200, headers, empty)]).await;
    let error = server.model(Api::Chat).generate(&hi()).await.unwrap_err();
    assert_eq!((error.is_retryable(), error.retry_after()), (true, Some(Duration::from_secs(7))));
}

async fn keeps_the_pause(error: &str) {
    let event = format!("data: {error}\n\n");
    let with_pause = |pause: &str| {
        [
            Answer::new(
                200,
                &format!("content-type: application/json\r\nretry-after: {pause}\r\n"),
                error,
            ),
            Answer::new(
                200,
                &format!("content-type: text/event-stream\r\nretry-after: {pause}\r\n"),
                &*event,
            ),
        ]
    };
    for (bad, is_streamed) in with_pause("1").into_iter().zip([false, true]) {
        let good =
            if is_streamed { Answer::events(&ok_stream(Api::Chat), 64) } else { ok(Api::Chat) };
        let (server, started) = (Server::answering([bad, good]).await, Instant::now());
        let model = server.model(Api::Chat);
        let reply = match is_streamed {
            true => streamed(&model, hi()).await.1,
            false => model.generate(&hi()).await,
        };
        assert_eq!(reply.unwrap().to_text(), "ok");
        assert!(started.elapsed() >= Duration::from_secs(1));
    }
    // The pause is too long for a retry. The caller gets it with the error.
    for (bad, is_streamed) in with_pause("61").into_iter().zip([false, true]) {
        let server = Server::answering([bad, ok(Api::Chat)]).await;
        let model = server.model(Api::Chat);
        let reply = match is_streamed {
            true => streamed(&model, hi()).await.1,
            false => model.generate(&hi()).await,
        };
        let error = reply.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(61)));
        assert_eq!(server.seen().len(), 1);
    }
}

/// A server or a proxy before it may report an error in another form than the API, at any place of a
/// stream.
#[tokio::test]
async fn an_error_in_another_form_is_the_servers_own() {
    for (json, says, passes) in bare_errors::FORMS {
        for (api, begun) in [
            (Api::Chat, r#"{"choices":[{"delta":{"content":"It "}}]}"#),
            (Api::Responses, r#"{"type":"response.output_text.delta","delta":"It "}"#),
        ] {
            let event = format!("data: {json}\n\n");
            let begun = format!("data: {begun}\n\n{event}");
            for (answer, is_begun) in [
                (Answer::json(json), false),
                (Answer::events(&event, 64), false),
                (Answer::events(&begun, 64), true),
            ] {
                let server = Server::answering([answer.clone(), answer]).await;
                let model = server
                    .model(api)
                    .with_connection(|connection| Ok(connection.with_retries(1)))
                    .unwrap();
                let error = streamed(&model, hi()).await.1.unwrap_err();
                assert!(error.to_string().contains(says), "{json}: {error}");
                let is_retried = passes && !is_begun;
                assert_eq!(server.seen().len(), 1 + usize::from(is_retried), "{json}");
            }
        }
    }
}

/// Another try would answer in the same form, and cost the same.
#[tokio::test]
async fn a_reply_inside_of_something_else_is_not_a_reply_of_the_api() {
    for api in APIS {
        let reply = match api {
            Api::Chat => r#"{"choices":[{"message":{"content":"A secret."}}]}"#,
            _ => r#"{"status":"completed","output":[{"type":"message","content":"A secret."}]}"#,
        };
        let text = serde_json::Value::from(reply).to_string();
        for body in [format!(r#"{{"data":{reply}}}"#), format!(r#"{{"response":{reply}}}"#), text] {
            let server = Server::answering([Answer::json(body.clone())]).await;
            let error = server.model(api).generate(&hi()).await.unwrap_err();
            let words = error.to_string();
            assert!(words.contains("not a reply of the API"), "{body}: {words}");
            assert!(!words.contains("secret") && !error.is_retryable(), "{body}: {words}");
        }
    }
}

#[tokio::test]
async fn the_pause_in_the_headers_of_a_reply_that_breaks_off_is_kept() {
    for api in APIS {
        let first = ok_stream(api).split_inclusive("\n\n").next().unwrap().to_owned();
        let headers = "content-type: application/json\r\nretry-after: 7\r\n";
        let half = || Answer::new(200, headers, r#"{"choices": [{"mess"#);
        let events = || Answer::events(&first, 4096).named("text/event-stream\r\nretry-after: 7");
        let silence = |server: &Server| {
            server
                .model(api)
                .with_connection(|c| c.with_timeout(Duration::from_millis(200)))
                .unwrap()
        };
        for answer in [half(), half().then_reset(), half().then_hang()] {
            let server = Server::answering([answer]).await;
            let error = silence(&server).generate(&hi()).await.unwrap_err();
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
        }
        for answer in [events(), events().then_reset(), events().then_hang()] {
            let server = Server::answering([answer]).await;
            let error = streamed(&silence(&server), hi()).await.1.unwrap_err();
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
        }
    }
}

/// Some servers always stream, and some never do.
#[tokio::test]
async fn a_reply_in_the_form_that_was_not_asked_for_is_read() {
    for api in APIS {
        let stream = ok_stream(api);
        for answer in [
            Answer::events(&stream, 64),
            Answer::events(&stream, 64).named("application/json"),
            Answer::json(format!("\n: a comment\n\n{stream}")),
        ] {
            let server = Server::answering([answer]).await;
            let reply = server.model(api).generate(&hi()).await.unwrap();
            assert_eq!((reply.to_text(), reply.finish), ("ok".to_owned(), Finish::Stop));
        }
        // A stream that breaks off is not a reply.
        let first = stream.split_inclusive("\n\n").next().unwrap();
        let server = Server::answering([Answer::events(first, 64)]).await;
        let error = server.model(api).generate(&hi()).await.unwrap_err();
        assert!(matches!(own(&error), ProviderError::Truncated { .. }), "{error:?}");
        assert_eq!(error.raw(), Some(r#"[{"text":"o"}]"#));
    }
}
