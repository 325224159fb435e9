//! Runs the command as a user does: as a process.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::server::Server;

/// A folder without a configuration, which no test writes to.
pub(crate) fn nowhere() -> PathBuf {
    std::env::temp_dir().join("toolwright-tests-nowhere")
}

/// The program with this command, with no key, no proxy and no folder of the user in its environment.
pub(crate) fn program(command: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    for (variable, _) in std::env::vars_os() {
        // A test can never spend money, and never leaves this machine.
        let name = variable.to_string_lossy().to_ascii_uppercase();
        if name.contains("KEY")
            || name.contains("TOKEN")
            || name.contains("OPENAI")
            || name.ends_with("_PROXY")
        {
            program.env_remove(&variable);
        }
    }
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        program.env(variable, nowhere());
    }
    program.arg(command).stdin(Stdio::null());
    program
}

/// The command with the model of a server, and without a journal.
pub(crate) fn asking(command: &str, server: &Server) -> Command {
    let mut program = program(command);
    program.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    program.arg("--no-journal");
    program
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(command: &mut Command) -> Ran {
    ran(command.output().expect("the program starts"))
}

/// Runs the command with these lines over a pipe.
pub(crate) fn run_with(command: &mut Command, lines: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

fn ran(Output { status, stdout, stderr }: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("programs print UTF-8");
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A reply that calls a tool.
pub(crate) fn call(name: &str, arguments: &str) -> String {
    reply(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": format!("call_{name}"), "type": "function", "function": {"name": name, "arguments": arguments}},
    ]}))
}

/// A reply that calls two tools.
pub(crate) fn call_two(first: (&str, &str), second: (&str, &str)) -> String {
    let call = |id: &str, (name, arguments): (&str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = [call("call_1", first), call("call_2", second)];
    reply(json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

/// A reply that says something.
pub(crate) fn says(text: &str) -> String {
    reply(json!({"role": "assistant", "content": text}))
}

fn reply(message: Value) -> String {
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    json!({
        "model": "small",
        "choices": [{"finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 10},
    })
    .to_string()
}

/// A server with these replies.
pub(crate) fn server(replies: &[String]) -> Server {
    Server::start(&replies.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What was said in a request, without the instructions.
pub(crate) fn messages(asked: &Value) -> Vec<&Value> {
    let all = asked["messages"].as_array().unwrap().iter();
    all.filter(|message| message["role"] != "system").collect()
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Changes the records in the file of a run, as something else could that knows its form.
#[allow(dead_code, reason = "the tests at a terminal are for Unix")]
pub(crate) fn forge(file: &std::path::Path, change: impl Fn(&mut Value)) {
    let text = std::fs::read_to_string(file).unwrap();
    let (format, lines) = text.split_once('\n').unwrap();
    let (mut forged, mut before) = (format!("{format}\n"), crc32fast::hash(format.as_bytes()));
    for line in lines.lines() {
        let json = line.splitn(3, ' ').nth(2).unwrap();
        let mut record: Value = serde_json::from_str(json).unwrap();
        change(&mut record["record"]);
        let json = record.to_string();
        let mut hasher = crc32fast::Hasher::new_with_initial(before);
        hasher.update(json.as_bytes());
        before = hasher.finalize();
        forged.push_str(&format!("{before:08x} {} {json}\n", json.len()));
    }
    std::fs::write(file, forged).unwrap();
}
