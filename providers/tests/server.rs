//! A server on loopback that sends the answers of a test, and helpers for calls and errors: what the
//! tests of all providers share. Each includes this file in its `tests/common`, which has `VERSION`,
//! the last part of its base URLs.
#![allow(dead_code, reason = "each provider uses what its tests need")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolwright_http::ErrorKind;
use toolwright_module::model::Delta;
use toolwright_module::{Error, LanguageModel, Message, Reply, Request, Result};
use toolwright_provider::ProviderError;

use super::VERSION;

/// The bytes that the server sends for one request, and its behaviour after them.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    pieces: Vec<Vec<u8>>,
    end: End,
}

#[derive(Clone, Default)]
enum End {
    /// Closes the connection.
    #[default]
    Close,
    /// Resets the connection.
    Reset,
    /// Keeps the connection open and sends nothing.
    Hang,
    /// Sends a piece again and again.
    Repeat { piece: Vec<u8>, pause: Duration },
}

impl Answer {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self::new(200, "content-type: application/json\r\n", body)
    }

    pub(crate) fn new(status: u16, headers: &str, body: impl Into<String>) -> Self {
        let body = body.into();
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\nconnection: close\r\nx-request-id: req_1\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        Self { pieces: vec![head.into_bytes(), body.into_bytes()], end: End::Close }
    }

    /// A body that is not text.
    pub(crate) fn bytes(headers: &str, body: &[u8]) -> Self {
        let mut answer = Self::new(200, headers, "");
        answer.announce(body.len() as u64);
        answer.pieces[1] = body.to_vec();
        answer
    }

    /// Server-sent events, `size` bytes at a time.
    pub(crate) fn events(body: &str, size: usize) -> Self {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunks = body.as_bytes().chunks(size).map(chunk);
        Self {
            pieces: [head.as_bytes().to_vec()]
                .into_iter()
                .chain(chunks)
                .chain([b"0\r\n\r\n".to_vec()])
                .collect(),
            end: End::Close,
        }
    }

    /// A body that begins with `first` and then repeats `again`.
    pub(crate) fn endless(
        status: u16,
        kind: &str,
        first: &str,
        again: &str,
        pause: Duration,
    ) -> Self {
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\nconnection: close\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let first = Some(first).filter(|first| !first.is_empty());
        let pieces =
            [head.into_bytes()].into_iter().chain(first.map(|first| chunk(first.as_bytes())));
        let end = End::Repeat { piece: chunk(again.as_bytes()), pause };
        Self { pieces: pieces.collect(), end }
    }

    /// Sets another content type.
    pub(crate) fn named(mut self, kind: &str) -> Self {
        self.rewrite("text/event-stream", kind);
        self
    }

    /// Sets another `content-length`.
    pub(crate) fn announce(&mut self, length: u64) {
        self.rewrite("content-length: 0", &format!("content-length: {length}"));
    }

    fn rewrite(&mut self, from: &str, to: &str) {
        let head = String::from_utf8(self.pieces[0].clone()).unwrap();
        self.pieces[0] = head.replace(from, to).into_bytes();
    }

    pub(crate) fn reset() -> Self {
        Self { pieces: Vec::new(), end: End::Reset }
    }

    pub(crate) fn hang() -> Self {
        Self { pieces: Vec::new(), end: End::Hang }
    }

    /// Replaces the last piece with a connection reset.
    pub(crate) fn then_reset(mut self) -> Self {
        self.pieces.pop();
        self.end = End::Reset;
        self
    }

    /// Replaces the last piece with silence.
    pub(crate) fn then_hang(mut self) -> Self {
        self.pieces.pop();
        self.end = End::Hang;
        self
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
        match self.end {
            End::Close => {
                let _ = socket.shutdown().await;
            }
            End::Reset => {
                // A reset may discard bytes that have not arrived yet.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = socket.set_zero_linger();
            }
            End::Hang => tokio::time::sleep(Duration::from_secs(60)).await,
            End::Repeat { piece, pause } => {
                while socket.write_all(&piece).await.is_ok() {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        }
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
        let url = format!("http://{}{VERSION}", listener.local_addr().unwrap());
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
            // A request for a resource has no body.
            let length = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let text = if length == 0 { "null" } else { body }.to_owned();
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
pub(crate) fn own(error: &Error) -> &ProviderError {
    error.downcast_ref().expect("an error of this crate")
}

/// Returns the kind of an HTTP error inside an error of the module layer.
pub(crate) fn http(error: &Error) -> &ErrorKind {
    match own(error) {
        ProviderError::Http { error, .. } => error.kind(),
        other => panic!("not an HTTP error: {other:?}"),
    }
}

/// The long form of an error, without the port of the server.
pub(crate) fn said(error: &Error, server: &Server) -> String {
    let place = server.url.trim_end_matches(VERSION);
    format!("{error:#}").replace(place, "http://server")
}
