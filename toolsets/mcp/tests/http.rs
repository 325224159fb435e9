//! `McpServer` over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Seen, server, texts};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use toolwright_mcp::{McpError, McpServer, ServerLimits};
use toolwright_module::{Cancellation, Context};

const ACCEPT: &str = "application/json, text/event-stream";

/// A server on this machine, and an HTTP client.
struct Http {
    client: Client,
    url: String,
    shutdown: Cancellation,
    serving: JoinHandle<Result<(), McpError>>,
}

impl Http {
    async fn new(server: McpServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let shutdown = Cancellation::default();
        let serving = tokio::spawn(server.with_shutdown(shutdown.clone()).serve_http(listener));
        Self { client: Client::builder().no_proxy().build().unwrap(), url, shutdown, serving }
    }

    /// A request of revision 2026-07-28.
    fn modern(&self, id: u64, method: &str, mut params: Value) -> RequestBuilder {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "client", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().map(str::to_owned);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self
            .client
            .post(&self.url)
            .header("accept", ACCEPT)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .json(&body);
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    fn hello(&self) -> RequestBuilder {
        self.modern(1, "tools/call", json!({"name": "hello", "arguments": {}}))
    }

    /// A request of revision 2025-11-25.
    fn legacy(&self, session: Option<&str>, message: &Value) -> RequestBuilder {
        let request = self.client.post(&self.url).header("accept", ACCEPT).json(message);
        match session {
            Some(session) => request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25"),
            None => request,
        }
    }

    async fn session(&self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        });
        let initialize =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.legacy(None, &initialize).send().await.unwrap();
        let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(messages(answer).await[0]["result"]["protocolVersion"], "2025-11-25");
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = self.legacy(Some(&session), &begun).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        session
    }
}

/// The messages of a response: JSON, or a stream of events.
async fn messages(answer: Response) -> Vec<Value> {
    let text = answer.text().await.unwrap();
    let data: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter(|data| !data.trim().is_empty())
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    if data.is_empty() { vec![serde_json::from_str(&text).expect(&text)] } else { data }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

fn seen() -> Arc<Seen> {
    Arc::default()
}

fn call(id: u64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}

#[tokio::test]
async fn both_revisions_list_and_call_tools_over_http() {
    let http = Http::new(server(&seen())).await;
    let listed = messages(http.modern(1, "tools/list", json!({})).send().await.unwrap()).await;
    let answer = messages(http.hello().send().await.unwrap()).await;
    assert_eq!(texts(&answer[0]["result"]), ["Hello!"]);

    let session = http.session().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let old = messages(http.legacy(Some(&session), &list).send().await.unwrap()).await;
    assert_eq!(old[0]["result"]["tools"], listed[0]["result"]["tools"]);
    let answer = http.legacy(Some(&session), &call(2, "hello")).send().await.unwrap();
    assert_eq!(texts(&messages(answer).await[0]["result"]), ["Hello!"]);
}

#[tokio::test]
async fn failures_and_panics_get_responses() {
    let http = Http::new(server(&seen())).await;
    let session = http.session().await;
    for how in ["retry", "other", "panic", "panic_on_drop"] {
        let params = json!({"name": "fail", "arguments": {"how": how}});
        let answer = http.modern(1, "tools/call", params.clone()).send().await.unwrap();
        let modern = messages(answer).await.remove(0);
        let old = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let old = messages(http.legacy(Some(&session), &old).send().await.unwrap()).await.remove(0);
        assert_eq!(
            (&modern["result"]["isError"], &old["result"]["isError"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(modern["result"]["content"], old["result"]["content"]);
        assert!(!modern.to_string().contains("secret-7"), "{modern}");
    }
    let answer = http.modern(1, "tools/call", json!({"name": "unknown"})).send().await.unwrap();
    assert_eq!(messages(answer).await[0]["error"]["code"], -32602);
    let answer = http.modern(1, "prompts/list", json!({})).send().await.unwrap();
    assert_eq!(messages(answer).await[0]["error"]["code"], -32601);
}

#[tokio::test]
async fn other_origins_and_other_hosts_are_rejected() {
    let server = server(&seen())
        .with_origins(["https://app.example.com:443"])
        .with_hosts(["tools.example.com"]);
    let http = Http::new(server).await;
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    for (origin, expected) in [
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://127.0.0.1.nip.io:8000", 403),
        ("https://app.example.com:8443", 403),
        ("http://app.example.com", 403),
        ("null", 403),
        ("what?", 403),
        ("http://localhost:3000", 200),
        ("http://127.0.0.1:1", 200),
        ("http://[::1]:1", 200),
        ("https://app.example.com", 200),
    ] {
        assert_eq!(status(http.hello().header("origin", origin)).await, expected, "{origin}");
        let old = status(http.legacy(None, &initialize).header("origin", origin)).await;
        assert_eq!(old == 403, expected == 403, "{origin}");
        let stream = http.client.get(&http.url).header("accept", ACCEPT).header("origin", origin);
        assert_eq!(status(stream).await == 403, expected == 403, "{origin}");
    }
    for (host, expected) in [
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("tools.example.com", 200),
        ("tools.example.com:8443", 200),
    ] {
        assert_eq!(status(http.hello().header("host", host)).await, expected, "{host}");
    }
}

#[tokio::test]
async fn requests_without_the_token_are_rejected() {
    let http = Http::new(server(&seen()).with_token("hunter2").unwrap()).await;
    for token in
        ["", "Bearer", "Bearer ", "Bearer hunter", "Bearer hunter22", "Basic hunter2", "hunter2"]
    {
        let request = http.hello().header("authorization", token);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        assert!(!answer.text().await.unwrap().contains("hunter"));
    }
    assert_eq!(status(http.hello()).await, 401);
    assert_eq!(status(http.client.get(&http.url)).await, 401);
    let twice = http.hello().bearer_auth("hunter2").header("authorization", "Bearer hunter3");
    assert_eq!(status(twice).await, 401);
    assert_eq!(status(http.hello().bearer_auth("hunter2")).await, 200);
    assert_eq!(status(http.hello().header("authorization", "bearer hunter2")).await, 200);
    // The origin is checked even if the token is right.
    let page = http.hello().bearer_auth("hunter2").header("origin", "https://evil.example");
    assert_eq!(status(page).await, 403);
}

#[tokio::test]
async fn invalid_http_requests_are_rejected() {
    let http = Http::new(
        server(&seen())
            .with_limits(ServerLimits { max_message_bytes: 1000, ..ServerLimits::default() }),
    )
    .await;
    let long = http.modern(
        1,
        "tools/call",
        json!({"name": "hello", "arguments": {"x": "x".repeat(2000)}}),
    );
    assert_eq!(status(long).await, 413);
    let client = &http.client;
    let post = || {
        client.post(&http.url).header("accept", ACCEPT).header("content-type", "application/json")
    };
    for body in ["", "{", "[]", "null", "{\"jsonrpc\": \"2.0\", \"id\": 1}"] {
        let status = status(post().body(body)).await;
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    let no_session = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert!((400..500).contains(&status(http.legacy(None, &no_session)).await));
    assert_eq!(status(http.legacy(Some("unknown"), &no_session)).await, 404);
    assert_eq!(status(client.get(http.url.replace("/mcp", "/"))).await, 404);
    assert_eq!(status(client.put(&http.url)).await, 405);
    assert_eq!(status(http.hello()).await, 200);
}

#[tokio::test]
async fn every_http_request_with_an_id_gets_a_response() {
    let http = Http::new(server(&seen())).await;
    let session = http.session().await;
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for (params, status) in [
        (r#"{"name":"hello","arguments":{"x":"\ud83d"}}"#, 200),
        (&*format!(r#"{{"name":"hello","arguments":{{"x":{deep}}}}}"#), 400),
        ("{oops}", 400),
        (r#"{"name":"hello","name":"store_note","arguments":{"title":"a"}}"#, 400),
    ] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{params}}}"#);
        let request = http.client.post(&http.url).header("accept", ACCEPT);
        let request = request.header("content-type", "application/json");
        let request = request.header("mcp-session-id", &session).body(body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{params}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(r#""id":101"#), "{params}: {text}");
    }
    // Without an id, the error has none either.
    for body in ["", "oops", "{", &*deep] {
        let request = http.client.post(&http.url).header("accept", ACCEPT);
        let request = request.header("content-type", "application/json");
        let request = request.header("mcp-session-id", &session).body(body.to_owned());
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        let error: Value = answer.json().await.unwrap();
        assert_eq!(
            (&error["id"], &error["error"]["code"]),
            (&Value::Null, &json!(-32700)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn arguments_over_http_that_cannot_be_read_exactly_are_refused() {
    let http = Http::new(server(&seen())).await;
    let session = http.session().await;
    let post = |params: &[u8], modern: bool| {
        let head =
            br#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"store_note","#;
        let meta = match modern {
            true => {
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"#
            }
            false => "",
        };
        let body = [head, meta.as_bytes(), params, b"}}"].concat();
        let request = http.client.post(&http.url).header("accept", ACCEPT);
        let request = request.header("content-type", "application/json").body(body);
        match modern {
            true => request
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "store_note"),
            false => request.header("mcp-session-id", &session),
        }
    };
    for modern in [false, true] {
        let twice = post(br#""arguments":{"title":"a","title":"b"}"#, modern).send().await.unwrap();
        let answer = &messages(twice).await[0];
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(texts(&answer["result"])[0].contains("`title` is given twice"), "{answer}");
        let half = post(br#""arguments":{"title":"\ud83d"}"#, modern).send().await.unwrap();
        let answer = &messages(half).await[0];
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(texts(&answer["result"])[0].contains("$.title: the text was cut"), "{answer}");
        let bytes = post(b"\"arguments\":{\"title\":\"M\xfcller\"}", modern).send().await.unwrap();
        assert_eq!(bytes.status(), StatusCode::BAD_REQUEST);
        let answer = &messages(bytes).await[0];
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(101), &json!(-32602)));
        let note = post(br#""arguments":{"title":"a"}"#, modern).send().await.unwrap();
        assert_eq!(messages(note).await[0]["result"]["structuredContent"]["title"], "a");
    }
    let old = http.legacy(Some(&session), &json!({"jsonrpc": "1.0", "id": 3, "method": "ping"}));
    let answer = &messages(old.send().await.unwrap()).await[0];
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32600)));
}

#[tokio::test]
async fn an_id_that_is_open_in_a_session_is_refused() {
    let seen = seen();
    let http = Http::new(server(&seen)).await;
    let session = http.session().await;
    let waits = http.legacy(Some(&session), &call(5, "wait")).send().await.unwrap();
    seen.started.notified().await;
    let again = http.legacy(Some(&session), &call(5, "hello")).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::BAD_REQUEST);
    let answer = &messages(again).await[0];
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32600)));
    let other = http.legacy(Some(&session), &call(6, "hello")).send().await.unwrap();
    assert_eq!(texts(&messages(other).await[0]["result"]), ["Hello!"]);
    drop(waits);
    http.shutdown.cancel();
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_rejected() {
    let http = Http::new(server(&seen())).await;
    let params = || json!({"name": "hello", "arguments": {}});
    let mut lied = http.modern(1, "tools/call", params()).build().unwrap();
    for (header, value) in
        [("mcp-method", "tools/list"), ("mcp-name", "add"), ("mcp-protocol-version", "2025-11-25")]
    {
        let mut request = lied.try_clone().unwrap();
        request.headers_mut().insert(header, value.parse().unwrap());
        let answer = http.client.execute(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{header}");
    }
    lied.headers_mut().remove("mcp-method");
    assert_eq!(http.client.execute(lied).await.unwrap().status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_deleted_session_is_unknown() {
    let http = Http::new(server(&seen())).await;
    let session = http.session().await;
    let end = http.client.delete(&http.url).header("mcp-session-id", &session);
    assert_eq!(status(end).await, 204);
    assert_eq!(status(http.legacy(Some(&session), &call(1, "hello"))).await, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_200_concurrent_requests_gets_one_response() {
    let http = Http::new(
        server(&seen()).with_limits(ServerLimits { max_parallel: 8, ..ServerLimits::default() }),
    )
    .await;
    let session = http.session().await;
    let requests = (0..200).map(|a| {
        let params = json!({"name": "add", "arguments": {"a": a, "b": 0}});
        let request = match a % 2 {
            0 => http.modern(a, "tools/call", params),
            _ => {
                let message =
                    json!({"jsonrpc": "2.0", "id": a, "method": "tools/call", "params": params});
                http.legacy(Some(&session), &message)
            }
        };
        tokio::spawn(async move { (a, messages(request.send().await.unwrap()).await) })
    });
    for request in requests.collect::<Vec<_>>() {
        let (a, answers) = request.await.unwrap();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0]["id"], a);
        assert_eq!(answers[0]["result"]["structuredContent"], json!({"result": a}));
    }
}

#[tokio::test]
async fn a_disconnect_or_a_notification_cancels_a_call_over_http() {
    let seen = seen();
    let http = Http::new(server(&seen)).await;
    let request = http.modern(1, "tools/call", json!({"name": "wait", "arguments": {}}));
    let asking = tokio::spawn(request.send());
    seen.started.notified().await;
    asking.abort();
    seen.ended.notified().await;

    let session = http.session().await;
    let asking = tokio::spawn(http.legacy(Some(&session), &call(7, "wait")).send());
    seen.started.notified().await;
    let params = json!({"requestId": 7});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(status(http.legacy(Some(&session), &cancel)).await, 202);
    seen.ended.notified().await;
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 2);
    asking.abort();
}

#[tokio::test]
async fn progress_precedes_the_response_in_its_stream() {
    let http = Http::new(server(&seen())).await;
    let session = http.session().await;
    let meta = json!({"progressToken": 5});
    let params = json!({"name": "tell", "arguments": {"times": 3}, "_meta": meta});
    let old = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params.clone()});
    for request in [http.modern(9, "tools/call", params), http.legacy(Some(&session), &old)] {
        let mut received = messages(request.send().await.unwrap()).await;
        let answer = received.pop().unwrap();
        assert_eq!(answer["id"], 9);
        let progress: Vec<_> =
            received.iter().map(|received| received["params"]["progress"].as_f64()).collect();
        assert_eq!(progress, [Some(1.0), Some(2.0), Some(3.0)]);
    }
}

#[tokio::test]
async fn a_shutdown_lets_running_calls_finish_over_http() {
    let (seen, all) = (seen(), Cancellation::default());
    let cx = Context::default().with_cancellation(all.clone());
    let mut http = Http::new(server(&seen).with_context(cx)).await;
    let session = http.session().await;
    // A stream of notifications does not end by itself.
    let news =
        http.client.get(&http.url).header("accept", ACCEPT).header("mcp-session-id", session);
    let news = news.send().await.unwrap();
    assert_eq!(news.status(), StatusCode::OK);
    let running = http.modern(1, "tools/call", json!({"name": "wait", "arguments": {}}));
    let running = tokio::spawn(running.send());
    seen.started.notified().await;
    http.shutdown.cancel();
    // New connections are rejected; the running call continues.
    while http.client.get(&http.url).send().await.is_ok() {}
    assert!(!http.serving.is_finished());
    all.cancel();
    let answer = messages(running.await.unwrap().unwrap()).await;
    assert_eq!(answer[0]["result"]["isError"], true);
    (&mut http.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_session_with_an_open_stream_is_not_idle_and_others_end() {
    let time = Duration::from_millis(400);
    let http = Http::new(
        server(&seen()).with_limits(ServerLimits { session_time: time, ..ServerLimits::default() }),
    )
    .await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let (idle, open) = (http.session().await, http.session().await);
    let status = async |session: &str| status(http.legacy(Some(session), &ping)).await;
    let events = http.client.get(&http.url).header("accept", "text/event-stream");
    let events = events.header("mcp-session-id", &open).send().await.unwrap();
    assert_eq!(events.status(), 200);
    tokio::time::sleep(time * 3).await;
    assert_eq!((status(&idle).await, status(&open).await), (404, 200));
    drop(events);
    tokio::time::sleep(time * 3).await;
    assert_eq!(status(&open).await, 404);
}

/// A server with a token, which one web page may use.
async fn guarded_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server(&seen()).with_token("hunter2").unwrap();
    let server = server.with_origins(["https://app.example.com:443"]);
    tokio::spawn(server.serve_http(listener));
    address
}

/// Sends a head without a body, and returns the head of the response.
async fn head_of(address: SocketAddr, lines: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = lines.replace('\n', "\r\n") + "\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split("\r\n\r\n").next().unwrap().to_owned()
}

#[tokio::test]
async fn two_headers_of_the_same_name_are_rejected() {
    let address = guarded_server().await;
    for (lines, status) in [
        ("GET /mcp HTTP/1.1\nhost: localhost", "401"),
        ("GET /mcp HTTP/1.1\nhost: localhost\nhost: localhost", "400"),
        ("GET /mcp HTTP/1.1\nhost: evil.example\nhost: localhost", "400"),
        ("GET http://evil.example/mcp HTTP/1.1\nhost: localhost", "400"),
        ("GET http://localhost/mcp HTTP/1.1\nhost: localhost", "401"),
        (
            "GET /mcp HTTP/1.1\nhost: localhost\norigin: http://localhost\norigin: http://localhost",
            "400",
        ),
        (
            "POST /mcp HTTP/1.1\nhost: localhost\ncontent-type: application/json\ncontent-type: application/json",
            "400",
        ),
        (
            "GET /mcp HTTP/1.1\nhost: localhost\nmcp-protocol-version: 2025-06-18\nMCP-Protocol-Version: 2025-11-25",
            "400",
        ),
        ("GET /mcp HTTP/1.1\nhost: localhost\nmcp-session-id: a\nmcp-session-id: b", "400"),
        ("POST /mcp HTTP/1.1\nhost: localhost\nmcp-name: a\nmcp-name: b", "400"),
        ("GET /mcp HTTP/1.1\nhost: localhost\norigin: https://evil.example", "403"),
    ] {
        let answer = head_of(address, lines).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{lines}: {answer}");
    }
}

#[tokio::test]
async fn an_allowed_web_page_may_read_the_responses() {
    let address = guarded_server().await;
    let asked = "\nhost: localhost\norigin: https://app.example.com";
    let options = head_of(address, &format!("OPTIONS /mcp HTTP/1.1{asked}")).await;
    assert!(options.starts_with("HTTP/1.1 204"), "{options}");
    assert!(options.contains("access-control-allow-methods: GET, POST, DELETE"), "{options}");
    assert!(options.contains("mcp-session-id"), "{options}");
    // The page reads why its request failed, too.
    let refused = head_of(address, &format!("GET /mcp HTTP/1.1{asked}")).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    for answer in [options, refused] {
        let allowed = "access-control-allow-origin: https://app.example.com\r\n";
        assert!(answer.contains(allowed) && answer.contains("vary: origin"), "{answer}");
        assert!(!answer.contains("allow-origin: *"), "{answer}");
    }
    let evil = "OPTIONS /mcp HTTP/1.1\nhost: localhost\norigin: https://evil.example";
    let answer = head_of(address, evil).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(!answer.contains("access-control"), "{answer}");
}

#[test]
fn an_invalid_token_is_rejected_and_debug_output_hides_the_token() {
    let server = McpServer::new("test", "1", []).unwrap();
    for token in ["", "a b", "line\nbreak", "schlüssel"] {
        let error = server.clone().with_token(token).unwrap_err();
        assert!(matches!(error, McpError::Token), "{error}");
    }
    let server = server.with_token("hunter2").unwrap();
    assert!(!format!("{server:?}").contains("hunter2"));
}
