//! The program that lowers schemas, line by line.

#[allow(dead_code, reason = "this test feeds its program")]
use std::io::{Read, Write};
use std::process::Stdio;

use crate::common::program;
use serde_json::{Value, json};

/// What the program says to each line.
fn answers(arguments: &[&str], lines: &str) -> Vec<Value> {
    let mut command = program("lower");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let ran = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn line(id: Value, schema: Value) -> String {
    json!({"id": id, "name": "take", "description": "Take it.", "schema": schema}).to_string()
}

#[test]
fn each_schema_becomes_a_tool_with_its_losses() {
    let text = json!({"type": "string", "minLength": 2});
    let input = line(json!(1), json!({"type": "object", "properties": {"a": text}}));
    let answers = answers(&["--dialect", "anthropic"], &input);
    let expected = json!({
        "id": 1,
        "tool": {
            "name": "take",
            "description": "Take it.",
            "input_schema": {
                "type": "object",
                "properties": {"a": {"type": "string", "description": "minLength: 2."}},
                "additionalProperties": false,
            },
            "strict": true,
        },
        "losses": [
            {"path": "$.a", "keyword": "minLength", "why": "is written only in the description"},
        ],
    });
    assert_eq!(answers, [expected]);
}

#[test]
fn a_bad_line_is_an_answer_and_the_next_line_is_read() {
    let good = line(json!({"any": ["id"]}), json!({"type": "object"}));
    let any = line(json!("x"), json!({"type": "object", "properties": {"a": true}}));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let lines = format!("no json\n\n{deep}\n{{\"id\":7}}\n[1]\n{any}\n\u{0}\n{good}");
    let answers = answers(&["--dialect", "openai-strict"], &lines);
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(
        ids,
        json!([null, null, 7, null, "x", null, {"any": ["id"]}]).as_array().unwrap()[..]
    );
    let failed = answers.iter().filter(|answer| answer.get("error").is_some()).count();
    assert_eq!(failed, 5);
    // A strict dialect cannot say it, so it is sent without `strict`.
    assert_eq!(answers[4]["tool"]["function"]["strict"], json!(false));
    let loss = &answers[4]["losses"][0];
    assert_eq!([&loss["path"], &loss["keyword"]], ["$.a", "strict"], "{loss}");
    assert_eq!(answers[6]["tool"]["type"], "function");
}

#[test]
fn values_go_there_and_back() {
    let tags = json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"tags": tags}, "required": ["tags"]});
    let lines = [json!({"tags": ["a"]}), json!({"tags": "a"}), json!({})]
        .map(|value| json!({"id": 0, "schema": schema, "value": value}).to_string());
    for dialect in ["openai-strict", "anthropic", "gemini"] {
        let answers = answers(&["--dialect", dialect, "--round-trip"], &lines.join("\n"));
        assert_eq!(answers[0], json!({"id": 0, "value": {"tags": ["a"]}}));
        assert!(answers[1]["error"].as_str().unwrap().contains("$.tags"), "{}", answers[1]);
        assert!(answers[2]["error"].as_str().unwrap().contains("`tags`"), "{}", answers[2]);
    }
}

#[test]
fn who_stops_listening_ends_it_quietly() {
    let mut command = program("lower");
    command.args(["--dialect", "mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let line = line(json!(1), json!({"type": "object"}));
    // The program may be gone before all is written.
    let _ = stdin.write_all(format!("{line}\n").repeat(1_000).as_bytes());
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}
