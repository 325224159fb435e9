//! A server that answers with what a test prepared, and keeps the bodies of requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The server and what it shares with its threads.
pub(crate) struct Listener {
    pub(crate) url: String,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    answers: VecDeque<Value>,
    bodies: Vec<Value>,
}

impl Listener {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::<Mutex<Shared>>::default();
        let kept = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(&socket, &kept));
            }
        });
        Self { url, shared }
    }

    /// Sets the reply to the next request. Without one, the server refuses a request.
    pub(crate) fn answer(&self, body: Value) {
        self.shared.lock().unwrap().answers.push_back(body);
    }

    /// Takes the bodies of the requests since the last call.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        std::mem::take(&mut self.shared.lock().unwrap().bodies)
    }

    /// Takes the body of the only request since the last call.
    pub(crate) fn body(&self) -> Option<Value> {
        let mut bodies = self.bodies();
        assert!(bodies.len() <= 1, "several requests");
        bodies.pop()
    }
}

/// Serves a connection until the client closes it.
fn serve(socket: &TcpStream, shared: &Mutex<Shared>) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(socket);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = {
            let mut shared = shared.lock().unwrap();
            shared.bodies.push(serde_json::from_slice(&body).unwrap());
            shared.answers.pop_front()
        };
        let (status, answer) = match answer {
            Some(answer) => (200, answer),
            None => (400, json!({"error": {"message": "kept"}})),
        };
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut socket = socket;
        socket.write_all((head + &answer).as_bytes()).ok()?;
    }
}
