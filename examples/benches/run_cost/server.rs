//! A server in its own process that plays a model: it calls a tool a few times and then answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Serves the model if this process was started with `--serve STEPS`, and returns whether it was.
pub(crate) fn is_asked_to_serve() -> bool {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--serve").skip(1);
    let Some(steps) = arguments.next() else { return false };
    serve(steps.parse().unwrap());
    true
}

/// Serves until its standard input ends.
fn serve(steps: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let bytes = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    for stream in listener.incoming() {
        let (stream, bytes) = (stream.unwrap(), Arc::clone(&bytes));
        std::thread::spawn(move || answer_all(stream, steps, &bytes));
    }
}

fn answer_all(stream: TcpStream, steps: usize, bytes: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let mut line = String::new();
    loop {
        let (mut length, mut first) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let header = line.trim();
            if header.is_empty() {
                break;
            }
            if first.is_empty() {
                first = header.to_owned();
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let reply = if first.starts_with("GET /bytes") {
            bytes.load(Ordering::SeqCst).to_string()
        } else {
            bytes.fetch_add(length as u64, Ordering::SeqCst);
            reply(&String::from_utf8(body).unwrap(), steps)
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            reply.len(),
        );
        writer.write_all(&[head.as_bytes(), reply.as_bytes()].concat()).unwrap();
    }
}

fn reply(request: &str, steps: usize) -> String {
    let done = request.matches(r#""role":"tool""#).count();
    let (message, finish) = if done < steps {
        let (a, b) = ((1..=done + 1).sum::<usize>(), done + 2);
        let call = format!(
            r#"{{"id":"call_{done}","type":"function","function":{{"name":"add","arguments":"{{\"a\":{a},\"b\":{b}}}"}}}}"#,
        );
        (
            format!(
                r#"{{"role":"assistant","content":null,"refusal":null,"tool_calls":[{call}]}}"#
            ),
            "tool_calls",
        )
    } else {
        (r#"{"role":"assistant","content":"The sum is 21.","refusal":null}"#.to_owned(), "stop")
    };
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"bench","choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":80,"completion_tokens":20,"total_tokens":100,"prompt_tokens_details":{{"cached_tokens":0}}}}}}"#,
    )
}

/// The server process, which ends with the bench.
pub(crate) struct Process {
    child: Child,
    port: u16,
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(steps: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--serve", &steps.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap(), _stdout: stdout }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Returns the number of bytes in all request bodies so far.
    #[allow(dead_code, reason = "not every bench with this server uses it")]
    pub(crate) fn bytes(&self) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"GET /bytes HTTP/1.1\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.split("\r\n\r\n").nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
