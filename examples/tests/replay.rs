//! The program that replays recorded replies, as a process.

use crate::common;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use insta::assert_snapshot;

/// A server on loopback with these replies, one for each request.
fn serve(replies: Vec<(u16, &'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (status, kind, body) in replies {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut bytes = [0; 4096];
                let read = socket.read(&mut bytes).unwrap();
                request.extend_from_slice(&bytes[..read]);
            }
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}

fn answers(provider: &str, url: &str, lines: &str) -> String {
    let mut child = common::program("replay_wire")
        .args(["--provider", provider, "--base-url", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_recorded_reply_is_answered_by_a_line() {
    let url = serve(vec![
        (
            200,
            "application/json",
            r#"{"choices": [{"message": {"content": "Well.", "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}"#,
        ),
        (
            200,
            "text/event-stream",
            "data: {\"choices\": [{\"delta\": {\"content\": \"ok\"}, \"finish_reason\": \"stop\"}]}\n\n",
        ),
        (400, "application/json", r#"{"error": {"message": "No."}}"#),
    ]);
    let lines = r#"{"id": "1", "model": "m", "stream": false}
{"id": "2", "model": "m", "stream": true}
{"id": "3", "model": "m", "stream": false}
"#;
    assert_snapshot!(answers("openai-chat", &url, lines), @r#"
    {"text":"Well.","reasoning":"","calls":[{"id":"a","name":"look","arguments":"{}"}],"usage":{"input":3,"output":4,"cached":0,"cache_write":0,"reasoning":0,"incomplete":false},"finish":"stop","next":{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well.","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"ok"}],"max_tokens":4096},"id":"1"}
    {"text":"ok","reasoning":"","calls":[],"usage":{"input":0,"output":0,"cached":0,"cache_write":0,"reasoning":0,"incomplete":true},"finish":"stop","next":{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ok"},{"role":"user","content":"go on"}],"max_tokens":4096},"id":"2"}
    {"error":{"stage":"provider","text":"the server refused the request (400: No.); change the request as the message says"},"id":"3"}
    "#);
    let url = serve(vec![(
        200,
        "application/json",
        r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}]}"#,
    )]);
    let lines = "{\"id\": \"1\", \"model\": \"m\", \"stream\": false}\n";
    assert_snapshot!(answers("openai-responses", &url, lines), @r#"{"text":"ok","reasoning":"","calls":[],"usage":{"input":0,"output":0,"cached":0,"cache_write":0,"reasoning":0,"incomplete":true},"finish":"stop","next":{"model":"m","input":[{"type":"message","role":"user","content":"hi"},{"type":"message","role":"assistant","content":"ok"},{"type":"message","role":"user","content":"go on"}],"max_output_tokens":4096},"id":"1"}"#);
    let url = serve(vec![(
        200,
        "application/json",
        r#"{"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}}"#,
    )]);
    assert_snapshot!(answers("anthropic", &url, lines), @r#"{"text":"ok","reasoning":"","calls":[],"usage":{"input":3,"output":4,"cached":0,"cache_write":0,"reasoning":0,"incomplete":false},"finish":"stop","next":{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"text","text":"ok"}]},{"role":"user","content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}]},"id":"1"}"#);
}
