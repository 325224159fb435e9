//! A server on this machine that gives fixed replies, in order, and keeps what it was
//! asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

pub(crate) struct Server {
    pub(crate) base_url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Gives each request the next of these bodies, and the last one from then on. An
    /// empty one never comes.
    pub(crate) fn start(replies: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (replies, kept): (Vec<String>, _) = (
            replies.iter().map(|reply| (*reply).to_owned()).collect(),
            (Arc::clone(&asked), Arc::clone(&heads)),
        );
        // Ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (replies, (asked, heads)) = (replies.clone(), kept.clone());
                std::thread::spawn(move || answer(stream, &replies, &asked, &heads));
            }
        });
        Self { base_url, asked, heads }
    }

    /// The bodies of the requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// The headers of the requests so far.
    #[allow(dead_code, reason = "not every test program looks at them")]
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn answer(
    stream: TcpStream,
    replies: &[String],
    asked: &Mutex<Vec<Value>>,
    heads: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let (mut length, mut head) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            head.push_str(&line);
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let count = {
            let mut asked = asked.lock().unwrap();
            asked.push(serde_json::from_slice(&body).unwrap());
            heads.lock().unwrap().push(head);
            asked.len()
        };
        let reply = &replies[(count - 1).min(replies.len() - 1)];
        if reply.is_empty() {
            std::thread::park();
        }
        let kind =
            if reply.starts_with("data:") { "text/event-stream" } else { "application/json" };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            reply.len()
        );
        let _ = writer.write_all(&[head.as_bytes(), reply.as_bytes()].concat());
    }
}
