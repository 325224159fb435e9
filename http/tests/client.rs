//! [`Client`] and [`HttpResponse`] against a server on loopback that plays each fault.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolwright_http::reqwest::{self, header::HeaderName};
use toolwright_http::{
    Client, Deadline, Endpoint, ErrorKind, EventReader, HttpError, HttpLimits, HttpRequest,
    HttpResponse, Refusal, RequestBody, RetryPolicy, Streamed, UrlFault,
};

const KEY: &str = "sk-very/secret+0123456789";
const SHORT: Duration = Duration::from_millis(200);

/// The bytes that the server sends on one connection, and its behaviour after them.
#[derive(Clone)]
struct Answer {
    text: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Close,
    /// Keeps the connection open and sends nothing.
    Hang,
    /// Sends a piece again and again, with a pause between two.
    Repeat(&'static str, Duration),
}

fn answer(status: u16, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    Answer { text: text.into_bytes(), end: End::Close }
}

/// A response without `content-length`: the end of the connection ends the body.
fn open(headers: &str, body: &str, end: End) -> Answer {
    let text = format!("HTTP/1.1 200 X\r\nconnection: close\r\n{headers}\r\n{body}");
    Answer { text: text.into_bytes(), end }
}

struct Server {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answers, log): (Vec<_>, _) = (answers.into_iter().collect(), Arc::clone(&seen));
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    assert!(socket.read_buf(&mut request).await.unwrap() > 0);
                }
                log.lock().unwrap().push(String::from_utf8(request).unwrap().to_lowercase());
                tokio::spawn(async move {
                    let _ = socket.write_all(&answer.text).await;
                    match answer.end {
                        End::Close => drop(socket.shutdown().await),
                        End::Hang => tokio::time::sleep(Duration::from_secs(60)).await,
                        End::Repeat(piece, pause) => {
                            while socket.write_all(piece.as_bytes()).await.is_ok() {
                                tokio::time::sleep(pause).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url, seen }
    }

    fn client(&self) -> Client {
        // A busy machine may be silent for a while.
        self.client_with_silence(Duration::from_secs(50))
    }

    fn client_with_silence(&self, silence: Duration) -> Client {
        let endpoint = Endpoint::new(&self.url).unwrap().with_bearer("key", KEY).unwrap();
        Client::new(endpoint, HttpLimits { silence, body: 1000, ..HttpLimits::default() }).unwrap()
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn request(client: &Client) -> HttpRequest {
    HttpRequest::post_json(client.endpoint().url(["chat"], &[]).unwrap(), "{}")
}

async fn send(
    client: &Client,
    policy: &RetryPolicy,
    deadline: Deadline,
) -> Result<HttpResponse, HttpError> {
    let request = request(client);
    let attempt = || async { client.send(&request, deadline).await?.or_refusal().await };
    policy.run(deadline, attempt, HttpError::retry).await
}

async fn sent(client: &Client) -> Result<HttpResponse, HttpError> {
    send(client, &RetryPolicy { retries: 0, ..RetryPolicy::default() }, Deadline::never()).await
}

fn refusal(error: &HttpError) -> &Refusal {
    match error.kind() {
        ErrorKind::Status(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

async fn kind_of(body: impl Future<Output = Result<impl Sized, HttpError>>) -> ErrorKind {
    body.await.err().unwrap().kind().clone()
}

#[tokio::test]
async fn a_request_has_the_headers_of_the_endpoint() {
    let server = Server::answering([answer(200, "", "ok")]).await;
    let endpoint = server.client().endpoint().clone();
    let endpoint = endpoint.with_header(HeaderName::from_static("x-title"), "a title").unwrap();
    let client = server.client().with_endpoint(endpoint).unwrap();
    assert_eq!(sent(&client).await.unwrap().text().await.unwrap(), "ok");
    let seen = server.seen.lock().unwrap()[0].clone();
    for line in [
        "post /v1/chat http/1.1\r\n",
        &format!("authorization: bearer {KEY}\r\n"),
        "x-title: a title\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(seen.contains(line), "{line}{seen}");
    }
}

/// Reads one request and answers it with this status. Returns its head and its body.
async fn answered(listener: &TcpListener, status: u16) -> (String, Vec<u8>) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    let end = loop {
        assert!(socket.read_buf(&mut request).await.unwrap() > 0);
        if let Some(end) = request.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(request[..end].to_vec()).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let length: usize = length.parse().unwrap();
    while request.len() < end + length {
        assert!(socket.read_buf(&mut request).await.unwrap() > 0);
    }
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    socket.write_all(text.as_bytes()).await.unwrap();
    (head, request[end..].to_vec())
}

#[tokio::test]
async fn a_body_in_pieces_is_sent_whole_with_its_length_in_each_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let client = Client::new(endpoint, HttpLimits::default()).unwrap();
    // More pieces than hyper queues, an empty one, and one that a socket does not take at once.
    let mut pieces = vec![Bytes::from("ab"); 40];
    pieces.insert(1, Bytes::new());
    pieces.push(vec![b'c'; 3 << 20].into());
    pieces.push(Bytes::from("d"));
    let whole = pieces.concat();
    let url = client.endpoint().url(["chat"], &[]).unwrap();
    let request = HttpRequest::post_json(url, RequestBody::from_iter(pieces));
    let attempt = || async { client.send(&request, Deadline::never()).await?.or_refusal().await };
    let policy = RetryPolicy { retries: 1, ..RetryPolicy::default() };
    let sent = policy.run(Deadline::never(), attempt, HttpError::retry);
    let received = async {
        for status in [503, 200] {
            let (head, body) = answered(&listener, status).await;
            assert!(!head.contains("chunked"), "{head}");
            assert!(body == whole);
        }
    };
    let (response, ()) = tokio::join!(sent, received);
    assert_eq!(response.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_to_a_url_outside_the_endpoint_is_not_sent() {
    let other = Server::answering([answer(200, "", "")]).await;
    let server = Server::answering([answer(200, "", "")]).await;
    let request = HttpRequest::get(other.url.parse().unwrap());
    let sent = server.client().send(&request, Deadline::never()).await;
    assert!(matches!(sent.unwrap_err().kind(), ErrorKind::Url(UrlFault::Outside)));
    assert_eq!([server.requests(), other.requests()], [0, 0]);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_is_in_the_error() {
    let other = Server::answering([answer(200, "", "")]).await;
    let location = other.url.replace("http://", "http://user:password@");
    let headers = format!("location: {location}/chat?key=1#x\r\n");
    let server = Server::answering([answer(307, &headers, "")]).await;
    let ErrorKind::Status(refusal) = kind_of(sent(&server.client())).await else { panic!() };
    assert_eq!(refusal.status, 307);
    assert_eq!(refusal.location, Some(format!("{}/chat", other.url)));
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn a_refusal_is_retried_and_its_error_has_the_body_without_the_key() {
    let escaped = KEY.replace('/', r"\/");
    let body = format!("no such key: {escaped}");
    let headers = "retry-after-ms: 1\r\nx-request-id: req_1\r\n";
    let policy = RetryPolicy::default();
    for status in [408, 409, 425, 429, 503] {
        let refused = answer(status, headers, &body);
        let server = Server::answering([refused.clone(), refused, answer(200, "", "ok")]).await;
        assert!(send(&server.client(), &policy, Deadline::never()).await.is_ok(), "{status}");
        assert_eq!(server.requests(), 3);
    }

    let server = Server::answering([answer(401, headers, &body)]).await;
    let error = send(&server.client(), &policy, Deadline::never()).await.unwrap_err();
    let refusal = refusal(&error);
    assert_eq!(refusal.status, 401);
    assert_eq!(refusal.request_id.as_deref(), Some("req_1"));
    assert_eq!(refusal.retry_after, Some(Duration::from_millis(1)));
    assert!(!error.is_retryable());
    let shown = format!("{error} {error:?} {:?}", error.kind());
    assert!(shown.contains("no such key: [key]") && !shown.contains("very"), "{shown}");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_pause_beyond_the_deadline_is_not_begun() {
    let server = Server::answering([answer(429, "retry-after: 30\r\n", "")]).await;
    let deadline = Deadline::after(Duration::from_secs(5));
    let started = Instant::now();
    let error = send(&server.client(), &RetryPolicy::default(), deadline).await.unwrap_err();
    assert_eq!(refusal(&error).status, 429);
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn silence_before_and_within_a_response_is_an_error() {
    let hang = || End::Hang;
    let server = Server::answering([
        Answer { text: Vec::new(), end: hang() },
        open("content-length: 9\r\n", "a", hang()),
        open("content-type: text/event-stream\r\n", "data: 1\n\n", hang()),
    ])
    .await;
    // The limits hold for a client of the caller's own as well.
    let own = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = server.client_with_silence(SHORT).with_http(own);
    let silent = ErrorKind::Silent { after: SHORT };
    assert_eq!(kind_of(sent(&client)).await, silent);
    assert_eq!(kind_of(sent(&client).await.unwrap().text()).await, silent);
    let Streamed::Events(mut body) = sent(&client).await.unwrap().events().await.unwrap() else {
        panic!("a stream")
    };
    assert_eq!(body.chunk().await.unwrap().unwrap(), "data: 1\n\n");
    assert_eq!(kind_of(body.chunk()).await, silent);
}

#[tokio::test]
async fn a_slow_response_ends_at_the_deadline() {
    let drip = open("", "", End::Repeat("x", Duration::from_millis(20)));
    let server = Server::answering([drip.clone()]).await;
    let (after, policy) = (Duration::from_millis(300), RetryPolicy::default());
    let client = server.client_with_silence(SHORT);
    let response = send(&client, &policy, Deadline::after(after)).await.unwrap();
    assert_eq!(kind_of(response.text()).await, ErrorKind::TooSlow { after });

    let body = String::from_utf8(drip.text).unwrap().replace("200", "400").into_bytes();
    let server = Server::answering([Answer { text: body, end: drip.end }]).await;
    let started = Instant::now();
    let error = sent(&server.client_with_silence(SHORT)).await.unwrap_err();
    assert_eq!(refusal(&error).status, 400);
    // The body has no end.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_body_over_the_maximum_size_is_an_error() {
    let large = ErrorKind::TooLarge { what: "one reply", max: 1000 };
    let server = Server::answering([
        open("content-length: 99999\r\n", "", End::Hang),
        open("", "", End::Repeat("xxxxxxxxxx", Duration::ZERO)),
        open("content-type: text/event-stream\r\n", "", End::Repeat(": x\n", Duration::ZERO)),
    ])
    .await;
    let client = server.client();
    assert_eq!(kind_of(sent(&client).await.unwrap().bytes()).await, large);
    assert_eq!(kind_of(sent(&client).await.unwrap().bytes()).await, large);
    let endless = async {
        let Streamed::Events(mut body) = sent(&client).await?.events().await? else { panic!() };
        while body.chunk().await?.is_some() {}
        Ok(())
    };
    assert_eq!(kind_of(endless).await, large);
}

#[tokio::test]
async fn a_response_that_broke_is_requested_again_only_if_the_policy_allows_it() {
    let half = open("content-length: 9\r\n", "half", End::Close);
    for (begun, requests) in [(false, 1), (true, 2)] {
        let server = Server::answering([half.clone(), answer(200, "", "whole")]).await;
        let client = server.client();
        let policy = RetryPolicy {
            first_pause: Duration::from_millis(1),
            begun_answers: begun,
            ..RetryPolicy::default()
        };
        let request = request(&client);
        let attempt = || async { client.send(&request, Deadline::never()).await?.text().await };
        let outcome = policy.run(Deadline::never(), attempt, HttpError::retry).await;
        assert_eq!(server.requests(), requests);
        match begun {
            true => assert_eq!(outcome.unwrap(), "whole"),
            false => assert_eq!(*outcome.unwrap_err().kind(), ErrorKind::Truncated),
        }
    }
}

#[tokio::test]
async fn the_first_bytes_decide_whether_a_body_is_an_event_stream() {
    let kind = "content-type: text/event-stream\r\n";
    for (headers, body, is_stream) in [
        (kind, "data: 1\n\n", true),
        (kind, "", true),
        (kind, "{\"a\": 1}", false),
        ("", "\u{feff}\n: hello\n\ndata: 1\n\n", true),
        ("content-type: text/plain\r\n", "<html>", false),
    ] {
        let server = Server::answering([answer(200, headers, body)]).await;
        let streamed = sent(&server.client()).await.unwrap().events().await.unwrap();
        match streamed {
            Streamed::Whole(whole) => assert_eq!((is_stream, &whole[..]), (false, body.as_bytes())),
            Streamed::Events(mut events) => {
                let mut reader = EventReader::default();
                while let Some(bytes) = events.chunk().await.unwrap() {
                    reader.push(bytes);
                }
                let event = reader.next().unwrap().map(|event| event.data.to_owned());
                let wanted = (!body.is_empty()).then(|| "1".to_owned());
                assert_eq!((is_stream, event), (true, wanted), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn the_error_for_a_body_that_is_not_utf8_has_its_encoding() {
    for (headers, body, what) in [
        ("content-encoding: br\r\n", b"x".as_slice(), "compressed with br"),
        ("", b"\x1f\x8b\x08", "compressed with gzip"),
        ("", b"caf\xe9", "in another encoding, such as Latin-1"),
    ] {
        let mut answer = open(headers, "", End::Close);
        answer.text.extend_from_slice(body);
        let server = Server::answering([answer]).await;
        let kind = kind_of(sent(&server.client()).await.unwrap().text()).await;
        assert_eq!(kind, ErrorKind::Encoding { what: what.into() });
    }
}

#[tokio::test]
async fn the_error_of_a_failed_connection_does_not_show_the_key() {
    // Port 1 is reserved and closed.
    let endpoint = Endpoint::exact(&format!("http://127.0.0.1:1/{KEY}?key={KEY}")).unwrap();
    let endpoint = endpoint.with_secret("key", KEY);
    let url = endpoint.as_url().clone();
    let client = Client::new(endpoint, HttpLimits::default()).unwrap();
    let error = client.send(&HttpRequest::get(url), Deadline::never()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { .. }), "{error}");
    assert!(error.is_retryable());
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("http://127.0.0.1:1/") && !shown.contains("very"), "{shown}");
}

#[tokio::test]
async fn an_error_shows_the_host_and_no_key_in_the_path() {
    let gone = Endpoint::exact("http://127.0.0.1:1/services/T000/B000/XXXX?key=hunter2").unwrap();
    let broken = Server::answering([open("content-length: 9\r\n", "a", End::Close)]).await;
    let broken = Endpoint::exact(&format!("{}/services/T000/B000/XXXX", broken.url)).unwrap();
    for endpoint in [gone, broken] {
        let host = format!("http://{}/", endpoint.as_url().authority());
        let request = HttpRequest::get(endpoint.as_url().clone());
        let client = Client::new(endpoint, HttpLimits::default()).unwrap();
        let error = match client.send(&request, Deadline::never()).await {
            Ok(response) => response.text().await.unwrap_err(),
            Err(error) => error,
        };
        let shown = format!("{error} {error:?} {:?} {client:?}", error.kind());
        assert!(shown.contains(&host), "{shown}");
        assert!(
            !["T000", "B000", "XXXX", "hunter2"].iter().any(|it| shown.contains(it)),
            "{shown}"
        );
    }
}
