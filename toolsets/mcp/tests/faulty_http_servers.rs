//! `McpClient` with faulty servers over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Seen, cause, server};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError, ResultText};
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Effect, Result, ToolOutput};

/// A request to a server in these tests.
struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    /// `null` if there is no body.
    message: Value,
}

impl Asked {
    fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// The response with a result.
    fn answer(&self, result: &Value) -> Response<String> {
        let answer = json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result});
        respond(200, "application/json", answer.to_string())
    }
}

fn respond(status: u16, kind: &str, body: impl Into<String>) -> Response<String> {
    Response::builder().status(status).header("content-type", kind).body(body.into()).unwrap()
}

/// Starts a server that responds with `answer`, or disconnects if it returns `None`.
async fn serve<F>(answer: F) -> SocketAddr
where
    F: Fn(Asked) -> Option<Response<String>> + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
                    let asked = Asked {
                        method: head.method,
                        path: head.uri.path().to_owned(),
                        headers: head.headers,
                        message: serde_json::from_slice(&body).unwrap_or_default(),
                    };
                    match answer(asked) {
                        Some(response) => Ok(response.map(|body| Full::new(Bytes::from(body)))),
                        None => Err(std::io::Error::other("hung up")),
                    }
                }
            });
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                let _ = serving.await;
                Ok::<_, Infallible>(())
            });
        }
    });
    address
}

/// A server of 2025-11-25 with one tool; sessions have numbers.
#[derive(Default)]
struct Legacy {
    session: AtomicUsize,
    calls: AtomicUsize,
}

impl Legacy {
    /// Responds correctly, but with `forgotten` to a session that has expired.
    fn answer(
        &self,
        asked: &Asked,
        forgotten: impl Fn(&Asked) -> Response<String>,
    ) -> Response<String> {
        let current = self.session.load(Ordering::SeqCst).to_string();
        if asked.is("initialize") {
            let current = self.session.fetch_add(1, Ordering::SeqCst) + 1;
            let mut answer = asked.answer(&json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "legacy", "version": "1"},
            }));
            let session = current.to_string().parse().unwrap();
            answer.headers_mut().insert("mcp-session-id", session);
            return answer;
        }
        match asked.headers.get("mcp-session-id") {
            // The TypeScript SDK responds like this to `server/discover`.
            None => {
                let text = "Bad Request: Server not initialized";
                let error = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": text}, "id": null});
                return respond(400, "application/json", error.to_string());
            }
            Some(session) if session.as_bytes() != current.as_bytes() => return forgotten(asked),
            Some(_) => {}
        }
        if asked.method == Method::GET {
            return respond(405, "text/plain", "");
        }
        if asked.is("tools/list") {
            let tool = json!({"name": "count", "inputSchema": {"type": "object"}});
            return asked.answer(&json!({"tools": [tool]}));
        }
        if asked.is("tools/call") {
            let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            let text = calls.to_string();
            return asked.answer(&json!({"content": [{"type": "text", "text": text}]}));
        }
        respond(202, "text/plain", "")
    }
}

fn client(address: SocketAddr) -> McpClientBuilder {
    McpClient::http(&format!("http://{address}/mcp"))
        .unwrap()
        .with_trusted_results()
        .with_start_time(Duration::from_secs(20))
        .with_tool_time(Duration::from_secs(10))
}

async fn call(remote: &McpClient, name: &str) -> Result<ToolOutput> {
    let tool = remote.tools().into_iter().find(|tool| tool.name() == name).unwrap();
    tool.call("{}", &Context::default()).await
}

#[tokio::test]
async fn an_expired_session_is_started_again() {
    let forgotten: [fn(&Asked) -> Response<String>; 2] = [
        |_| respond(404, "text/plain", "no such session"),
        // The TypeScript SDK responds like this.
        |_| {
            let text = "Bad Request: No valid session ID provided";
            let error =
                json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": text}, "id": null});
            respond(400, "application/json", error.to_string())
        },
    ];
    for forgotten in forgotten {
        let legacy = Arc::new(Legacy::default());
        let serving = Arc::clone(&legacy);
        let address = serve(move |asked| Some(serving.answer(&asked, forgotten))).await;
        let remote = client(address).connect().await.unwrap();
        assert_eq!(remote.name(), "legacy");
        assert_eq!(call(&remote, "count").await.unwrap().text, "1");
        legacy.session.fetch_add(1, Ordering::SeqCst);
        // The rejected call did not run, so it may be sent again with any effect.
        assert_eq!(call(&remote, "count").await.unwrap().text, "2");
    }
}

#[tokio::test]
async fn a_server_that_requires_a_token_gets_it_or_is_named_in_the_error() {
    let address = serve(|asked| {
        let bearer =
            asked.headers.get("authorization").is_some_and(|sent| sent == "Bearer hunter2");
        if bearer {
            return Some(Legacy::default().answer(&asked, |_| respond(404, "text/plain", "")));
        }
        let mut answer = respond(401, "text/plain", "who are you?");
        answer.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
        Some(answer)
    })
    .await;
    let error = client(address).connect().await.unwrap_err();
    assert!(matches!(error, McpError::Unauthorized { .. }), "{error}");
    let wrong = client(address).with_token("hunter3").unwrap();
    let error = wrong.connect().await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter3"), "{error:?}");

    let seen = Arc::new(Seen::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server(&seen).with_token("hunter2").unwrap().serve_http(listener));
    let authorized = client(address).with_token("hunter2").unwrap();
    assert!(!format!("{authorized:?}").contains("hunter2"));
    assert_eq!(call(&authorized.connect().await.unwrap(), "hello").await.unwrap().text, "Hello!");
    let error = client(address).connect().await.unwrap_err();
    assert!(matches!(error, McpError::Unauthorized { .. }), "{error}");
}

#[tokio::test]
async fn a_response_that_is_not_mcp_is_a_connect_error() {
    let page = "<html>It works!</html>";
    let answers: [fn() -> Response<String>; 4] = [
        || respond(200, "text/html", "<html>It works!</html>"),
        || respond(404, "text/html", "<html>Not here</html>"),
        || respond(500, "text/plain", "ouch"),
        || respond(200, "application/json", "{}"),
    ];
    for answer in answers {
        let address = serve(move |_| Some(answer())).await;
        let error = client(address).connect().await.unwrap_err();
        let message = error.to_string();
        assert_eq!(message, format!("no MCP server responded at http://{address}/mcp"));
        assert!(!message.contains(page));
    }
    // An address without a server.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let keyed = McpClient::http(&format!("http://{address}/mcp?key=secret-7")).unwrap();
    let error = keyed.connect().await.unwrap_err();
    assert!(matches!(error, McpError::Connect { .. }), "{error}");
    let debug = format!("{error:?}");
    let whole = format!("{debug} {:#}", toolwright_module::Error::from(error));
    assert!(!whole.contains("secret-7") && whole.contains("onnect"), "{whole}");
}

#[tokio::test]
async fn a_token_that_the_server_repeats_is_redacted() {
    let said = |token: &str| {
        format!(r#"{{"jsonrpc": "2.0", "error": {{"code": -32600, "message": "not {token}"}}}}"#)
    };
    for token in ["hunter2-secret", r"hunter2-\u0073ecret", "hunter2%2Dsecret"] {
        let body = said(token);
        let address = serve(move |_| Some(respond(200, "application/json", body.clone()))).await;
        let client = client(address).with_token("hunter2-secret").unwrap();
        let error = client.connect().await.unwrap_err();
        let debug = format!("{error:?}");
        let whole = format!("{debug} {:#}", toolwright_module::Error::from(error));
        assert!(!whole.contains("ecret") && whole.contains("not [token]"), "{whole}");
    }
}

#[tokio::test]
async fn the_token_is_not_sent_to_another_server_by_a_redirect() {
    let asked_elsewhere = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked_elsewhere);
    let elsewhere = serve(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        Some(respond(500, "text/plain", ""))
    })
    .await;
    let address = serve(move |asked| {
        let mut answer = respond(307, "text/plain", "");
        let location = match asked.path.as_str() {
            "/mcp" => "/mcp/".to_owned(),
            _ => format!("http://{elsewhere}/mcp"),
        };
        answer.headers_mut().insert("location", location.parse().unwrap());
        Some(answer)
    })
    .await;
    client(address).with_token("hunter2").unwrap().connect().await.unwrap_err();
    assert_eq!(asked_elsewhere.load(Ordering::SeqCst), 0);

    // A redirect on the same server is followed; frameworks use it to add a missing slash.
    let legacy = Arc::new(Legacy::default());
    let address = serve(move |asked| {
        if asked.path == "/mcp" {
            let mut answer = respond(307, "text/plain", "");
            answer.headers_mut().insert("location", "/mcp/".parse().unwrap());
            return Some(answer);
        }
        Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
    })
    .await;
    let remote = client(address).connect().await.unwrap();
    assert_eq!(call(&remote, "count").await.unwrap().text, "1");
}

#[tokio::test]
async fn an_interrupted_http_call_is_repeated_only_if_its_effect_allows_it() {
    for (effect, sent) in [(Effect::Write, 1), (Effect::Irreversible, 1), (Effect::Idempotent, 3)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&calls);
        let legacy = Legacy::default();
        let address = serve(move |asked| {
            if asked.is("tools/call") {
                counting.fetch_add(1, Ordering::SeqCst);
                return None;
            }
            Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
        })
        .await;
        let remote = client(address).with_effect("count", effect).connect().await.unwrap();
        let error = call(&remote, "count").await.unwrap_err();
        assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
        assert_eq!((error.stage(), calls.load(Ordering::SeqCst)), (Stage::Transport, sent));
    }
}

#[tokio::test]
async fn the_text_of_a_refusal_without_an_id_reaches_the_model() {
    for status in [200, 400] {
        let legacy = Legacy::default();
        let address = serve(move |asked| {
            if asked.is("tools/call") {
                let error = json!({"code": -32602, "message": "no such day"});
                let error = json!({"jsonrpc": "2.0", "error": error, "id": null});
                return Some(respond(status, "application/json", error.to_string()));
            }
            Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
        })
        .await;
        let error = call(&client(address).connect().await.unwrap(), "count").await.unwrap_err();
        assert_eq!(error.for_model(), "no such day");
    }
}

#[tokio::test]
async fn only_calls_that_did_not_run_are_sent_again() {
    fn nameless() -> Response<String> {
        let error = json!({"code": -32603, "message": "oops"});
        let error = json!({"jsonrpc": "2.0", "error": error, "id": null});
        respond(500, "application/json", error.to_string())
    }
    fn unauthorized() -> Response<String> {
        let mut answer = respond(401, "text/plain", "");
        answer.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
        answer
    }
    type Answer = fn() -> Response<String>;
    let answers: [(Answer, usize, &str); 6] = [
        (|| respond(503, "text/plain", ""), 1, "NoResult"),
        (|| respond(500, "text/plain", ""), 1, "NoResult"),
        (nameless, 1, "NoResult"),
        (|| respond(429, "text/plain", ""), 3, "NotRun"),
        (|| respond(425, "text/plain", ""), 3, "NotRun"),
        (unauthorized, 1, "NotRun"),
    ];
    for (answer, sent, kind) in answers {
        let calls = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&calls);
        let legacy = Legacy::default();
        let address = serve(move |asked| {
            if asked.is("tools/call") {
                counting.fetch_add(1, Ordering::SeqCst);
                return Some(answer());
            }
            Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
        })
        .await;
        let error = call(&client(address).connect().await.unwrap(), "count").await.unwrap_err();
        let known = match cause(&error) {
            McpError::NoResult { .. } => "NoResult",
            McpError::NotRun { .. } => "NotRun",
            error => panic!("{error:?}"),
        };
        assert_eq!((known, calls.load(Ordering::SeqCst)), (kind, sent), "{error:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_50_running_calls_ends_when_the_server_is_restarted() {
    let seen = Arc::new(Seen::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let abort = tokio::spawn(server(&seen).serve_http(listener)).abort_handle();
    let remote = client(address).with_effect("hello", Effect::Read).connect().await.unwrap();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..50)
        .map(|index| {
            let remote = remote.clone();
            let outcomes = Arc::clone(&outcomes);
            let name = if index % 5 == 0 { "wait" } else { "hello" };
            tokio::spawn(async move {
                let outcome = call(&remote, name).await;
                outcomes.lock().unwrap().push((name, outcome));
            })
        })
        .collect();
    while seen.calls.load(Ordering::SeqCst) < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The server ends, and the connections are lost.
    abort.abort();
    let shutdown = Cancellation::default();
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    tokio::spawn(server(&Arc::default()).with_shutdown(shutdown.clone()).serve_http(listener));
    for call in calls {
        call.await.unwrap();
    }
    for (name, outcome) in outcomes.lock().unwrap().iter() {
        match (name, outcome) {
            (&"hello", Ok(output)) => assert_eq!(output.text, "Hello!"),
            (&"wait", Err(error)) => {
                let known = matches!(
                    cause(error),
                    McpError::Lost { .. } | McpError::NotRun { .. } | McpError::NoResult { .. }
                );
                assert!(known || error.stage() == Stage::Limit, "{error:#}");
            }
            (name, outcome) => panic!("{name}: {outcome:?}"),
        }
    }
    assert_eq!(call(&remote, "hello").await.unwrap().text, "Hello!");
}

#[test]
fn invalid_addresses_and_headers_are_rejected() {
    let url = |text: &str| McpClient::http(text).map(drop).unwrap_err().to_string();
    insta::assert_snapshot!(url("example.com/mcp"), @"the server's address cannot be used: it is not a URL; write it with its scheme and host, such as https://example.com");
    insta::assert_snapshot!(url("ftp://example.com/mcp"), @"the server's address cannot be used: it does not begin with http:// or https://");
    insta::assert_snapshot!(url("https://me:secret-7@example.com/mcp"), @"the server's address cannot be used: it contains a user name or password; set a token with `with_token` instead");
    let open = McpClient::http("http://example.com/mcp").unwrap();
    insta::assert_snapshot!(open.clone().with_token("a").unwrap_err(), @"the server's address cannot be used: a token or header is not sent over http:// to another machine; use https://");
    insta::assert_snapshot!(open.clone().with_header("x-key", "a").unwrap_err(), @"the server's address cannot be used: a token or header is not sent over http:// to another machine; use https://");
    for local in [
        "http://localhost:1/mcp",
        "http://127.0.0.1:1/mcp",
        "http://[::1]:1/mcp",
        "http://[::ffff:127.0.0.1]:1/mcp",
    ] {
        McpClient::http(local).unwrap().with_token("a").unwrap();
    }
    let safe = McpClient::http("https://example.com/mcp?key=secret-7").unwrap();
    let safe = safe.with_token("a").unwrap().with_header("x-key", "secret-7").unwrap();
    assert!(!format!("{safe:?}").contains("secret-7"));
    for (name, value) in
        [("mcp-session-id", "1"), ("Authorization", "a"), ("a b", "a"), ("a", "\n")]
    {
        let error = safe.clone().with_header(name, value).unwrap_err();
        assert!(matches!(error, McpError::Header { .. }), "{error}");
    }
    for token in ["", "a b", "a\n"] {
        let error = safe.clone().with_token(token).unwrap_err();
        assert!(matches!(error, McpError::Token), "{error}");
    }
    let child = McpClient::stdio("server", [""; 0]);
    insta::assert_snapshot!(child.with_token("a").unwrap_err(), @"the server's address cannot be used: a child process has no headers; use `with_env`");
}

/// Starts a server of 2025-11-25 whose calls get these responses, in order.
async fn answering(answers: Vec<fn(&Asked) -> Response<String>>) -> SocketAddr {
    let legacy = Legacy::default();
    let next = AtomicUsize::new(0);
    serve(move |asked| {
        if asked.is("tools/call") {
            return Some(answers[next.fetch_add(1, Ordering::SeqCst)](&asked));
        }
        Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
    })
    .await
}

fn result(asked: &Asked, content: &str) -> String {
    let id = &asked.message["id"];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{content}}}}}"#)
}

fn event(data: &str) -> Response<String> {
    respond(200, "text/event-stream", format!("event: message\ndata: {data}\n\n"))
}

#[tokio::test]
async fn a_message_that_cannot_be_read_over_http_is_one_calls_error() {
    const CUT: &str = r#"[{"type":"text","text":"cut \ud83d"}]"#;
    let address = answering(vec![
        |asked| respond(200, "application/json", result(asked, CUT)),
        |asked| event(&result(asked, CUT)),
        |asked| {
            let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
            respond(200, "application/json", result(asked, &deep))
        },
        |asked| {
            let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
            event(&result(asked, &deep))
        },
        |asked| respond(200, "application/json", result(asked, CUT)),
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    for _ in 0..2 {
        assert_eq!(call(&remote, "count").await.unwrap().text, "cut \u{fffd}");
    }
    for _ in 0..2 {
        let error = call(&remote, "count").await.unwrap_err();
        assert!(error.for_model().contains("cannot be read"), "{error:#}");
    }
    assert_eq!(call(&remote, "count").await.unwrap().text, "cut \u{fffd}");
}

#[tokio::test]
async fn messages_in_another_form_over_http_are_read_or_an_error_at_once() {
    const SAID: &str = r#"[{"type":"text","text":"said"}]"#;
    const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#;
    let address = answering(vec![
        |asked| respond(200, "text/plain", result(asked, SAID)),
        |asked| respond(200, "application/vnd.server+json", result(asked, SAID)),
        |asked| respond(200, "application/json", format!("{NOTE}\n{}", result(asked, SAID))),
        |asked| respond(200, "application/json", format!("[{}, {NOTE}]", result(asked, SAID))),
        |asked| {
            let pretty: Value = serde_json::from_str(&result(asked, SAID)).unwrap();
            let pretty = serde_json::to_string_pretty(&pretty).unwrap();
            event(&pretty.replace('\n', "\ndata: "))
        },
        |asked| event(&format!("{NOTE}{}", result(asked, SAID))),
        |asked| event(&format!("[{NOTE}, {}]", result(asked, SAID))),
        |_| respond(200, "text/html", "<html>Sign in</html>"),
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    for _ in 0..7 {
        assert_eq!(call(&remote, "count").await.unwrap().text, "said");
    }
    let began = std::time::Instant::now();
    let error = call(&remote, "count").await.unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("the response has the type text/html") && text.contains("Sign in"),
        "{text}"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_ping_event_before_the_response_is_ignored() {
    let legacy = Legacy::default();
    let address = serve(move |asked| {
        let whole = legacy.answer(&asked, |_| respond(404, "text/plain", ""));
        if asked.message["id"].is_null() || whole.status() != 200 {
            return Some(whole);
        }
        let (mut head, body) = whole.into_parts();
        head.headers.insert("content-type", "text/event-stream".parse().unwrap());
        let events = "event: ping\ndata: 2026-01-01T00:00:00Z\n\ndata: {starting}\n\n";
        Some(Response::from_parts(head, format!("{events}event: message\ndata: {body}\n\n")))
    })
    .await;
    let remote = client(address).connect().await.unwrap();
    assert_eq!(call(&remote, "count").await.unwrap().text, "1");
}

#[tokio::test]
async fn an_empty_stream_is_not_opened_again_without_end() {
    for body in ["", "retry: 0\n\n", "id: 7\nretry: 0\n\n", "id: 7\ndata:\n\n"] {
        let opened = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&opened);
        let legacy = Legacy::default();
        let address = serve(move |asked| {
            if asked.method == Method::GET {
                counting.fetch_add(1, Ordering::SeqCst);
                return Some(respond(200, "text/event-stream", body));
            }
            Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
        })
        .await;
        let remote = client(address).connect().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let opened = opened.load(Ordering::SeqCst);
        assert!((1..=3).contains(&opened), "{body:?}: {opened}");
        assert_eq!(call(&remote, "count").await.unwrap().text, "1");
    }
}

#[tokio::test]
async fn a_refused_request_is_an_error_of_the_call_which_did_not_run() {
    let address = answering(vec![
        |_| respond(413, "text/plain", "at most 1 MB"),
        |_| respond(422, "application/json", r#"{"detail": "no"}"#),
        |asked| respond(200, "application/json", result(asked, "[]")),
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    let error = call(&remote, "count").await.unwrap_err();
    let told = "the server refused the request with 413 Payload Too Large: at most 1 MB";
    assert_eq!(error.for_model(), told);
    let error = call(&remote, "count").await.unwrap_err();
    assert!(error.for_model().contains("422"), "{error:#}");
    call(&remote, "count").await.unwrap();
}

#[tokio::test]
async fn a_server_with_only_the_old_transport_gets_a_hint() {
    let address = serve(|asked| {
        Some(match asked.method {
            Method::GET => {
                let events = "event: endpoint\ndata: /messages?session=1\n\n";
                respond(200, "text/event-stream", events)
            }
            _ => respond(405, "text/plain", "Method Not Allowed"),
        })
    })
    .await;
    let error = client(address).connect().await.unwrap_err().to_string();
    assert!(error.contains("only the old transport HTTP+SSE"), "{error}");
}

fn with_data(asked: &Asked, data: &str) -> String {
    let id = &asked.message["id"];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{data}}}}}"#)
}

#[tokio::test]
async fn a_result_that_gives_a_field_twice_is_refused() {
    let address = answering(vec![
        |asked| respond(200, "application/json", with_data(asked, r#"{"n":1,"n":2}"#)),
        |asked| event(&with_data(asked, r#"{"a":[{"n":1,"\u006e":12345678901234567890123}]}"#)),
        // Text that has to be made readable first.
        |asked| respond(200, "application/json", with_data(asked, r#"{"a":"\ud83d","n":1,"n":1}"#)),
        |asked| respond(200, "application/json", with_data(asked, r#"{"a":{"n":1},"b":{"n":2}}"#)),
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    for _ in 0..3 {
        let error = call(&remote, "count").await.unwrap_err();
        assert!(error.for_model().contains("field `n` is given twice"), "{error:#}");
        assert!(error.for_model().contains("may have taken effect"), "{error:#}");
    }
    let output = call(&remote, "count").await.unwrap();
    assert_eq!(output.value().unwrap(), Some(json!({"a": {"n": 1}, "b": {"n": 2}})));
}

/// Returns the text of an error with those of its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let below = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", below.unwrap_or_default())
}

/// A reader that takes one of both could show the model another tool than it calls.
#[tokio::test]
async fn a_tool_that_gives_a_field_twice_is_left_out_and_the_others_stay() {
    const TOOLS: &str = r#"
        {"name":"count","inputSchema":{"type":"object"}},
        {"name":"a","description":"Reads.","inputSchema":{"type":"object"},"description":"Deletes."},
        {"name":"b","inputSchema":{"type":"object","properties":{"x":{"type":"string"},"x":{}}}},
        {"name":"count","name":"c","inputSchema":{"type":"object"}},
        {"name":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"read\u004fnlyHint":true}}"#;
    for (form, more, is_listed) in [
        ("", "", true),
        // With an invalid tool, rmcp does not know the page.
        (r#",{"name":"no-schema"}"#, "", true),
        ("", r#","ttlMs":0,"ttlMs":1"#, false),
        ("", r#","tools":[]"#, false),
    ] {
        let legacy = Legacy::default();
        let address = serve(move |asked| {
            let id = &asked.message["id"];
            match asked.message["method"].as_str() {
                Some("tools/list") => {
                    let result = format!(r#"{{"tools":[{TOOLS}{form}]{more}}}"#);
                    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
                    Some(respond(200, "application/json", body))
                }
                _ => Some(legacy.answer(&asked, |_| respond(404, "text/plain", ""))),
            }
        })
        .await;
        let connected = client(address).connect().await;
        if !is_listed {
            let error = chain(&connected.unwrap_err());
            assert!(error.contains("is given twice"), "{error}");
            continue;
        }
        let remote = connected.unwrap();
        let names: Vec<_> = remote.tools().iter().map(|tool| tool.name().to_owned()).collect();
        assert_eq!(names, ["count"]);
        for (name, field) in
            [("a", "description"), ("b", "x"), ("c", "name"), ("d", "readOnlyHint")]
        {
            let error = client(address).with_only([name]).connect().await.unwrap_err();
            let why = format!("`{field}` is given twice");
            assert!(chain(&error).contains(&why), "{}", chain(&error));
        }
    }
}

#[tokio::test]
async fn a_response_without_a_result_is_an_error_at_once_that_names_its_status() {
    let address = answering(vec![
        |_| respond(500, "text/plain", "boom"),
        |_| respond(302, "text/plain", ""),
        |_| respond(202, "text/plain", ""),
        |_| respond(204, "text/plain", ""),
        |_| respond(408, "text/plain", "too slow"),
        |_| respond(200, "text/html", "<html>Sign in</html>"),
        |_| respond(403, "text/plain", "not for you"),
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    for (status, made) in [
        ("HTTP 500 Internal Server Error: boom", true),
        ("HTTP 302 Found", true),
        ("HTTP 202 Accepted", true),
        ("HTTP 204 No Content", true),
        ("HTTP 408 Request Timeout: too slow", true),
        ("text/html", true),
        ("403 Forbidden: not for you", false),
    ] {
        let began = std::time::Instant::now();
        let error = call(&remote, "count").await.unwrap_err();
        let told = error.for_model();
        assert!(told.contains(status), "{told}");
        assert!(!told.contains("connection was lost"), "{told}");
        assert_eq!(told.contains("may have taken effect"), made, "{told}");
        assert!(began.elapsed() < Duration::from_secs(5), "{told}");
    }
}

/// The specification of event streams drops such an event, but the message in it is whole.
#[tokio::test]
async fn the_last_event_of_a_stream_needs_no_empty_line_if_its_message_is_whole() {
    const SAID: &str = r#"[{"type":"text","text":"said"}]"#;
    fn unended(data: &str) -> Response<String> {
        respond(200, "text/event-stream", format!("event: message\ndata: {data}"))
    }
    let address = answering(vec![
        |asked| unended(&result(asked, SAID)),
        |asked| unended(&(result(asked, SAID) + "\n")),
        |asked| unended(&(result(asked, SAID) + "\r\n")),
        |asked| {
            let whole = result(asked, SAID);
            unended(&whole[..whole.len() - 1])
        },
    ])
    .await;
    let remote = client(address).connect().await.unwrap();
    for _ in 0..3 {
        assert_eq!(call(&remote, "count").await.unwrap().text, "said");
    }
    let error = call(&remote, "count").await.unwrap_err();
    assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
    assert!(format!("{error:#}").contains("the connection ended before the result"), "{error:#}");
}

#[tokio::test]
async fn a_lock_file_rejects_a_server_of_another_name() {
    let named = |name: &'static str| {
        let legacy = Legacy::default();
        serve(move |asked| {
            let answer = legacy.answer(&asked, |_| respond(404, "text/plain", ""));
            Some(answer.map(|body| body.replace(r#""legacy""#, name)))
        })
    };
    let first = client(named(r#""one""#).await).connect().await.unwrap();
    let lock = first.lock();
    client(named(r#""one""#).await).with_lock(&lock).unwrap().connect().await.unwrap();
    let other = client(named(r#""two""#).await).with_lock(&lock).unwrap();
    let error = other.connect().await.unwrap_err();
    assert!(matches!(error, McpError::Drift { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains(r#"-  "server": "one","#), "{told}");
    assert!(told.contains(r#"+  "server": "two","#), "{told}");
}

/// Calls a tool whose server sends these responses, in order. Each has the id of its request.
async fn outcomes(max_result_bytes: usize, answers: Vec<Value>) -> Vec<Result<ToolOutput>> {
    outcomes_with(|client| client.with_max_result_bytes(max_result_bytes), answers).await
}

async fn outcomes_with(
    set: impl FnOnce(McpClientBuilder) -> McpClientBuilder,
    answers: Vec<Value>,
) -> Vec<Result<ToolOutput>> {
    let (legacy, next, count) = (Legacy::default(), AtomicUsize::new(0), answers.len());
    let address = serve(move |asked| {
        if asked.is("tools/call") {
            let mut answer = answers[next.fetch_add(1, Ordering::SeqCst)].clone();
            (answer["jsonrpc"], answer["id"]) = (json!("2.0"), asked.message["id"].clone());
            return Some(respond(200, "application/json", answer.to_string()));
        }
        Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
    })
    .await;
    let remote = set(client(address)).connect().await.unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..count {
        outcomes.push(call(&remote, "count").await);
    }
    outcomes
}

fn texts_of(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
}

#[tokio::test]
async fn a_call_result_of_another_form_is_read() {
    let hologram = json!({"type": "hologram"});
    let number = json!({"type": "text", "text": 5});
    let cases = [
        (json!({"content": null}), ""),
        (json!({"content": "a", "_meta": [1]}), "a"),
        (json!({"content": {"type": "text", "text": "a"}}), "a"),
        (json!({"content": [hologram]}), r#"{"type":"hologram"}"#),
        (json!({"content": [number]}), r#"{"type":"text","text":5}"#),
        (json!({"content": "a", "structuredContent": null}), "a"),
        (json!({"content": "a", "is_error": false}), "a"),
    ];
    let answers = cases.iter().map(|(result, _)| json!({ "result": result }));
    let outcomes = outcomes(1_000, answers.collect()).await;
    for (outcome, (result, text)) in outcomes.into_iter().zip(&cases) {
        let output = outcome.unwrap();
        assert_eq!((&*output.text, output.value().unwrap()), (*text, None), "{result}");
    }
}

/// [`Value`] rounds them.
#[tokio::test]
async fn integers_in_a_block_of_another_form_are_not_rounded() {
    let block = r#"{"type":"text","text":12345678901234567890123}"#;
    let address = answering(vec![|asked| {
        let block = r#"{"type":"text","text":12345678901234567890123}"#;
        respond(200, "application/json", result(asked, &format!("[\"a\", {block}]")))
    }])
    .await;
    let remote = client(address).connect().await.unwrap();
    assert_eq!(call(&remote, "count").await.unwrap().text, format!("a\n{block}"));
}

/// Nothing else can come on that response, so waiting for it would last until the timeout.
#[tokio::test]
async fn the_response_of_another_request_is_an_error_at_once() {
    let other = |asked: &Asked| {
        let id = asked.message["id"].as_u64().unwrap() + 1_000;
        let result = json!({"content": [{"type": "text", "text": "a"}]});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        respond(200, "application/json", answer.to_string())
    };
    let remote = client(answering(vec![other]).await);
    let remote = remote.with_tool_time(Duration::from_secs(600)).connect().await.unwrap();
    let error = call(&remote, "count").await.unwrap_err();
    assert!(error.for_model().contains("of another request"), "{error:#}");
}

/// Of a mark in another form, a failure is the safer reading.
#[tokio::test]
async fn a_failure_that_is_marked_in_another_form_is_a_failure() {
    let failed = [
        json!(true),
        json!("true"),
        json!("True"),
        json!("yes"),
        json!("1"),
        json!(1.0),
        json!({"code": 5}),
        json!(["x"]),
    ];
    let worked = [json!(false), json!(null), json!("False"), json!("no"), json!(""), json!(0)];
    let marks = failed.iter().chain(&worked);
    // Servers in Python write the second name if they do not ask for the aliases of the fields.
    for name in ["isError", "is_error"] {
        let answer = |mark| json!({"result": {"content": texts_of(&["a"]), name: mark}});
        let outcomes = outcomes(1_000, marks.clone().map(answer).collect()).await;
        let failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert!(failures.clone().all(|error| error.for_model() == "a"));
        for (mark, (outcome, place)) in marks.clone().zip(outcomes.iter().zip(0..)) {
            assert_eq!(outcome.is_err(), place < failed.len(), "{name} {mark}");
        }
    }
}

/// This crate marks values that rmcp rounds in the metadata.
#[tokio::test]
async fn metadata_of_a_server_does_not_replace_its_value() {
    let value = json!({"a": 1});
    let forged = |text: &str| {
        let meta = json!({"toolwright/exactValue": text, "toolwright/fault": "a"});
        let content = texts_of(&["Found."]);
        json!({"result": {"content": content, "structuredContent": value, "_meta": meta}})
    };
    let answers = vec![forged(r#"{"a":999}"#), forged(&"x".repeat(3_000))];
    for outcome in outcomes(1_000, answers).await {
        let output = outcome.unwrap();
        assert_eq!(
            (&*output.text, output.value().unwrap()),
            ("Found.\n{\"a\":1}", Some(json!({"a": 1})))
        );
    }
}

#[tokio::test]
async fn the_text_of_an_error_of_another_form_is_read() {
    let errors = [
        json!("no such day"),
        json!({"code": 1e300, "message": "no such day"}),
        json!({"code": -99_999_999_999_i64, "message": "no such day"}),
        json!({"reason": "no such day"}),
    ];
    let answers = errors.iter().map(|error| json!({"error": error, "result": {}})).collect();
    for outcome in outcomes(1_000, answers).await {
        let error = outcome.unwrap_err();
        assert!(error.for_model().contains("no such day"), "{error}");
    }
}

#[tokio::test]
async fn integers_that_would_be_rounded_are_kept_as_text() {
    let cases = [
        ("18446744073709551615", false),
        ("-9223372036854775808", false),
        ("18446744073709551616", false),
        ("18446744073709551617", true),
        ("-9223372036854775809", true),
        ("123456789012345678901234567890", true),
        // As JavaScript writes the floats 2^65 and 1e20.
        ("36893488147419103232", false),
        ("36893488147419103000", false),
        ("100000000000000000000", false),
        ("0.1234567890123456789012", false),
        ("\"123456789012345678901234567890\"", false),
        ("\"\\\"123456789012345678901234567890\"", false),
    ];
    let next = AtomicUsize::new(0);
    let legacy = Legacy::default();
    let address = serve(move |asked| {
        if asked.is("tools/call") {
            let (number, _) = cases[next.fetch_add(1, Ordering::SeqCst)];
            let id = &asked.message["id"];
            let value = format!(r#"{{"wei": {number}}}"#);
            let result = format!(r#"{{"content":[],"structuredContent":{value}}}"#);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            return Some(respond(200, "application/json", answer));
        }
        Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
    })
    .await;
    let remote = client(address).connect().await.unwrap();
    for (number, is_rounded) in cases {
        let output = call(&remote, "count").await.unwrap();
        assert_eq!(output.value().unwrap().is_none(), is_rounded, "{number}");
        assert!(!is_rounded || output.text.contains(number), "{}", output.text);
    }
}

fn structured(texts: &[&str], value: &Value, is_error: bool) -> Value {
    let content = texts_of(texts);
    json!({"result": {"content": content, "structuredContent": value, "isError": is_error}})
}

#[tokio::test]
async fn data_that_the_text_lacks_reaches_the_model() {
    let cases = [
        (vec!["Found 13 rows."], json!({"rows": 3})),
        (vec!["Found 3 rows."], json!({"rows": 3, "next": null})),
        (vec!["It is 36 degrees."], json!({"temperature": 36, "humidity": 82})),
        (vec![r#"{"temperature": 36}"#], json!({"temperature": 36, "humidity": 82})),
        (vec![r#"{"temperature": 360}"#], json!({"temperature": 36})),
        (vec!["a", "b"], json!({"result": ["a", "c"]})),
        (vec!["Ready: true"], json!({"ready": true})),
        (vec!["null"], json!({"result": "a"})),
        // A citation and a list without items are words.
        (vec!["Done, see [1]."], json!({"deleted_ids": [1]})),
        (vec!["All [] fine"], json!({"errors": []})),
    ];
    for is_error in [false, true] {
        let answers = cases.iter().map(|(texts, value)| structured(texts, value, is_error));
        let outcomes = outcomes(300, answers.collect()).await;
        for (outcome, (texts, value)) in outcomes.into_iter().zip(&cases) {
            let expected = format!("{}\n{value}", texts.join("\n"));
            let found = match is_error {
                true => outcome.unwrap_err().to_string(),
                false => outcome.unwrap().text,
            };
            assert_eq!(found, expected);
        }
    }
    let long = structured(&["Found."], &json!({"a": "x".repeat(300)}), false);
    assert!(outcomes(300, vec![long]).await[0].is_err());
}

#[tokio::test]
async fn data_that_the_text_has_is_not_repeated() {
    let cases = [
        (
            vec![r#"{"humidity": 82.0, "temperature": 36}"#],
            json!({"temperature": 36, "humidity": 82.0}),
        ),
        (vec!["Here:\n```json\n{\"a\": [1, 2]}\n```"], json!({"a": [1, 2]})),
        (vec!["Two of [them]: [1, 2]"], json!({"result": [1, 2]})),
        (vec!["hello"], json!({"result": "hello"})),
        (vec!["5"], json!({"result": 5})),
        (vec!["a", "b"], json!({"result": ["a", "b"]})),
        (vec!["A summary.", "{\"a\": 1}"], json!({"a": 1})),
        (vec!["Nothing."], Value::Null),
    ];
    let answers = cases.iter().map(|(texts, value)| structured(texts, value, false));
    let outcomes = outcomes(300, answers.collect()).await;
    for (outcome, (texts, _)) in outcomes.into_iter().zip(&cases) {
        assert_eq!(outcome.unwrap().text, texts.join("\n"));
    }
}

#[tokio::test]
async fn the_model_gets_the_text_or_the_data_or_both_as_it_is_set() {
    let value = json!({"rows": [1, 2], "next": "b"});
    let large = json!({"rows": "x".repeat(300)});
    let answers = || {
        vec![
            structured(&["Two rows."], &value, false),
            structured(&[&value.to_string()], &value, false),
            structured(&["Only text."], &Value::Null, false),
            structured(&["No such table."], &value, true),
            structured(&["Many rows."], &large, false),
        ]
    };
    for (set, first, fifth) in [
        (ResultText::Both, format!("Two rows.\n{value}"), None),
        (ResultText::Text, "Two rows.".to_owned(), Some("Many rows.")),
        (ResultText::Data, value.to_string(), None),
    ] {
        let client =
            |client: McpClientBuilder| client.with_max_result_bytes(200).with_result_text(set);
        let outcomes = outcomes_with(client, answers()).await;
        let text = |at: usize| outcomes[at].as_ref().map(|output| output.text.clone());
        assert_eq!(text(0).unwrap(), first, "{set:?}");
        assert_eq!(outcomes[0].as_ref().unwrap().value().unwrap(), Some(value.clone()), "{set:?}");
        assert_eq!(text(1).unwrap(), value.to_string(), "{set:?}");
        assert_eq!(text(2).unwrap(), "Only text.", "{set:?}");
        let failure = text(3).unwrap_err().to_string();
        assert!(failure.starts_with("No such table."), "{set:?}: {failure}");
        assert_eq!(failure.contains("rows"), set != ResultText::Text, "{set:?}: {failure}");
        assert_eq!(text(4).ok().as_deref(), fifth, "{set:?}");
    }
}

#[tokio::test]
async fn an_image_that_is_too_large_is_left_out_and_the_text_stays() {
    let image =
        |length| json!({"type": "image", "data": "A".repeat(length), "mimeType": "image/png"});
    let outcome = async |max, text: &str, images: &[usize]| {
        let text = std::iter::once(json!({"type": "text", "text": text}));
        let content: Value = text.chain(images.iter().map(|length| image(*length))).collect();
        outcomes(max, vec![json!({"result": {"content": content}})]).await.remove(0)
    };
    // 600 bytes each.
    let both = outcome(1_209, "The text.", &[800, 800]).await.unwrap();
    assert_eq!((&*both.text, both.parts.len()), ("The text.", 2));
    let one = outcome(1_208, "The text.", &[800, 800]).await.unwrap();
    assert_eq!(one.parts.len(), 1);
    assert!(one.text.starts_with("The text.\n[1 of 2 images or files are left out"));
    // After it also the ones that have room, or they would have other numbers.
    let first = outcome(500, "", &[40, 800, 4, 0]).await.unwrap();
    assert_eq!(first.parts.len(), 1);
    assert!(first.text.contains("3 of 4 images"), "{}", first.text);
    // A text alone that is too long is an error.
    assert!(outcome(19, &"x".repeat(20), &[800]).await.is_err());
}

#[tokio::test]
async fn the_destructive_hint_overrides_the_others() {
    let cases = [
        (json!({}), Effect::Write),
        (json!({"readOnlyHint": false}), Effect::Write),
        (json!({"destructiveHint": false}), Effect::Write),
        (json!({"idempotentHint": true}), Effect::Idempotent),
        (json!({"idempotentHint": true, "destructiveHint": false}), Effect::Idempotent),
        (json!({"readOnlyHint": true}), Effect::Read),
        (json!({"readOnlyHint": true, "destructiveHint": false}), Effect::Read),
        (json!({"destructiveHint": true}), Effect::Irreversible),
        (json!({"idempotentHint": true, "destructiveHint": true}), Effect::Irreversible),
        (json!({"readOnlyHint": true, "destructiveHint": true}), Effect::Irreversible),
    ];
    let tool = |(number, (hints, _)): (usize, &(Value, Effect))| {
        let (name, schema) = (format!("t{number}"), json!({"type": "object"}));
        json!({"name": name, "inputSchema": schema, "annotations": hints})
    };
    let tools: Value = cases.iter().enumerate().map(tool).collect();
    let legacy = Legacy::default();
    let address = serve(move |asked| {
        if asked.is("tools/list") {
            return Some(asked.answer(&json!({ "tools": tools })));
        }
        Some(legacy.answer(&asked, |_| respond(404, "text/plain", "")))
    })
    .await;
    let remote = client(address).with_trusted_annotations().connect().await.unwrap();
    for (tool, (hints, effect)) in remote.tools().iter().zip(&cases) {
        assert_eq!(tool.effect(), *effect, "{hints}");
    }
}
