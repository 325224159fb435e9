//! A server on loopback that sends the answers of a test, and helpers for calls and errors.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolwright_anthropic::Anthropic;
use toolwright_module::model::Delta;
use toolwright_module::{Error, LanguageModel, Message, Reply, Request, Result};

/// The bytes that the server sends for one request, in packets.
#[derive(Clone)]
pub(crate) struct Answer {
    pieces: Vec<Vec<u8>>,
}

impl Answer {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self::new(200, "content-type: application/json\r\n", body)
    }

    pub(crate) fn new(status: u16, headers: &str, body: impl Into<String>) -> Self {
        let body = body.into();
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\nconnection: close\r\nrequest-id: req_1\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        Self { pieces: vec![head.into_bytes(), body.into_bytes()] }
    }

    /// Server-sent events, `size` bytes at a time.
    pub(crate) fn events(body: &str, size: usize) -> Self {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunks = body.as_bytes().chunks(size).map(chunk);
        let pieces = [head.as_bytes().to_vec()].into_iter().chain(chunks);
        Self { pieces: pieces.chain([b"0\r\n\r\n".to_vec()]).collect() }
    }

    async fn send(self, mut socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        for piece in &self.pieces {
            if socket.write_all(piece).await.is_err() {
                return;
            }
            // Each piece is a packet of its own.
            let _ = socket.flush().await;
            tokio::task::yield_now().await;
        }
        let _ = socket.shutdown().await;
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
    /// The body as it was sent.
    pub(crate) text: String,
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// A server with one answer for each request, in order.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answers: Vec<_> = answers.into_iter().collect();
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read(&mut socket).await;
                log.lock().unwrap().push(request);
                tokio::spawn(answer.send(socket));
            }
        });
        Self { url, seen }
    }

    /// A model of this server. Its name decides what it takes.
    pub(crate) fn model(&self, name: &str) -> Anthropic {
        Anthropic::at(&self.url, name).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read(socket: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap().parse().unwrap() {
                let text = body.to_owned();
                return Seen { head, body: serde_json::from_str(&text).unwrap(), text };
            }
        }
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0);
    }
}

pub(crate) fn hi() -> Request {
    Request::new([Message::user("Hi!")])
}

/// Reads a stream to its end, and returns the deltas and the result.
pub(crate) async fn streamed(
    model: &impl LanguageModel,
    request: Request,
) -> (Vec<Delta>, Result<Reply>) {
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(Delta::Done(reply)) => {
                assert!(stream.next().await.is_none(), "something follows the reply");
                return (deltas, Ok(*reply));
            }
            Ok(delta) => deltas.push(delta),
            Err(error) => {
                assert!(stream.next().await.is_none(), "something follows the error");
                return (deltas, Err(error));
            }
        }
    }
    panic!("the stream ends without a reply: {deltas:?}");
}

/// Returns this crate's error inside an error of the module layer.
pub(crate) fn own(error: &Error) -> &toolwright_anthropic::ProviderError {
    error.downcast_ref().expect("an error of this crate")
}

/// The long form of an error, without the port of the server.
pub(crate) fn said(error: &Error, server: &Server) -> String {
    let place = server.url.trim_end_matches("/v1");
    format!("{error:#}").replace(place, "http://server")
}

/// A whole reply with the text `ok`.
pub(crate) fn ok() -> Answer {
    Answer::json(
        r#"{"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}}"#,
    )
}

/// A stream with the text `ok`.
pub(crate) fn ok_stream() -> String {
    events(&[
        r#"{"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}"#,
        r#"{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}"#,
        r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}"#,
        r#"{"type": "content_block_stop", "index": 0}"#,
        r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}"#,
        r#"{"type": "message_stop"}"#,
    ])
}

/// Events as they are sent, without their names.
pub(crate) fn events(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}
