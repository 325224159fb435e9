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
            reply(&first, &String::from_utf8(body).unwrap(), steps)
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            reply.len(),
        );
        writer.write_all(&[head.as_bytes(), reply.as_bytes()].concat()).unwrap();
    }
}

/// Returns the reply of the API whose path the request has.
fn reply(head: &str, request: &str, steps: usize) -> String {
    let path = head.split(' ').nth(1).unwrap();
    let result = match path {
        "/v1/chat/completions" => r#""role":"tool""#,
        "/v1/responses" => r#""type":"function_call_output""#,
        "/v1/messages" => r#""type":"tool_result""#,
        _ => r#""functionResponse""#,
    };
    let done = request.matches(result).count();
    let (a, b) = ((1..=done + 1).sum::<usize>(), done + 2);
    let sum = (1..=done + 1).sum::<usize>();
    let arguments = format!(r#"{{"a":{a},"b":{b}}}"#);
    let escaped = arguments.replace('"', r#"\""#);
    let is_over = done >= steps;
    match path {
        "/v1/chat/completions" => {
            let (message, finish) = match is_over {
                false => (
                    format!(
                        r#""content":null,"tool_calls":[{{"id":"call_{done}","type":"function","function":{{"name":"add","arguments":"{escaped}"}}}}]"#
                    ),
                    "tool_calls",
                ),
                true => (format!(r#""content":"The sum is {sum}.""#), "stop"),
            };
            format!(
                r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"bench","choices":[{{"index":0,"message":{{"role":"assistant","refusal":null,{message}}},"logprobs":null,"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":80,"completion_tokens":20,"total_tokens":100,"prompt_tokens_details":{{"cached_tokens":0}}}}}}"#,
            )
        }
        "/v1/responses" => {
            let item = match is_over {
                false => format!(
                    r#"{{"id":"fc_{done}","type":"function_call","status":"completed","call_id":"call_{done}","name":"add","arguments":"{escaped}"}}"#
                ),
                true => format!(
                    r#"{{"id":"msg_{done}","type":"message","status":"completed","role":"assistant","content":[{{"type":"output_text","text":"The sum is {sum}.","annotations":[]}}]}}"#
                ),
            };
            format!(
                r#"{{"id":"resp_{done}","object":"response","created_at":1,"status":"completed","model":"bench","output":[{item}],"usage":{{"input_tokens":80,"output_tokens":20,"total_tokens":100,"input_tokens_details":{{"cached_tokens":0}},"output_tokens_details":{{"reasoning_tokens":0}}}}}}"#,
            )
        }
        "/v1/messages" => {
            let (block, stop) = match is_over {
                false => (
                    format!(
                        r#"{{"type":"tool_use","id":"toolu_{done}","name":"add","input":{arguments}}}"#
                    ),
                    "tool_use",
                ),
                true => (format!(r#"{{"type":"text","text":"The sum is {sum}."}}"#), "end_turn"),
            };
            format!(
                r#"{{"id":"msg_1","type":"message","role":"assistant","model":"bench","content":[{block}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":80,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}}}"#,
            )
        }
        _ => {
            let part = match is_over {
                false => format!(
                    r#"{{"functionCall":{{"id":"call_{done}","name":"add","args":{arguments}}}}}"#
                ),
                true => format!(r#"{{"text":"The sum is {sum}."}}"#),
            };
            format!(
                r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}},"finishReason":"STOP","index":0}}],"usageMetadata":{{"promptTokenCount":80,"candidatesTokenCount":20,"totalTokenCount":100}},"modelVersion":"bench","responseId":"1"}}"#,
            )
        }
    }
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

    #[allow(dead_code, reason = "not every bench with this server uses it")]
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.address())
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
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
