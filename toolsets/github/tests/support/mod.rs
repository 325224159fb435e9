//! A server on loopback that sends the answers of a test, and helpers for calls.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolwright_github::GitHub;
use toolwright_module::{Context, Error, Result, Tool, ToolOutput};

/// A token that must not be in any text.
pub(crate) const TOKEN: &str = "ghp_secretOfTheTests";

/// The bytes that the server sends for one request, and its behaviour after them.
#[derive(Clone)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    end: End,
}

#[derive(Clone)]
enum End {
    Close,
    /// Keeps the connection open and sends nothing.
    Hang,
    /// Sends a piece again and again.
    Repeat(Vec<u8>),
}

impl Answer {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self::new(200, "content-type: application/json; charset=utf-8\r\n", body)
    }

    pub(crate) fn failed(status: u16, message: &str) -> Self {
        let body = format!(r#"{{"message": "{message}", "status": "{status}"}}"#);
        Self::new(status, "content-type: application/json\r\n", body)
    }

    pub(crate) fn new(status: u16, headers: &str, body: impl Into<String>) -> Self {
        let body = body.into();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
        );
        Self { bytes: (head + &body).into_bytes(), end: End::Close }
    }

    pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), end: End::Close }
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        Self::new(status, &format!("location: {to}\r\n"), "")
    }

    pub(crate) fn then_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }

    /// An endless body.
    pub(crate) fn endless() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        Self { bytes: head.into(), end: End::Repeat(piece.into_bytes()) }
    }

    async fn send(self, mut socket: TcpStream) {
        let _ = socket.write_all(&self.bytes).await;
        match self.end {
            End::Close => {
                let _ = socket.shutdown().await;
            }
            End::Hang => std::future::pending().await,
            End::Repeat(piece) => while socket.write_all(&piece).await.is_ok() {},
        }
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server with one answer for each request, in order. The last answer is repeated.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answers: Vec<_> = answers.into_iter().collect();
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            for number in 0.. {
                let (mut socket, _) = listener.accept().await.unwrap();
                let Some(head) = read(&mut socket).await else { continue };
                log.lock().unwrap().push(head);
                let answer = answers[number.min(answers.len() - 1)].clone();
                tokio::spawn(answer.send(socket));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn github(&self) -> GitHub {
        let github = GitHub::new().unwrap().with_base_url(&self.url).unwrap();
        github.with_token(TOKEN).unwrap().with_repo("octocat/hello-world").unwrap()
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The method and path of each request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        let first = |head: &String| head.lines().next().unwrap().replace(" HTTP/1.1", "");
        self.heads().iter().map(first).collect()
    }

    /// Calls a tool, and returns the text for the model.
    pub(crate) async fn text(&self, name: &str, arguments: &str) -> String {
        let output = call(&self.github(), name, arguments).await.unwrap();
        output.text
    }

    pub(crate) async fn error(&self, name: &str, arguments: &str) -> Error {
        call(&self.github().with_retries(0), name, arguments).await.err().unwrap()
    }
}

/// Reads the head of a request. The requests have no body.
async fn read(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8(bytes).unwrap())
}

pub(crate) fn tool(github: &GitHub, name: &str) -> Tool {
    github.tools().unwrap().into_iter().find(|tool| tool.name() == name).unwrap()
}

pub(crate) async fn call(github: &GitHub, name: &str, arguments: &str) -> Result<ToolOutput> {
    tool(github, name).call(arguments, &Context::default()).await
}

/// Calls a tool whose request gets this answer, and returns the text for the model.
pub(crate) async fn said(answer: Answer, name: &str, arguments: &str) -> String {
    Server::answering([answer]).await.text(name, arguments).await
}

/// Calls a tool whose request gets this answer, and returns the error.
pub(crate) async fn failed(answer: Answer, name: &str, arguments: &str) -> Error {
    Server::answering([answer]).await.error(name, arguments).await
}
